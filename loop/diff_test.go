package loop_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/redact"
)

// diffOf asks for a diff and returns the files in one line.
func diffOf(k *runtimetest.Kit, p command.GetDiff) (files string, res *command.GetDiffResult) {
	k.Helper()
	p.SessionID = "sess_a"
	res = runtimetest.Do[command.GetDiffResult](k, &p)
	var out []string
	for _, f := range res.Files {
		out = append(out, f.Path+" "+f.Change)
	}
	return strings.Join(out, ", "), res
}

// shows fails the test unless a diff has lines, each at its beginning.
func shows(t *testing.T, diff string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !slices.Contains(strings.Split(diff, "\n"), line) {
			t.Errorf("the diff lacks %q:\n%s", line, diff)
		}
	}
}

// TestDiffOfATurnACallAndARange: what each changed, also where later turns changed the
// same file, after a restart, and for a caller who can only read.
func TestDiffOfATurnACallAndARange(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard)
	var second string
	var head uint64
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeToolResult && e.TurnID == turns[1].TurnID && second == "" {
			second = e.ToolCallID
		}
		head = e.Sequence
	}
	check := func() {
		t.Helper()
		for _, c := range []struct {
			p     command.GetDiff
			files string
			lines []string
		}{
			{command.GetDiff{TurnID: turns[0].TurnID}, "a.txt created", []string{"--- /dev/null", "+++ b/a.txt", "+one"}},
			{command.GetDiff{TurnID: turns[1].TurnID}, "a.txt modified, b.txt created", []string{"-one", "+two"}},
			{command.GetDiff{ToolCallID: second}, "a.txt modified", []string{"--- a/a.txt", "+++ b/a.txt", "-one", "+two"}},
			{command.GetDiff{FromSequence: &turns[1].Sequence, ToSequence: &head}, "a.txt modified, b.txt created, c.txt created", []string{"-one", "+two", "+three"}},
			{command.GetDiff{ToSequence: &head}, "a.txt created, b.txt created, c.txt created", []string{"+two", "+three"}},
		} {
			files, res := diffOf(k, c.p)
			if files != c.files || res.Truncated {
				t.Errorf("%+v: %s; want %s", c.p, files, c.files)
			}
			shows(t, res.Diff, c.lines...)
		}
	}
	check()
	k.Close()
	k.Open()
	check()

	reader := command.Caller{Admin: true, Actor: event.Actor{Kind: "user"}}
	runtimetest.DoAs[command.GetDiffResult](k, reader, &command.GetDiff{SessionID: "sess_a", TurnID: turns[0].TurnID})
	past := head + 1
	for kind, list := range map[fault.Kind][]command.GetDiff{
		fault.NotFound:      {{SessionID: "sess_x", TurnID: "turn_x"}, {SessionID: "sess_a", TurnID: "turn_x"}, {SessionID: "sess_a", ToolCallID: "tool_x"}},
		fault.InvalidParams: {{SessionID: "sess_a"}, {SessionID: "sess_a", TurnID: "t", ToolCallID: "c"}, {SessionID: "sess_a", ToSequence: &past}, {SessionID: "sess_a", FromSequence: &head, ToSequence: &turns[0].Sequence}},
	} {
		for i := range list {
			runtimetest.Refused(k, &list[i], kind)
		}
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("other"), &command.GetDiff{SessionID: "sess_a", TurnID: turns[0].TurnID}, fault.NotFound)
}

// TestDiffAfterARollback: what was taken back is not part of a range that has both, and
// still is what its turn did.
func TestDiffAfterARollback(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard)
	rollback(k, turns[0], restore)
	facts := k.Facts("sess_a")
	head := facts[len(facts)-1].Sequence
	if files, res := diffOf(k, command.GetDiff{ToSequence: &head}); files != "a.txt created" {
		t.Errorf("%s\n%s", files, res.Diff)
	}
	if files, _ := diffOf(k, command.GetDiff{TurnID: turns[1].TurnID}); files != "a.txt modified, b.txt created" {
		t.Error(files)
	}
	last := facts[len(facts)-1]
	for last.Type != event.TypeHistoryRollbackCompleted {
		facts = facts[:len(facts)-1]
		last = facts[len(facts)-1]
	}
	files, res := diffOf(k, command.GetDiff{FromSequence: &last.Sequence})
	if files != "a.txt modified, b.txt deleted, c.txt deleted" || !strings.Contains(res.Files[0].Note, "rollback") {
		t.Errorf("the rollback alone: %+v", res)
	}
}

