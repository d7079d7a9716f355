package main

import (
	"bytes"
	"strings"
	"testing"
)

// What agents write changes nothing on a person's screen but by being read.
func TestScreenTakesNoOrders(t *testing.T) {
	for text, want := range map[string]string{
		"one\ttwo\nthree ä ü ° é 日本 🙂\n":           "one\ttwo\nthree ä ü ° é 日本 🙂\n",
		"\x1b[31mred\x1b[0m":                       "\x1b[31mred\x1b[0m",
		"a\x1b[2Jb\x1b[Hc\x1b[?1049hd\x1bcE":       "abcdE",
		"a\x1b]0;a new name\x07b":                  "ab",
		"a\x1b]52;c;ZXZpbA==\x1b\\b":               "ab",
		"a\x1b]8;;never closed\nb":                 "a\nb",
		"over\rwritten\b\b\x00\x7f":                "overwritten",
		"a\u009b2Jb\u0085c":                        "a2Jbc",
		"a\x1b[" + strings.Repeat("1;", 99) + "mb": "a" + strings.Repeat("1;", 84) + "mb",
		"cut\x1b": "cut",
	} {
		var whole, bytewise bytes.Buffer
		if n, err := (&screen{Writer: &whole}).Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		s := &screen{Writer: &bytewise}
		for _, b := range []byte(text) {
			_, _ = s.Write([]byte{b})
		}
		if whole.String() != want || bytewise.String() != want {
			t.Errorf("%q: %q, byte by byte %q, want %q", text, whole.String(), bytewise.String(), want)
		}
	}
	if got := oneLine("a\x1b[2J b\n\tc\u009b\r d"); got != "a[2J b c d" {
		t.Errorf("on one line %q", got)
	}
}
