package tool

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a validation. A schema may come from a stranger and the document from
// another, and the validator can't be interrupted: what it would do is counted first.
const (
	// maxValidation bounds how often schemas are applied to values of a document.
	maxValidation = 1_000_000
	// patternSteps are the steps of a pattern that count as one application.
	patternSteps = 100
	// listSteps are the entries of a schema's lists that count as one.
	listSteps = 8
	// maxCostDepth bounds how deeply schemas and values are nested together.
	maxCostDepth = 10_000
	// maxPatternSize bounds the size of a pattern with its repetitions written out.
	maxPatternSize = 10_000
)

var (
	errTooCostly  = errors.New("too large or too deep for this schema: to check it would take too long")
	errBigPattern = errors.New("the pattern is too large")
)

// pattern is a regular expression that knows its size; re is nil for one that accepts
// everything.
type pattern struct {
	text string
	re   *regexp.Regexp
	size int
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

// String implements [jsonschema.Regexp].
func (p *pattern) String() string { return p.text }

// strictPattern refuses what can't be checked.
func strictPattern(text string) (jsonschema.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := patternSize(parsed)
	if size > maxPatternSize {
		return nil, errBigPattern
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{text: text, re: re, size: size}, nil
}

// lenientPattern accepts every text where the pattern can't be checked. Lookaheads
// in particular are common in schemas that were made from TypeScript types.
func lenientPattern(text string) (jsonschema.Regexp, error) {
	p, err := strictPattern(text)
	if err != nil {
		return &pattern{text: text}, nil //nolint:nilerr // see above
	}
	return p, nil
}

// patternSize estimates the size of a compiled pattern without compiling it.
func patternSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n = min(n+patternSize(sub), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxPatternSize+1)
}

// value is a part of a document, as far as the cost of a validation goes.
type value struct {
	text  int // the length of a string
	names []string
	parts []*value
}

// costing counts what a validation would do. Each pair of a schema and a value is
// looked at once, so counting is no more work than a validation without repetitions.
type costing struct {
	known        map[costKey]int
	nodes, depth int
}

type costKey struct {
	schema *jsonschema.Schema
	value  *value
}

// costOf returns how often schemas would be applied, at most maxValidation+1.
func costOf(s *jsonschema.Schema, doc any) int {
	c := &costing{known: map[costKey]int{}}
	v := c.newValue(doc)
	if c.nodes > maxValidation {
		return c.nodes
	}
	return c.count(s, v)
}

func (c *costing) newValue(doc any) *value {
	v := &value{}
	if c.nodes++; c.nodes > maxValidation {
		return v
	}
	switch doc := doc.(type) {
	case string:
		v.text = len(doc)
	case []any:
		for _, part := range doc {
			v.parts = append(v.parts, c.newValue(part))
		}
	case map[string]any:
		for name, part := range doc {
			v.names = append(v.names, name)
			v.parts = append(v.parts, c.newValue(part))
		}
	}
	return v
}

// count returns how often schemas are applied to a value and its parts if s is.
func (c *costing) count(s *jsonschema.Schema, v *value) int {
	if s == nil {
		return 0
	}
	key := costKey{s, v}
	if n, ok := c.known[key]; ok {
		return n
	}
	if len(c.known) > maxValidation || c.depth > maxCostDepth {
		return maxValidation + 1
	}
	c.depth++
	defer func() { c.depth-- }()
	c.known[key] = 1 // a schema that leads to itself on the same value is stopped by the validator
	n := 1 + ownCost(s)/listSteps + matchCost(s.Pattern, v.text)
	add := func(more int) { n = min(n+more, maxValidation+1) }
	for _, sub := range sameValue(s) {
		add(c.count(sub, v))
	}
	for i, part := range v.parts {
		if n > maxValidation {
			break
		}
		c.addPart(s, v, i, part, add)
	}
	c.known[key] = n
	return n
}

// addPart counts what a schema does with a part of a value.
func (c *costing) addPart(s *jsonschema.Schema, v *value, i int, part *value, add func(int)) {
	for _, sub := range everyPart(s) {
		add(c.count(sub, part))
	}
	if v.names == nil {
		return
	}
	name := v.names[i]
	add(c.count(s.Properties[name], part))
	add(c.count(s.PropertyNames, &value{text: len(name)}))
	for re, sub := range s.PatternProperties {
		add(matchCost(re, len(name)) + c.count(sub, part))
	}
}

// ownCost is the length of the lists that a schema goes through for a value.
func ownCost(s *jsonschema.Schema) int {
	n := len(s.Properties) + len(s.Required) + len(s.DependentRequired)
	if s.Enum != nil {
		n += len(s.Enum.Values)
	}
	return n
}

// matchCost is what it costs to look for a pattern in a text.
func matchCost(re jsonschema.Regexp, length int) int {
	p, ok := re.(*pattern)
	if !ok || p.re == nil {
		return 0
	}
	return min(p.size*length/patternSteps, maxValidation+1)
}

// sameValue returns the schemas that apply to the same value.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	list = append(append(append(list, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, dep := range s.DependentSchemas {
		list = append(list, dep)
	}
	for _, dep := range s.Dependencies {
		if sub, ok := dep.(*jsonschema.Schema); ok {
			list = append(list, sub)
		}
	}
	return list
}

// everyPart returns the schemas that may apply to any part of a value.
func everyPart(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems}
	list = append(list, s.PrefixItems...)
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch v := v.(type) {
		case *jsonschema.Schema:
			list = append(list, v)
		case []*jsonschema.Schema:
			list = append(list, v...)
		}
	}
	return list
}

// dynamic reports whether a schema, or one below it, has a reference whose target
// depends on how it was reached: then its cost isn't known.
func dynamic(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		return true
	}
	below := append(append(sameValue(s), everyPart(s)...), s.PropertyNames)
	for _, sub := range s.Properties {
		below = append(below, sub)
	}
	for _, sub := range s.PatternProperties {
		below = append(below, sub)
	}
	for _, sub := range below {
		if dynamic(sub, seen) {
			return true
		}
	}
	return false
}
