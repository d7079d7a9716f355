package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEmbeddedStoreIsFound(t *testing.T) {
	cache, data := t.TempDir(), filepath.Join(t.TempDir(), "made")
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("ROTA_DATA", "")
	if _, ok := ReadEmbedded(data); ok {
		t.Fatal("found one before it was written")
	}
	e := Embedded{Redis: "redis://127.0.0.1:7777/0", PID: os.Getpid(), Config: "/etc/rota.yaml"}
	remove, err := WriteEmbedded(data, e)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{data, t.TempDir(), ""} {
		if got, ok := ReadEmbedded(folder); !ok || got != e {
			t.Fatalf("in %q: %+v, %v", folder, got, ok)
		}
	}
	other := e
	other.Redis = "redis://127.0.0.1:8888/0"
	if _, err := WriteEmbedded(t.TempDir(), other); err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err := os.Stat(EmbeddedFile(data)); !os.IsNotExist(err) {
		t.Fatal("left behind: ", err)
	}
	if got, ok := ReadEmbedded(data); !ok || got != other {
		t.Fatalf("another worker's was removed: %+v, %v", got, ok)
	}
}

func TestEmbeddedStoreOfADeadWorkerIsNone(t *testing.T) {
	data := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("ROTA_DATA", "")
	for _, text := range []string{`{"redis":"redis://127.0.0.1:1/0","pid":0}`, `{"redis":"redis://127.0.0.1:1/0","pid":999999999}`, `{`, `{"pid":1}`} {
		if err := os.WriteFile(EmbeddedFile(data), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if e, ok := ReadEmbedded(data); ok {
			t.Fatalf("%s was believed: %+v", text, e)
		}
	}
}
