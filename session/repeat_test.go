package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/tool"
)

// TestCommandsOfAJobAreRepeatedWithTheirFirstAnswer: the same call again, with its key,
// is told what the first was, however far the job has gone since.
func TestCommandsOfAJobAreRepeatedWithTheirFirstAnswer(t *testing.T) {
	k := runtimetest.NewWith(t, runtimetest.InMode("default"), runtimetest.CallsTool("write_file", map[string]any{"path": "a.txt", "content": "x"}))
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	wait := false
	created := runtimetest.Do[command.JobResult](k, &command.CreateJob{
		SessionID: "sess_a", Instruction: "Write.", Items: []command.JobItemInput{{ItemID: "i", Input: runtimetest.Quoted("a")}}, Start: &wait,
	})
	key := func(k string) command.Mutation { return command.Mutation{IdempotencyKey: k} }
	calls := []command.Params{
		&command.StartJob{Mutation: key("start"), JobID: created.JobID},
		&command.CancelJob{Mutation: key("cancel"), JobID: created.JobID, Reason: "enough"},
		&command.RetryJobItem{Mutation: key("retry"), JobID: created.JobID, ItemID: "i"},
	}
	var told []command.JobRecord
	for _, p := range calls {
		told = append(told, *runtimetest.Do[command.JobRecord](k, p))
		if p.Command() == "start_job" {
			k.WaitFor("sess_a", func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
		}
	}
	runtimetest.Do[command.JobRecord](k, &command.CancelJob{JobID: created.JobID})
	for i, p := range calls {
		again := runtimetest.Do[command.JobRecord](k, p)
		if again.SessionID != "sess_a" || again.Status == "" || len(again.Items) != 1 || again.CreatedAt.IsZero() {
			t.Errorf("the repeated %s gives %+v", p.Command(), again)
		}
		if diff := cmp.Diff(told[i], *again); diff != "" {
			t.Errorf("the repeated %s was told something else:\n%s", p.Command(), diff)
		}
	}
	_, err := k.Runtime.Do(context.Background(), command.Local(), &command.CancelJob{Mutation: key("cancel"), JobID: created.JobID, Reason: "other"})
	if fault.KindOf(err) != fault.Conflict {
		t.Errorf("the same key with other parameters: %v", err)
	}
}

// TestATrialOfAnotherAccountHidesItsSession: an id that is taken is a conflict, and
// nothing is said of what took it.
func TestATrialOfAnotherAccountHidesItsSession(t *testing.T) {
	k := runtimetest.New(t)
	first := runtimetest.Do[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{Benchmark: runtimetest.TrialOf("trial_1", "t", "base"), Input: runtimetest.Quoted("Hello.")})
	_, err := k.Runtime.Do(context.Background(), command.Caller{Account: "bob", Actor: event.Actor{Kind: "user"}}, &command.StartBenchmarkTrial{
		Benchmark: runtimetest.TrialOf("trial_1", "t", "base"), Input: runtimetest.Quoted("Hello."),
	})
	if fault.KindOf(err) != fault.Conflict || strings.Contains(err.Error(), first.SessionID) {
		t.Errorf("another account's trial under the same id: %v", err)
	}
}

// TestTheSameCallAtTheSameTime: with the same key, or the same id for something new, all
// are told the first result, and nothing is made twice.
func TestTheSameCallAtTheSameTime(t *testing.T) {
	gate := make(chan struct{})
	hold := func(context.Context, *tool.Call) (*tool.Result, error) {
		<-gate
		return &tool.Result{Output: []byte("ok")}, nil
	}
	k := runtimetest.NewWith(t, runtimetest.WithTools(t, runtimetest.ReadOnlyTool("hold", hold)), runtimetest.CallsTool("hold", nil), runtimetest.Says("done"))
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	r := k.Submit("sess_a", "go")
	k.WaitFor("sess_a", runtimetest.Runs(r.TurnID))
	for i := range 10 {
		waits := runtimetest.Do[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_a", Input: runtimetest.Quoted("wait")})
		runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: fmt.Sprintf("task_x%d", i), SessionID: "sess_a", Objective: "x"})
		runtimetest.Do[command.TaskResult](k, &command.CreateTask{TaskID: fmt.Sprintf("task_y%d", i), SessionID: "sess_a", Objective: "y", DependsOn: []string{fmt.Sprintf("task_x%d", i)}})
		before := len(runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{Page: command.Page{Limit: 1000}}).Sessions)
		calls := []struct{ name, params string }{
			{"connect_channel", `{"idempotencyKey":"connect_N","transport":"websocket","peerRole":"client","sessionId":"sess_a"}`},
			{"connect_channel", `{"channelId":"chan_N","transport":"websocket","peerRole":"client","sessionId":"sess_a"}`},
			{"remove_queued_turn", `{"idempotencyKey":"remove_N","sessionId":"sess_a","turnId":"` + waits.TurnID + `"}`},
			{"unlink_tasks", `{"idempotencyKey":"unlink_N","taskId":"task_yN","kind":"blocked_by","targetId":"task_xN"}`},
			{"set_policy", `{"idempotencyKey":"policy_N","sessionId":"sess_a","mode":"auto"}`},
			{"create_task", `{"taskId":"task_N","objective":"o"}`},
			{"create_task", `{"idempotencyKey":"task_N","objective":"o"}`},
			{"create_job", `{"jobId":"job_N","instruction":"o","items":[{"input":"a"}],"start":false}`},
		}
		for _, c := range calls {
			params := strings.ReplaceAll(c.params, `N"`, fmt.Sprintf(`%d"`, i))
			var told [4]string
			var all sync.WaitGroup
			for n := range told {
				all.Go(func() {
					res, refusal := runtimetest.CallByName(k, c.name, params)
					told[n] = fmt.Sprint(res, refusal)
				})
			}
			all.Wait()
			for n := range told {
				if told[n] != told[0] || strings.HasPrefix(told[n], "map[]") {
					t.Fatalf("%s %s: %q", c.name, params, told)
				}
			}
		}
		if after := len(runtimetest.Do[command.ListSessionsResult](k, &command.ListSessions{Page: command.Page{Limit: 1000}}).Sessions); after != before+3 {
			t.Fatalf("three calls without a session opened %d", after-before)
		}
	}
	release()
	k.Completes(r) // nothing of this is the running turn's business
}

