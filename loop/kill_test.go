package loop_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/tool"
)

// As in the other crash tests a real process is killed, but its turns call tools:
// one that leaves a mark in the world for each run, and one that only reads.

const (
	toolChildVariable = "AGENTD_TOOL_CHILD"
	toolSessions      = 4
	// drain is the round in which the child ends what is left and then itself.
	drain = "drain"
)

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(toolChildVariable); dir != "" {
		if err := toolChild(dir, os.Getenv("AGENTD_CRASH_ROUND")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(runtimetest.RunTests(m))
}

// marker appends the id of each of its calls to a file.
func marker(dir string) tool.Tool {
	return runtimetest.WritingTool("mark", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		f, err := os.OpenFile(filepath.Join(dir, "marks"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(f, c.ToolCallID); err != nil {
			return nil, err
		}
		return &tool.Result{Output: []byte("marked")}, f.Close()
	})
}

func toolChild(dir, round string) error {
	s, err := pebble.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		return err
	}
	opt, err := toolOptions(dir, s)
	if err != nil {
		return err
	}
	r, err := agentd.Open(context.Background(), opt)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range toolSessions {
		wg.Go(func() {
			if err := toolClient(r, fmt.Sprintf("sess_%d", i), fmt.Sprintf("turn_%s_%d", round, i), round == drain); err != nil {
				fmt.Printf("error %v\n", err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(context.Background()); err != nil {
		return err
	}
	return s.Close()
}

func toolOptions(dir string, s store.Store) (agentd.Options, error) {
	answers := []script.Answer{runtimetest.CallsTool("mark", nil), {Tools: []script.Tool{{Name: "look"}, {Name: "look"}}}, runtimetest.Says("done")}
	opt := agentd.Options{Store: s, Provider: script.New("script", &script.Script{Answers: answers, Repeat: true}), Model: "test"}
	opt.Loop.Workspace, opt.Loop.Host.Mode = dir, "bypass"
	var err error
	opt.Loop.Tools, err = tool.NewRegistry(marker(dir), runtimetest.ReadOnlyTool("look", runtimetest.GivesText("seen")))
	return opt, err
}

// toolClient submits turns one after the other and resumes what a crash blocked.
// When it drains it submits one and ends with it.
func toolClient(r *agentd.Runtime, sessionID, turnID string, last bool) error {
	ctx := context.Background()
	for n := 0; ; n++ {
		id := fmt.Sprintf("%s_%d", turnID, n)
		if _, err := r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: sessionID, Create: true, TurnID: id, Input: event.Raw(`"go"`)}); err != nil {
			return err
		}
		fmt.Printf("ack %s %s\n", sessionID, id)
		if err := untilEnded(ctx, r, sessionID, id); err != nil || last {
			return err
		}
	}
}

func untilEnded(ctx context.Context, r *agentd.Runtime, sessionID, turnID string) error {
	sub, err := r.Subscribe(ctx, command.Local(), sessionID, 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		var thread string
		ended, blocked := false, false
		if err := r.View(ctx, sessionID, func(s *state.Session) error {
			t := s.MainThread()
			thread, ended, blocked = t.ThreadID, t.Turn(turnID) == nil, t.Block != nil
			return nil
		}); err != nil || ended {
			return err
		}
		if blocked {
			if _, err := r.Do(ctx, command.Local(), &command.ResumeThread{SessionID: sessionID, ThreadID: thread}); err != nil && fault.KindOf(err) != fault.Conflict {
				return err
			}
		}
	}
}

// toolRound runs a child, kills it unless it drains, and collects what it said.
func toolRound(t *testing.T, dir, round string, acked map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), toolChildVariable+"="+dir, "AGENTD_CRASH_ROUND="+round)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	kill := sync.OnceFunc(func() {
		if round != drain {
			time.AfterFunc(time.Duration(rand.IntN(60_000))*time.Microsecond, func() {
				cmd.Process.Kill() //nolint:errcheck // it may have ended by itself; Wait tells
			})
		}
	})
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 || f[0] != "ack" {
			t.Errorf("the child said: %s", lines.Text())
			continue
		}
		acked[f[2]] = f[1]
		kill() // it is at work
	}
	err = cmd.Wait()
	if round == drain && err != nil {
		t.Fatalf("the last child: %v", err)
	}
	if round != drain && (err == nil || !strings.Contains(err.Error(), "killed")) {
		t.Fatalf("the child was not killed: %v", err)
	}
}

// checkTools holds the store and the world against each other.
func checkTools(t *testing.T, dir string, acked map[string]string) (lost, recovered int) {
	t.Helper()
	s, err := pebble.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error(p)
	}
	marks, err := os.ReadFile(filepath.Join(dir, "marks"))
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for id := range strings.FieldsSeq(string(marks)) {
		runs[id]++
	}
	ended := map[string]int{}
	for i := range toolSessions {
		c := &crashCase{T: t, runs: map[string]int{}}
		facts := runtimetest.FactsOf(t, s, fmt.Sprintf("sess_%d", i))
		for _, e := range facts {
			switch p := e.Payload.(type) {
			case *event.TurnCompleted:
				ended[e.TurnID]++
			case *event.ThreadUpdated:
				c.lost = c.lost || p.Status == "blocked"
			case *event.ToolProgress:
				if n, ok := runs[e.ToolCallID]; ok && p.Phase == event.PhaseRunning {
					c.runs[e.ToolCallID] = n
					delete(runs, e.ToolCallID)
				}
			}
		}
		if c.lost {
			lost++
		}
		c.verifyEnds(facts)
		c.verifyCalls(facts)
		recovered += c.verifyAttempts(facts)
	}
	for id := range runs {
		t.Errorf("call %s ran, and no fact says that it was started", id)
	}
	for id := range acked {
		if ended[id] != 1 {
			t.Errorf("turn %s was acknowledged and ended %d times", id, ended[id])
		}
	}
	opt, err := toolOptions(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	runtimetest.DecideAgain(t, opt.Store)
	return lost, recovered
}

func killTools(t *testing.T, rounds int) {
	t.Helper()
	dir := t.TempDir()
	acked := map[string]string{}
	for round := range rounds {
		toolRound(t, dir, fmt.Sprint(round), acked)
	}
	toolRound(t, dir, drain, acked)
	lost, recovered := checkTools(t, dir, acked)
	t.Logf("%d rounds: %d turns, %d of %d sessions lost a call, %d turns went on in another run", rounds, len(acked), lost, toolSessions, recovered)
	if len(acked) < rounds {
		t.Errorf("only %d turns: the load was too small to show anything", len(acked))
	}
}

func TestKillWhileToolsRun(t *testing.T) { killTools(t, 4) }

func TestLongKillWhileToolsRun(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("60 rounds; set AGENTD_TEST_LONG to run them")
	}
	killTools(t, 60)
}
