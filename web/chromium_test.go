package web

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// chromium is a real browser for one test, with what it complained about and
// where it turned to.
type chromium struct {
	*story
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// program finds a Chromium. Without one the test is skipped, unless
// ROTA_REQUIRE_CHROMIUM is set.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("ROTA_REQUIRE_CHROMIUM") != "" {
		t.Fatal("no chromium in the PATH: make setup installs it")
	}
	t.Skip("no chromium in the PATH: make setup installs it")
	return ""
}

// browse starts a browser with a folder of its own.
func browse(t *testing.T, y *story) *chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes its time")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-domain-reliability", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("no-pings", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
		chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); end() })
	c := &chromium{story: y, ctx: ctx}
	c.must(chromedp.Listen(ctx, c.hear))
	call(c, network.Enable, network.EnableParams{})
	call(c, log.Enable, cdp.Empty{})
	call(c, runtime.Enable, cdp.Empty{})
	return c
}

func (c *chromium) hear(event any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		c.problems = append(c.problems, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		c.problems = append(c.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		c.problems = append(c.problems, fmt.Sprintf("console.%s %v", e.Type, e.Args))
	case *network.EventRequestWillBeSent:
		c.requests = append(c.requests, e.Request.URL)
	}
}

func (c *chromium) do(steps ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	c.must(chromedp.Do(c.ctx, steps...))
}

// run takes one step and returns what came of it.
func run[T any](c *chromium, step chromedp.Action[T]) T {
	c.Helper()
	v, err := chromedp.Run(c.ctx, step)
	c.must(err)
	return v
}

func call[P, R any](c *chromium, command cdp.Command[P, R], params P) {
	c.Helper()
	_, err := chromedp.Call(c.ctx, command, params)
	c.must(err)
}

func (c *chromium) open(path string) {
	c.Helper()
	c.do(chromedp.Navigate(c.url+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

// value is what an expression is in the page.
func value[T any](c *chromium, expression string) T {
	c.Helper()
	return run(c, chromedp.Evaluate[T](expression))
}

// until waits until an expression is true in the page, also across a change of page.
func (c *chromium) until(expression string) {
	c.Helper()
	var last error
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ok, err := chromedp.Run(c.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && ok {
			return
		}
		last = err
	}
	c.Fatalf("waited in vain for %s: %v\n%.3000s", expression, last, value[string](c, "document.body.innerText"))
}

// look sets the window and the colours.
func (c *chromium) look(width, height int64, scheme string) {
	c.Helper()
	c.do(chromedp.EmulateViewport(width, height))
	call(c, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// picture writes a screenshot into docs/ when ROTA_SCREENSHOTS is set.
func (c *chromium) picture(name string) {
	c.Helper()
	if os.Getenv("ROTA_SCREENSHOTS") == "" {
		return
	}
	png := run(c, chromedp.CaptureScreenshot())
	c.must(os.WriteFile(filepath.Join("..", "docs", name), png, 0o644))
}

// clean fails when the browser complained or asked anybody but the board.
func (c *chromium) clean() {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.problems {
		c.Errorf("the browser complains: %s", p)
	}
	for _, r := range c.requests {
		u, err := url.Parse(r)
		if err != nil || u.Scheme != "data" && "http://"+u.Host != c.url {
			c.Errorf("a request to somebody else: %s", r)
		}
	}
	if len(c.requests) == 0 {
		c.Error("no request was seen at all")
	}
}

// press presses a key as a keyboard does: the character comes only when the page
// lets it.
func (c *chromium) press(key string) {
	c.Helper()
	call(c, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key})
	call(c, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: key})
}
