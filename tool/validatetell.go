package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agentd/internal/clip"
)

// maxFaults bounds how many faults of one document are reported: a model that reads
// five corrects the rest with them.
const maxFaults = 5

// validationError turns the validator's tree of errors into sentences.
func (s *Schema) validationError(doc any, ve *jsonschema.ValidationError) *Error {
	t := teller{schema: s, doc: doc}
	t.walk(ve)
	if more := len(t.faults) - maxFaults; more > 0 {
		t.faults = t.faults[:maxFaults]
		t.faults[maxFaults-1].Says += fmt.Sprintf(" (and %d more)", more)
	}
	said := make([]string, 0, len(t.faults))
	for _, m := range t.faults {
		said = append(said, m.String())
	}
	return &Error{
		Category: InvalidInput, Message: strings.Join(said, "; "), Misfits: t.faults,
		Advice: strings.Join(t.advice, " "),
	}
}

// Misfit is one place in a document that breaks its schema.
type Misfit struct {
	// At is the place as people write it, items[2].status; "" is the whole document.
	At string
	// Says is what was expected there and what was given.
	Says string
}

// String returns the misfit as one sentence.
func (m Misfit) String() string { return cmp.Or(m.At, "the value") + ": " + m.Says }

type teller struct {
	schema *Schema
	doc    any
	faults []Misfit
	advice []string
}

func (t *teller) walk(ve *jsonschema.ValidationError) {
	switch k := ve.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		t.alternatives(ve)
		return
	case *kind.AdditionalProperties:
		t.unknown(ve, k.Properties)
		return
	case *kind.Required:
		for _, name := range k.Missing {
			t.addf(writeLocation(append(slices.Clone(ve.InstanceLocation), name)), "is missing%s", t.wants(ve.SchemaURL, name))
		}
		return
	}
	if len(ve.Causes) == 0 {
		t.leaf(ve)
		return
	}
	// The validator takes the members of an object in any order.
	causes := slices.Clone(ve.Causes)
	slices.SortStableFunc(causes, func(a, b *jsonschema.ValidationError) int {
		return slices.CompareFunc(a.InstanceLocation, b.InstanceLocation, compareNames)
	})
	for _, c := range causes {
		t.walk(c)
	}
}

// compareNames orders names, and the indexes of a list by their value.
func compareNames(a, b string) int {
	if i, err := strconv.Atoi(a); err == nil {
		if j, err := strconv.Atoi(b); err == nil {
			return cmp.Compare(i, j)
		}
	}
	return cmp.Compare(a, b)
}

func (t *teller) addf(at, format string, args ...any) {
	fault := Misfit{At: at, Says: fmt.Sprintf(format, args...)}
	if !slices.Contains(t.faults, fault) {
		t.faults = append(t.faults, fault)
	}
}

// alternatives tells about the alternative that the value comes nearest to: the
// one that fails deepest in it, then the one with the fewest faults.
func (t *teller) alternatives(ve *jsonschema.ValidationError) {
	at := writeLocation(ve.InstanceLocation)
	if one, ok := ve.ErrorKind.(*kind.OneOf); ok && len(one.Subschemas) > 1 {
		t.addf(at, "satisfies %d of the alternatives, but must satisfy exactly one; given %s", len(one.Subschemas), t.given(ve))
		return
	}
	var best *teller
	bestDepth := -1
	for _, c := range ve.Causes {
		sub := &teller{schema: t.schema, doc: t.doc}
		sub.walk(c)
		d := depth(c)
		if best == nil || d > bestDepth || d == bestDepth && len(sub.faults) < len(best.faults) {
			best, bestDepth = sub, d
		}
	}
	if best == nil || bestDepth == len(ve.InstanceLocation) && len(ve.Causes) > 1 {
		t.addf(at, "satisfies none of the %d alternatives; given %s%s", len(ve.Causes), t.given(ve), best.first())
		return
	}
	t.faults = append(t.faults, best.faults...)
	t.advice = append(t.advice, best.advice...)
}

func (t *teller) first() string {
	if t == nil || len(t.faults) == 0 {
		return ""
	}
	return " (nearest: " + t.faults[0].String() + ")"
}

func depth(ve *jsonschema.ValidationError) int {
	d := len(ve.InstanceLocation)
	for _, c := range ve.Causes {
		d = max(d, depth(c))
	}
	return d
}

// unknown tells about properties that the schema doesn't have.
func (t *teller) unknown(ve *jsonschema.ValidationError, names []string) {
	known := slices.Sorted(maps.Keys(properties(t.schemaAt(ve.SchemaURL))))
	slices.Sort(names)
	for _, name := range names {
		hint := ""
		if like, ok := nearest(name, known); ok {
			hint = fmt.Sprintf("; did you mean %q?", like)
		}
		t.addf(writeLocation(append(slices.Clone(ve.InstanceLocation), name)), "is not a known property%s", hint)
	}
	if len(known) > 0 {
		t.advice = append(t.advice, "Known properties: "+someOf(known, 30)+".")
	}
}

