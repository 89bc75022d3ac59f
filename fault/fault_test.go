package fault

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestEveryKindHasOneRow(t *testing.T) {
	seen := map[Kind]bool{}
	last := 0
	for _, d := range Table() {
		if seen[d.Kind] {
			t.Errorf("%s has two rows", d.Kind)
		}
		seen[d.Kind] = true
		if d.HTTP < last {
			t.Errorf("%s: rows are not ordered by HTTP status", d.Kind)
		}
		last = d.HTTP
		if d.Title == "" || d.Means == "" || d.Category == "" || d.RPC == 0 {
			t.Errorf("%s: the row is incomplete: %+v", d.Kind, d)
		}
	}
}

func TestKindOfFindsTheKindThroughWrapping(t *testing.T) {
	err := fmt.Errorf("outer: %w", Wrap(Conflict, errors.New("cause"), "taken"))
	if got := KindOf(err); got != Conflict {
		t.Errorf("KindOf = %s", got)
	}
	if got := KindOf(errors.New("plain")); got != Internal {
		t.Errorf("KindOf(plain) = %s", got)
	}
	if got := Kind("made up").Def().Kind; got != Internal {
		t.Errorf("an unknown kind has the row of %s", got)
	}
}

func TestParamNamesTheParameter(t *testing.T) {
	err := Param("limit", "%d is more than %d", 2000, 1000)
	if err.Param != "limit" || err.Error() != "invalid_params: limit: 2000 is more than 1000" {
		t.Errorf("got %q (%s)", err.Error(), err.Param)
	}
}

func TestWithinPutsPathsBehindTheDocument(t *testing.T) {
	for _, c := range []struct {
		err           error
		param, detail string
		fields        []Field
	}{
		{errors.New("plain"), "payload", "payload: plain; see the schema", nil},
		{New(InvalidParams, "not valid JSON"), "payload", "payload: not valid JSON; see the schema", nil},
		{Param("a", "is missing"), "payload.a", "payload.a: is missing; see the schema", nil},
		{
			&Error{Kind: InvalidParams, Fields: []Field{{"", "expected object"}, {"[2].name", "is missing"}, {"a.b", "too long"}}},
			"payload", "payload: expected object; payload[2].name: is missing; payload.a.b: too long; see the schema",
			[]Field{{"payload", "expected object"}, {"payload[2].name", "is missing"}, {"payload.a.b", "too long"}},
		},
	} {
		got := Within("payload", "the schema", c.err)
		if got.Kind != InvalidParams || got.Param != c.param || got.Detail != c.detail || !slices.Equal(got.Fields, c.fields) {
			t.Errorf("%v became %+v", c.err, got)
		}
	}
}
