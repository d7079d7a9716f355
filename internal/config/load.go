package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rota/internal/redact"
)

// Flags are what the command line says; an empty field says nothing. There is
// no flag for a secret: a login for Redis comes by ROTA_REDIS.
type Flags struct {
	Redis string
	HTTP  string
	Data  string
}

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the configuration. The path is that of --config; when it is empty,
// ROTA_CONFIG counts, then rota.yaml in the working folder, which may be
// missing: clients need no file. A file that was named must exist. ROTA_REDIS,
// ROTA_HTTP, ROTA_DATA, ROTA_WORKSPACES and ROTA_PROMPTS take the place of the
// file's keys, flags the place of both.
//
// The error is of type Problems and holds everything that is wrong.
func Load(path string, flags Flags) (Config, error) {
	file := cmp.Or(path, os.Getenv("ROTA_CONFIG"))
	named := file != ""
	file = cmp.Or(file, DefaultFile)
	text, err := readFile(file)
	switch {
	case err == nil:
		return load(file, text, flags)
	case !named && errors.Is(err, fs.ErrNotExist):
		return load("", nil, flags)
	}
	hint := "copy rota.example.yaml"
	if path == "" {
		hint = "it is named by ROTA_CONFIG"
	}
	return Config{}, Problems{{File: file, Message: reason(err), Hint: hint}}
}

func readFile(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err == nil && len(text) > maxFile {
		return nil, errors.New("the file is larger than 1 MiB")
	}
	return text, err
}

func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// load reads and checks a text; an empty file name stands for no file.
func load(file string, text []byte, flags Flags) (Config, error) {
	var c Config
	d := &document{file: file, lines: map[string]int{}}
	if file != "" {
		if abs, err := filepath.Abs(file); err == nil {
			c.File = abs
		}
		d.read(text, &c)
	}
	if hasPassword(c.Redis) {
		d.report(d.lines["redis"], "redis", "set ROTA_REDIS in the environment instead", "the URL holds a password")
	}
	c.HTTPExplicit = cmp.Or(flags.HTTP, os.Getenv("ROTA_HTTP"), c.HTTP) != ""
	c.RedisExplicit = cmp.Or(flags.Redis, os.Getenv("ROTA_REDIS"), c.Redis) != ""
	d.paths(&c)
	d.override(&c, flags)
	c.defaults()
	d.check(c)
	if len(d.problems) > 0 {
		return Config{}, d.problems.sorted()
	}
	return c, nil
}

// override puts the environment and the flags in the place of the file's keys.
func (d *document) override(c *Config, flags Flags) {
	if hasPassword(flags.Redis) {
		d.problems = append(d.problems, Problem{File: "flags", Key: "--redis", Message: "the URL holds a password, which everybody can see",
			Hint: "set ROTA_REDIS in the environment instead"})
	}
	for _, o := range []struct {
		field       *string
		key         string
		flag, value string
	}{
		{&c.Redis, "ROTA_REDIS", "--redis", flags.Redis},
		{&c.HTTP, "ROTA_HTTP", "--http", flags.HTTP},
		{&c.Data, "ROTA_DATA", "--data", flags.Data},
		{&c.Workspaces, "ROTA_WORKSPACES", "", ""},
		{&c.Prompts, "ROTA_PROMPTS", "", ""},
	} {
		source, key, value := "flags", o.flag, o.value
		if value == "" {
			source, key, value = "environment", o.key, os.Getenv(o.key)
		}
		if value == "" {
			continue
		}
		*o.field = value
		var err error
		switch o.field {
		case &c.Redis:
			_, err = parseRedis(value)
		case &c.HTTP:
			err = checkAddress(value)
		default:
			*o.field = absolute("", value)
		}
		if err != nil {
			d.problems = append(d.problems, Problem{File: source, Key: key, Message: redact.Error(err)})
			*o.field = "" // reported here, not once more with the line of the file
		}
	}
}

func (c *Config) defaults() {
	c.Redis = cmp.Or(c.Redis, DefaultRedis)
	c.HTTP = cmp.Or(c.HTTP, DefaultHTTP)
	c.Shards = cmp.Or(c.Shards, DefaultShards)
	c.Data = cmp.Or(c.Data, absolute(filepath.Dir(c.File), DefaultData))
	c.Workspaces = cmp.Or(c.Workspaces, filepath.Join(c.Data, "workspaces"))
	for name, s := range c.Services {
		s.Concurrency = cmp.Or(s.Concurrency, 1)
		s.MaxWaiting = cmp.Or(s.MaxWaiting, DefaultMaxWaiting)
		c.Services[name] = s
	}
}

// paths makes the file's paths absolute. A program that is named by a relative
// path is the one beside the file, never one of the workspace it runs in.
func (d *document) paths(c *Config) {
	dir := filepath.Dir(c.File)
	for _, p := range []*string{&c.Data, &c.Workspaces, &c.Prompts} {
		*p = absolute(dir, *p)
	}
	program(dir, c.Escalate)
	for name, s := range c.Services {
		program(dir, s.Command)
		s.Script = absolute(dir, s.Script)
		s.ConfigDir = absolute(dir, s.ConfigDir)
		c.Services[name] = s
	}
	for name, l := range c.Credentials {
		program(dir, l.Command)
		l.File = absolute(dir, l.File)
		c.Credentials[name] = l
	}
}

// program resolves the first word of a command unless it is looked up in the PATH.
func program(dir string, command []string) {
	if len(command) > 0 && strings.ContainsRune(command[0], '/') {
		command[0] = absolute(dir, command[0])
	}
}

// absolute resolves ~/ and paths relative to dir; an empty path stays empty.
func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if abs, err := filepath.Abs(filepath.Join(dir, path)); err == nil {
		return abs
	}
	return filepath.Join(dir, path)
}
