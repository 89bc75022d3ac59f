package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/event"
)

func TestRunTurnReturnsTheAnswerAndReportsProgress(t *testing.T) {
	k := newKit(t).start()
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			var mu sync.Mutex
			var steps []float64
			var says []string
			s := k.client("ann", version, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				steps, says = append(steps, r.Params.Progress), append(says, r.Params.Message)
			}})
			p := &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"input": "say hello"}, Meta: mcp.Meta{"progressToken": "t1"}}
			res, err := s.CallTool(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			got := res.StructuredContent.(map[string]any)
			if res.IsError || texts(res) != "Hello to you." || got["answer"] != "Hello to you." || got["status"] != "completed" {
				t.Errorf("the result is %s %v", texts(res), got)
			}
			if err := k.compile("run_turn", k.listTools(s)["run_turn"].OutputSchema).Validate(got); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(steps) < 3 || !slices.IsSorted(steps) || !slices.Contains(says, "asks the model") {
				t.Errorf("the progress was %v %v", steps, says)
			}
			id := fmt.Sprint(got["sessionId"])
			if _, again := k.call(s, "run_turn", map[string]any{"input": "say hello", "sessionId": id}); again["sessionId"] != id {
				t.Errorf("the second turn ran in %v", again["sessionId"])
			}
		})
	}
}

func TestATurnThatFailsIsAToolThatFailed(t *testing.T) {
	k := newKit(t).start()
	res, got := k.call(k.client("ann", newer, nil), "run_turn", map[string]any{"input": "break"})
	if !res.IsError || got["status"] != "failed" || got["failureCategory"] != "model_failed" || !strings.Contains(texts(res), "no such thing") {
		t.Errorf("the result is %s %v", texts(res), got)
	}
}

func TestATurnThatLastsLongerIsWaitedForAgain(t *testing.T) {
	k := newKit(t).start()
	s := k.client("ann", newer, nil)
	_, got := k.call(s, "run_turn", map[string]any{"input": "write it", "turnId": "turn_w", "timeoutMs": 60000})
	if got["status"] != "action_required" {
		t.Fatalf("the turn is %v", got)
	}
	action := got["actions"].([]any)[0].(map[string]any)
	_, running := k.call(s, "run_turn", map[string]any{"input": "wait long", "timeoutMs": 1, "turnId": "turn_slow"})
	if running["status"] != "running" {
		t.Errorf("the slow turn is %v", running["status"])
	}
	k.call(s, "respond_action", map[string]any{"actionId": action["actionId"], "decision": "allow"})
	_, done := k.call(s, "wait_turn", map[string]any{"sessionId": got["sessionId"], "turnId": "turn_w"})
	if done["status"] != "completed" || done["answer"] != "It is written." {
		t.Errorf("the turn is %v", done)
	}
	// It can be asked for any number of times.
	if _, again := k.call(s, "wait_turn", map[string]any{"sessionId": got["sessionId"], "turnId": "turn_w"}); again["answer"] != "It is written." {
		t.Errorf("the second answer is %v", again)
	}
}

// answeringClient is a client that answers what it is asked with one value.
func answeringClient(calls *[]string, answer *mcp.ElicitResult) *mcp.ClientOptions {
	var mu sync.Mutex
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		*calls = append(*calls, r.Params.Message)
		return answer, nil
	}}
}

func TestWhatATurnWaitsForIsPutToTheClient(t *testing.T) {
	accept := func(content map[string]any) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: content}
	}
	for name, c := range map[string]struct {
		input    string
		answer   *mcp.ElicitResult
		asks     string
		decision string
		says     string
	}{
		"allow":   {"write it", accept(map[string]any{"decision": "allow", "scope": "once"}), "write_file", "allow", "It is written."},
		"deny":    {"write it", accept(map[string]any{"decision": "deny"}), "note.txt", "deny", ""},
		"decline": {"write it", &mcp.ElicitResult{Action: "decline"}, "write_file", "deny", ""},
		"form":    {"ask me", accept(map[string]any{"colour": "red"}), "Which colour?", "submit", "A fine colour."},
		"text":    {"ask freely", accept(map[string]any{"answer": "anything"}), "Say anything.", "submit", "I see."},
		"cancel":  {"ask me", &mcp.ElicitResult{Action: "cancel"}, "Which colour?", "cancel", ""},
	} {
		for _, version := range []string{older, newer} {
			t.Run(name+"/"+version, func(t *testing.T) {
				k := newKit(t).start()
				var calls []string
				s := k.client("ann", version, answeringClient(&calls, c.answer))
				_, got := k.call(s, "run_turn", map[string]any{"input": c.input, "sessionId": "sess_q", "create": true, "timeoutMs": 60000})
				if len(calls) == 0 || !strings.Contains(calls[0], c.asks) {
					t.Errorf("the client was asked %q", calls)
				}
				resolved := k.until("sess_q", event.TypeActionResolved)
				if p := resolved.Payload.(*event.ActionResolved); p.Decision != c.decision || p.ResolvedBy == nil || p.ResolvedBy.ID != "clientann" {
					t.Errorf("the action was resolved by %+v", p)
				}
				if c.says != "" && got["answer"] != c.says {
					t.Errorf("the answer is %v", got)
				}
			})
		}
	}
}

