package deploy_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/redistest"
)

// TestRedisConfigurations starts a real Redis with each file and asks it.
func TestRedisConfigurations(t *testing.T) {
	for _, row := range []struct {
		file    string
		options []redistest.Option // what compose.yaml gives on the command line
		want    map[string]string
	}{
		{"redis/redis.conf", nil, nil},
		{"sentinel/redis.conf", []redistest.Option{redistest.Config("replica-announce-ip", "redis-1")},
			map[string]string{"min-replicas-to-write": "1", "min-replicas-max-lag": "10"}},
		{"cluster/redis.conf", []redistest.Option{
			redistest.Config("cluster-announce-hostname", "node-1"), redistest.Config("cluster-preferred-endpoint-type", "hostname")},
			map[string]string{"cluster-enabled": "yes", "min-replicas-to-write": "1", "cluster-require-full-coverage": "no"}},
	} {
		t.Run(row.file, func(t *testing.T) {
			path, err := filepath.Abs(row.file)
			if err != nil {
				t.Fatal(err)
			}
			rdb := redistest.Start(t, append(row.options, redistest.Config("include", path))...).Client()
			want := map[string]string{"appendonly": "yes", "maxmemory-policy": "noeviction", "save": ""}
			for name, value := range row.want {
				want[name] = value
			}
			for name, value := range want {
				got, err := rdb.ConfigGet(context.Background(), name).Result()
				if err != nil || got[name] != value {
					t.Errorf("%s is %q (%v), want %q", name, got[name], err, value)
				}
			}
			if got := rdb.ConfigGet(context.Background(), "maxmemory").Val()["maxmemory"]; got == "0" {
				t.Error("no limit of memory: the system would kill Redis instead")
			}
		})
	}
}

// TestSentinelConfiguration starts a real Sentinel with the file, beside a real
// master in the place of redis-1.
func TestSentinelConfiguration(t *testing.T) {
	program := redistest.Require(t, "redis-sentinel")
	text, err := os.ReadFile("sentinel/sentinel.conf")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(redistest.Start(t).Addr)
	changed := strings.ReplaceAll(string(text), "redis-1 6379", host+" "+port)
	for range 5 { // a free port may be taken before the Sentinel has it
		if err = watch(t, program, changed); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// watch starts a Sentinel and returns nil once it has found its master alive.
func watch(t *testing.T, program, text string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text = strings.ReplaceAll(text, "port 26379", "bind 127.0.0.1\nport "+port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, file)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { cancel(); <-ended }()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	for {
		if strings.Contains(rdb.Info(ctx, "sentinel").Val(), "name=rota,status=ok") {
			return nil
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the Sentinel ended: %v\n%s", err, &output)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestURLsInTheExamples reads the URLs that the comments of the examples name.
func TestURLsInTheExamples(t *testing.T) {
	for _, file := range []string{"sentinel/compose.yaml", "cluster/compose.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		url := flag(strings.Fields(string(text)), "--redis")
		rdb, err := config.RedisClient(url)
		if err != nil {
			t.Errorf("%s: %s: %v", file, url, err)
			continue
		}
		_ = rdb.Close()
		services, _ := at(documents(t, file)[0], "services").(object)
		_, hosts, _ := strings.Cut(url, "://")
		hosts, _, _ = strings.Cut(hosts, "/")
		for host := range strings.SplitSeq(hosts, ",") {
			name, _, _ := strings.Cut(host, ":")
			if services[name] == nil {
				t.Errorf("%s: the URL names %s, which is no service", file, name)
			}
		}
	}
}
