package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/redact"
)

type packView struct {
	Format             string           `json:"format"`
	EvidenceID         string           `json:"evidenceId"`
	RuntimeCorrelation map[string]any   `json:"runtimeCorrelation"`
	Signals            []map[string]any `json:"signals"`
	KnownGaps          []map[string]any `json:"knownGaps"`
	Threads            []map[string]any `json:"threads"`
	Turns              []map[string]any `json:"turns"`
	ToolCalls          []map[string]any `json:"toolCalls"`
	FailedCalls        []map[string]any `json:"failedCalls"`
	ModelCalls         []map[string]any `json:"modelCalls"`
	Permission         []map[string]any `json:"permission"`
	Routing            []map[string]any `json:"routing"`
	Events             []struct {
		Sequence uint64 `json:"sequence"`
		Data     string `json:"data"`
	} `json:"events"`
}

func view(t testing.TB, pack []byte) *packView {
	t.Helper()
	v := &packView{}
	if err := json.Unmarshal(pack, v); err != nil {
		t.Fatalf("%v in %s", err, pack)
	}
	return v
}

func (p *packView) signal(t testing.TB, name string) string {
	t.Helper()
	for _, s := range p.Signals {
		if s["signal"] == name {
			return s["status"].(string)
		}
	}
	t.Fatalf("there is no signal %s", name)
	return ""
}

func TestPackHoldsTheSession(t *testing.T) {
	k, turns := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	v := verified(t, pack)
	p := view(t, pack)
	facts := k.facts("sess_busy")
	if int(v.Events) != len(facts)-1 || !v.Complete || v.Through != uint64(len(facts)-1) {
		t.Errorf("the pack has %d facts through %d, complete %v, of %d", v.Events, v.Through, v.Complete, len(facts))
	}
	last, ok := facts[len(facts)-1].Payload.(*event.EvidenceChanged)
	if !ok || last.Kind != "evidence" || last.ChainSequence != v.Through || last.ChainHash != v.HeadHash || facts[len(facts)-1].EvidenceID != p.EvidenceID {
		t.Errorf("the export's fact is %+v", facts[len(facts)-1])
	}
	if len(p.Turns) != 2 || p.Turns[0]["turnId"] != turns[0] || p.Turns[0]["status"] != "completed" {
		t.Errorf("turns: %v", p.Turns)
	}
	if len(p.ToolCalls) != 4 || len(p.FailedCalls) != 2 || len(p.ModelCalls) != 6 || len(p.Threads) != 1 || len(p.Routing) == 0 || len(p.Permission) == 0 {
		t.Errorf("%d tool calls, %d failed, %d model calls, %d threads", len(p.ToolCalls), len(p.FailedCalls), len(p.ModelCalls), len(p.Threads))
	}
	for signal, want := range map[string]string{
		"toolCalls": "exported", "routing": "exported", "permission": "exported", "jobs": "not_applicable",
		"hooks": "not_applicable", "traces": "not_applicable",
	} {
		if got := p.signal(t, signal); got != want {
			t.Errorf("the signal %s is %s, want %s", signal, got, want)
		}
	}
	if c := p.RuntimeCorrelation; c["runtimeId"] != "runtime_test" || c["turnId"] != "multiple" || c["traceId"] != "unavailable" {
		t.Errorf("runtimeCorrelation: %v", c)
	}
}

func TestPackOfATurnIsProvenWithoutTheRest(t *testing.T) {
	k, turns := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy", TurnID: turns[0]})
	v := verified(t, pack)
	p := view(t, pack)
	if v.Complete || len(p.Turns) != 1 || p.RuntimeCorrelation["turnId"] != turns[0] {
		t.Errorf("complete %v, turns %v", v.Complete, p.Turns)
	}
	for _, e := range p.Events {
		if !strings.Contains(e.Data, turns[0]) {
			t.Errorf("fact %d is not of the turn", e.Sequence)
		}
	}
	// What happens in other turns later doesn't change the pack.
	again := k.evidenceOf(command.ExportScope{SessionID: "sess_busy", TurnID: turns[0]})
	k.turn("sess_busy", "once more", nil)
	third := k.evidenceOf(command.ExportScope{SessionID: "sess_busy", TurnID: turns[0]})
	if !bytes.Equal(timeless(pack), timeless(again)) || !bytes.Equal(timeless(pack), timeless(third)) {
		t.Error("the same scope gave another pack")
	}
}

// timeless takes out what may differ between two exports: id, time, and what
// follows from them.
func timeless(pack []byte) []byte {
	for _, pattern := range []string{
		`"evidenceId":"evidence_[^"]*"`, `"exportedAt":"[^"]*"`, `"signature":"[^"]*"`,
		`\{"name":"(evidenceId|exportedAt)","sha256":"[^"]*"\}`, `"from":\d+,"head":\d+`,
	} {
		pack = regexp.MustCompile(pattern).ReplaceAll(pack, []byte("_"))
	}
	return pack
}

func TestSameScopeGivesTheSameBytes(t *testing.T) {
	k, _ := busy(t, nil)
	a := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	b := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	if bytes.Equal(a, b) {
		t.Error("two exports have the same id")
	}
	if !bytes.Equal(timeless(a), timeless(b)) {
		t.Errorf("two exports of the same facts differ:\n%s\n%s", timeless(a), timeless(b))
	}
}

