package config

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisClient returns a client for a URL of one of the forms
//
//	redis://[user:password@]host:port[/db]          rediss:// for TLS
//	unix://[user:password@]/path/to/socket[?db=N]
//	redis-sentinel://[user:password@]host:port,host:port/MASTER[/db]
//	redis-cluster://[user:password@]host:port,host:port
//
// rediss-sentinel and rediss-cluster use TLS. The login is that of the Redis
// servers. It does not connect. Errors never show the password.
func RedisClient(rawURL string) (redis.UniversalClient, error) {
	open, err := parseRedis(rawURL)
	if err != nil {
		return nil, err
	}
	return open(), nil
}

// The times of every connection; go-redis tries a command again when they pass.
const (
	dialTimeout = 5 * time.Second
	ioTimeout   = 5 * time.Second
	poolTimeout = 10 * time.Second
)

// parseRedis checks a URL and returns what opens its client.
func parseRedis(rawURL string) (func() redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, errors.New("the Redis URL has no scheme: write redis://host:port/db")
	}
	switch scheme {
	case "redis", "rediss", "unix":
		return parseSingle(scheme, rawURL)
	case "redis-sentinel", "rediss-sentinel":
		return parseSentinel(scheme, rest)
	case "redis-cluster", "rediss-cluster":
		return parseCluster(scheme, rest)
	}
	return nil, fmt.Errorf("unknown scheme of the Redis URL: %s",
		like(short(scheme), []string{"redis", "rediss", "unix", "redis-sentinel", "redis-cluster"}))
}

func parseSingle(scheme, rawURL string) (func() redis.UniversalClient, error) {
	opt, err := redis.ParseURL(rawURL)
	if err != nil {
		form := scheme + "://[user:password@]host:port/db"
		if scheme == "unix" {
			form = "unix:///path/to/socket?db=0"
		}
		return nil, fmt.Errorf("the Redis URL can't be read: write %s, with special characters of a password as %%XX", form)
	}
	opt.DialTimeout, opt.PoolTimeout = cmp.Or(opt.DialTimeout, dialTimeout), cmp.Or(opt.PoolTimeout, poolTimeout)
	opt.ReadTimeout, opt.WriteTimeout = cmp.Or(opt.ReadTimeout, ioTimeout), cmp.Or(opt.WriteTimeout, ioTimeout)
	opt.ContextTimeoutEnabled = true
	return func() redis.UniversalClient { return redis.NewClient(opt) }, nil
}

func parseSentinel(scheme, rest string) (func() redis.UniversalClient, error) {
	user, password, rest, err := login(rest)
	if err != nil {
		return nil, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	master, dbText, hasDB := strings.Cut(path, "/")
	addrs, err := addresses(hosts, "26379")
	if err != nil {
		return nil, err
	}
	db, err := strconv.ParseUint(dbText, 10, 16)
	if master == "" || hasDB && err != nil || strings.ContainsAny(path, "?#") {
		return nil, fmt.Errorf("the Redis URL can't be read: write %s://host:port,host:port/MASTER/db", scheme)
	}
	opt := redis.FailoverOptions{
		MasterName: master, SentinelAddrs: addrs, Username: user, Password: password, DB: int(db), TLSConfig: tlsFor(scheme),
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, PoolTimeout: poolTimeout, ContextTimeoutEnabled: true,
	}
	return func() redis.UniversalClient { return redis.NewFailoverClient(&opt) }, nil
}

func parseCluster(scheme, rest string) (func() redis.UniversalClient, error) {
	user, password, rest, err := login(rest)
	if err != nil {
		return nil, err
	}
	hosts, path, _ := strings.Cut(rest, "/")
	addrs, err := addresses(hosts, "6379")
	if err != nil {
		return nil, err
	}
	if path != "" {
		return nil, errors.New("the Redis URL of a cluster has no path: a cluster has one database")
	}
	opt := redis.ClusterOptions{
		Addrs: addrs, Username: user, Password: password, TLSConfig: tlsFor(scheme),
		DialTimeout: dialTimeout, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, PoolTimeout: poolTimeout, ContextTimeoutEnabled: true,
	}
	return func() redis.UniversalClient { return redis.NewClusterClient(&opt) }, nil
}

// login splits user and password from what follows the scheme.
func login(s string) (user, password, rest string, err error) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return "", "", s, nil
	}
	user, password, _ = strings.Cut(s[:i], ":")
	user, err1 := url.PathUnescape(user)
	password, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return "", "", "", errors.New("the login in the Redis URL can't be read: write a % of it as %25")
	}
	return user, password, s[i+1:], nil
}

// addresses splits a list of hosts; a host without a port gets the usual one.
func addresses(hosts, port string) ([]string, error) {
	var addrs []string
	for h := range strings.SplitSeq(hosts, ",") {
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p = strings.Trim(h, "[]"), port
		}
		if _, err := strconv.ParseUint(p, 10, 16); err != nil || host == "" || strings.ContainsAny(host, " ?#/@[]") {
			return nil, errors.New("a host in the Redis URL can't be read: write host:port,host:port")
		}
		addrs = append(addrs, net.JoinHostPort(host, p))
	}
	return addrs, nil
}

// tlsFor returns the TLS settings of a scheme; the server's name is that of each address.
func tlsFor(scheme string) *tls.Config {
	if !strings.HasPrefix(scheme, "rediss") {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// hasPassword reports whether a Redis URL holds a password.
func hasPassword(rawURL string) bool {
	_, rest, _ := strings.Cut(rawURL, "://")
	i := strings.LastIndexByte(rest, '@')
	if i < 0 {
		return false
	}
	_, password, ok := strings.Cut(rest[:i], ":")
	return ok && password != ""
}

// What helps where Redis refuses a login, or has not the database.
const (
	LoginHint    = "put it into ROTA_REDIS: redis://user:password@host:6379/0"
	DatabaseHint = "a Redis has the databases 0 to 15 unless it is told otherwise: redis://host:6379/0"
)

// DatabaseRefused reports whether a Redis answers, but has not the database that the
// URL names.
func DatabaseRefused(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	return ok && (strings.HasPrefix(answer.Error(), "ERR DB index") || strings.HasPrefix(answer.Error(), "ERR SELECT is not allowed"))
}

// LoginRefused reports whether a Redis answers, but not to this login.
func LoginRefused(err error) bool {
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(answer.Error(), " ")
	return code == "NOAUTH" || code == "WRONGPASS"
}
