package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/evidence/replaytest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// kit is a runtime over a store in memory, with the built-in tools.
type kit struct {
	testing.TB
	store store.Store
	dir   string
	r     *agentd.Runtime
}

func newKit(t testing.TB, change func(*agentd.Options), answers ...script.Answer) *kit {
	t.Helper()
	k := &kit{TB: t, store: storetest.NewMem(), dir: t.TempDir()}
	opt := agentd.Options{Store: k.store, Provider: script.New("script", &script.Script{Answers: answers}), Model: "test", RuntimeID: "runtime_test"}
	opt.Loop.Workspace, opt.Loop.Host.Mode = k.dir, "auto"
	if change != nil {
		change(&opt)
	}
	var err error
	if k.r, err = agentd.Open(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.r.Close(context.Background()); err != nil {
			t.Error(err)
		}
		replaytest.Recorded(t, opt.Store)
	})
	return k
}

func runCommand[R any](k *kit, p command.Params) *R {
	k.Helper()
	res, err := k.r.Do(context.Background(), command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	return res.(*R)
}

// turn runs a turn to the end of its task and returns its id.
func (k *kit) turn(sessionID, text string, o *event.TurnOptions) string {
	k.Helper()
	input, err := json.Marshal(text)
	if err != nil {
		k.Fatal(err)
	}
	sub := runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: sessionID, Create: true, Input: input, Options: o})
	k.until(sessionID, func(e *event.Event) bool {
		return e.TurnID == sub.TurnID && (e.Type == event.TypeTaskCompleted || e.Type == event.TypeTaskFailed || e.Type == event.TypeTaskCancelled)
	})
	return sub.TurnID
}

// until follows a session to the first event that the condition accepts.
func (k *kit) until(sessionID string, ok func(*event.Event) bool) *event.Event {
	k.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	sub, err := k.r.Subscribe(ctx, command.Local(), sessionID, 0)
	if err != nil {
		k.Fatal(err)
	}
	defer sub.Close()
	for {
		records, err := sub.Next(ctx)
		if err != nil {
			k.Fatal(err)
		}
		for _, rec := range records {
			if e := decoded(k, rec.Data); ok(e) {
				return e
			}
		}
	}
}

func decoded(t testing.TB, data []byte) *event.Event {
	t.Helper()
	e, err := event.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// facts returns all facts of a session.
func (k *kit) facts(sessionID string) []*event.Event {
	k.Helper()
	var out []*event.Event
	for rec, err := range k.store.Read(context.Background(), sessionID, store.Range{}) {
		if err != nil {
			k.Fatal(err)
		}
		out = append(out, decoded(k, rec.Data))
	}
	return out
}

// output reads what is behind a reference.
func (k *kit) output(ref string) []byte {
	k.Helper()
	b, _, err := k.r.Output(context.Background(), command.Local(), ref)
	if err != nil {
		k.Fatal(err)
	}
	defer b.Close()
	data, err := io.ReadAll(b)
	if err != nil {
		k.Fatal(err)
	}
	return data
}

// evidenceOf exports a scope and returns the pack as it is stored.
func (k *kit) evidenceOf(s command.ExportScope) []byte {
	k.Helper()
	res := runCommand[command.ExportResult](k, &command.ExportEvidence{ExportScope: s})
	pack := k.output(res.Ref)
	if !bytes.Equal(bytes.TrimSpace(pack), bytes.TrimSpace(res.Pack)) {
		k.Error("the result's pack is not the stored one")
	}
	return pack
}

// verified verifies a pack that must be whole.
func verified(t testing.TB, pack []byte) *evidence.Verification {
	t.Helper()
	v, err := evidence.Verify(bytes.NewReader(pack), evidence.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Finding != nil {
		t.Fatalf("the pack doesn't verify: %s", v.Finding)
	}
	return v
}

func wants(name string, args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}}
}

// busy is a session with two turns: writes, reads, a failed call, a denied one.
func busy(t testing.TB, change func(*agentd.Options)) (k *kit, turns []string) {
	t.Helper()
	k = newKit(t, change,
		wants("write_file", map[string]any{"path": "notes.txt", "content": "ünïcode <b> & \"quotes\"\n"}),
		wants("read_file", map[string]any{"path": "notes.txt"}),
		wants("read_file", map[string]any{"path": "absent.txt"}),
		script.Answer{Text: "written & read <done>"},
		wants("write_file", map[string]any{"path": "no.txt", "content": "x"}),
		script.Answer{Text: "I was not allowed to."},
	)
	if err := os.WriteFile(filepath.Join(k.dir, "big.txt"), bytes.Repeat([]byte("a line of a large file\n"), 2000), 0o600); err != nil {
		t.Fatal(err)
	}
	turns = append(turns, k.turn("sess_busy", "write it <now>", nil))
	return k, append(turns, k.turn("sess_busy", "again", &event.TurnOptions{PermissionMode: "plan"}))
}

// exports are all export commands of a scope.
func exports(sessionID, turnID string) map[string]command.Params {
	s := command.ExportScope{SessionID: sessionID, TurnID: turnID}
	return map[string]command.Params{"evidence": &command.ExportEvidence{ExportScope: s}, "review": &command.ExportReview{ExportScope: s}, "replay": &command.ExportReplay{ExportScope: s}}
}

func caseOf(k *kit, s command.ExportScope) *evidence.Case {
	k.Helper()
	res := runCommand[command.ExportResult](k, &command.ExportReplay{ExportScope: s})
	c := &evidence.Case{}
	if err := json.Unmarshal(k.output(res.Ref), c); err != nil {
		k.Fatal(err)
	}
	return c
}
