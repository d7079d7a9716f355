package redistest

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// promptSync has a master hand its file to a new replica at once and go on with
// its writes right after it. The diskless way, the default of Redis 7, starts
// after 5 seconds and sends writes only a second after the replica's link is up.
func promptSync(s *settings) {
	s.config = append(s.config, [2]string{"repl-diskless-sync", "no"})
}

// inStep counts the replicas that have everything their masters have.
func inStep(nodes []*Server) int {
	count := 0
	for _, node := range nodes {
		replica := node.info("replication")
		if field(replica, "role") != "slave" || field(replica, "master_link_status") != "up" {
			continue
		}
		addr := field(replica, "master_host") + ":" + field(replica, "master_port")
		for _, master := range nodes {
			text := master.info("replication")
			if master.Addr == addr && field(text, "role") == "master" &&
				field(text, "master_repl_offset") == field(replica, "slave_repl_offset") {
				count++
			}
		}
	}
	return count
}

// info returns a section of INFO, empty while the server doesn't answer.
func (s *Server) info(section string) string {
	text, _ := s.try("info", section).(string)
	return text
}

// field returns the value of one line of INFO, empty when it isn't there.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// try sends a command and returns nil when the server doesn't answer.
func (s *Server) try(args ...any) any {
	if !s.Running() {
		return nil
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: time.Second})
	defer rdb.Close()
	reply, err := rdb.Do(context.Background(), args...).Result()
	if err != nil {
		return nil
	}
	return reply
}