// What a subagent waits for is asked in the name of the turn that it works for.
func TestTheQuestionsOfASubagentAreTheTurns(t *testing.T) {
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			k := newKit(t).start()
			var calls []string
			s := k.client("ann", version, answeringClient(&calls, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "allow"}}))
			_, got := k.call(s, "run_turn", map[string]any{"input": "delegate", "timeoutMs": 60000})
			if got["answer"] != "It is delegated." {
				t.Fatalf("the turn is %v", got)
			}
			if !slices.ContainsFunc(calls, func(says string) bool { return strings.Contains(says, "write_file") }) {
				t.Errorf("the client was asked %q", calls)
			}
		})
	}
}

// What somebody else answers is not waited for.
func TestAQuestionIsTakenBackWhenSomebodyElseAnswers(t *testing.T) {
	k := newKit(t).start()
	entered, gone := make(chan struct{}), make(chan struct{})
	s := k.client("ann", older, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(entered)
		<-ctx.Done()
		close(gone)
		return nil, ctx.Err()
	}})
	done := make(chan map[string]any, 1)
	go func() {
		_, got := k.call(s, "run_turn", map[string]any{"input": "write it", "sessionId": "sess_q", "create": true})
		done <- got
	}()
	<-entered
	action := k.until("sess_q", event.TypeActionRequired)
	other := k.client("ann", newer, nil)
	k.call(other, "respond_action", map[string]any{"actionId": action.ActionID, "decision": "allow"})
	if got := <-done; got["answer"] != "It is written." {
		t.Errorf("the turn is %v", got)
	}
	<-gone
}

// ended waits for the end of a session's turn.
func (k *kit) ended(sessionID string) *event.TurnFailed {
	k.t.Helper()
	return k.until(sessionID, event.TypeTurnFailed).Payload.(*event.TurnFailed)
}

func TestACancelledCallInterruptsItsTurn(t *testing.T) {
	k := newKit(t).start()
	s := k.client("ann", older, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"input": "wait long", "sessionId": "sess_c", "create": true}})
		done <- err
	}()
	k.running("sess_c")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	if f := k.ended("sess_c"); f.Status != "cancelled" {
		t.Errorf("the turn ended as %s", f.Status)
	}
}

// startSlow begins a call of the newer revision that waits, and returns what ends it.
func (k *kit) startSlow(sessionID string, args map[string]any) (hangUp func()) {
	k.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	all := map[string]any{"input": "wait long", "sessionId": sessionID, "create": true}
	maps.Copy(all, args)
	r := k.newRequest(ctx, "ann", "tools/call", map[string]any{"name": "run_turn", "arguments": all, "_meta": map[string]any{"progressToken": 1}}, nil)
	transport := &http.Transport{}
	res, err := (&http.Client{Transport: transport}).Do(r) //nolint:bodyclose // hangUp does
	if err != nil {
		k.t.Fatal(err)
	}
	// The first message says that the turn is there.
	if _, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil {
		k.t.Fatal(err)
	}
	return func() {
		cancel()
		_ = res.Body.Close()
		transport.CloseIdleConnections()
	}
}

func TestAClientThatVanishesLeavesItsTurnRunning(t *testing.T) {
	k := newKit(t).start()
	k.startSlow("sess_v", nil)()
	s := k.client("ann", newer, nil)
	_, got := k.call(s, "wait_turn", map[string]any{"sessionId": "sess_v", "turnId": k.until("sess_v", event.TypeTurnSubmitted).TurnID, "timeoutMs": 50})
	if got["status"] != "running" {
		t.Errorf("the turn is %v", got["status"])
	}
	k.call(s, "interrupt_turn", map[string]any{"sessionId": "sess_v"})
	k.ended("sess_v")
}

