package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/event"
)

// fake is a tool that only has a name and a schema.
type fake struct{ name, schema, description string }

func (f fake) Info() event.ToolInfo {
	return event.ToolInfo{
		ToolName: f.name, Description: f.description, InputSchema: event.Raw(f.schema),
		RuntimeOwner: "mcp_server", InterruptBehavior: "cancel", Policy: "allowed", Reason: "says the server",
	}
}

func (fake) Run(context.Context, *Call) (*Result, error) { return &Result{}, nil }

func newTestRegistry(t testing.TB) *Registry {
	t.Helper()
	r, err := NewRegistry(Builtins(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(entries []*Entry) string {
	var n []string
	for _, e := range entries {
		n = append(n, e.Info.ToolName)
	}
	return strings.Join(n, " ")
}

const allBuiltins = "edit_file list_files read_file request_input search_files shell spawn_agent update_plan write_file"

func TestResolve(t *testing.T) {
	r := newTestRegistry(t)
	if err := r.Replace("web", []Tool{fake{name: "mcp__web__get", schema: `{"type":"object"}`}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tools, within []string
		want          string
	}{
		{nil, nil, "edit_file list_files mcp__web__get read_file request_input search_files shell spawn_agent update_plan write_file"},
		{[]string{}, nil, ""},
		{nil, []string{}, ""},
		{[]string{"shell", "read_file", "none"}, nil, "read_file shell"},
		{[]string{"*_file"}, nil, "edit_file read_file write_file"},
		{[]string{"*"}, []string{"mcp__*"}, "mcp__web__get"},
		{[]string{"*_file"}, []string{"read_*", "shell"}, "read_file"},
		{[]string{"{shell,read_file}"}, nil, "read_file shell"},
		{[]string{"[bad"}, nil, ""},
	} {
		if got := names(r.Resolve(Selection{Tools: c.tools, Within: c.within}).Entries); got != c.want {
			t.Errorf("%v within %v: %s", c.tools, c.within, got)
		}
	}
	if got := r.Unmatched([]string{"shell", "shel", "mcp__*", "x*"}); !slices.Equal(got, []string{"shel", "x*"}) {
		t.Errorf("unmatched: %v", got)
	}
}

func TestInventory(t *testing.T) {
	r := newTestRegistry(t)
	policy := func(info event.ToolInfo) (string, string) {
		if info.Policy != "" || info.Reason != "" {
			t.Errorf("%s brings its own policy", info.ToolName)
		}
		switch {
		case info.ToolName == Shell:
			return PolicyDenied, "no commands"
		case info.IsReadOnly:
			return "", ""
		}
		return PolicyAsk, "changes something"
	}
	inv := r.Resolve(Selection{Policy: policy})
	if got := names(inv.Entries); got != allBuiltins {
		t.Errorf("%s", got)
	}
	if got := names(inv.Offered()); strings.Contains(got, Shell) || !strings.Contains(got, WriteFile) {
		t.Errorf("offered: %s", got)
	}
	p := inv.Payload()
	if p.ToolCount != 9 || len(p.Tools) != 9 || p.Digest != inv.Digest || !strings.HasPrefix(p.Digest, "sha256:") {
		t.Errorf("%+v", p)
	}
	for _, info := range p.Tools {
		want := map[bool]string{true: PolicyAllowed, false: PolicyAsk}[info.IsReadOnly]
		if info.ToolName == Shell {
			want = PolicyDenied
		}
		if info.Policy != want || want != PolicyAllowed && info.Reason == "" {
			t.Errorf("%s: %s, %s", info.ToolName, info.Policy, info.Reason)
		}
	}
	if _, err := json.Marshal(p); err != nil {
		t.Error(err)
	}
	e, err := inv.Lookup(ReadFile)
	if err != nil || e.Tool.Info().ToolName != ReadFile || e.Source != "builtin" {
		t.Errorf("%+v, %v", e, err)
	}
	var te *Error
	if err := e.Validate(event.Raw(`{"pth":"x"}`)); !errors.As(err, &te) || te.Category != InvalidInput {
		t.Errorf("%v", err)
	} else {
		requireWords(t, te.Message, "the input of read_file is not valid", "pth")
	}
	if err := e.Validate(event.Raw(`{"path":"x"}`)); err != nil {
		t.Error(err)
	}
	if _, err := inv.Lookup("read_flie"); !errors.As(err, &te) || te.Category != NotFound || te.Advice != "Did you mean read_file?" {
		t.Errorf("%v", err)
	}
	if _, err := inv.Lookup("launch_rocket_to_mars"); !errors.As(err, &te) || !strings.Contains(te.Advice, "The tools are: edit_file") {
		t.Errorf("%v", err)
	}
	// What is handed out is the caller's view: the registry's own has no policy.
	if own, ok := r.Get(Shell); !ok || own.Info.Policy != "" {
		t.Errorf("%+v", own)
	}
}

func TestDigest(t *testing.T) {
	r := newTestRegistry(t)
	all := r.Resolve(Selection{})
	if r.Resolve(Selection{}) != all {
		t.Error("nothing changed, but it is another inventory")
	}
	seen := map[string]string{all.Digest: "all"}
	differs := func(what string, inv *Inventory) {
		t.Helper()
		if other, ok := seen[inv.Digest]; ok {
			t.Errorf("%s has the digest of %s", what, other)
		}
		seen[inv.Digest] = what
	}
	answer := func(p, reason string) func(event.ToolInfo) (string, string) {
		return func(event.ToolInfo) (string, string) { return p, reason }
	}
	differs("some", r.Resolve(Selection{Tools: []string{"*_file"}}))
	differs("asked", r.Resolve(Selection{Policy: answer(PolicyAsk, "")}))
	differs("asked with a reason", r.Resolve(Selection{Policy: answer(PolicyAsk, "why")}))
	if err := r.Replace("x", []Tool{fake{name: "x", schema: `{}`}}); err != nil {
		t.Fatal(err)
	}
	differs("one more", r.Resolve(Selection{}))
	if err := r.Replace("x", []Tool{fake{name: "x", schema: `{}`, description: "new"}}); err != nil {
		t.Fatal(err)
	}
	differs("another description", r.Resolve(Selection{}))
	r.Remove("x")
	if back := r.Resolve(Selection{}); back.Digest != all.Digest {
		t.Error("the same tools have another digest")
	}
	if other := newTestRegistry(t).Resolve(Selection{}); other.Digest != all.Digest {
		t.Error("the same tools elsewhere have another digest")
	}
	for i := range 3 * maxInventories {
		r.Resolve(Selection{Policy: answer(PolicyAsk, fmt.Sprint(i))})
	}
	if len(r.kept) > maxInventories {
		t.Errorf("%d inventories are kept", len(r.kept))
	}
}

func TestToolsComeAndGo(t *testing.T) {
	r := newTestRegistry(t)
	waits := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return false
		default:
			return true
		}
	}
	before := r.Changed()
	a, b := fake{name: "a", schema: `{}`}, fake{name: "b", schema: `{}`}
	if err := r.Replace("one", []Tool{a, b}); err != nil || waits(before) {
		t.Errorf("%v; told: %v", err, !waits(before))
	}
	before = r.Changed()
	if err := r.Replace("one", []Tool{a, b}); err != nil || !waits(before) {
		t.Error("told of no change")
	}
	err := r.Replace("two", []Tool{b, fake{name: Shell, schema: `{}`}, fake{name: "c", schema: `{}`}, fake{name: "not ok", schema: `{}`}, fake{schema: `{}`}, fake{name: strings.Repeat("x", 65), schema: `{}`}, fake{name: "c", schema: `{}`}})
	if err == nil {
		t.Fatal("names are taken twice")
	}
	requireWords(t, err.Error(), `"b" is taken by one`, `"shell" is taken by builtin`, `"not ok" is not`, `"c" is taken by two`)
	if e, ok := r.Get("c"); !ok || e.Source != "two" {
		t.Error("the good one is left out too")
	}
	if e, _ := r.Get("b"); e.Source != "one" {
		t.Error("b was taken over")
	}
	held := r.Resolve(Selection{Tools: []string{"a", "b", "c"}})
	if err := r.Replace("one", []Tool{b}); err != nil {
		t.Fatal(err)
	}
	r.Remove("two")
	if got := names(r.Resolve(Selection{Tools: []string{"a", "b", "c"}}).Entries); got != "b" {
		t.Errorf("%s", got)
	}
	if names(held.Entries) != "a b c" {
		t.Error("a turn's inventory changed under it")
	}
	// A server that comes back has new tools behind old names.
	fresh := &fake{name: "b", schema: `{}`}
	if err := r.Replace("one", []Tool{fresh}); err != nil {
		t.Fatal(err)
	}
	if e := r.Resolve(Selection{Tools: []string{"b"}}).Entries[0]; e.Tool != Tool(fresh) {
		t.Error("the old tool is still handed out")
	}
}

func TestBrokenSchemaIsUnavailable(t *testing.T) {
	r := newTestRegistry(t)
	err := r.Replace("liar", []Tool{
		fake{name: "no_json", schema: `{"type":`},
		fake{name: "no_schema", schema: `{"type":"objekt"}`},
		fake{name: "none"},
		fake{name: "fine", schema: `{"type":"object"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	inv := r.Resolve(Selection{Policy: func(event.ToolInfo) (string, string) { return PolicyAllowed, "" }})
	for _, name := range []string{"no_json", "no_schema", "none"} {
		e, err := inv.Lookup(name)
		if err != nil || e.Info.Policy != PolicyUnavailable || !strings.Contains(e.Info.Reason, "schema") {
			t.Errorf("%s: %+v, %v", name, e.Info, err)
		}
		var te *Error
		if err := e.Validate(event.Raw(`{}`)); !errors.As(err, &te) || te.Category != Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if e, _ := inv.Lookup("fine"); e.Info.Policy != PolicyAllowed || e.Validate(event.Raw(`{}`)) != nil {
		t.Errorf("%+v", e.Info)
	}
	if strings.Contains(names(inv.Offered()), "no_json") {
		t.Error("a broken tool is offered")
	}
	if _, err := json.Marshal(inv.Payload()); err != nil {
		t.Errorf("its schema breaks the fact: %v", err)
	}
}

func TestRegistryTogether(t *testing.T) {
	r := newTestRegistry(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				src := fmt.Sprintf("s%d", i)
				if err := r.Replace(src, []Tool{fake{name: fmt.Sprintf("t%d_%d", i, j%3), schema: `{}`}}); err != nil {
					t.Error(err)
				}
				if inv := r.Resolve(Selection{}); len(inv.Entries) < 9 {
					t.Errorf("%d tools", len(inv.Entries))
				}
				_ = r.Changed()
				if j%10 == 9 {
					r.Remove(src)
				}
			}
		})
	}
	wg.Wait()
	if got := names(r.Resolve(Selection{}).Entries); got != allBuiltins {
		t.Errorf("%s", got)
	}
}

func BenchmarkResolve(b *testing.B) {
	r := newTestRegistry(b)
	var tools []Tool
	for i := range 50 {
		tools = append(tools, fake{name: fmt.Sprintf("t%d", i), schema: `{"type":"object"}`})
	}
	if err := r.Replace("many", tools); err != nil {
		b.Fatal(err)
	}
	ask := func(event.ToolInfo) (string, string) { return PolicyAsk, "it changes something" }
	b.ReportAllocs()
	for b.Loop() {
		r.Resolve(Selection{Policy: ask})
	}
}

// TestPlanIsPresentedWherePlansAreMade: elsewhere the tool isn't there at all.
func TestPlanIsPresentedWherePlansAreMade(t *testing.T) {
	r, err := NewRegistry(Builtins(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	with, without := r.Resolve(Selection{Planning: true}), r.Resolve(Selection{})
	if _, err := with.Lookup(PresentPlan); err != nil {
		t.Error(err)
	}
	if _, err := without.Lookup(PresentPlan); err == nil || len(without.Entries) != len(with.Entries)-1 {
		t.Errorf("%d tools with it, %d without: %v", len(with.Entries), len(without.Entries), err)
	}
	if text := PlanText(event.Raw(`{"plan":"one"}`)); text != "one" {
		t.Errorf("the plan is %q", text)
	}
	if text := PlanText(event.Raw(`{"plan":`)); text != "" {
		t.Errorf("half an object gives %q", text)
	}
}
