package deploy_test

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/config"
	"rota/internal/redistest"
)

// manifests returns the objects of the kustomization by kind and name.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	found := map[string]object{}
	kustomization := documents(t, "kubernetes/kustomization.yaml")[0]
	listed := texts(kustomization["resources"])
	for _, file := range listed {
		for _, doc := range documents(t, filepath.Join("kubernetes", file)) {
			name, _ := at(doc, "metadata", "name").(string)
			kind, _ := doc["kind"].(string)
			found[kind+" "+name] = doc
		}
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) != len(listed)+1 {
		t.Errorf("kustomization.yaml lists %d of %d files", len(listed), len(files)-1)
	}
	return found
}

func TestKubernetesWorkers(t *testing.T) {
	c, found := configuration(t), manifests(t)
	for name := range c.Services {
		pod := at(found["Deployment "+name], "spec", "template", "spec")
		if pod == nil {
			t.Errorf("no Deployment of %s", name)
			continue
		}
		if grace := seconds(t, at(pod, "terminationGracePeriodSeconds")); grace < c.Limits.Grace+spare {
			t.Errorf("%s is killed after %s, its runs may take %s", name, grace, c.Limits.Grace)
		}
		if at(pod, "securityContext", "runAsNonRoot") != true {
			t.Errorf("%s may run as root", name)
		}
		container := at(pod, "containers", 0)
		env := variables(container)
		checkCommand(t, c, name, texts(at(container, "args")), env["ROTA_HTTP_TOKEN"])
		if service := flag(texts(at(container, "args")), "--service"); service != name {
			t.Errorf("%s runs the service %s", name, service)
		}
		for _, login := range c.Services[name].Credentials {
			if variable := c.Credentials[login].Env; !env[variable] {
				t.Errorf("%s: the login %s needs %s", name, login, variable)
			}
		}
		for probe, path := range map[string]string{"livenessProbe": "/livez", "startupProbe": "/livez", "readinessProbe": "/readyz"} {
			if got := at(container, probe, "httpGet", "path"); got != path {
				t.Errorf("%s: %s asks %v, want %s", name, probe, got, path)
			}
		}
		if !mounts(container, parent(c.Workspaces)) {
			t.Errorf("%s does not mount the folder of %s", name, c.Workspaces)
		}
		if found["PodDisruptionBudget "+name] == nil {
			t.Errorf("%s has no disruption budget", name)
		}
		checkScaling(t, name, c.Services[name], found["ScaledObject "+name])
	}
	if modes := texts(at(found["PersistentVolumeClaim workspaces"], "spec", "accessModes")); len(modes) != 1 || modes[0] != "ReadWriteMany" {
		t.Errorf("the workspaces are %v, but all workers need them", modes)
	}
}

// checkScaling checks that a service is scaled on its own two lists.
func checkScaling(t *testing.T, name string, service config.Service, scaled object) {
	t.Helper()
	if at(scaled, "spec", "scaleTargetRef", "name") != name {
		t.Errorf("%s is not scaled", name)
	}
	if least, _ := at(scaled, "spec", "minReplicaCount").(uint64); least < 1 {
		t.Errorf("%s may be scaled to nothing", name)
	}
	for i, list := range []string{"pending", "active"} {
		trigger := at(scaled, "spec", "triggers", i, "metadata")
		if got := at(trigger, "listName"); got != "asynq:{"+name+"}:"+list {
			t.Errorf("%s is scaled on %v", name, got)
		}
		if got := at(trigger, "listLength"); got != strconv.Itoa(service.Concurrency) {
			t.Errorf("%s: %v tasks a worker, its concurrency is %d", name, got, service.Concurrency)
		}
	}
}

func TestKubernetesRedis(t *testing.T) {
	redis := manifests(t)["StatefulSet redis"]
	container := at(redis, "spec", "template", "spec", "containers", 0)
	if flag(texts(at(container, "args")), "redis-server") != "/etc/redis/redis.conf" || !mounts(container, "/etc/redis") {
		t.Error("redis runs without redis.conf")
	}
	if at(container, "workingDir") != "/data" || !mounts(container, "/data") {
		t.Error("the append-only file is not on the disk")
	}
}

// TestQueueLists shows that the lists which the scaling reads are asynq's.
func TestQueueLists(t *testing.T) {
	rdb := redistest.Mini(t)
	ctx := context.Background()
	client := asynq.NewClientFromRedisClient(rdb)
	for range 2 {
		if _, err := client.Enqueue(asynq.NewTask("turn:start", nil), asynq.Queue("claude")); err != nil {
			t.Fatal(err)
		}
	}
	running, finish := make(chan struct{}), make(chan struct{})
	server := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: 1, Queues: map[string]int{"claude": 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond,
	})
	err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		running <- struct{}{}
		<-finish
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	<-running
	for _, list := range []string{"asynq:{claude}:pending", "asynq:{claude}:active"} {
		if n, err := rdb.LLen(ctx, list).Result(); n != 1 || err != nil {
			t.Errorf("%s has %d entries (%v), want 1", list, n, err)
		}
	}
	go func() { <-running }()
	close(finish)
	server.Shutdown()
}

func seconds(t *testing.T, node any) time.Duration {
	t.Helper()
	n, ok := node.(uint64)
	if !ok {
		t.Errorf("%v (%T) is no number of seconds", node, node)
	}
	return time.Duration(n) * time.Second
}

// variables returns the names of a container's environment.
func variables(container any) map[string]bool {
	names := map[string]bool{}
	list, _ := at(container, "env").([]any)
	for _, entry := range list {
		name, _ := at(entry, "name").(string)
		names[name] = true
	}
	return names
}

// mounts reports whether a container has something mounted exactly there.
func mounts(container any, path string) bool {
	list, _ := at(container, "volumeMounts").([]any)
	for _, entry := range list {
		if at(entry, "mountPath") == path {
			return true
		}
	}
	return false
}

func parent(path string) string { return path[:strings.LastIndexByte(path, '/')] }
