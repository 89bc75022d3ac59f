package atif

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Rule names what a document breaks.
type Rule string

// The rules.
const (
	// RuleShape: it isn't JSON, something required is missing, or a value has the
	// wrong type.
	RuleShape Rule = "shape"
	// RuleVersion: the version is unknown.
	RuleVersion Rule = "version"
	// RuleClosed: a member that the format doesn't know.
	RuleClosed Rule = "closed"
	// RuleStepIDs: steps are not numbered from 1 without gaps.
	RuleStepIDs Rule = "step_ids"
	// RuleAgentOnly: a step of the user or the system has what only agents have.
	RuleAgentOnly Rule = "agent_only"
	// RuleTimestamp: a time isn't ISO 8601.
	RuleTimestamp Rule = "timestamp"
	// RuleSourceCall: a result names a call that its step doesn't have.
	RuleSourceCall Rule = "source_call"
	// RuleDuplicateCall: two calls of a step have the same id.
	RuleDuplicateCall Rule = "duplicate_call"
	// RuleNoCall: a step without a call of a model has metrics or reasoning.
	RuleNoCall Rule = "no_call"
	// RuleEmbedded: an embedded trajectory has no id, or that of another.
	RuleEmbedded Rule = "embedded"
	// RuleDangling: a reference without a path names nothing that is embedded.
	RuleDangling Rule = "dangling"
	// RuleEmptyRef: a reference has neither an id nor a path.
	RuleEmptyRef Rule = "empty_ref"
	// RulePart: a part of content has what another kind has, or lacks its own.
	RulePart Rule = "part"
)

// Invalid says where a document breaks which rule.
type Invalid struct {
	Path   string
	Rule   Rule
	Reason string
}

func (e *Invalid) Error() string {
	return fmt.Sprintf("atif: %s: %s (rule %s)", e.Path, e.Reason, e.Rule)
}

// maxDepth bounds how deep trajectories are embedded in each other.
const maxDepth = 32

// Validate reports the first thing in a document that ATIF doesn't allow, as an
// [*Invalid].
func Validate(doc []byte) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = fmt.Errorf("something follows the document")
		}
	}
	if err != nil {
		return &Invalid{"$", RuleShape, "it is not one JSON document: " + err.Error()}
	}
	c := &checker{}
	c.trajectory("$", v, 0)
	if c.bad != nil {
		return c.bad
	}
	return nil
}

// checker keeps the first thing that is wrong.
type checker struct{ bad *Invalid }

func (c *checker) refusef(path string, rule Rule, format string, args ...any) {
	if c.bad == nil {
		c.bad = &Invalid{path, rule, fmt.Sprintf(format, args...)}
	}
}

// check judges the value of a member.
type check func(c *checker, path string, v any)

// member is what an object may have. A member that isn't required may be null.
type member struct {
	required bool
	check    check
}

type members map[string]member

func need(k check) member { return member{true, k} }
func may(k check) member  { return member{false, k} }

// object checks a closed object and returns it; nil if it is none.
func (c *checker) object(path string, v any, ms members) map[string]any {
	o, ok := v.(map[string]any)
	if !ok {
		c.refusef(path, RuleShape, "an object is expected")
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if _, known := ms[name]; !known {
			c.refusef(path+"."+name, RuleClosed, "there is no such member")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ms)) {
		m, value := ms[name], o[name]
		switch {
		case value != nil:
			m.check(c, path+"."+name, value)
		case m.required:
			c.refusef(path+"."+name, RuleShape, "it is missing")
		}
	}
	return o
}

func listOf(k check) check {
	return func(c *checker, path string, v any) {
		l, ok := v.([]any)
		if !ok {
			c.refusef(path, RuleShape, "a list is expected")
		}
		for i, x := range l {
			k(c, fmt.Sprintf("%s[%d]", path, i), x)
		}
	}
}

func checkText(c *checker, path string, v any) {
	if _, ok := v.(string); !ok {
		c.refusef(path, RuleShape, "a text is expected")
	}
}

func boolean(c *checker, path string, v any) {
	if _, ok := v.(bool); !ok {
		c.refusef(path, RuleShape, "true or false is expected")
	}
}

func anyObject(c *checker, path string, v any) {
	if _, ok := v.(map[string]any); !ok {
		c.refusef(path, RuleShape, "an object is expected")
	}
}

func checkNumber(c *checker, path string, v any) {
	n, ok := v.(json.Number)
	if ok {
		_, err := n.Float64()
		ok = err == nil
	}
	if !ok {
		c.refusef(path, RuleShape, "a number is expected")
	}
}

func integer(c *checker, path string, v any) {
	if f, ok := floatOf(v); !ok || f != math.Trunc(f) {
		c.refusef(path, RuleShape, "a whole number is expected")
	}
}

func floatOf(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// least is a check for numbers that are not smaller than a bound.
func least(bound float64, k check) check {
	return func(c *checker, path string, v any) {
		k(c, path, v)
		if f, ok := floatOf(v); ok && f < bound {
			c.refusef(path, RuleShape, "it is smaller than %g", bound)
		}
	}
}

func effort(c *checker, path string, v any) {
	if _, ok := v.(string); !ok {
		checkNumber(c, path, v)
	}
}

func checkVersion(c *checker, path string, v any) {
	if s, ok := v.(string); !ok || !versions[s] {
		c.refusef(path, RuleVersion, "%v is not a version of the format", v)
	}
}

// isoTime is the shape of a time; whether the numbers are those of a calendar is
// asked of package time.
var isoTime = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2})?(?:[.,]\d{1,9})?(Z|[+-]\d{2}:?\d{2}(?::?\d{2})?)?)?$`)

func timestamp(c *checker, path string, v any) {
	s, ok := v.(string)
	if !ok {
		c.refusef(path, RuleTimestamp, "a time is a text")
		return
	}
	m := isoTime.FindStringSubmatch(s)
	if m != nil {
		clock, seconds := m[2], m[3]
		if clock == "" {
			clock = "00:00"
		}
		if seconds == "" {
			seconds = ":00"
		}
		if _, err := time.Parse("2006-01-02T15:04:05", m[1]+"T"+clock+seconds); err == nil {
			return
		}
	}
	c.refusef(path, RuleTimestamp, "%q is not a time of ISO 8601", s)
}

func stringField(o map[string]any, name string) string {
	s, _ := o[name].(string)
	return s
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
