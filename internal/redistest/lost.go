package redistest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ReplyLoss is the fault that LostReply makes.
type ReplyLoss struct {
	mu       sync.Mutex
	match    Match
	from, to int // hit the matches from..to, counted from 1
	seen     int
	hits     int
}

// LostReply loses the reply of the n-th command that matches (the first is 1):
// the server carries the command out, the client reads the end of the
// connection. A client with its usual settings then sends the command again on
// a new connection, and the caller sees only the second answer.
//
// It works on the connection, so it must be added before the client's first
// command (see WithHooks); a matching command on an older connection fails.
// It does not reach the nodes of a Cluster client.
func LostReply(match Match, n int) *ReplyLoss {
	return &ReplyLoss{match: match, from: n, to: n}
}

// Times loses the replies of k matches in a row instead of one. A re-send is a
// match too, so that more than the client's MaxRetries reach the caller.
func (f *ReplyLoss) Times(k int) *ReplyLoss {
	f.to = f.from + k - 1
	return f
}

// Hits returns how many replies were lost.
func (f *ReplyLoss) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// hit counts a command on the wire and says whether its reply is to be lost.
func (f *ReplyLoss) hit(args []string) bool {
	if setsUp(args) || !f.match(args) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.seen < f.from || f.seen > f.to {
		return false
	}
	f.hits++
	return true
}

// DialHook wraps each new connection.
func (f *ReplyLoss) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &lossyConn{Conn: conn, fault: f}, nil
	}
}

// ProcessHook only notices a fault that was added too late.
func (f *ReplyLoss) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := words(cmd); err == nil && f.match(args) && !setsUp(args) && f.blind() {
			err = errors.New("redistest: LostReply was added after the client connected")
			cmd.SetErr(err)
		}
		return err
	}
}

func (f *ReplyLoss) blind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen == 0
}

// ProcessPipelineHook changes nothing; pipelines are seen on the connection.
func (f *ReplyLoss) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// lossyConn reads along what a client sends. Once it saw the command, it ends
// instead of giving the answer.
type lossyConn struct {
	net.Conn
	fault  *ReplyLoss
	mu     sync.Mutex
	sent   []byte // the part of a command that is not complete yet
	doomed bool
}

func (c *lossyConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.sent = append(c.sent, p...)
	for {
		args, size := parseCommand(c.sent)
		if size == 0 {
			break
		}
		c.sent = c.sent[size:]
		if len(args) > 0 && c.fault.hit(args) {
			c.doomed = true
		}
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// Read of a doomed connection tells the server that nothing more comes, and
// waits until the server has closed its side: by then it has carried out
// everything that was sent.
func (c *lossyConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	doomed := c.doomed
	c.mu.Unlock()
	if !doomed {
		return c.Conn.Read(p)
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, c.Conn)
	}
	_ = c.Close()
	return 0, io.EOF
}

// parseCommand returns the first command of a client's stream, an array of bulk
// strings, and its length; 0 while it is not complete.
func parseCommand(stream []byte) (args []string, size int) {
	count, rest, ok := parseLength(stream, '*')
	for i := 0; ok && i < count; i++ {
		var n int
		if n, rest, ok = parseLength(rest, '$'); !ok || len(rest) < n+2 {
			return nil, 0
		}
		args, rest = append(args, string(rest[:n])), rest[n+2:]
	}
	if !ok {
		return nil, 0
	}
	return args, len(stream) - len(rest)
}

func parseLength(stream []byte, kind byte) (n int, rest []byte, ok bool) {
	line, rest, ok := bytes.Cut(stream, []byte("\r\n"))
	if !ok || len(line) < 2 || line[0] != kind {
		return 0, nil, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	return n, rest, err == nil
}
