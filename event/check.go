package event

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// fieldError is a payload field that doesn't fit, with the way to it.
type fieldError struct {
	path    string
	problem string
}

func (e *fieldError) Error() string { return e.path + " " + e.problem }

// wrapField puts the name of the enclosing field before err's path.
func wrapField(name string, err error) error {
	if f, ok := err.(*fieldError); ok { //nolint:errorlint // only generated checks call this, with errors of this file
		return &fieldError{path: name + "." + f.path, problem: f.problem}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// withinItem is wrapField for element i of a list.
func withinItem(name string, i int, err error) error {
	return wrapField(fmt.Sprintf("%s[%d]", name, i), err)
}

func missingField(name string) error { return &fieldError{path: name, problem: "is missing"} }

func notOneOf(name, value, allowed string) error {
	return &fieldError{path: name, problem: fmt.Sprintf("is %q, not one of: %s", value, allowed)}
}

// maxRawDepth bounds the nesting of a raw value, so that every JSON reader that
// has a limit of its own can still read the event around it.
const maxRawDepth = 512

// checkRaw reports why raw can't be carried; none is fine.
func checkRaw(name string, raw Raw) error {
	switch {
	case len(raw) == 0:
	case !json.Valid(raw):
		return &fieldError{path: name, problem: "is not a JSON value"}
	case !utf8.Valid(raw):
		return &fieldError{path: name, problem: "is not UTF-8"}
	case rawDepth(raw) > maxRawDepth:
		return &fieldError{path: name, problem: fmt.Sprintf("is nested deeper than %d", maxRawDepth)}
	}
	return nil
}

// rawDepth returns how deep a valid JSON value is nested.
func rawDepth(raw Raw) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func checkNonNegative(name string, v int64) error {
	if v < 0 {
		return &fieldError{path: name, problem: fmt.Sprintf("is %d, less than 0", v)}
	}
	return nil
}

func checkFloat(name string, f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return &fieldError{path: name, problem: "is not a number that JSON can say"}
	}
	return nil
}

func checkTime(name string, t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > maxYear {
		return &fieldError{path: name, problem: fmt.Sprintf("is in the year %d, which RFC 3339 can't say", y)}
	}
	return nil
}