// TestDiffShowsNothingThatIsKeptFromTools: secrets are redacted, denied and binary files
// are named only, and a long diff stands behind a reference.
func TestDiffShowsNothingThatIsKeptFromTools(t *testing.T) {
	long := strings.Repeat("a line of some length that is not special\n", 10_000)
	write := func(path, content string) script.Tool {
		return script.Tool{Name: "write_file", Arguments: map[string]any{"path": path, "content": content}}
	}
	secret := "hunter2-" + strings.Repeat("a1B2", 9)
	redacted := func(o *agentd.Options) { o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}}) }
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithVault(t), redacted),
		script.Answer{Tools: []script.Tool{write("key.txt", "clean\n"), write("private.txt", "new\n"), write("image.bin", "text\n")}}, runtimetest.Says("done"),
		script.Answer{Tools: []script.Tool{write("long.txt", long)}}, runtimetest.Says("done"))
	k.WriteFile("key.txt", "token "+secret+"\n")
	k.WriteFile("private.txt", "between us\n")
	k.WriteFile("image.bin", "\x00\x01")
	r := k.Submit("sess_a", "write")
	k.Completes(r)
	runtimetest.Do[command.PolicyResult](k, &command.SetPolicy{SessionID: "sess_a", Rules: []event.PolicyRule{{Decision: "deny", Tool: "read_file", Match: "private.txt"}}})
	files, res := diffOf(k, command.GetDiff{TurnID: r.TurnID})
	if files != "image.bin modified, key.txt modified, private.txt modified" {
		t.Error(files)
	}
	if strings.Contains(res.Diff, secret) || strings.Contains(res.Diff, "between us") {
		t.Errorf("the diff tells a secret:\n%s", res.Diff)
	}
	if res.Files[0].Note != "binary" || !strings.Contains(res.Files[2].Note, "denies reading it") {
		t.Errorf("%+v", res.Files)
	}
	shows(t, res.Diff, "+clean")

	r = k.Submit("sess_a", "at length")
	k.Completes(r)
	_, res = diffOf(k, command.GetDiff{TurnID: r.TurnID})
	if !res.Truncated || len(res.Diff) > 256<<10 || !strings.HasSuffix(res.Diff, "\n") {
		t.Fatalf("truncated %v, %d bytes", res.Truncated, len(res.Diff))
	}
	whole := k.ReadOutput(res.DiffRef)
	if !strings.HasPrefix(whole, res.Diff) || strings.Count(whole, "+a line") != 10_000 {
		t.Errorf("behind the reference are %d bytes", len(whole))
	}
}

