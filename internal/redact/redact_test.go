package redact

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "the build failed on line 429", "the build failed on line 429"},
		{"line breaks and tabs", "a\n\tb\r\nc", "a\n\tb\nc"},
		{"control characters", "a\x00b\x07c\x7fd\u0085e\u202ef", "abcdef"},
		{"terminal sequences", "\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"},
		{"invalid UTF-8", "a\xffb", "a\ufffdb"},

		{"URL login", "GET https://user:pw@host/path: refused", "GET https://[redacted]@host/path: refused"},
		{"URL user", "ssh://git@host/repo", "ssh://[redacted]@host/repo"},
		{"URL password with a slash", "redis://:a/b#c@host:6379/0 is away", "redis://[redacted]@host:6379/0 is away"},
		{"URL query", "https://host/a?key=fake&x=1 failed", "https://host/a?[redacted] failed"},
		{"URL fragment", "https://host/a#access=fake", "https://host/a#[redacted]"},
		{"URL with scoped path", "https://host:80/@scope/name", "https://host:80/@scope/name"},
		{"URL asked about", "is it https://host/?", "is it https://host/?"},
		{"URL in JSON", `{"url":"https://u:p@h/","b":1}`, `{"url":"https://[redacted]@h/","b":1}`},

		{"bearer", "sent Bearer abcdef", "sent Bearer [redacted]"},
		{"bearer in small letters", "authorised with bearer fake.not~a-secret=", "authorised with bearer [redacted]"},
		{"basic", "Basic ZmFrZTpmYWtl was refused", "Basic [redacted] was refused"},
		{"header", "Authorization: Digest user=x, nonce=y\nnext", "Authorization: [redacted]\nnext"},
		{"cookies", "Set-Cookie: a=b; c=d\nHost: x", "Set-Cookie: [redacted]\nHost: x"},
		{"prose about schemes", "Bearer token expired, basic authentication required", "Bearer token expired, basic authentication required"},

		{"key=value", "token=fake password=fake;x user=me", "token=[redacted] password=[redacted] user=me"},
		{"environment", "MY_API_KEY=fake CLIENT_SECRET='not a secret' HOME=/x", "MY_API_KEY=[redacted] CLIENT_SECRET='[redacted]' HOME=/x"},
		{"YAML", "password: hunter2\nname: x", "password: [redacted]\nname: x"},
		{"header of a key", "x-api-key: fake", "x-api-key: [redacted]"},
		{"option", "run --api-key fake --model x --token=fake", "run --api-key [redacted] --model x --token=[redacted]"},
		{"element", "<password>fake</password>", "<password>[redacted]</password>"},
		{"JSON", `{"api_key": "fa\"ke", "model": "x"}`, `{"api_key": "[redacted]", "model": "x"}`},
		{"JSON in a string", `"{\"refresh_token\":\"fake\",\"a\":1}"`, `"{\"refresh_token\":\"[redacted]\",\"a\":1}"`},
		{"JSON cut off", `{"access_token":"fake`, `{"access_token":"[redacted]`},
		{"JSON number", `{"pwd":123456, "a":1}`, `{"pwd":[redacted] "a":1}`},
		{"JSON object", `{"credentials":{"a":"b"},"c":1}`, `{"credentials":[redacted],"c":1}`},
		{"hidden by a control character", "pass\x00word=fake", "password=[redacted]"},
		{"numbers of tokens", `{"input_tokens":512,"max_tokens": 4096}`, `{"input_tokens":512,"max_tokens": 4096}`},
		{"prose about tokens", "invalid token: expired", "invalid token: expired"},
		{"prose about keys", "Invalid API key · Please run /login", "Invalid API key · Please run /login"},

		{"sk", "key sk-fake-not-a-secret refused", "key [redacted] refused"},
		{"sk-ant", "sk-ant-api03-fake", "[redacted]"},
		{"sk half masked", "sk-fake****cret.", "[redacted]."},
		{"words with sk-", "task-specific and risk-assessment", "task-specific and risk-assessment"},
		{"GitHub", "ghp_" + strings.Repeat("x", 36), "[redacted]"},
		{"AWS", "AKIA" + strings.Repeat("X", 16), "[redacted]"},
		{"Slack", "xoxb-fake-not-a-secret", "[redacted]"},
		{"Google", "AIza" + strings.Repeat("x", 35), "[redacted]"},
		{"JWT", "eyJmYWtlIjox.eyJmYWtlIjox.fake_fake rejected", "[redacted] rejected"},
		{"private key", "a\n-----BEGIN RSA PRIVATE KEY-----\nfake\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		{"private key cut off", "-----BEGIN PRIVATE KEY-----\nfake\nfake", "[redacted]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Text(tt.in); got != tt.want {
				t.Errorf("\ngot  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestTextIsBounded(t *testing.T) {
	exact := strings.Repeat("ä", Max)
	if Text(exact) != exact {
		t.Errorf("a text of %d characters was changed", Max)
	}
	got := Text(exact + "ä")
	if utf8.RuneCountInString(got) != Max || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d characters, end %q", utf8.RuneCountInString(got), got[len(got)-8:])
	}
}

// TestHugeText: lines that are masked away must not bring a split secret to the front.
func TestHugeText(t *testing.T) {
	line := "password=" + strings.Repeat("x", 4000) + "\n"
	s := strings.Repeat(line, 17)
	s = s[:maxRead-12] + " AKIAFAKEFAKEFAKEFAKE" + strings.Repeat(" end", 100000)
	got := Text(s)
	if strings.Contains(got, "FA") || !strings.HasPrefix(got, "password=[redacted]\n") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d characters, end %q", len(got), got[max(0, len(got)-60):])
	}
}

