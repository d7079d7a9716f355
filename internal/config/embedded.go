package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Embedded says where the store of a `worker --embedded` listens, so that enqueue
// on the same machine finds it by itself.
type Embedded struct {
	Redis  string `json:"redis"`            // URL
	PID    int    `json:"pid"`              // of the worker
	Config string `json:"config,omitempty"` // the worker's configuration file
}

// EmbeddedFile returns the file of a data folder that names its embedded store.
func EmbeddedFile(data string) string { return filepath.Join(data, "embedded.json") }

// EmbeddedFolders returns where an embedded store is looked for: the data folder,
// then the user's own folder, where the last one that was started is named too.
func EmbeddedFolders(data string) []string {
	folders := []string{}
	if data = cmp.Or(os.Getenv("ROTA_DATA"), data); data != "" {
		folders = append(folders, data)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		folders = append(folders, filepath.Join(cache, "rota"))
	}
	return folders
}

// WriteEmbedded names an embedded store in its data folder and in the user's own.
// The returned function takes both back, unless another worker has written since.
func WriteEmbedded(data string, e Embedded) (remove func(), err error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var written []string
	for i, folder := range EmbeddedFolders(data) {
		file := EmbeddedFile(folder)
		err := os.MkdirAll(folder, 0o700)
		if err == nil {
			err = replaceFile(file, b)
		}
		if err != nil && i == 0 {
			return nil, fmt.Errorf("name the embedded store: %w", err)
		}
		if err == nil {
			written = append(written, file)
		}
	}
	return func() {
		for _, file := range written {
			if now, err := readEmbedded(file); err == nil && now == e {
				_ = os.Remove(file)
			}
		}
	}, nil
}

// replaceFile writes a file whole or not at all.
func replaceFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".embedded-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// ReadEmbedded returns the embedded store that is named in the data folder, else
// in the user's own. ok is false when there is none whose worker is alive.
func ReadEmbedded(data string) (e Embedded, ok bool) {
	for _, folder := range EmbeddedFolders(data) {
		e, err := readEmbedded(EmbeddedFile(folder))
		if err == nil && e.Redis != "" && alive(e.PID) {
			return e, true
		}
	}
	return Embedded{}, false
}

func readEmbedded(file string) (Embedded, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Embedded{}, err
	}
	var e Embedded
	if len(b) > 1<<16 {
		return e, fs.ErrInvalid
	}
	return e, json.Unmarshal(b, &e)
}

func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// LoadFound is Load for programs that only visit a store: where nobody chose a
// Redis, the store that `worker --embedded` keeps on this machine is taken, with
// its configuration. embedded says that it was.
func LoadFound(path string, flags Flags) (c Config, embedded bool, err error) {
	if c, err = Load(path, flags); err != nil || c.RedisExplicit {
		return c, false, err
	}
	e, ok := ReadEmbedded(c.Data)
	if !ok {
		return c, false, nil
	}
	if c.File == "" && e.Config != "" {
		if c, err = Load(e.Config, flags); err != nil {
			return c, false, err
		}
	}
	c.Redis = e.Redis
	return c, true, nil
}
