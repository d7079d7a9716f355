package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/redistest"
)

// onNote calls a function when a program says a note.
type onNote struct {
	strings.Builder
	then func()
}

func (n *onNote) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "note: waiting") {
		n.then()
	}
	return n.Builder.Write(b)
}

// `worker --embedded &` and the first command are typed in one go.
func TestTheStoreThatIsJustStartingIsWaitedFor(t *testing.T) {
	if c, err := net.Dial("tcp", "127.0.0.1:6379"); err == nil {
		c.Close()
		t.Skip("a Redis listens at the default address")
	}
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		_ = program(t, rdb)
		t.Setenv("ROTA_REDIS", "")
		t.Setenv("ROTA_DATA", "")
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		data := t.TempDir()
		t.Chdir(data)
		stderr := &onNote{then: func() {
			_, err := config.WriteEmbedded(data, config.Embedded{Redis: "redis://" + rdb.(*redis.Client).Options().Addr + "/0", PID: os.Getpid()})
			if err != nil {
				t.Error(err)
			}
		}}
		var stdout strings.Builder
		if code := (&Main{}).Run(t.Context(), []string{"task", "hello", "--thread", "early"}, strings.NewReader(""), &stdout, stderr); code != 0 {
			t.Fatal(code, stderr.String())
		}
		if stdout.String() != "early\n" {
			t.Fatalf("%q", stdout.String())
		}
		if strings.Count(stderr.String(), "note: waiting") != 1 {
			t.Fatal(stderr.String())
		}
	})
}

func TestADatabaseThatIsNotThereIsOfTheConfiguration(t *testing.T) {
	t.Setenv("ROTA_CONFIG", writeConfig(t))
	t.Setenv("ROTA_TEST_LOGIN", "sk-fake-not-a-secret")
	t.Setenv("ROTA_REDIS", "redis://"+redistest.Start(t).Addr+"/99")
	for _, command := range []string{"ls", "doctor"} {
		var stdout, stderr strings.Builder
		code := (&Main{}).Run(t.Context(), []string{command}, strings.NewReader(""), &stdout, &stderr)
		const want = "enqueue: Redis has no such database: ERR DB index is out of range\nhint: a Redis has the databases 0 to 15 unless it is told otherwise: redis://host:6379/0\n"
		if code != exitUnconfigured || stderr.String() != want {
			t.Errorf("%s: exit %d: %s", command, code, stderr.String())
		}
	}
}
