package redact

import (
	"regexp"
	"strings"
)

// mask replaces every secret it knows in s by Mark.
func mask(s string) string {
	s = privateKeys.ReplaceAllString(s, Mark)
	if strings.Contains(s, "://") {
		s = urls.ReplaceAllStringFunc(s, maskURL)
	}
	s = schemes.ReplaceAllStringFunc(s, maskScheme)
	s = maskShapes(s)
	if !mentionsSecret(s) {
		return s
	}
	s = elements.ReplaceAllString(s, "${1}"+Mark)
	s = options.ReplaceAllString(s, "${1}"+Mark)
	return maskNamed(s)
}

// mentionsSecret is a quick look for the stems of names, because most texts
// hold none.
func mentionsSecret(s string) bool {
	s = strings.ToLower(s)
	for _, stem := range []string{"token", "key", "pass", "pwd", "secret", "authorization", "cookie", "credential", "signature"} {
		if strings.Contains(s, stem) {
			return true
		}
	}
	return false
}

// names are words that make the value behind them a secret.
const names = `(?:token|api[_-]?key|passw(?:or)?d|passwd|passphrase|pwd|secret|authorization|cookie|credential|private[_-]?key|access[_-]?key|signature)`

var (
	privateKeys = regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	urls        = regexp.MustCompile("[A-Za-z][A-Za-z0-9+.-]*://[^\\s\"'`<>\\\\]+")
	schemes     = regexp.MustCompile(`(?i)\b(?:bearer|basic)[ \t]+[A-Za-z0-9._~+/=*-]+`)
	elements    = regexp.MustCompile(`(?i)(<[a-z0-9_.:-]*` + names + `[a-z0-9_.-]*>)[^<]+`)
	options     = regexp.MustCompile(`(?i)(--[a-z0-9-]*` + names + `[a-z-]*[ \t]+)[^\s"'-][^\s"']*`)
	secretName  = regexp.MustCompile(`(?i)` + names)
	named       = regexp.MustCompile(`(?i)(` + names + `[a-z0-9_.-]*)(?:\\*["'\x60])?[ \t]*(?:=>|:=|[:=])[ \t]*`)
)