// leaf tells about a single broken rule.
func (t *teller) leaf(ve *jsonschema.ValidationError) {
	at, given := writeLocation(ve.InstanceLocation), t.given(ve)
	switch k := ve.ErrorKind.(type) {
	case *kind.Type:
		t.addf(at, "expected %s, given %s", strings.Join(k.Want, " or "), given)
	case *kind.Enum:
		t.addf(at, "expected one of %s, given %s", values(k.Want), given)
	case *kind.Const:
		t.addf(at, "expected %s, given %s", compactText(k.Want), given)
	case *kind.Pattern:
		t.addf(at, "expected a text that matches %s, given %s", clip.Text(k.Want, 200), given)
	case *kind.Format:
		t.addf(at, "expected a text in the format %s, given %s", k.Want, given)
	case *kind.MinLength:
		t.addf(at, "expected at least %s, given %s", countText(k.Want, "character"), given)
	case *kind.MaxLength:
		t.addf(at, "expected at most %s, given %d", countText(k.Want, "character"), k.Got)
	case *kind.MinItems:
		t.addf(at, "expected at least %s, given %d", countText(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		t.addf(at, "expected at most %s, given %d", countText(k.Want, "item"), k.Got)
	case *kind.Minimum:
		t.addf(at, "expected a number not below %s, given %s", rat(k.Want), given)
	case *kind.Maximum:
		t.addf(at, "expected a number not above %s, given %s", rat(k.Want), given)
	case *kind.FalseSchema:
		t.addf(at, "must not be there")
	case *kind.ExclusiveMinimum:
		t.addf(at, "expected a number above %s, given %s", rat(k.Want), given)
	case *kind.ExclusiveMaximum:
		t.addf(at, "expected a number below %s, given %s", rat(k.Want), given)
	case *kind.MultipleOf:
		t.addf(at, "expected a multiple of %s, given %s", rat(k.Want), given)
	case *kind.UniqueItems:
		t.addf(at, "items %d and %d are equal, but each may occur only once", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		t.addf(at, "expected at least %s, given %d", countText(k.Want, "property"), k.Got)
	case *kind.MaxProperties:
		t.addf(at, "expected at most %s, given %d", countText(k.Want, "property"), k.Got)
	case *kind.DependentRequired:
		t.addf(at, "with %s there must be %s too", k.Prop, someOf(k.Missing, 10))
	default:
		t.addf(at, "does not satisfy the rule %s, given %s", rule(ve.ErrorKind), given)
	}
}

// rule names the keyword that was broken.
func rule(k jsonschema.ErrorKind) string {
	if names := k.KeywordPath(); len(names) > 0 {
		return strings.Join(names, "/")
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", k), "*kind."))
}

// wants describes a property of the schema at url, for one that is missing.
func (t *teller) wants(url, name string) string {
	p, ok := properties(t.schemaAt(url))[name].(map[string]any)
	if !ok {
		return ""
	}
	var said []string
	if typ, ok := p["type"].(string); ok {
		said = append(said, typ)
	}
	if d, ok := p["description"].(string); ok {
		said = append(said, clip.Text(d, 120))
	}
	if len(said) == 0 {
		return ""
	}
	return " (" + strings.Join(said, ": ") + ")"
}

func properties(schema any) map[string]any {
	m, _ := schema.(map[string]any)
	p, _ := m["properties"].(map[string]any)
	return p
}

// schemaAt returns the part of the schema that url points to; nil if it can't be found.
func (t *teller) schemaAt(url string) any {
	_, pointer, ok := strings.Cut(url, "#")
	if !ok {
		return nil
	}
	v := t.schema.doc
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part != "" {
			v = childOf(v, unescape.Replace(part))
		}
	}
	return v
}

// given shows the value that broke a rule.
func (t *teller) given(ve *jsonschema.ValidationError) string {
	v := t.doc
	for _, name := range ve.InstanceLocation {
		v = childOf(v, name)
	}
	switch v := v.(type) {
	case map[string]any:
		return fmt.Sprintf("an object with %s", countText(len(v), "property"))
	case []any:
		return fmt.Sprintf("an array of %s", countText(len(v), "item"))
	case string:
		return "the string " + compactText(v)
	case nil:
		return "null"
	default:
		return compactText(v)
	}
}

func childOf(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// writeLocation writes a location as people do: items[2].status. That of the whole
// document is empty.
func writeLocation(location []string) string {
	var b strings.Builder
	for _, name := range location {
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			b.WriteString("[" + name + "]")
		case b.Len() > 0:
			b.WriteString("." + clip.Text(name, 80))
		default:
			b.WriteString(clip.Text(name, 80))
		}
	}
	return b.String()
}

func values(list []any) string {
	said := make([]string, 0, len(list))
	for i, v := range list {
		if i == 20 {
			said = append(said, "…")
			break
		}
		said = append(said, compactText(v))
	}
	return strings.Join(said, ", ")
}

func compactText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "a value"
	}
	return clip.Text(string(b), 80)
}

func countText(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "y"):
		return strconv.Itoa(n) + " " + strings.TrimSuffix(what, "y") + "ies"
	default:
		return strconv.Itoa(n) + " " + what + "s"
	}
}

func rat(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// schemaFault says why a schema doesn't compile, in one line.
func schemaFault(err error) string {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if ve, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			for len(ve.Causes) > 0 {
				ve = ve.Causes[len(ve.Causes)-1]
			}
			return "at " + cmp.Or(writeLocation(ve.InstanceLocation), "the value") + " it breaks the rule " + rule(ve.ErrorKind) + " of JSON Schema"
		}
	}
	return clip.Text(strings.Join(strings.Fields(err.Error()), " "), 300)
}