// TestPolicyIsTestedOnThePast: what another policy would decide otherwise, without a
// trace; only of sessions that the caller may see.
func TestPolicyIsTestedOnThePast(t *testing.T) {
	var heard runtimetest.Listener
	k, _ := runtimetest.ThreeEdits(t, &heard)
	before := len(k.Facts("sess_a"))
	test := func(p command.TestPolicy) *command.TestPolicyResult {
		t.Helper()
		return runtimetest.Do[command.TestPolicyResult](k, &p)
	}
	if same := test(command.TestPolicy{}); same.Total != 4 || same.ChangedCount != 0 || same.Sessions != 1 {
		t.Errorf("the same policy: %+v", same)
	}
	deny := []event.PolicyRule{{Decision: "deny", Tool: "write_file", Match: "a.txt", Reason: "it is ours"}}
	got := test(command.TestPolicy{Rules: deny, SessionID: "sess_a"})
	if got.Total != 4 || got.ChangedCount != 2 || len(got.Changed) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, c := range got.Changed {
		if c.SessionID != "sess_a" || c.ToolName != "write_file" || c.Before != "allow" || c.After != "deny" || c.Sequence == 0 || !strings.Contains(c.Reason, "it is ours") {
			t.Errorf("%+v", c)
		}
	}
	one := 1
	if got := test(command.TestPolicy{Mode: "plan", Limit: &one}); got.ChangedCount != 4 || len(got.Changed) != 1 {
		t.Errorf("plan: %+v", got)
	}
	if none := runtimetest.DoAs[command.TestPolicyResult](k, runtimetest.ClientOf("other"), &command.TestPolicy{Mode: "plan"}); none.Total != 0 || none.Sessions != 0 {
		t.Errorf("another account learns of %+v", none)
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("other"), &command.TestPolicy{SessionID: "sess_a"}, fault.NotFound)
	runtimetest.Refused(k, &command.TestPolicy{Rules: []event.PolicyRule{{Decision: "perhaps", Tool: "shell"}}}, fault.InvalidParams)
	if n := len(k.Facts("sess_a")); n != before {
		t.Errorf("%d facts, were %d", n, before)
	}
}

// TestPolicyTestsAreBounded: a test ends after so many comparisons of decisions and rules,
// however many there are, and says so.
func TestPolicyTestsAreBounded(t *testing.T) {
	var calls []script.Tool
	for range 150 {
		calls = append(calls, script.Tool{Name: "list_files", Arguments: map[string]any{"path": "."}})
	}
	k := runtimetest.NewWith(t, runtimetest.InMode("auto"), script.Answer{Tools: calls}, runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "look"))
	rules := make([]event.PolicyRule, 9_999)
	for i := range rules {
		rules[i] = event.PolicyRule{Decision: "deny", Tool: "shell", Match: "x" + strconv.Itoa(i)}
	}
	few := runtimetest.Do[command.TestPolicyResult](k, &command.TestPolicy{Rules: rules[:100]})
	if few.Total != 150 || few.Truncated {
		t.Errorf("few rules: %+v", few)
	}
	many := runtimetest.Do[command.TestPolicyResult](k, &command.TestPolicy{Rules: rules})
	if many.Total != 30 || !many.Truncated {
		t.Errorf("many rules: %+v", many)
	}
}

// TestPermissionIsTriedWithoutATrace: dryRun answers as the recorded question does, and
// writes nothing, neither in the session nor in the runtime's own.
func TestPermissionIsTriedWithoutATrace(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"))
	k.Completes(k.Submit("sess_a", "hello"))
	for i, sessionID := range []string{"sess_a", ""} {
		ask := command.EvaluatePermission{SessionID: sessionID, ToolName: "write_file", Input: event.Raw(`{"path":"x.txt","content":"x"}`), DryRun: true}
		own, runtime := len(k.Facts("sess_a")), len(k.Facts(event.RuntimeSession))
		tried := runtimetest.Do[command.EvaluatePermissionResult](k, &ask)
		if len(k.Facts("sess_a")) != own || len(k.Facts(event.RuntimeSession)) != runtime {
			t.Errorf("%d: something was written", i)
		}
		ask.DryRun = false
		recorded := runtimetest.Do[command.EvaluatePermissionResult](k, &ask)
		if tried.PermissionDecision.Decision != "ask" || asJSON(t, tried) != asJSON(t, recorded) {
			t.Errorf("tried %+v\nrecorded %+v", tried.PermissionDecision, recorded.PermissionDecision)
		}
		if len(k.Facts("sess_a"))+len(k.Facts(event.RuntimeSession)) == own+runtime {
			t.Errorf("%d: the recorded question left no fact", i)
		}
	}
	runtimetest.RefusedAs(k, runtimetest.ClientOf("other"), &command.EvaluatePermission{SessionID: "sess_a", ToolName: "write_file", Input: event.Raw(`{"path":"x","content":""}`), DryRun: true}, fault.NotFound)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
