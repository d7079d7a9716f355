package credentials

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"rota/turns"
)

// outputSeen is what a command printed last. A command may ask a person or a
// vault, so it is not run for each look.
type outputSeen struct {
	text string
	at   time.Time
}

// outputAge is how long a command's output counts.
const outputAge = time.Minute

// text reads a login. A command runs in one process of the fleet at a time,
// because it may refresh the login.
func (c *Credentials) text(ctx context.Context, id string, source Source) (string, error) {
	if len(source.Command) == 0 {
		return source.read(ctx)
	}
	if text, ok := c.printed(id); ok {
		return text, nil
	}
	var text string
	err := c.Refresh(ctx, id, func(ctx context.Context) (err error) {
		if known, ok := c.printed(id); ok {
			text = known
			return nil
		}
		text, err = source.read(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[id] = outputSeen{text, time.Now()}
		return nil
	})
	return text, err
}

func (c *Credentials) printed(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[id]
	return s.text, ok && time.Since(s.at) < outputAge
}

// forget makes the next look run the login's command again.
func (c *Credentials) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
}

// fingerprint returns a salted hash of a login, or nothing for an implicit one
// that no file shows.
func (c *Credentials) fingerprint(ctx context.Context, id, service string) (string, error) {
	var text string
	if source, ok := c.config.Credentials[id]; ok {
		var err error
		if text, err = c.text(ctx, id, source); err != nil {
			return "", err
		}
	} else if text = signIn(c.config.Services[service]); text == "" {
		return "", nil
	}
	salt, err := c.readSalt(ctx)
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, []byte(salt))
	sum.Write([]byte(id + "\x00" + text))
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

func (c *Credentials) readSalt(ctx context.Context) (string, error) {
	c.mu.Lock()
	salt := c.salt
	c.mu.Unlock()
	if salt != "" {
		return salt, nil
	}
	answer, err := c.run(ctx, saltScript, []string{saltKey}, turns.NewToken()+turns.NewToken())
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.salt = answer[1]
	return c.salt, nil
}

// signIn returns the content of the file in which a program keeps its own login.
// The worker's CLAUDE_CONFIG_DIR and CODEX_HOME don't count: no agent gets them.
func signIn(s Service) string {
	var sub, file string
	switch s.Agent {
	case "claude":
		sub, file = ".claude", ".credentials.json"
	case "codex":
		sub, file = ".codex", "auth.json"
	default:
		return ""
	}
	dir := s.SignIn
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, sub)
	}
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || len(text) > maxLogin {
		return ""
	}
	return string(text)
}
