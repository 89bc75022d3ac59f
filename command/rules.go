package command

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// Bounds that hold where a field's tags give none.
const (
	defaultText = 64 << 10
	defaultList = 1000
	// defaultMs, a hundred years, is the longest time: a time that far from any other can
	// still be told, and a longer one would come before it.
	defaultMs = 3_153_600_000_000
)

// rule is what the tags of one field ask of its value.
type rule struct {
	index    int
	name     string
	required bool
	enum     []string
	id       bool
	object   bool
	signed   bool
	// input says that the field is a list of parts.
	input bool
	// secret says what happens to a secret in the field.
	secret   string
	min, max *float64
	// inner are the rules of the struct that the field, or each of its elements, holds.
	inner *rules
	// embedded fields are checked as fields of their owner.
	embedded bool
}

// rules are those of one struct.
type rules struct{ fields []rule }

// compiled keeps the rules of each type: tags are read once.
var compiled sync.Map // reflect.Type to *rules

// check validates parameters against the tags of their struct.
func check(p Params) error {
	v := reflect.ValueOf(p).Elem()
	if bad := rulesOf(v.Type()).check(v); bad != nil {
		return fault.Param(bad.path, "%s", bad.reason)
	}
	return nil
}

// misfit is a value that a rule doesn't allow.
type misfit struct{ path, reason string }

func bad(format string, args ...any) *misfit { return &misfit{reason: fmt.Sprintf(format, args...)} }

// inField says that the misfit lies inside of a field.
func (m *misfit) inField(name string) *misfit {
	switch {
	case m.path == "":
		m.path = name
	case strings.HasPrefix(m.path, "["):
		m.path = name + m.path
	default:
		m.path = name + "." + m.path
	}
	return m
}

func rulesOf(t reflect.Type) *rules {
	if r, ok := compiled.Load(t); ok {
		return r.(*rules)
	}
	r := &rules{}
	for sf := range t.Fields() {
		if sf.IsExported() {
			r.fields = append(r.fields, ruleOf(sf))
		}
	}
	kept, _ := compiled.LoadOrStore(t, r)
	return kept.(*rules)
}

func ruleOf(sf reflect.StructField) rule {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	tags := strings.Fields(sf.Tag.Get("check"))
	r := rule{
		index: sf.Index[0], name: name, required: options == "",
		enum: event.EnumValues(sf.Tag.Get("enum")),
		id:   slices.Contains(tags, "id"), object: slices.Contains(tags, "object"), signed: slices.Contains(tags, "signed"),
		input:  sf.Tag.Get("as") == "input",
		secret: sf.Tag.Get("secret"),
		min:    boundOf(sf, "min"), max: boundOf(sf, "max"),
		embedded: sf.Anonymous && name == "",
	}
	if s := structIn(sf.Type); s != nil {
		r.inner = rulesOf(s)
	}
	if r.max == nil && isTime(name) {
		longest := float64(defaultMs)
		r.max = &longest
	}
	return r
}

func boundOf(sf reflect.StructField, tag string) *float64 {
	s, ok := sf.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		// A tag that isn't a number is a mistake that every test meets.
		panic(fmt.Sprintf("command: %s: tag %s: %v", sf.Name, tag, err))
	}
	return &f
}

// structIn returns the struct that a type is, points to or lists, or nil.
func structIn(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || (t.Kind() == reflect.Slice && t != rawType) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == timeType {
		return nil
	}
	return t
}

var (
	rawType  = reflect.TypeFor[event.Raw]()
	timeType = reflect.TypeFor[time.Time]()
)

func (rs *rules) check(v reflect.Value) *misfit {
	for i := range rs.fields {
		r := &rs.fields[i]
		f := v.Field(r.index)
		if r.embedded {
			if m := r.inner.check(f); m != nil {
				return m
			}
			continue
		}
		if m := r.checkField(f); m != nil {
			return m.inField(r.name)
		}
	}
	return nil
}

func (r *rule) checkField(v reflect.Value) *misfit {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return r.absent()
		}
		v = v.Elem()
		if v.Kind() == reflect.Slice {
			// A pointer to a list tells an empty list from none.
			return r.checkList(v)
		}
	} else if v.IsZero() && v.Kind() != reflect.Struct && !isNumber(v.Kind()) {
		return r.absent()
	}
	if v.Type() == rawType {
		return r.checkRaw(v)
	}
	switch v.Kind() {
	case reflect.Slice:
		return r.checkList(v)
	case reflect.Map:
		return r.checkMap(v)
	default:
		return r.checkValue(v)
	}
}

