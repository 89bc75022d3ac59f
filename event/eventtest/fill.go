package eventtest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
)

// tags are what a field's tags demand.
type tags struct {
	wire     string
	required bool
	enum     []string
	nonEmpty bool
	nonNil   bool
}

func readTags(f reflect.StructField) tags {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return tags{
		wire:     name,
		required: options == "",
		enum:     event.EnumValues(f.Tag.Get("enum")),
		nonEmpty: strings.Contains(f.Tag.Get("check"), "nonempty"),
		nonNil:   strings.Contains(f.Tag.Get("check"), "nonnil"),
	}
}

// fillStruct draws every field of the struct v; label says where v is.
func fillStruct(t *rapid.T, v reflect.Value, label string) {
	for i := range v.NumField() {
		g := readTags(v.Type().Field(i))
		where := label + "." + g.wire
		if !g.required && !rapid.Bool().Draw(t, where+" set") {
			continue
		}
		fillField(t, v.Field(i), g, where)
	}
}

// fillField draws one field that is written.
func fillField(t *rapid.T, v reflect.Value, g tags, label string) {
	switch v.Interface().(type) {
	case event.Raw:
		v.Set(reflect.ValueOf(rawGenerator().Draw(t, label)))
		return
	case time.Time:
		v.Set(reflect.ValueOf(timestamp(t, label)))
		return
	case event.OptionalInt:
		v.Set(reflect.ValueOf(optionalInt(t, label)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		pointer(t, v, g, label)
	case reflect.Struct:
		fillStruct(t, v, label)
	case reflect.Slice:
		fillList(t, v, g, label)
	case reflect.Map:
		fillMap(t, v, g, label)
	default:
		fillScalar(t, v, g, label)
	}
}

func optionalInt(t *rapid.T, label string) event.OptionalInt {
	if rapid.Bool().Draw(t, label+" null") {
		return event.NullInt()
	}
	return event.Int(rapid.Int64().Draw(t, label))
}

func pointer(t *rapid.T, v reflect.Value, g tags, label string) {
	if g.required && !g.nonNil && rapid.Bool().Draw(t, label+" null") {
		return
	}
	v.Set(reflect.New(v.Type().Elem()))
	// What a pointer leads to is written whatever its value.
	fillField(t, v.Elem(), tags{required: true}, label)
}

func fillList(t *rapid.T, v reflect.Value, g tags, label string) {
	n := rapid.IntRange(least(g), 2).Draw(t, label+" length")
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		fillField(t, v.Index(i), tags{required: true}, fmt.Sprintf("%s[%d]", label, i))
	}
}

func fillMap(t *rapid.T, v reflect.Value, g tags, label string) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range rapid.SliceOfNDistinct(wordGenerator(), least(g), 3, rapid.ID[string]).Draw(t, label+" keys") {
		item := reflect.New(v.Type().Elem()).Elem()
		fillField(t, item, tags{required: true}, label+"."+key)
		v.SetMapIndex(reflect.ValueOf(key), item)
	}
}

// least is the smallest size of a list or a map: an optional one that is empty
// would not be written.
func least(g tags) int {
	if g.required {
		return 0
	}
	return 1
}

func fillScalar(t *rapid.T, v reflect.Value, g tags, label string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(stringValue(t, g, label))
	case reflect.Bool:
		v.SetBool(!g.required || rapid.Bool().Draw(t, label))
	case reflect.Int64:
		v.SetInt(rapid.Int64Range(int64(least(g)), 1<<53).Draw(t, label))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(uint64(least(g)), 1<<53).Draw(t, label))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1), rapid.Just(1e-7), rapid.Just(1e21)).Draw(t, label))
	default:
		panic(fmt.Sprintf("eventtest: %s has type %s, which is not known here", label, v.Type()))
	}
}

func stringValue(t *rapid.T, g tags, label string) string {
	switch {
	case len(g.enum) > 0:
		return rapid.SampledFrom(g.enum).Draw(t, label)
	case g.nonEmpty || !g.required:
		return textGenerator().Draw(t, label)
	}
	return rapid.OneOf(rapid.Just(""), textGenerator()).Draw(t, label)
}
