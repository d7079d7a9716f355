// Package redact takes secrets out of texts before they leave a handler: error
// texts go to Redis, to asynq, into logs and on the screen.
//
// It knows shapes, not meanings: keys of providers, values behind names that
// mean a secret, logins in URLs. A text that only talks about tokens stays
// readable. Redaction comes before the cut, so that no half of a secret is left
// at the end of a long text.
package redact

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Max is the length of the longest text that Text returns, in characters.
const Max = 4096

// Mark stands where a secret was.
const Mark = "[redacted]"

// Text returns s without secrets and control characters (line breaks and tabs
// stay), valid as UTF-8, and of at most Max characters; a cut text ends with "…".
// Giving the result to Text again changes nothing.
func Text(s string) string {
	s = clean(begin(s))
	for range maxPasses {
		t := cut(mask(s))
		if t == s {
			break
		}
		s = t
	}
	return s
}

// maxPasses bounds the passes over a text: masking one secret may lay open the
// shape of another. Two passes are rarely needed.
const maxPasses = 16

// Error returns the redacted text of an error, and nothing for nil.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return Text(err.Error())
}

// clean drops what can't be shown: escape sequences and other control
// characters, which could also hide a secret from the patterns or rewrite a
// terminal, and invalid UTF-8.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.ContainsRune(s, '\x1b') {
		// A broken sequence takes the letter after it with it, so secrets go first.
		s = escapes.ReplaceAllString(mask(s), "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// maxRead is how much of a text is looked at, in bytes.
const maxRead = 16 * Max

// begin bounds the work on a huge text. It drops the word that it would split:
// half of a key might have no shape to be known by.
func begin(s string) string {
	if len(s) <= maxRead {
		return s
	}
	s = s[:maxRead]
	if i := strings.LastIndexAny(s, " \t\n"); i > 0 {
		s = s[:i]
	}
	return s + "\n…"
}

func cut(s string) string {
	if utf8.RuneCountInString(s) <= Max {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == Max {
			return s[:i] + "…"
		}
	}
	return s
}

var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

// LooksSecret reports whether a value has the shape of a provider's key or of a
// private key.
func LooksSecret(value string) bool {
	return maskShapes(value) != value || privateKeys.MatchString(value)
}

// NamesSecret reports whether a value of this name, such as an environment
// variable's, is meant to be secret.
func NamesSecret(name string) bool { return secretName.MatchString(name) }