// absent judges a value that isn't there. False is a value.
func (r *rule) absent() *misfit {
	if r.required {
		return bad("is missing")
	}
	return nil
}

func (r *rule) checkList(v reflect.Value) *misfit {
	if v.Len() == 0 && r.required {
		return bad("is empty")
	}
	if most := orDefault(r.max, defaultList); float64(v.Len()) > most {
		return bad("has %d elements; the maximum is %.0f", v.Len(), most)
	}
	element := *r
	element.min, element.max, element.required = nil, nil, true
	for i := range v.Len() {
		if m := element.checkElement(v.Index(i)); m != nil {
			return m.inField(fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

func (r *rule) checkElement(v reflect.Value) *misfit {
	if v.Kind() == reflect.String && v.Len() == 0 {
		return bad("is empty")
	}
	if v.Type() == rawType {
		return r.checkRaw(v)
	}
	return r.checkValue(v)
}

func (r *rule) checkMap(v reflect.Value) *misfit {
	if v.Len() > defaultList {
		return bad("has %d entries; the maximum is %d", v.Len(), defaultList)
	}
	for it := v.MapRange(); it.Next(); {
		if key := it.Key().String(); key == "" || len(key) > 256 {
			return bad("expected a name of 1 to 256 bytes, not %q", clipQuoted(key))
		}
		if m := r.checkValue(it.Value()); m != nil {
			return m.inField(clipQuoted(it.Key().String()))
		}
	}
	return nil
}

func (r *rule) checkRaw(v reflect.Value) *misfit {
	switch raw := v.Bytes(); {
	case len(raw) == 0:
		return r.absent()
	case r.object && raw[0] != '{':
		return bad("is not a JSON object")
	case r.max != nil && float64(len(raw)) > *r.max:
		return bad("has %d bytes of JSON; the maximum is %.0f", len(raw), *r.max)
	}
	return nil
}

// checkValue judges a value that is there.
func (r *rule) checkValue(v reflect.Value) *misfit {
	switch v.Kind() {
	case reflect.String:
		return r.checkText(v.String())
	case reflect.Int, reflect.Int64:
		return r.checkNumber(float64(v.Int()))
	case reflect.Uint64:
		return r.checkNumber(float64(v.Uint()))
	case reflect.Float64:
		return r.checkNumber(v.Float())
	case reflect.Struct:
		if r.inner != nil {
			return r.inner.check(v)
		}
	default:
	}
	return nil
}

func (r *rule) checkText(s string) *misfit {
	switch {
	case r.id && !event.ValidID(s):
		return bad("%q is not an id: 1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or a digit", clipQuoted(s))
	case len(r.enum) > 0 && !slices.Contains(r.enum, s):
		return bad("%q is not one of %s", clipQuoted(s), strings.Join(r.enum, ", "))
	case float64(len(s)) > orDefault(r.max, defaultText):
		return bad("is longer than %.0f bytes", orDefault(r.max, defaultText))
	}
	return nil
}

func (r *rule) checkNumber(n float64) *misfit {
	switch {
	case n == 0 && r.required && r.min != nil && *r.min > 0:
		// A number that isn't given is 0.
		return bad("is missing: a number of at least %s", plain(*r.min))
	case math.IsNaN(n) || math.IsInf(n, 0):
		return bad("is not a finite number")
	case r.min != nil && n < *r.min:
		return bad("%s is less than the minimum, %s", plain(n), plain(*r.min))
	case r.min == nil && n < 0 && !r.signed:
		return bad("%s is negative", plain(n))
	case r.max != nil && n > *r.max:
		return bad("%s is more than the maximum, %s", plain(n), plain(*r.max))
	}
	return nil
}

func isNumber(k reflect.Kind) bool {
	return k == reflect.Int || k == reflect.Int64 || k == reflect.Uint64 || k == reflect.Float64 || k == reflect.Bool
}

func orDefault(bound *float64, fallback float64) float64 {
	if bound == nil {
		return fallback
	}
	return *bound
}

// clipQuoted shortens what is quoted back to a caller.
func clipQuoted(s string) string { return wire.Clip(s) }

// firstError returns the first error that isn't nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// isTime says by its name that a parameter is a number of milliseconds.
func isTime(name string) bool { return strings.HasSuffix(name, "Ms") }

// plain writes a number as people do, without an exponent.
func plain(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
