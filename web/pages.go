package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"

	"rota/commands"
	"rota/turns/store"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed assets
var assets embed.FS

// pages are the parsed templates by name.
type pages map[string]*template.Template

var pageNames = []string{"board", "thread", "turn", "dead", "services", "credentials", "schedules", "login", "error"}

func parsePages() (pages, error) {
	all := pages{}
	for _, name := range pageNames {
		t, err := template.New("layout.html").Funcs(words).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", name, err)
		}
		all[name] = t
	}
	return all, nil
}

// view is what every page's template gets.
type view struct {
	Name   string
	Title  string
	Thread string // whose moves concern the page; empty for all
	Admin  bool
	Open   bool   // nobody needed a token
	CSRF   string // of the page's forms
	Key    string // of the page's commands: sent twice they act once
	Note   note
	Body   any
}

// note is what the last action came to.
type note struct {
	Text string
	Bad  bool
}

// shown is what a page's loader found.
type shown struct {
	Title  string
	Thread string
	Body   any
}

// page serves a page: load reads, the template of that name shows.
func (b *board) page(name string, load func(r *http.Request) (shown, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := load(r)
		if err != nil {
			b.refuse(w, r, err)
			return
		}
		b.show(w, r, http.StatusOK, name, s)
	}
}

func (b *board) render(w http.ResponseWriter, r *http.Request, code int, name, title string, body any) {
	b.show(w, r, code, name, shown{Title: title, Body: body})
}

func (b *board) show(w http.ResponseWriter, r *http.Request, code int, name string, s shown) {
	v := view{Name: name, Title: s.Title, Thread: s.Thread, Admin: b.Admin, Open: b.Token == "", Body: s.Body}
	if b.Admin && name != "login" && name != "error" {
		v.CSRF, v.Key = b.formToken(w, r), newKey()
		v.Note = b.takeNote(w, r)
	}
	var out bytes.Buffer
	if err := b.pages[name].Execute(&out, v); err != nil {
		b.Log.Error("page could not be rendered", "page", name, "err", err)
		http.Error(w, "this page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes())
}

// refuse answers an error: what a person asked wrongly with its text, what is
// wrong here without.
func (b *board) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var asked badAsk
	switch kind := commands.KindOf(err); {
	case errors.Is(err, store.ErrNotFound), kind == commands.NotFound, errors.As(err, &asked):
		b.fail(w, r, http.StatusNotFound, err.Error())
	case kind == commands.Invalid:
		b.fail(w, r, http.StatusBadRequest, err.Error())
	case r.Context().Err() != nil:
	default:
		b.Log.Warn("page could not be read", "path", r.URL.Path, "err", err)
		b.fail(w, r, http.StatusServiceUnavailable, "the store can't be read now")
	}
}

// badAsk is an address that names nothing.
type badAsk struct{ error }

type failure struct {
	Code int
	Text string
}

// fail answers with a page or, where none is wanted, a line.
func (b *board) fail(w http.ResponseWriter, r *http.Request, code int, text string) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, text, code)
		return
	}
	b.render(w, r, code, "error", http.StatusText(code), failure{code, text})
}

// assetKinds are the files that are served, with their types.
var assetKinds = map[string]string{
	"board.css": "text/css; charset=utf-8", "board.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
}

func (b *board) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind, ok := assetKinds[name]
	body, err := assets.ReadFile(path.Join("assets", name))
	if !ok || err != nil {
		b.fail(w, r, http.StatusNotFound, "there is no such file")
		return
	}
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// leaveNote keeps what an action came to for the next page.
func (b *board) leaveNote(w http.ResponseWriter, r *http.Request, n note) {
	mark := "+"
	if n.Bad {
		mark = "-"
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(mark + clip(n.Text, 600)))
	b.setCookie(w, r, noteCookie, text+"."+b.seals.seal("note", text), 60)
}

// takeNote returns the note and removes it.
func (b *board) takeNote(w http.ResponseWriter, r *http.Request) note {
	c, err := r.Cookie(noteCookie)
	if err != nil || r.Header.Get("X-Rota-Refresh") != "" {
		return note{}
	}
	b.setCookie(w, r, noteCookie, "", -1)
	text, seal, _ := strings.Cut(c.Value, ".")
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(plain) == 0 || !same(seal, b.seals.seal("note", text)) {
		return note{}
	}
	return note{Text: string(plain[1:]), Bad: plain[0] == '-'}
}
