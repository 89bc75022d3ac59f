package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"agentd/event"
	"agentd/internal/clip"
)

// answer is what a hook says.
type answer struct {
	decision, reason string
	input, output    event.Raw
	context          []string
	suppress         bool
	audit            []string
}

// Bounds of what is kept of an answer's parts.
const (
	maxReason = 4 << 10
	maxRefs   = 100
)

// parseAnswer reads one object, strictly: every name is known and there once.
func parseAnswer(data []byte) (*answer, error) {
	a := &answer{decision: Continue}
	if len(data) > MaxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", MaxAnswer)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return a, nil
	}
	if !utf8.Valid(data) {
		return nil, errors.New("the answer is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the answer is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, isName := t.(string)
		if err != nil || !isName {
			return nil, errors.New("the answer is not a JSON object")
		}
		if seen[name] {
			return nil, fmt.Errorf("%q appears twice", name)
		}
		seen[name] = true
		var raw event.Raw
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%q can't be read: %w", name, err)
		}
		if err := a.set(name, raw); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("the answer is an incomplete JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more text after the answer")
	}
	return a, nil
}

// set takes one field. null is as if it weren't there.
func (a *answer) set(name string, raw event.Raw) error {
	var into any
	switch name {
	case "decision":
		into = &a.decision
	case "reason":
		into = &a.reason
	case "updatedInput":
		into = &a.input
	case "updatedOutput":
		into = &a.output
	case "additionalContext":
		into = &a.context
		if text := ""; json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
			a.context = []string{text}
			return nil
		}
	case "suppressOutput":
		into = &a.suppress
	case "auditRefs":
		into = &a.audit
	default:
		return fmt.Errorf("%q is not a field of an answer", name)
	}
	if string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%q has the wrong type", name)
	}
	switch {
	case rank(a.decision) < 0:
		return fmt.Errorf("decision %q is not one of continue, block, allow, deny, ask", clip.Valid(a.decision, 40))
	case len(a.audit) > maxRefs || len(a.context) > maxRefs:
		return fmt.Errorf("%q has more than %d entries", name, maxRefs)
	}
	a.reason = clip.Valid(a.reason, maxReason)
	return nil
}

// fits says that an answer makes no sense at its point.
func (a *answer) fits(p Point) *failure {
	malformed := func(format string, args ...any) *failure {
		return &failure{category: "malformed", message: fmt.Sprintf(format, args...)}
	}
	tool := p == PreToolUse || p == PermissionRequest
	switch {
	case a.input != nil && !tool && p != UserPromptSubmit:
		return malformed("updatedInput has no meaning at %s", p)
	case a.input != nil && tool && bytes.TrimSpace(a.input)[0] != '{':
		return malformed("updatedInput of a tool must be an object")
	case a.output != nil && p != PostToolUse && p != PostToolFailure:
		return malformed("updatedOutput has no meaning at %s", p)
	}
	return nil
}