// TestCutLeavesNoPart moves a secret over the bound, letter by letter: what is
// left of it must not be too short to be known any more.
func TestCutLeavesNoPart(t *testing.T) {
	for _, secret := range []string{"AKIAFAKEFAKEFAKEFAKE", "ghp_FAKEFAKEFAKEFAKEFAKE", "password=FAKEFAKE", "https://FAKE:FAKE@host/", "Bearer FAKEFAKE"} {
		for n := Max - len(secret) - 5; n <= Max; n++ {
			got := Text(strings.Repeat(".", n) + " " + secret)
			if strings.Contains(got, "FA") || utf8.RuneCountInString(got) > Max {
				t.Fatalf("%s after %d dots: end %q", secret, n, got[len(got)-40:])
			}
		}
	}
}

func TestError(t *testing.T) {
	if got := Error(nil); got != "" {
		t.Errorf("nil gives %q", got)
	}
	err := fmt.Errorf("start: %w", errors.New("token=fake"))
	if got := Error(err); got != "start: token=[redacted]" {
		t.Errorf("%q", got)
	}
}

// FuzzText: no panic, bounded, valid, without control characters, idempotent,
// and the secrets around any text go, whatever the text is.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"", "token=fake", `{"a":"token=\"x\""}`, "https://a:b@c/d?e#f", "Bearer x\xff", "sk-ant-fake-fake", "cookie: [redacted",
		`\"password\":\"a\\\"b\"`, "-----BEGIN PRIVATE KEY-----", strings.Repeat("secret=[", 600), "a://b:c@d:e/@f?", "<token>x<",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if n := utf8.RuneCountInString(got); n > Max || !utf8.ValidString(got) {
			t.Fatalf("%d characters, valid %t", n, utf8.ValidString(got))
		}
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("control character %q in %q", r, got)
			}
		}
		if again := Text(got); again != got {
			t.Fatalf("not idempotent:\n%q\n%q", got, again)
		}
		for _, secret := range []string{"sk-ant-fuzzfuzzfuzz", "\npassword=fuzzfuzzfuzz\n", "\n\"api_key\": \"fuzzfuzzfuzz\"\n", "\nhttps://fuzzfuzzfuzz@h/\n", "\nBearer fuzzfuzzfuzz9\n"} {
			if got := Text(s + secret + s); strings.Contains(got, "fuzzfuzzfuzz") && !strings.Contains(s, "fuzz") {
				t.Fatalf("%q left in %q", secret, got)
			}
		}
	})
}

func TestLooksAndNames(t *testing.T) {
	for value, want := range map[string]bool{"sk-fake-not-a-secret": true, "claude-opus-4-1": false, "./review.sh": false, "": false} {
		if LooksSecret(value) != want {
			t.Errorf("LooksSecret(%q) is %t", value, !want)
		}
	}
	for name, want := range map[string]bool{"ANTHROPIC_API_KEY": true, "DbPassword": true, "PATH": false, "KEYBOARD": false} {
		if NamesSecret(name) != want {
			t.Errorf("NamesSecret(%q) is %t", name, !want)
		}
	}
}