// TestPackOutlivesOtherEncoders: a pack that was taken out of a result, parsed and
// written again by another program is the same pack.
func TestPackOutlivesOtherEncoders(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	var parsed any
	if err := json.Unmarshal(pack, &parsed); err != nil {
		t.Fatal(err)
	}
	for name, encode := range map[string]func() ([]byte, error){
		"escaped and sorted": func() ([]byte, error) { return json.Marshal(parsed) },
		"indented":           func() ([]byte, error) { return json.MarshalIndent(parsed, "", "    ") },
		"compact":            func() ([]byte, error) { var b bytes.Buffer; err := json.Compact(&b, pack); return b.Bytes(), err },
	} {
		b, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(b, pack) {
			t.Fatalf("%s: nothing changed", name)
		}
		verified(t, b)
	}
}

func TestExportOfNothing(t *testing.T) {
	k, _ := busy(t, nil)
	for _, s := range []command.ExportScope{
		{SessionID: "sess_absent"}, {SessionID: "sess_busy", TurnID: "turn_absent"}, {SessionID: "sess_busy", TaskID: "task_absent"},
	} {
		if res, err := k.r.Do(context.Background(), command.Local(), &command.ExportEvidence{ExportScope: s}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%+v: %v, %v", s, res, err)
		}
	}
	stranger := command.Caller{Account: "somebody_else"}
	if res, err := k.r.Do(context.Background(), stranger, &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_busy"}}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a stranger got %v, %v", res, err)
	}
}

func TestExportIsIdempotentByItsKey(t *testing.T) {
	k, _ := busy(t, nil)
	p := &command.ExportEvidence{ExportScope: command.ExportScope{SessionID: "sess_busy"}}
	p.IdempotencyKey = "once"
	a := runCommand[command.ExportResult](k, p)
	b := runCommand[command.ExportResult](k, p)
	if a.EvidenceID != b.EvidenceID || a.Ref != b.Ref || !bytes.Equal(a.Pack, b.Pack) {
		t.Errorf("%s and %s", a.EvidenceID, b.EvidenceID)
	}
}

// TestPlantedSecretIsInNoExport: what was redacted before it was stored is in
// nothing that is made of the facts.
func TestPlantedSecretIsInNoExport(t *testing.T) {
	secret := strings.Join([]string{"hunter", "2", "swordfish", "xyz"}, "-")
	k := newKit(t, func(o *agentd.Options) {
		o.Loop.Redact = redact.New(redact.Options{Values: []string{secret}})
	}, wants("write_file", map[string]any{"path": "a.txt", "content": "password " + secret}),
		wants("read_file", map[string]any{"path": "a.txt"}), script.Answer{Text: "it is " + secret})
	k.turn("sess_secret", "use "+secret, nil)
	for name, p := range exports("sess_secret", "") {
		res := runCommand[command.ExportResult](k, p)
		if bytes.Contains(res.Pack, []byte(secret)) || bytes.Contains(k.output(res.Ref), []byte(secret)) {
			t.Errorf("%s shows the secret", name)
		}
	}
}

// TestPackOfATaskHoldsTheTasksBelowIt: all that was done for the parts of a task, of
// which only the first facts name it, and nothing of others.
func TestPackOfATaskHoldsTheTasksBelowIt(t *testing.T) {
	k := newKit(t, nil, script.Answer{Text: "part"}, script.Answer{Text: "other"})
	k.turn("sess_tasks", "begin", nil)
	parent := runCommand[command.TaskResult](k, &command.CreateTask{SessionID: "sess_tasks", Objective: "all of it", Worker: "external", Start: true}).TaskID
	ended := func(taskID string) {
		k.until("sess_tasks", func(e *event.Event) bool { return e.Type == event.TypeTaskCompleted && e.TaskID == taskID })
	}
	part := runCommand[command.TaskResult](k, &command.CreateTask{SessionID: "sess_tasks", Objective: "a part", ParentTaskID: parent, Start: true}).TaskID
	ended(part)
	other := runCommand[command.TaskResult](k, &command.CreateTask{SessionID: "sess_tasks", Objective: "something else", Start: true}).TaskID
	ended(other)
	scope := command.ExportScope{SessionID: "sess_tasks", TaskID: parent}
	pack := k.evidenceOf(scope)
	verified(t, pack)
	p := view(t, pack)
	if len(p.ModelCalls) != 1 || len(p.Turns) != 1 || p.Turns[0]["status"] != "completed" {
		t.Errorf("model calls %v, turns %v", p.ModelCalls, p.Turns)
	}
	for _, e := range p.Events {
		if strings.Contains(e.Data, other) || !strings.Contains(e.Data, parent) && !strings.Contains(e.Data, part) {
			t.Errorf("fact %d is of another task", e.Sequence)
		}
	}
	if again := k.evidenceOf(scope); !bytes.Equal(timeless(pack), timeless(again)) {
		t.Error("the same scope gave another pack")
	}
	done := false
	for _, c := range reviewOf(k, scope).Chapters {
		done = done || c.Name == "done" && len(c.Statements) > 0
	}
	if !done {
		t.Error("the review says of nothing that it was done")
	}
	c := caseOf(k, scope)
	if turns, err := c.Submitted(); err != nil || len(turns) != 1 || len(c.Facts) == 0 {
		t.Errorf("the case has %d turns, %d facts, %v", len(turns), len(c.Facts), err)
	}
}