func TestATurnMayEndWithItsClient(t *testing.T) {
	k := newKit(t).start()
	k.startSlow("sess_v", map[string]any{"onDisconnect": "interrupt"})()
	if f := k.ended("sess_v"); f.Status != "cancelled" {
		t.Errorf("the turn ended as %s", f.Status)
	}
}

func TestEndingASessionEndsItsCallsButNotTheirTurns(t *testing.T) {
	k := newKit(t).start()
	s := k.client("ann", older, nil)
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"input": "wait long", "sessionId": "sess_d", "create": true}})
		done <- err
	}()
	k.running("sess_d")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, k.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer ann")
	r.Header.Set("Mcp-Session-Id", s.ID())
	r.Header.Set("Mcp-Protocol-Version", older)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if err := <-done; err == nil || res.StatusCode != http.StatusNoContent {
		t.Errorf("the call: %v; the end of the session: %d", err, res.StatusCode)
	}
	other := k.client("ann", newer, nil)
	_, got := k.call(other, "interrupt_turn", map[string]any{"sessionId": "sess_d"})
	if got["interrupted"] != true {
		t.Errorf("the turn ended with its session: %v", got)
	}
	k.ended("sess_d")
}

func TestASilentCallIsKeptAlive(t *testing.T) {
	k := newKit(t)
	k.options.Heartbeat = 5 * time.Millisecond
	k.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := k.newRequest(ctx, "ann", "tools/call", map[string]any{"name": "run_turn", "arguments": map[string]any{"input": "wait long", "sessionId": "sess_s", "create": true}}, nil)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for range 3 {
		line, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, ":") || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%q %v", line, err)
		}
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	k.running("sess_s")
	k.call(k.client("ann", newer, nil), "interrupt_turn", map[string]any{"sessionId": "sess_s"})
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), `"status":"cancelled"`) {
		t.Errorf("%s %v", rest, err)
	}
}

func TestTheTraceOfARequestIsInItsFacts(t *testing.T) {
	k := newKit(t).start()
	trace, span := strings.Repeat("a1", 16), strings.Repeat("b2", 8)
	a := k.send("ann", "tools/call", map[string]any{
		"name": "create_session", "arguments": map[string]any{"sessionId": "sess_t"},
		"_meta": map[string]any{"traceparent": "00-" + trace + "-" + span + "-01"},
	}, nil)
	if a.Error != nil {
		t.Fatal(a.Body)
	}
	e := k.until("sess_t", event.TypeSessionCreated)
	if e.TraceID != trace {
		t.Errorf("the trace is %q", e.TraceID)
	}
	k.send("ann", "tools/call", map[string]any{
		"name": "submit_turn", "arguments": map[string]any{"sessionId": "sess_t", "input": "x"},
		"_meta": map[string]any{"traceparent": "00-" + trace + "-" + span + "-01", "tracestate": "rojo=1,congo=2"},
	}, nil)
	if e := k.until("sess_t", event.TypeTurnSubmitted); e.Payload.(*event.TurnSubmitted).TraceState != "rojo=1,congo=2" {
		t.Errorf("%+v", e.Payload)
	}
	for _, bad := range []string{"00-" + strings.Repeat("0", 32) + "-" + span + "-01", "nonsense", "00-" + trace} {
		if a := k.send("ann", "tools/call", map[string]any{"name": "list_sessions", "_meta": map[string]any{"traceparent": bad}}, nil); a.Error != nil {
			t.Errorf("%q: %s", bad, a.Body)
		}
	}
	// What is none by the rules of the header is none here either.
	for i, bad := range []string{"ff-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01-x", "00-" + trace + "-" + span + "-zz"} {
		id := fmt.Sprintf("sess_bad%d", i)
		k.send("ann", "tools/call", map[string]any{
			"name": "create_session", "arguments": map[string]any{"sessionId": id}, "_meta": map[string]any{"traceparent": bad},
		}, nil)
		if e := k.until(id, event.TypeSessionCreated); e.TraceID != "" {
			t.Errorf("%q gave the trace %q", bad, e.TraceID)
		}
	}
}
