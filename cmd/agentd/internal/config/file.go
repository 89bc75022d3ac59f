package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"agentd/internal/yamlbound"
)

// maxFile bounds a configuration file.
const maxFile = 4 << 20

// Error is what is wrong with a configuration, and where.
type Error struct {
	// File, Line and Column are the place in a file, from 1; empty and 0 if the
	// value comes from elsewhere.
	File         string
	Line, Column int
	// Key is the path of the setting, such as providers[0].kind.
	Key string
	// Problem says what is wrong.
	Problem string
}

// Error implements error.
func (e *Error) Error() string {
	where := ""
	if e.File != "" {
		where = e.File + ": "
	}
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	}
	if e.Key == "" {
		return where + e.Problem
	}
	return where + e.Key + ": " + e.Problem
}

// place is a position in the file.
type place struct{ line, column int }

// fileValues is what a file says: values by the name of the setting, and where
// each key stands by its path.
type fileValues struct {
	name   string
	values map[string]any
	places map[string]place
	errs   []error
}

// readFile reads a configuration file. The error joins all that is wrong with it.
func readFile(path string) (*fileValues, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if len(data) > maxFile {
		return nil, &Error{File: path, Problem: "the file is larger than 4 MiB"}
	}
	return parseFile(path, data)
}

func parseFile(path string, data []byte) (f *fileValues, err error) {
	defer func() {
		// The parser of others gives up on some malformed files.
		if r := recover(); r != nil {
			f, err = nil, &Error{File: path, Problem: fmt.Sprintf("the file can't be parsed: %v", r)}
		}
	}()
	f = &fileValues{name: path, values: map[string]any{}, places: map[string]place{}}
	// A project's file comes with whatever was checked out.
	if err := yamlbound.Check(data, yamlbound.Limits{Bytes: maxFile, Collections: 64 << 10, Aliases: 1000}); err != nil {
		return nil, &Error{File: path, Problem: err.Error()}
	}
	// Some editors begin a file with a byte order mark, and YAML allows that.
	parsed, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, syntaxError(path, err)
	}
	if len(parsed.Docs) > 1 {
		f.failf(parsed.Docs[1].Body, "", "the file has more than one document")
	}
	if len(parsed.Docs) > 0 && parsed.Docs[0].Body != nil {
		f.root(parsed.Docs[0].Body)
	}
	return f, errors.Join(f.errs...)
}

func syntaxError(path string, err error) error {
	out := &Error{File: path, Problem: err.Error()}
	if y, ok := errors.AsType[yaml.Error](err); ok {
		out.Problem = y.GetMessage()
		if t := y.GetToken(); t != nil {
			out.Line, out.Column = t.Position.Line, t.Position.Column
		}
	}
	return out
}

func (f *fileValues) root(n ast.Node) {
	switch n.(type) {
	case *ast.NullNode, *ast.CommentGroupNode:
		return
	}
	if m, ok := f.mapping(n, ""); ok {
		f.object(m, "", "", f.values)
	}
}

// failf notes what is wrong at a node.
func (f *fileValues) failf(n ast.Node, key, format string, args ...any) {
	e := &Error{File: f.name, Key: key, Problem: fmt.Sprintf(format, args...)}
	if n != nil && n.GetToken() != nil {
		e.Line, e.Column = n.GetToken().Position.Line, n.GetToken().Position.Column
	}
	f.errs = append(f.errs, e)
}

// mapping returns the pairs of an object.
func (f *fileValues) mapping(n ast.Node, key string) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		f.failf(n, key, "anchors, aliases and tags are not supported")
	default:
		f.failf(n, key, "must be an object of keys and values")
	}
	return nil, false
}

// object reads the pairs of an object. The name is the object's in the table,
// with brackets and without indices; the path is the one in the file. Values go
// to out by the rest of their name.
func (f *fileValues) object(pairs []*ast.MappingValueNode, name, path string, out map[string]any) {
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		childName, childPath := join(name, key), join(path, key)
		if _, twice := f.places[childPath]; twice {
			f.failf(pair.Key, childPath, "the key is given twice")
			continue
		}
		f.places[childPath] = placeOf(pair.Key)
		f.value(pair, childName, childPath, out)
	}
}

