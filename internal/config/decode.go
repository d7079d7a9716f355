package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"rota/internal/redact"
)

// document reads one file into a struct and remembers where each key stood and
// all that is wrong. The library's own decoder stops at the first mistake.
type document struct {
	file     string
	lines    map[string]int // by key, such as services.claude.agent
	problems Problems
}

func (d *document) report(line int, key, hint, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Key: key, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// read fills into from the text and returns what is wrong with its form.
func (d *document) read(text []byte, into any) {
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, message := 0, "can't be read as YAML"
		if e, ok := errors.AsType[yaml.Error](err); ok {
			message = redact.Text(e.GetMessage())
			if t := e.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
		}
		d.report(line, "", "", "%s", message)
		return
	}
	if len(file.Docs) > 1 {
		d.report(0, "", "remove what follows the first ---", "there is more than one document")
	}
	if len(file.Docs) > 0 && file.Docs[0].Body != nil {
		d.value(file.Docs[0].Body, "", reflect.ValueOf(into).Elem())
	}
}

// value stores a node in v and reports what does not fit.
func (d *document) value(n ast.Node, key string, v reflect.Value) {
	line := lineOf(n)
	if n.Type() == ast.NullType || n.Type() == ast.CommentType || n.Type() == ast.CommentGroupType {
		return
	}
	switch v.Interface().(type) {
	case time.Duration:
		if text, ok := d.scalar(n, key, "a duration such as 30s, 15m or 7d"); ok {
			dur, err := ParseDuration(text)
			if err != nil {
				d.report(line, key, "write a duration such as 30s, 15m or 7d", "%v", err)
			}
			v.SetInt(int64(dur))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		if text, ok := d.scalar(n, key, "a text"); ok {
			v.SetString(text)
		}
	case reflect.Int:
		if text, ok := d.scalar(n, key, "a number"); ok {
			i, err := strconv.Atoi(text)
			switch {
			case err != nil:
				d.report(line, key, "", "%q is no number", short(text))
			case i < 1:
				d.report(line, key, "leave the key out for the default", "%d is less than 1", i)
			}
			v.SetInt(int64(i))
		}
	case reflect.Bool:
		if text, ok := d.scalar(n, key, "true or false"); ok {
			b, err := strconv.ParseBool(text)
			if err != nil {
				d.report(line, key, "write true or false", "%q is neither true nor false", short(text))
			}
			v.SetBool(b)
		}
	case reflect.Slice:
		d.list(n, key, v)
	case reflect.Map:
		d.table(n, key, v)
	case reflect.Struct:
		d.fields(n, key, v)
	}
}

// scalar returns the text of a simple value.
func (d *document) scalar(n ast.Node, key, want string) (string, bool) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = n.GetToken().Value
	default:
		d.report(lineOf(n), key, "", "%s is not %s", kind(n), want)
		return "", false
	}
	if redact.LooksSecret(text) {
		d.report(lineOf(n), key, "put the login into a file or an environment variable and name it under credentials", "the value looks like a key")
		return "", false
	}
	return text, true
}

func (d *document) list(n ast.Node, key string, v reflect.Value) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.report(lineOf(n), key, "write [a, b]", "%s is not a list", kind(n))
		return
	}
	for i, item := range seq.Values {
		element := reflect.New(v.Type().Elem()).Elem()
		at := fmt.Sprintf("%s[%d]", key, i)
		d.lines[at] = lineOf(item)
		d.value(item, at, element)
		v.Set(reflect.Append(v, element))
	}
}

func (d *document) table(n ast.Node, key string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, key, func(name, at string, value ast.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, at, element)
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), element)
	})
}

func (d *document) fields(n ast.Node, key string, v reflect.Value) {
	fields := map[string]reflect.Value{}
	names := fieldsOf(v, fields)
	d.pairs(n, key, func(name, at string, value ast.Node) {
		if field, ok := fields[name]; ok {
			d.value(value, at, field)
			return
		}
		d.report(d.lines[at], at, like(name, names), "unknown key")
	})
}

// fieldsOf collects the fields of a struct by key, and the keys in order.
func fieldsOf(v reflect.Value, fields map[string]reflect.Value) []string {
	var names []string
	for i := range v.NumField() {
		name, rest, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case rest == "inline":
			names = append(names, fieldsOf(v.Field(i), fields)...)
		case name != "" && name != "-":
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	return names
}

// pairs calls f for each key of a mapping, once.
func (d *document) pairs(n ast.Node, key string, f func(name, at string, value ast.Node)) {
	var entries []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	default:
		d.report(lineOf(n), key, "write key: value", "%s is not a table of keys", kind(n))
		return
	}
	seen := map[string]bool{}
	for _, e := range entries {
		var name string
		if k, ok := ast.Node(e.Key).(ast.ScalarNode); ok && k.GetToken() != nil {
			name = k.GetToken().Value
		}
		at := strings.TrimPrefix(key+"."+short(name), ".")
		line := lineOf(e.Key)
		switch {
		case name == "" || e.Key.IsMergeKey():
			d.report(line, key, "write keys as plain words", "a key can't be read")
			continue
		case seen[name]:
			d.report(line, at, "", "the key stands twice")
			continue
		}
		seen[name] = true
		d.lines[at] = line
		f(name, at, e.Value)
	}
}

func lineOf(n ast.Node) int {
	if n == nil || reflect.ValueOf(n).IsNil() {
		return 0
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func kind(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a table"
	case ast.SequenceType:
		return "a list"
	case ast.AnchorType, ast.AliasType, ast.TagType:
		return "an anchor, alias or tag"
	}
	return "this value"
}

func short(s string) string {
	s = redact.Text(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// ParseDuration reads a positive duration: what time.ParseDuration reads, and
// whole days before it, such as 7d or 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	rest, sum := s, time.Duration(0)
	if days, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration", short(s))
		}
		rest, sum = after, time.Duration(n)*24*time.Hour
	}
	if rest != "" || sum == 0 {
		d, err := time.ParseDuration(rest)
		if err != nil || strings.ContainsAny(rest, "+-") {
			return 0, fmt.Errorf("%q is no duration", short(s))
		}
		if sum += d; sum <= 0 {
			return 0, fmt.Errorf("%q is not above zero", short(s))
		}
	}
	return sum, nil
}
