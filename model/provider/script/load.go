package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"

	"agentd/event"
)

// Load reads a script from a file. A mistake is an error that names its place.
func Load(path string) (*Script, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	s, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("script: %s:%w", path, err)
	}
	return s, nil
}

// Parse reads a script. Its error begins with the line and column of the mistake,
// as in "3:5: …".
func Parse(b []byte) (_ *Script, err error) {
	// The decoder has inputs at which it panics, found by fuzzing; a file that
	// someone wrote by hand must not end the program.
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("1:1: the file can't be read: %v", v)
		}
	}()
	var s Script
	if len(strings.TrimSpace(string(b))) == 0 {
		return &s, nil
	}
	if err := yaml.UnmarshalWithOptions(b, &s, yaml.Strict()); err != nil {
		return nil, positionError(b, err)
	}
	m := s.check()
	if m == nil {
		return &s, nil
	}
	line, column := findPosition(b, m.path)
	return nil, fmt.Errorf("%d:%d: %s", line, column, m.message)
}

// positionError gives an error of the decoder the form of ours.
func positionError(b []byte, err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		return fmt.Errorf("%d:%d: %s", p.Line, p.Column, strings.Replace(at.GetMessage(), "unknown field", "unknown key", 1))
	}
	// The decoder doesn't say where a duration is that it can't read.
	for _, token := range lexer.Tokenize(string(b)) {
		if strings.HasSuffix(err.Error(), strconv.Quote(token.Value)) {
			return fmt.Errorf("%d:%d: %w", token.Position.Line, token.Position.Column, err)
		}
	}
	return fmt.Errorf("1:1: %w", err)
}

// findPosition returns the place of a value, or of the nearest one around it.
func findPosition(b []byte, path string) (line, column int) {
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		return 1, 1
	}
	for ; path != ""; path = outer(path) {
		p, err := yaml.PathString(path)
		if err != nil {
			continue
		}
		node, err := p.FilterFile(file)
		if err != nil || node == nil {
			continue
		}
		at := firstKey(node).GetToken().Position
		return at.Line, at.Column
	}
	return 1, 1
}

// firstKey is the first key of a mapping; its own token is the colon after it.
func firstKey(n ast.Node) ast.Node {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			return m.Values[0].Key
		}
	case *ast.MappingValueNode:
		return m.Key
	}
	return n
}

// outer is the path without its last step.
func outer(path string) string {
	cut := strings.LastIndexAny(path, ".[")
	if cut <= 0 {
		return ""
	}
	return path[:cut]
}

// mistake is something that a script may not say, and where it says it.
type mistake struct{ path, message string }

var (
	categories  = event.EnumValues("@modelFailure")
	stopReasons = event.EnumValues("@modelStop")
)

// maxChunks is more pieces than any answer needs.
const maxChunks = 1_000_000

// check returns the first mistake, or nil.
func (s *Script) check() *mistake {
	for i := range s.Answers {
		path := fmt.Sprintf("$.answers[%d]", i)
		if m := s.Answers[i].check(path); m != nil {
			return m
		}
	}
	return nil
}

func (a *Answer) check(path string) *mistake {
	if a.StopReason != "" && !slices.Contains(stopReasons, a.StopReason) {
		return &mistake{path + ".stopReason", fmt.Sprintf("unknown stop reason %q; there are %s", a.StopReason, strings.Join(stopReasons, " "))}
	}
	if e := a.Error; e != nil && !slices.Contains(categories, e.Category) {
		return &mistake{path + ".error.category", fmt.Sprintf("unknown error category %q; there are %s", e.Category, strings.Join(categories, " "))}
	}
	switch {
	case a.When != nil && a.When.Contains == "":
		return &mistake{path + ".when", `"when" says nothing: give it a text in "contains"`}
	case a.Chunks < 0 || a.Chunks > maxChunks:
		return &mistake{path + ".chunks", fmt.Sprintf(`"chunks" is not between 0 and %d`, maxChunks)}
	case a.Delay < 0:
		return &mistake{path + ".delay", `"delay" is negative`}
	case a.Stall < 0:
		return &mistake{path + ".stall", `"stall" is negative`}
	case a.Error != nil && a.StopReason != "":
		return &mistake{path + ".stopReason", "an answer that fails has no stop reason"}
	case a.empty():
		return &mistake{path, "the answer is empty: it has no text, reasoning, tools, ask, error or stall"}
	}
	for i := range a.Tools {
		if m := a.Tools[i].check(fmt.Sprintf("%s.tools[%d]", path, i)); m != nil {
			return m
		}
	}
	return nil
}

func (a *Answer) empty() bool {
	return a.Text == "" && a.Reasoning == "" && len(a.Tools) == 0 && a.Ask == nil && a.Error == nil && a.Stall == 0 && a.StopReason == "" && a.Usage == nil
}

func (t *Tool) check(path string) *mistake {
	switch {
	case t.Name == "":
		return &mistake{path, "the tool has no name"}
	case t.Malformed != "" && t.Arguments != nil:
		return &mistake{path + ".malformed", `"malformed" stands in place of "arguments"`}
	}
	if _, err := json.Marshal(t.Arguments); err != nil {
		return &mistake{path + ".arguments", "the arguments are not JSON: " + err.Error()}
	}
	return nil
}
