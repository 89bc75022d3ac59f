package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"agentd/fault"
)

// ledger keeps what was returned under each key.
type ledger struct {
	kept    map[string][]byte
	entered int
}

// Enter implements [Repeats].
func (l *ledger) Enter(context.Context, Caller, Params) (func(), error) {
	l.entered++
	return func() { l.entered-- }, nil
}

// Admit implements [Repeats].
func (*ledger) Admit(context.Context, Caller, Params) error { return nil }

// Overtaken implements [Repeats].
func (*ledger) Overtaken(err error) bool { return errors.Is(err, errOvertaken) }

var errOvertaken = errors.New("another node was first")

// First implements [Repeats].
func (l *ledger) First(_ context.Context, _ Caller, p Params, kept any) (bool, error) {
	b, ok := l.kept[p.(Mutating).Key()]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(b, kept)
}

func (l *ledger) recordCall(p Mutating, what any) {
	l.kept[p.Key()], _ = json.Marshal(what)
}

func newLedgerTable(opt TableOptions) (*Table, *ledger) {
	l := &ledger{kept: map[string][]byte{}}
	opt.Repeats = l
	return NewTable(opt), l
}

func createNothing(context.Context, Caller, *CreateSession) (*CreateSessionResult, error) {
	return &CreateSessionResult{}, nil
}

// panicOf returns what a function panics with.
func panicOf(f func()) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

func TestACommandHasOneHandler(t *testing.T) {
	table, _ := newLedgerTable(TableOptions{})
	Handle(table, createNothing)
	if said := panicOf(func() { Handle(table, createNothing) }); !strings.Contains(said, "create_session is registered twice") {
		t.Errorf("registered twice: %q", said)
	}
	strange := func(context.Context, Caller, stray) (*CreateSessionResult, error) { return nil, nil }
	if said := panicOf(func() { Handle(table, strange) }); !strings.Contains(said, "stray is registered but is not in the catalogue") {
		t.Errorf("not in the catalogue: %q", said)
	}
	err := table.CheckComplete()
	for _, d := range Catalog() {
		if missing := err != nil && strings.Contains(err.Error()+",", " "+string(d.Name)+","); missing == (d.Name == "create_session") {
			t.Errorf("%s: missing is %v in %v", d.Name, missing, err)
		}
	}
	if _, err := table.Do(t.Context(), Local(), &ListSessions{}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a command without a handler: %v", err)
	}
}

// stray is a command that the catalogue doesn't know.
type stray struct{ unlisted }

func (stray) Command() Name                { return "stray" }
func (stray) returns(*CreateSessionResult) {}

// TestEveryFormIsItsCommands checks the types in the catalogue against the name that
// parameters give themselves: each type belongs to one command.
func TestEveryFormIsItsCommands(t *testing.T) {
	seen := map[reflect.Type]Name{}
	for _, d := range Catalog() {
		form := reflect.TypeOf(d.New())
		if other, twice := seen[form]; twice {
			t.Errorf("%s and %s have the same parameters %s", d.Name, other, form)
		}
		seen[form] = d.Name
	}
}

func TestARepeatedCallDoesNotReachItsHandler(t *testing.T) {
	table, l := newLedgerTable(TableOptions{})
	calls := 0
	Handle(table, func(_ context.Context, _ Caller, p *CreateSession) (*CreateSessionResult, error) {
		calls++
		if l.entered != 1 {
			t.Errorf("%d calls are being carried out", l.entered)
		}
		res := &CreateSessionResult{SessionID: fmt.Sprint("sess_", calls)}
		l.recordCall(p, res)
		return res, nil
	})
	keyed := &CreateSession{Mutation: Mutation{IdempotencyKey: "k"}}
	for _, want := range []struct {
		p  Params
		id string
	}{{keyed, "sess_1"}, {keyed, "sess_1"}, {&CreateSession{}, "sess_2"}, {&CreateSession{}, "sess_3"}} {
		res, err := table.Do(t.Context(), Local(), want.p)
		if err != nil || res.(*CreateSessionResult).SessionID != want.id {
			t.Errorf("%+v: %+v, %v; want %s", want.p, res, err, want.id)
		}
	}
	if l.entered != 0 {
		t.Errorf("%d calls didn't leave", l.entered)
	}
}

// TestAnOvertakenCallBeginsAnew: it finds what the other one made, and isn't tried for ever.
func TestAnOvertakenCallBeginsAnew(t *testing.T) {
	table, l := newLedgerTable(TableOptions{})
	calls := 0
	Handle(table, func(_ context.Context, _ Caller, p *CreateSession) (*CreateSessionResult, error) {
		calls++
		if p.Key() != "" {
			l.recordCall(p, CreateSessionResult{SessionID: "sess_other"})
		}
		return nil, errOvertaken
	})
	res, err := table.Do(t.Context(), Local(), &CreateSession{Mutation: Mutation{IdempotencyKey: "k"}})
	if err != nil || res.(*CreateSessionResult).SessionID != "sess_other" || calls != 1 {
		t.Errorf("%+v, %v after %d calls", res, err, calls)
	}
	calls = 0
	if _, err := table.Do(t.Context(), Local(), &CreateSession{}); !errors.Is(err, errOvertaken) || calls != maxOvertaken {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestAnAnswerIsMadeOfWhatWasKept(t *testing.T) {
	table, l := newLedgerTable(TableOptions{})
	type made struct{ ID string }
	calls, answers := 0, 0
	HandleKept(table, func(_ context.Context, _ Caller, p *CreateSession) (*made, error) {
		calls++
		l.recordCall(p, made{"sess_a"})
		return &made{"sess_a"}, nil
	}, func(_ context.Context, _ Caller, _ *CreateSession, kept *made) (*CreateSessionResult, error) {
		answers++
		return &CreateSessionResult{SessionID: kept.ID}, nil
	})
	for range 2 {
		res, err := table.Do(t.Context(), Local(), &CreateSession{Mutation: Mutation{IdempotencyKey: "k"}})
		if err != nil || res.(*CreateSessionResult).SessionID != "sess_a" {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if calls != 1 || answers != 2 {
		t.Errorf("carried out %d times, answered %d times", calls, answers)
	}
}

// TestParametersAreCleanAndValidBeforeAnythingElse: no part sees a secret, and none
// sees parameters that don't fit.
func TestParametersAreCleanAndValidBeforeAnythingElse(t *testing.T) {
	table, l := newLedgerTable(TableOptions{Redact: func(p Params) (Params, error) {
		clean := *p.(*CreateSession)
		clean.Title = strings.ReplaceAll(clean.Title, "hush", "-")
		return &clean, nil
	}})
	Handle(table, func(_ context.Context, _ Caller, p *CreateSession) (*CreateSessionResult, error) {
		if p.Title != "say -" {
			t.Errorf("the handler sees %q", p.Title)
		}
		return nil, fault.New(fault.Conflict, "no")
	})
	if res, err := table.Do(t.Context(), Local(), &CreateSession{Title: "say hush"}); res != nil || fault.KindOf(err) != fault.Conflict {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := table.Do(t.Context(), Local(), &CreateSession{SessionID: "no id!"}); fault.KindOf(err) != fault.InvalidParams || l.entered != 0 {
		t.Errorf("%v with %d calls under way", err, l.entered)
	}
}
