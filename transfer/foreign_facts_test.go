package transfer_test

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/store"
	"agentd/transfer"
)

// withFact appends a fact to the file of a session and signs it anew.
func withFact(t *testing.T, file []byte, e event.Event) []byte {
	t.Helper()
	var out bytes.Buffer
	var w *transfer.Writer
	var last uint64
	_, err := transfer.Read(bytes.NewReader(file), transfer.Visitor{
		Header: func(h *transfer.Header) (err error) {
			e.SessionID, e.RuntimeID = h.SessionID, h.RuntimeID
			w, err = transfer.NewWriter(&out, *h)
			return err
		},
		Event: func(r store.Record) error {
			last = r.Sequence
			return w.Event(r.Data)
		},
	})
	if err == nil {
		e.ID, e.Sequence, e.Time = "evt_forged", last+1, time.Now()
		err = w.Event(event.AppendJSON(nil, &e))
	}
	if err == nil {
		err = w.Close(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImportRefusesFactsAboutOthers: a file brings facts that speak of the runtime, of its
// host, or of what belongs to another account. It is refused, whatever the admin who
// imports it allows, and nothing is written.
func TestImportRefusesFactsAboutOthers(t *testing.T) {
	from := runtimetest.New(t, runtimetest.Says("hello"))
	from.Completes(from.Submit("sess_theirs", "hello"))
	file := from.ExportSession("sess_theirs")
	scope := func(channel string) event.Scope { return event.Scope{ChannelID: channel} }
	allow := []event.PolicyRule{{Decision: "allow", Tool: "shell"}}
	one := &event.QuotaLimits{Sessions: 1, QueuedTurns: 1, Subscriptions: 1, StoredBytes: 1, Schedules: 1, Processes: 1}
	for name, e := range map[string]event.Event{
		"quotas of an account":        {Type: event.TypeRuntimeChanged, Payload: &event.RuntimeChanged{Change: "quotas_set", Account: "victim", Quotas: one}},
		"a token":                     {Type: event.TypeRuntimeChanged, Payload: &event.RuntimeChanged{Change: "token_created"}},
		"a host's policy":             {Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{Source: "host", Rules: allow}},
		"what a workspace is held to": {Type: event.TypePolicyChanged, Payload: &event.PolicyChanged{Source: "workspace", Workspace: "/srv/repo", Rules: allow}},
		"another owner":               {Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Account: "victim"}},
		"a deleted session":           {Type: event.TypeSessionDeleted, Payload: &event.SessionDeleted{DeletedSessionID: "sess_victim"}},
		"its own deletion":            {Type: event.TypeSessionDeleted, Payload: &event.SessionDeleted{DeletedSessionID: "sess_theirs"}},
		"another's channel":           {Type: event.TypeChannelConnected, Scope: scope("chan_new"), Payload: &event.ChannelConnected{Transport: "sse", PeerRole: "client", ConnectedBy: &event.Actor{Kind: "user", Account: "victim"}}},
		"the end of a channel":        {Type: event.TypeChannelDisconnected, Scope: scope("chan_victim"), Payload: &event.ChannelDisconnected{Reason: "closed"}},
		"a push to elsewhere": {Type: event.TypeChannelPeerPushConfigured, Scope: event.Scope{TaskID: "task_x", ChannelID: "chan_x"}, Payload: &event.PeerPushConfigured{
			NativeProtocol: "a2a", RemoteTaskID: "theirs", ConfigID: "c", Target: "http://127.0.0.1:9/", Sealed: "x",
		}},
		"a process of this machine": {Type: event.TypeProcessStarted, Scope: event.Scope{ProcessID: "proc_x"}, Payload: &event.ProcessStarted{
			ProcessID: "proc_x", Command: []string{"sleep"}, Cwd: "/", Pid: 1, StartTime: "1", Background: true,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			to := runtimetest.New(t)
			_, err := to.ImportSession(withFact(t, file, e), transfer.ImportOptions{AllowPolicy: true, AllowOpen: true})
			if kind := fault.KindOf(err); (kind != fault.InvalidParams && kind != fault.Conflict) || !strings.Contains(err.Error(), "imported") && !strings.Contains(err.Error(), "end it there") {
				t.Errorf("got %v, want it refused", err)
			}
			if head, err := to.Store.Head(t.Context(), "sess_theirs"); err != nil || head.Sequence != 0 {
				t.Errorf("%d facts were written, %v", head.Sequence, err)
			}
			for _, q := range runtimetest.Do[command.GetQuotasResult](to, &command.GetQuotas{Account: "victim"}).Quotas {
				if q.Limit != nil && *q.Limit == 1 {
					t.Errorf("the account has a quota of one for %s", q.Quota)
				}
			}
		})
	}
}

// TestExportHasNothingOfOthers: a session names what another account stored; its file
// doesn't bring that along, also if an admin exports it.
func TestExportHasNothingOfOthers(t *testing.T) {
	k := runtimetest.New(t)
	large := strings.Repeat("what acme knows ", 2000)
	turn := runtimetest.DoAs[command.SubmitTurnResult](k, runtimetest.ClientOf("acme"), &command.SubmitTurn{SessionID: "sess_acme", Create: true, Input: runtimetest.Quoted(large)})
	k.Completes(turn)
	ref := k.WaitFor("sess_acme", runtimetest.FactIs(event.TypeTurnSubmitted, turn.TurnID)).Payload.(*event.TurnSubmitted).InputRef
	if ref == "" {
		t.Fatal("the input is in its fact")
	}
	bob := runtimetest.ClientOf("bob")
	runtimetest.DoAs[command.CreateSessionResult](k, bob, &command.CreateSession{SessionID: "sess_bob"})
	runtimetest.DoAs[command.TaskResult](k, bob, &command.CreateTask{SessionID: "sess_bob", TaskID: "task_bob", Objective: "x", Worker: "external", Start: true})
	runtimetest.DoAs[command.TaskResult](k, bob, &command.CompleteTask{TaskID: "task_bob", EvidenceRefs: []string{ref}})
	sum, err := transfer.Read(bytes.NewReader(k.ExportSession("sess_bob")), transfer.Visitor{})
	if err != nil || sum.Outputs != 0 || sum.Missing != 1 {
		t.Errorf("the file has %+v, %v; want one output that is missing", sum, err)
	}
}

// TestImportReachesNoContentsOfOthers: a file leaves out what its turns refer to, and
// another account has stored just that here. With the content in the file, or with an
// owner that has it here, nothing is wrong.
func TestImportReachesNoContentsOfOthers(t *testing.T) {
	large := strings.Repeat("what acme knows ", 2000)
	from, to := runtimetest.New(t), runtimetest.New(t)
	submit := func(k *runtimetest.Kit, account, sessionID string) {
		k.Completes(runtimetest.DoAs[command.SubmitTurnResult](k, runtimetest.ClientOf(account), &command.SubmitTurn{SessionID: sessionID, Create: true, Input: runtimetest.Quoted(large)}))
	}
	submit(from, "bob", "sess_bob")
	whole := from.ExportSession("sess_bob")
	without := forge(t, whole, func(fact []byte) []byte { return fact })
	submit(to, "acme", "sess_acme")
	if _, err := to.ImportSession(without, transfer.ImportOptions{}); fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "isn't in the file") {
		t.Errorf("got %v, want a conflict", err)
	}
	if head, err := to.Store.Head(t.Context(), "sess_bob"); err != nil || head.Sequence != 0 {
		t.Errorf("%d facts were written, %v", head.Sequence, err)
	}
	if _, err := to.ImportSession(whole, transfer.ImportOptions{}); err != nil {
		t.Errorf("the file as it is: %v", err)
	}
	alone := runtimetest.New(t)
	submit(alone, "bob", "sess_other")
	if _, err := alone.ImportSession(without, transfer.ImportOptions{}); err != nil {
		t.Errorf("for an account that has the content: %v", err)
	}
}
