package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The cookies.
const (
	sessionCookie = "rota_session" // proves that the token was given once
	formCookie    = "rota_form"    // what a page's form token is made from
	noteCookie    = "rota_note"    // what the last action came to, for one page
)

// sessionLife is how long a login lasts.
const sessionLife = 30 * 24 * time.Hour

// seals proves what this handler has given out. Two processes with the same
// token know each other's.
type seals struct{ key []byte }

func newSeals(token string) seals {
	if token == "" {
		key := make([]byte, 32)
		_, _ = rand.Read(key)
		return seals{key}
	}
	key := sha256.Sum256([]byte("rota board\x00" + token))
	return seals{key[:]}
}

func (s seals) seal(purpose, text string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(purpose + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// rightToken compares without telling by its time how much was right.
func (b *board) rightToken(given string) bool {
	return same(b.seals.seal("token", given), b.seals.seal("token", b.Token))
}

// let answers whether a request shows the token. When not it has answered.
func (b *board) let(w http.ResponseWriter, r *http.Request) bool {
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && b.rightToken(given) {
		return true
	}
	if c, err := r.Cookie(sessionCookie); err == nil && same(c.Value, b.seals.seal("session", "")) {
		return true
	}
	if given := r.URL.Query().Get("token"); given != "" && r.Method == http.MethodGet && b.rightToken(given) {
		b.setSession(w, r)
		http.Redirect(w, r, withoutToken(r.URL), http.StatusSeeOther)
		return false
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="rota"`)
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		b.render(w, r, http.StatusUnauthorized, "login", "Sign in", loginPage{Next: withoutToken(r.URL)})
		return false
	}
	http.Error(w, "a token is needed: Authorization: Bearer …", http.StatusUnauthorized)
	return false
}

func (b *board) setSession(w http.ResponseWriter, r *http.Request) {
	b.setCookie(w, r, sessionCookie, b.seals.seal("session", ""), int(sessionLife.Seconds()))
}

func (b *board) setCookie(w http.ResponseWriter, r *http.Request, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

// withoutToken is a page of this site, as a path.
func withoutToken(u *url.URL) string {
	q := u.Query()
	q.Del("token")
	return local((&url.URL{Path: u.Path, RawQuery: q.Encode()}).String())
}

// local returns a path of this site, / for anything else.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n") {
		return "/"
	}
	return path
}

type loginPage struct {
	Next  string
	Wrong bool
}

func (b *board) loginForm(w http.ResponseWriter, r *http.Request) {
	if b.Token == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	b.render(w, r, http.StatusOK, "login", "Sign in", loginPage{Next: "/"})
}

func (b *board) login(w http.ResponseWriter, r *http.Request) {
	if b.Token == "" {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	next := local(r.PostFormValue("next"))
	if !b.rightToken(r.PostFormValue("token")) {
		b.Log.Warn("wrong token at the login", "from", r.RemoteAddr)
		b.render(w, r, http.StatusUnauthorized, "login", "Sign in", loginPage{Next: next, Wrong: true})
		return
	}
	b.setSession(w, r)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// formToken is what a form of this browser must carry; it sets the cookie that
// the token is made from.
func (b *board) formToken(w http.ResponseWriter, r *http.Request) string {
	value := ""
	if c, err := r.Cookie(formCookie); err == nil && len(c.Value) == 32 {
		value = c.Value
	} else {
		var random [16]byte
		_, _ = rand.Read(random[:])
		value = hex.EncodeToString(random[:])
		b.setCookie(w, r, formCookie, value, 0)
	}
	return b.seals.seal("form", value)
}

// fromOwnForm reports whether a request carries the token of a form that this
// handler gave to the same browser.
func (b *board) fromOwnForm(r *http.Request) bool {
	c, err := r.Cookie(formCookie)
	return err == nil && same(r.PostFormValue("csrf"), b.seals.seal("form", c.Value))
}