// TestTheSameCallWaitsNoLongerThanItsCaller: whoever gives up while the first call is
// carried out is told so.
func TestTheSameCallWaitsNoLongerThanItsCaller(t *testing.T) {
	k := runtimetest.New(t, script.Answer{Text: "one"}, script.Answer{Stall: time.Hour})
	r := k.Submit("sess_a", "hi")
	k.Completes(r)
	compact := func(ctx context.Context) error {
		_, err := k.Runtime.Do(ctx, command.Local(), &command.CompactThread{Mutation: command.Mutation{IdempotencyKey: "k"}, SessionID: "sess_a", ThreadID: r.ThreadID})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- compact(ctx) }()
	k.WaitFor("sess_a", runtimetest.FactIs(event.TypeContextCompactionStarted, ""))
	impatient, gaveUp := context.WithCancel(t.Context())
	gaveUp()
	if err := compact(impatient); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "still being carried out") {
		t.Errorf("the second call: %v", err)
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("the first call succeeded without its model")
	}
}

// TestAPolicyIsRepeatedWithItsFirstAnswer: also after the host's rules changed.
func TestAPolicyIsRepeatedWithItsFirstAnswer(t *testing.T) {
	k := runtimetest.New(t)
	runtimetest.Do[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_a"})
	set := `{"sessionId":"sess_a","mode":"auto","idempotencyKey":"k"}`
	first, refusal := runtimetest.CallByName(k, "set_policy", set)
	if refusal != "" {
		t.Fatal(refusal)
	}
	if _, refusal := runtimetest.CallByName(k, "set_policy", `{"rules":[{"decision":"deny","tool":"shell","match":"rm *"}]}`); refusal != "" {
		t.Fatal(refusal)
	}
	for range 2 {
		if again, refusal := runtimetest.CallByName(k, "set_policy", set); refusal != "" || fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("first %v, again %v %s", first, again, refusal)
		}
		k.Close()
		k.Open()
	}
}

// TestATurnsIDCountsBesideAKey: where no session is named there is still one turn with
// an id, whatever key the call comes with.
func TestATurnsIDCountsBesideAKey(t *testing.T) {
	k := runtimetest.New(t)
	for i, keys := range [][2]string{{"", "a"}, {"b", ""}, {"c", "d"}} {
		submit := func(key, input string) (map[string]any, string) {
			if key != "" {
				key = fmt.Sprintf(`,"idempotencyKey":%q`, key)
			}
			return runtimetest.CallByName(k, "submit_turn", fmt.Sprintf(`{"turnId":"turn_%d","input":%q%s}`, i, input, key))
		}
		first, refusal := submit(keys[0], "hi")
		again, refusedAgain := submit(keys[1], "hi")
		if refusal+refusedAgain != "" || fmt.Sprint(first) != fmt.Sprint(again) {
			t.Errorf("%q: first %v %s, again %v %s", keys, first, refusal, again, refusedAgain)
		}
		if res, refusal := submit("", "other"); !strings.HasPrefix(refusal, "conflict") {
			t.Errorf("%q: another content: %v %s", keys, res, refusal)
		}
	}
}
