package transfer_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/store"
	"agentd/transfer"
)

// sameNames makes one thing of each kind that is found by its id, in a session of
// an account, under ids that don't depend on the session.
func sameNames(k *runtimetest.Kit, sessionID string) map[string]command.Params {
	k.Helper()
	first := k.Submit(sessionID, "hello")
	k.Completes(first)
	no := false
	return map[string]command.Params{
		"task":     &command.CreateTask{TaskID: "task_x", SessionID: sessionID, Objective: "work"},
		"job":      &command.CreateJob{JobID: "job_x", SessionID: sessionID, Instruction: "do", Items: []command.JobItemInput{{Input: event.Raw(`"a"`)}}, Start: &no},
		"subagent": &command.SpawnSubagent{SubagentID: "sub_x", SessionID: sessionID, ThreadID: first.ThreadID, Input: event.Raw(`"look"`)},
		"schedule": &command.CreateSchedule{ScheduleID: "sched_x", SessionID: sessionID, Cron: "0 0 1 1 *", Task: event.Raw(`{"objective":"x"}`)},
		"trial":    &command.StartBenchmarkTrial{SessionID: sessionID, Benchmark: runtimetest.TrialOf("trial_x", "fix-7", "base")},
		"channel":  &command.ConnectChannel{ChannelID: "chan_x", SessionID: sessionID, Transport: "websocket", PeerRole: "client"},
		"peer": &command.SubmitTurn{SessionID: sessionID, Input: event.Raw(`"for a peer"`), Peer: &command.PeerStep{
			ChannelID: "chan_p", NativeProtocol: "a2a", RemoteTaskID: "remote_x", RemoteContextID: "ctx",
		}},
	}
}

// TestImportTakesNoIDOver imports sessions whose facts name what another session
// has here: each is refused, and the id goes on meaning what it meant.
func TestImportTakesNoIDOver(t *testing.T) {
	for kind, key := range map[string][2]string{
		"task": {"task", "task_x"}, "job": {"job", "job_x"}, "subagent": {"subagent", "sub_x"}, "schedule": {"schedule", "sched_x"},
		"trial": {"trial", "trial_x"}, "channel": {"channel", "chan_x"}, "peer": {"peer_task", "a2a/inbound//remote_x"},
	} {
		t.Run(kind, func(t *testing.T) {
			from, to := runtimetest.New(t), runtimetest.New(t)
			quietly(from, sameNames(from, "sess_theirs")[kind])
			quietly(to, sameNames(to, "sess_ours")[kind])
			_, err := to.ImportSession(from.ExportSession("sess_theirs"), transfer.ImportOptions{AllowOpen: true})
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "already exists here") {
				t.Errorf("got %v, want a conflict", err)
			}
			v, err := to.Store.Get(t.Context(), key[0], key[1])
			if err != nil || !bytes.Contains(v, []byte("sess_ours")) {
				t.Errorf("the id means %s now (%v)", v, err)
			}
		})
	}
}

// quietly carries out a command and waits until nothing runs in its session.
func quietly(k *runtimetest.Kit, p command.Params) {
	k.Helper()
	res, err := k.Runtime.Do(context.Background(), command.Local(), p)
	if err != nil {
		k.Fatalf("%s: %v", p.Command(), err)
	}
	switch res := res.(type) {
	case *command.SubmitTurnResult:
		k.Completes(res)
	case *command.SpawnSubagentResult:
		runtimetest.Do[command.WaitSubagentsResult](k, &command.WaitSubagents{SubagentIDs: []string{res.SubagentID}})
	}
}

