package web

import (
	"net"
	"net/http"
	"strings"
)

// maxBody bounds what a request may send, in bytes: a reply of the longest text,
// as a form encodes it.
const maxBody = 1 << 20

// policy is what a page may load: only what comes from here.
const policy = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"

// guard stands before everything: headers, bounds, and who may look.
func (b *board) guard(next http.Handler) http.Handler {
	next = b.sameOrigin(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.ContentLength > maxBody {
			b.fail(w, r, http.StatusRequestEntityTooLarge, "that is too much at once")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		switch {
		case r.URL.Path == "/livez" || r.URL.Path == "/readyz":
		case b.Token == "" && !loopback(r.Host):
			b.fail(w, r, http.StatusForbidden, "this address is answered on a loopback name only; start the worker with a token to use another")
			return
		case b.Token == "":
		case r.URL.Path == "/login" || r.URL.Path == "/assets/board.css":
		case b.let(w, r):
		default:
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses a change that a page of another origin asks for.
func (b *board) sameOrigin(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.Log.Warn("request of another origin refused", "path", r.URL.Path, "origin", r.Header.Get("Origin"))
		b.fail(w, r, http.StatusForbidden, "this was asked for by a page of another origin")
	}))
	return cross.Handler(next)
}

// loopback reports whether a request was addressed to this machine by a name that
// nobody else can give out.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
