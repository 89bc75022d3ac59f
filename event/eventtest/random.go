package eventtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
)

// Type returns any type in the catalogue.
func Type() *rapid.Generator[event.Type] {
	return rapid.SampledFrom(typesWhere(func(*event.Def) bool { return true }))
}

// StandardType returns any type of the standard.
func StandardType() *rapid.Generator[event.Type] {
	return rapid.SampledFrom(typesWhere(func(d *event.Def) bool { return !d.Extension }))
}

func typesWhere(want func(*event.Def) bool) []event.Type {
	var list []event.Type
	defs := event.Catalog()
	for i := range defs {
		if want(&defs[i]) {
			list = append(list, defs[i].Type)
		}
	}
	return list
}

// Payload draws a payload that fits events of type typ.
func Payload(t *rapid.T, typ event.Type) event.Payload {
	d := lookupDef(typ)
	v := reflect.New(reflect.TypeOf(d.Payload).Elem())
	fillStruct(t, v.Elem(), string(typ))
	return v.Interface().(event.Payload)
}

// Event draws a whole event of type typ that [event.Check] accepts: the payload,
// every id that the type needs and some that it doesn't, and what a session's
// writer sets. Its ids don't join it to any other event.
func Event(t *rapid.T, typ event.Type) *event.Event {
	d := lookupDef(typ)
	e := &event.Event{
		Type:      typ,
		ID:        drawID(t, "eventId"),
		Time:      timestamp(t, "timestamp"),
		RuntimeID: drawID(t, "runtimeId"),
		SessionID: drawID(t, "sessionId"),
		Sequence:  rapid.Uint64Range(1, 1<<53).Draw(t, "sequence"),
		Payload:   Payload(t, typ),
	}
	scope := reflect.ValueOf(&e.Scope).Elem()
	for i := range scope.NumField() {
		name := WireID(scope.Type().Field(i).Name)
		if slices.Contains(d.Needs.Names(), name) || rapid.IntRange(0, 9).Draw(t, "carry "+name) == 0 {
			scope.Field(i).SetString(drawID(t, name))
		}
	}
	if d.Needs&event.Refs != 0 || rapid.IntRange(0, 9).Draw(t, "carry refs") == 0 {
		e.Refs = rapid.MapOfN(wordGenerator(), textGenerator(), 0, 3).Draw(t, "refs")
	}
	if d.Needs&event.BenchmarkInfo != 0 {
		e.Benchmark = new(event.Benchmark)
		fillStruct(t, reflect.ValueOf(e.Benchmark).Elem(), "benchmark")
	}
	if d.Needs&event.RewardInfo != 0 {
		e.Reward = new(event.Reward)
		fillStruct(t, reflect.ValueOf(e.Reward).Elem(), "reward")
	}
	if d.Needs&event.ComparisonInfo != 0 {
		e.Comparison = new(event.Comparison)
		fillStruct(t, reflect.ValueOf(e.Comparison).Elem(), "comparison")
	}
	return e
}

// WireID turns the name of a field of [event.Scope] into its name on the wire.
func WireID(goName string) string {
	return strings.ToLower(goName[:1]) + strings.TrimSuffix(goName[1:], "ID") + "Id"
}

func lookupDef(typ event.Type) *event.Def {
	d, ok := event.Lookup(typ)
	if !ok {
		panic(fmt.Sprintf("eventtest: type %q is not in the catalogue", typ))
	}
	return d
}

func drawID(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z]{1,8}_[0-9a-z]{4,26}`),
		rapid.Just(event.NotApplicable),
	).Draw(t, label)
}

func wordGenerator() *rapid.Generator[string] { return rapid.StringMatching(`[a-z][a-zA-Z0-9_]{0,8}`) }

// textGenerator returns strings with a liking for what is hard to encode.
func textGenerator() *rapid.Generator[string] {
	return rapid.OneOf(
		wordGenerator(),
		rapid.StringN(1, 20, -1),
		rapid.SampledFrom([]string{
			"a \"quoted\" word", `back\slash`, "line\nline\r\n\ttab", "\x00\x01\x1f\x7f", "<b>&amp;</b>",
			"ä ö ü 漢字 🙂", "\u2028\u2029\ufeff\ufffd", " ", "null", "{}",
		}),
	)
}

func timestamp(t *rapid.T, label string) time.Time {
	micros := rapid.Int64Range(0, 4102444800_000000).Draw(t, label)
	return time.UnixMicro(micros).UTC()
}

// rawGenerator returns compact JSON values.
func rawGenerator() *rapid.Generator[event.Raw] {
	return rapid.Map(rapid.SampledFrom([]string{
		`null`, `true`, `0`, `-1.5e10`, `""`, `"a b\n\"\\"`, `[]`, `{}`, `[1,"two",{"three":[null,false]}]`,
		`{"path":"docs/a b.md","limit":10}`, `{"command":"ls -l \"a b\"","env":{"A":"1"}}`, `"ä\u2028 "`,
	}), func(s string) event.Raw { return event.Raw(s) })
}