// TestImportedPeersAreFound takes over a session that worked for a peer: the peer
// finds its task, and the index is what the facts say.
func TestImportedPeersAreFound(t *testing.T) {
	from, to := runtimetest.New(t), runtimetest.New(t)
	quietly(from, sameNames(from, "sess_peer")["peer"])
	if _, err := to.ImportSession(from.ExportSession("sess_peer"), transfer.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := session.Verify(t.Context(), to.Store, session.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("after the import: %v, %+v", err, report)
	}
	rec := runtimetest.Do[command.PeerTaskRecord](to, &command.GetPeerTask{PeerTaskKey: command.PeerTaskKey{NativeProtocol: "a2a", RemoteTaskID: "remote_x"}})
	if rec.SessionID != "sess_peer" || rec.Status != "completed" {
		t.Errorf("got %+v", rec)
	}
}

// TestForkOfAnotherAccountIsRefused: what a fork comes from is part of its
// conversation, so whoever forges one must not get at another account's.
func TestForkOfAnotherAccountIsRefused(t *testing.T) {
	from, to := runtimetest.New(t), runtimetest.New(t)
	owner := runtimetest.ClientOf("ann")
	turn := runtimetest.DoAs[command.SubmitTurnResult](from, owner, &command.SubmitTurn{SessionID: "sess_ann", Create: true, Input: runtimetest.Quoted("a secret plan")})
	from.Completes(turn)
	last := payloadsEnd(from, "sess_ann")
	fork := runtimetest.DoAs[command.ForkThreadResult](from, owner, &command.ForkThread{SessionID: "sess_ann", ThreadID: turn.ThreadID, AtSequence: last})
	if _, err := to.ImportSession(from.ExportSession("sess_ann"), transfer.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	file := from.ExportSession(fork.SessionID)
	forged := forge(t, file, func(fact []byte) []byte {
		return bytes.Replace(fact, []byte(`"account":"ann"`), []byte(`"account":"bob"`), 1)
	})
	if bytes.Equal(forged, file) {
		t.Fatal("nothing was forged")
	}
	if _, err := to.ImportSession(forged, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "another account") {
		t.Errorf("got %v, want a conflict", err)
	}
	if _, err := to.ImportSession(file, transfer.ImportOptions{}); err != nil {
		t.Errorf("the fork as it is: %v", err)
	}
}

// payloadsEnd returns the last sequence of a session.
func payloadsEnd(k *runtimetest.Kit, sessionID string) uint64 {
	k.Helper()
	_, last, err := k.Runtime.Events(context.Background(), command.Local(), sessionID, 0, 1)
	if err != nil {
		k.Fatal(err)
	}
	return last
}

// forge changes the facts of a file and signs it anew, as anybody can.
func forge(t *testing.T, file []byte, change func(fact []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w *transfer.Writer
	_, err := transfer.Read(bytes.NewReader(file), transfer.Visitor{
		Header: func(h *transfer.Header) (err error) {
			w, err = transfer.NewWriter(&out, *h)
			return err
		},
		Event: func(r store.Record) error { return w.Event(change(r.Data)) },
	})
	if err == nil {
		err = w.Close(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImportBringsNoPermissions: what the author of a file allowed doesn't apply here
// unless that is asked for.
func TestImportBringsNoPermissions(t *testing.T) {
	rule := func(decision string) []event.PolicyRule {
		return []event.PolicyRule{{Decision: decision, Tool: "shell", Match: "touch *"}}
	}
	for name, c := range map[string]struct {
		mode   string
		after  command.Params
		brings string
	}{
		"a mode":             {mode: "bypass", brings: "mode bypass"},
		"a mode of policy":   {after: &command.SetPolicy{SessionID: "sess_theirs", Mode: "auto"}, brings: "mode auto"},
		"a rule":             {after: &command.SetPolicy{SessionID: "sess_theirs", Rules: rule("allow")}, brings: "1 rule that allows"},
		"a narrow mode":      {mode: "plan"},
		"a rule that denies": {after: &command.SetPolicy{SessionID: "sess_theirs", Rules: rule("deny")}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := runtimetest.New(t, runtimetest.Says("hello")), runtimetest.New(t)
			runtimetest.Do[command.CreateSessionResult](from, &command.CreateSession{SessionID: "sess_theirs", PermissionMode: c.mode})
			from.Completes(from.Submit("sess_theirs", "hello"))
			if c.after != nil {
				quietly(from, c.after)
			}
			file := from.ExportSession("sess_theirs")
			_, err := to.ImportSession(file, transfer.ImportOptions{})
			if c.brings == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), c.brings) {
				t.Errorf("got %v, want a conflict that names %s", err, c.brings)
			}
			if head, err := to.Store.Head(t.Context(), "sess_theirs"); err != nil || head.Sequence != 0 {
				t.Errorf("%d facts were written, %v", head.Sequence, err)
			}
			if _, err := to.ImportSession(file, transfer.ImportOptions{AllowPolicy: true}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestImportBringsNoApprovals is the same for what a person approved elsewhere for the
// whole session.
func TestImportBringsNoApprovals(t *testing.T) {
	from := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.WritesFile("a.txt", "x"), runtimetest.Says("done"))
	r := from.Submit("sess_theirs", "write")
	asked := from.WaitFor("sess_theirs", runtimetest.FactIs(event.TypeActionRequired, r.TurnID))
	runtimetest.Do[command.RespondActionResult](from, &command.RespondAction{ActionID: asked.ActionID, Decision: "allow", Scope: "session"})
	from.Completes(r)
	file := from.ExportSession("sess_theirs")
	if _, err := runtimetest.New(t).ImportSession(file, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "1 approval for the session") {
		t.Errorf("got %v, want a conflict that names the approval", err)
	}
}