// shapes are the keys of providers: what they begin with, and the whole of them.
// The beginning is looked for first, because most texts hold none.
var shapes = []struct {
	prefix string
	whole  *regexp.Regexp
}{
	{"sk-", regexp.MustCompile(`\bsk-[A-Za-z0-9_*-]{8,}|sk-(?:ant|proj|or|svcacct)-[A-Za-z0-9_*-]+`)},
	{"k_live_", regexp.MustCompile(`[rsp]k_live_[A-Za-z0-9]{8,}`)},
	{"k_test_", regexp.MustCompile(`[rsp]k_test_[A-Za-z0-9]{8,}`)},
	{"gh", regexp.MustCompile(`gh[pousr]_[A-Za-z0-9]{16,}`)},
	{"github_pat_", regexp.MustCompile(`github_pat_[A-Za-z0-9_]{16,}`)},
	{"glpat-", regexp.MustCompile(`glpat-[A-Za-z0-9_-]{16,}`)},
	{"AKIA", regexp.MustCompile(`AKIA[A-Z0-9]{12,}`)},
	{"ASIA", regexp.MustCompile(`ASIA[A-Z0-9]{12,}`)},
	{"xox", regexp.MustCompile(`xox[a-z]-[A-Za-z0-9-]{8,}`)},
	{"xapp-", regexp.MustCompile(`xapp-[A-Za-z0-9-]{8,}`)},
	{"AIza", regexp.MustCompile(`AIza[A-Za-z0-9_-]{20,}`)},
	{"ya29.", regexp.MustCompile(`ya29\.[A-Za-z0-9_-]{16,}`)},
	{"eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`)},
	{"hf_", regexp.MustCompile(`\bhf_[A-Za-z0-9]{16,}`)},
	{"npm_", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{20,}`)},
	{"gsk_", regexp.MustCompile(`\bgsk_[A-Za-z0-9]{16,}`)},
	{"xai-", regexp.MustCompile(`\bxai-[A-Za-z0-9]{16,}`)},
}

// maskShapes masks the keys of providers.
func maskShapes(s string) string {
	for _, k := range shapes {
		if strings.Contains(s, k.prefix) {
			s = k.whole.ReplaceAllString(s, Mark)
		}
	}
	return s
}

// maskURL takes the login, the query and the fragment out of a URL; scheme, host
// and path stay.
func maskURL(u string) string {
	i := strings.Index(u, "://") + len("://")
	scheme, rest := u[:i], u[i:]
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// A password may hold a raw / ? or #: then what stands before it is no host and port.
	if !strings.Contains(rest[:end], "@") && strings.Contains(rest, "@") && !hostPort(rest[:end]) {
		end = strings.LastIndex(rest, "@") + 1
	}
	if at := strings.LastIndex(rest[:end], "@"); at >= 0 {
		rest = Mark + rest[at:]
		end += len(Mark) - at
	}
	if i := strings.IndexAny(rest[end:], "?#"); i >= 0 && end+i+1 < len(rest) {
		rest = rest[:end+i+1] + Mark
	}
	return scheme + rest
}

// hostPort reports whether s can be a host with an optional port.
func hostPort(s string) bool {
	i := strings.LastIndexByte(s, ':')
	return i < 0 || strings.HasSuffix(s, "]") || strings.Trim(s[i+1:], "0123456789") == ""
}

// maskScheme masks the value of an HTTP authorization; "bearer token" and "basic
// authentication" in a sentence stay.
func maskScheme(s string) string {
	i := strings.IndexAny(s, " \t")
	value := strings.TrimLeft(s[i:], " \t")
	prose := prose[strings.ToLower(strings.Trim(value, "."))]
	if strings.EqualFold(s[:i], "basic") && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz.") == "" {
		prose = true
	}
	if prose {
		return s
	}
	return s[:len(s)-len(value)] + Mark
}

// prose are words that follow a name in a sentence and are no secret.
var prose = map[string]bool{
	"token": true, "tokens": true, "auth": true, "authentication": true, "authorization": true, "scheme": true, "header": true, "realm": true,
	"expired": true, "invalid": true, "missing": true, "revoked": true, "required": true, "empty": true, "not": true, "unauthorized": true,
	"none": true, "null": true, "true": true, "false": true,
}

// maskNamed masks what follows a secret's name and a separator: key=value, YAML,
// headers, JSON, also JSON inside a JSON string.
func maskNamed(s string) string {
	var out strings.Builder
	for {
		m := named.FindStringSubmatchIndex(s)
		if m == nil {
			out.WriteString(s)
			return out.String()
		}
		name, rest := strings.ToLower(s[m[2]:m[3]]), s[m[1]:]
		out.WriteString(s[:m[1]])
		open, value := secretValue(name, rest)
		if value == 0 || harmless(name, rest[open:open+value]) {
			s = rest
			continue
		}
		out.WriteString(rest[:open] + Mark)
		s = rest[open+value:]
	}
}

// harmless reports whether a value is no secret in spite of its name: a number
// of tokens, or a word of a sentence.
func harmless(name, value string) bool {
	value = strings.ToLower(strings.TrimRight(value, ".,;)}]"))
	return prose[value] || strings.HasPrefix(name, "tokens") && strings.Trim(value, "0123456789.,") == ""
}

// secretValue finds the value at the start of s: the length of its opening quote
// and its own length.
func secretValue(name, s string) (open, length int) {
	line := s
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		line = s[:i]
	}
	slashes := len(line) - len(strings.TrimLeft(line, `\`))
	if slashes < len(line) && strings.IndexByte("\"'`", line[slashes]) >= 0 {
		quote := line[:slashes+1]
		return len(quote), quotedEnd(line[len(quote):], quote)
	}
	if strings.HasPrefix(name, "authorization") || strings.HasPrefix(name, "cookie") {
		return 0, len(strings.TrimRight(line, " \t"))
	}
	if strings.HasPrefix(line, Mark) {
		return 0, wordEnd(line[len(Mark):], " \t\"'`,;&}])") + len(Mark)
	}
	if strings.HasPrefix(line, "{") || strings.HasPrefix(line, "[") {
		return 0, bracketEnd(line)
	}
	return 0, wordEnd(line, " \t\"'`")
}

// wordEnd returns where the first of the stops stands in s, or its end.
func wordEnd(s, stops string) int {
	if i := strings.IndexAny(s, stops); i >= 0 {
		return i
	}
	return len(s)
}

// quotedEnd returns where the closing quote stands, or the end of the line.
func quotedEnd(s, quote string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], quote)
		if i < 0 {
			return len(s)
		}
		i += from
		before := strings.TrimRight(s[:i], `\`)
		if (i-len(before))%2 == 0 {
			return i
		}
		from = i + len(quote)
	}
}

// bracketEnd returns the length of the object or list at the start of s, or of the line.
func bracketEnd(s string) int {
	depth := 0
	for i, c := range []byte(s) {
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}