func (f *fileValues) value(pair *ast.MappingValueNode, name, path string, out map[string]any) {
	if s := findSetting(name); s != nil {
		f.setting(s, pair.Value, path, out)
		return
	}
	if s := findSetting(name + "[]"); s != nil {
		f.objects(pair.Value, s.Name, path, out)
		return
	}
	if len(below(name)) == 0 {
		f.unknown(pair.Key, name, path)
		return
	}
	if _, empty := pair.Value.(*ast.NullNode); empty {
		return
	}
	if m, ok := f.mapping(pair.Value, path); ok {
		f.object(m, name, path, out)
	}
}

// unknown names a key that the table doesn't have, and one that may be meant.
func (f *fileValues) unknown(key ast.Node, name, path string) {
	parent := ""
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		parent = name[:i]
	}
	hint := ""
	if near := nearest(name[strings.LastIndexByte(name, '.')+1:], below(parent)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	f.failf(key, path, "unknown key%s", hint)
}

// objects reads a list of objects.
func (f *fileValues) objects(n ast.Node, name, path string, out map[string]any) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		if _, empty := n.(*ast.NullNode); !empty {
			f.failf(n, path, "must be a list of objects")
		}
		return
	}
	items := make([]any, 0, len(list.Values))
	for i, v := range list.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		pairs, ok := f.mapping(v, at)
		if !ok {
			continue
		}
		f.places[at] = placeOf(v)
		item := map[string]any{}
		f.object(pairs, name, at, item)
		f.required(v, name, at)
		items = append(items, nest(item, name))
	}
	out[name] = items
}

// required says which settings an object of a list lacks.
func (f *fileValues) required(n ast.Node, name, path string) {
	for _, key := range below(name) {
		s := findSetting(join(name, key))
		if s == nil || !s.Required {
			continue
		}
		if _, given := f.places[join(path, key)]; !given {
			f.failf(n, path, "%s is missing", key)
		}
	}
}

// setting reads one value.
func (f *fileValues) setting(s *Setting, n ast.Node, path string, out map[string]any) {
	if _, empty := n.(*ast.NullNode); empty {
		// An empty value is one that isn't given.
		delete(f.places, path)
		return
	}
	if s.Type == Texts || s.Type == Choices {
		f.list(s, n, path, out)
		return
	}
	if v, ok := f.scalar(s, n, path); ok {
		out[s.Name] = v
	}
}

func (f *fileValues) list(s *Setting, n ast.Node, path string, out map[string]any) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		f.failf(n, path, "must be a list, such as [a, b]")
		return
	}
	values := make([]any, 0, len(list.Values))
	for i, item := range list.Values {
		if v, ok := f.scalar(s, item, fmt.Sprintf("%s[%d]", path, i)); ok {
			values = append(values, v)
		}
	}
	out[s.Name] = values
}

// scalar reads a text, a number or a boolean.
func (f *fileValues) scalar(s *Setting, n ast.Node, path string) (any, bool) {
	var text string
	quoted := false
	switch n := n.(type) {
	case *ast.StringNode:
		text, quoted = n.Value, true
	case *ast.LiteralNode:
		text, quoted = n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		text = n.GetToken().Value
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		f.failf(n, path, "anchors, aliases and tags are not supported")
		return nil, false
	default:
		f.failf(n, path, "must be a single value: %s", s.Type)
		return nil, false
	}
	if !quoted && (s.Type == Text || s.Type == Texts || s.Type == ID) {
		f.failf(n, path, "must be text; write %q", text)
		return nil, false
	}
	if quoted && (s.Type == Integer || s.Type == Number || s.Type == Fraction || s.Type == Boolean) {
		article := "a"
		if s.Type == Integer {
			article = "an"
		}
		f.failf(n, path, "must be %s %s, not the text %q", article, s.Type, text)
		return nil, false
	}
	if text == "" && s.Required {
		f.failf(n, path, "is empty")
		return nil, false
	}
	v, err := s.parse(text)
	if err != nil {
		f.failf(n, path, "%v", err)
		return nil, false
	}
	return v, true
}

func placeOf(n ast.Node) place {
	t := n.GetToken()
	if t == nil {
		return place{}
	}
	return place{t.Position.Line, t.Position.Column}
}
