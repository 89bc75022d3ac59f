package loop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
)

// forkAt forks the thread of a turn where the turn, and its task, ended.
func forkAt(k *runtimetest.Kit, r *command.SubmitTurnResult) *command.ForkThreadResult {
	k.Helper()
	var end uint64
	for _, e := range k.Facts(r.SessionID) {
		if e.Type == event.TypeTaskCompleted && e.TurnID == r.TurnID {
			end = e.Sequence
		}
	}
	return runtimetest.Do[command.ForkThreadResult](k, &command.ForkThread{SessionID: r.SessionID, ThreadID: r.ThreadID, AtSequence: end})
}

// threadOf reads a thread.
func threadOf(k *runtimetest.Kit, sessionID, threadID string) *state.ThreadReadModel {
	k.Helper()
	return runtimetest.Do[state.ThreadReadModel](k, &command.GetThreadRead{SessionID: sessionID, ThreadID: threadID})
}

// shownTurns lists the previews of a thread's turns; a star marks inherited ones.
func shownTurns(t *state.ThreadReadModel) string {
	var out []string
	for i := range t.Turns {
		mark := ""
		if t.Turns[i].Inherited {
			mark = "*"
		}
		out = append(out, mark+t.Turns[i].Preview)
	}
	return strings.Join(out, " ")
}

// lastHeard is what a model was told last.
func lastHeard(l *runtimetest.Listener) string {
	all := l.Heard()
	return runtimetest.Conversation(all[len(all)-1])
}

// TestForkShowsWhatItInherits: turns of the origin, marked and with the place where
// their facts are, without those that were taken back before the fork; also in a fork
// of the fork, and after a restart.
func TestForkShowsWhatItInherits(t *testing.T) {
	k := runtimetest.New(t)
	one := k.Submit("sess_a", "one")
	k.Completes(one)
	k.Completes(k.Submit("sess_a", "gone"))
	rollback(k, one, nil)
	two := k.Submit("sess_a", "two")
	k.Completes(two)
	k.Completes(k.Submit("sess_a", "three"))
	fork := forkAt(k, two)
	check := func(sessionID, threadID, want string) *state.ThreadReadModel {
		t.Helper()
		read := threadOf(k, sessionID, threadID)
		if got := shownTurns(read); got != want || read.Truncated {
			t.Errorf("%s shows %q, truncated %v; want %q", sessionID, got, read.Truncated, want)
		}
		return read
	}
	read := check(fork.SessionID, fork.ThreadID, "*one *two")
	if o := read.Turns[1].Origin; o == nil || o.SessionID != "sess_a" || o.ThreadID != two.ThreadID || o.SubmittedSequence != two.Sequence || o.EndSequence <= two.Sequence {
		t.Errorf("the origin of turn two is %+v", o)
	}
	if x := read.Turns[1]; x.TurnID != two.TurnID || x.RunID != two.RunID || x.Status != "completed" || x.Usage.OutputTokens == 0 || x.StartedAt.IsZero() {
		t.Errorf("turn two is shown as %+v", x)
	}
	if read.TurnCount != 0 || read.Status != "idle" {
		t.Errorf("the fork has %d turns of its own and is %s", read.TurnCount, read.Status)
	}
	snap := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: fork.SessionID})
	if len(snap.Threads) != 1 || shownTurns(snap.Threads[0]) != "*one *two" {
		t.Errorf("the session shows %q", shownTurns(snap.Threads[0]))
	}
	own := k.Submit(fork.SessionID, "own")
	k.Completes(own)
	check(fork.SessionID, fork.ThreadID, "*one *two own")
	again := forkAt(k, own)
	check(again.SessionID, again.ThreadID, "*one *two *own")
	k.Close()
	k.Open()
	check(fork.SessionID, fork.ThreadID, "*one *two own")
	read = check(again.SessionID, again.ThreadID, "*one *two *own")
	if a, b := read.Turns[0].Origin.SessionID, read.Turns[2].Origin.SessionID; a != "sess_a" || b != fork.SessionID {
		t.Errorf("the origins are %s and %s", a, b)
	}
}

// TestForkShowsTheNewestThatItInherits and no hole once its own turns are many.
func TestForkShowsTheNewestThatItInherits(t *testing.T) {
	k := runtimetest.New(t)
	var last *command.SubmitTurnResult
	for i := range 23 {
		last = k.Submit("sess_a", fmt.Sprint("in", i))
		k.Completes(last)
	}
	fork := forkAt(k, last)
	read := threadOf(k, fork.SessionID, fork.ThreadID)
	if len(read.Turns) != 20 || read.Turns[0].Preview != "in3" || !read.Turns[0].Inherited || !read.Truncated {
		t.Fatalf("%d turns from %q, truncated %v", len(read.Turns), read.Turns[0].Preview, read.Truncated)
	}
	for i := range 21 {
		k.Completes(k.Submit(fork.SessionID, fmt.Sprint("own", i)))
	}
	read = threadOf(k, fork.SessionID, fork.ThreadID)
	if len(read.Turns) != 20 || read.Turns[0].Preview != "own1" || !read.Truncated {
		t.Errorf("%d turns from %q, truncated %v", len(read.Turns), read.Turns[0].Preview, read.Truncated)
	}
	// What isn't shown any more is still there to go back to.
	var first string
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeTurnStarted {
			first = e.TurnID
			break
		}
	}
	got := runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: first})
	if len(got.RemovedTurns) != 22+21 {
		t.Errorf("%d turns were removed", len(got.RemovedTurns))
	}
}

// TestForkWindowGoesOnInTheOrigin: the cursor of a fork's history leads through the
// facts of the sessions before it, each once, and ends.
func TestForkWindowGoesOnInTheOrigin(t *testing.T) {
	k := runtimetest.New(t)
	one := k.Submit("sess_a", "one")
	k.Completes(one)
	fork := forkAt(k, one)
	own := k.Submit(fork.SessionID, "own")
	k.Completes(own)
	again := forkAt(k, own)
	want := []string{}
	for _, s := range []struct {
		id      string
		through uint64
	}{{"sess_a", forkPoint(k, fork).Sequence}, {fork.SessionID, forkPoint(k, again).Sequence}, {again.SessionID, 1 << 40}} {
		for _, e := range k.Facts(s.id) {
			if e.Sequence <= s.through {
				want = append(want, e.SessionID+"/"+fmt.Sprint(e.Sequence))
			}
		}
	}
	for _, limit := range []int{1, 7, 1000} {
		got, before := []string{}, json.Number("")
		for range len(want) + 2 {
			h := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: again.SessionID, Limit: &limit, Before: before}).History
			var page []string
			for _, raw := range h.Events {
				e, err := event.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if origin := h.Origin; e.SessionID != again.SessionID && (origin == nil || origin.SessionID != e.SessionID) {
					t.Fatalf("a fact of %s in a window of %+v", e.SessionID, origin)
				}
				page = append(page, e.SessionID+"/"+fmt.Sprint(e.Sequence))
			}
			got = append(page, got...)
			if before = json.Number(h.Cursor); !h.Truncated {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("windows of %d give\n%v\nwant\n%v", limit, got, want)
		}
	}
	for _, before := range []json.Number{"-1", "-100"} {
		runtimetest.Refused(k, &command.GetSession{SessionID: "sess_a", Before: before}, fault.InvalidParams) // no fork
	}
}

func forkPoint(k *runtimetest.Kit, r *command.ForkThreadResult) *event.ForkPoint {
	k.Helper()
	return runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: r.SessionID}).ForkedFrom
}

// TestRollbackOfAForkBehindItsBeginning: the conversation goes back to an inherited
// turn, and the origin stays as it is.
func TestRollbackOfAForkBehindItsBeginning(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint("restarted ", restarted), func(t *testing.T) {
			var heard runtimetest.Listener
			k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard))
			var turns []*command.SubmitTurnResult
			for _, text := range []string{"one", "two", "three"} {
				turns = append(turns, k.Submit("sess_a", text))
				k.Completes(turns[len(turns)-1])
			}
			fork := forkAt(k, turns[2])
			own := k.Submit(fork.SessionID, "own")
			k.Completes(own)
			origin := len(k.Facts("sess_a"))
			back := func(to string, change func(*command.RollbackThread)) []string {
				t.Helper()
				p := &command.RollbackThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: to}
				if change != nil {
					change(p)
				}
				return runtimetest.Do[command.RollbackThreadResult](k, p).RemovedTurns
			}
			want := []string{turns[1].TurnID, turns[2].TurnID, own.TurnID}
			if got := back(turns[0].TurnID, func(p *command.RollbackThread) { p.Preview = true }); !slices.Equal(got, want) {
				t.Errorf("the preview removes %v, want %v", got, want)
			}
			if got := back(turns[0].TurnID, nil); !slices.Equal(got, want) {
				t.Errorf("it removed %v, want %v", got, want)
			}
			if restarted {
				k.Close()
				k.Open()
			}
			if got := shownTurns(threadOf(k, fork.SessionID, fork.ThreadID)); got != "*one" {
				t.Errorf("the fork shows %q", got)
			}
			next := k.Submit(fork.SessionID, "next")
			k.Completes(next)
			if got := lastHeard(&heard); got != "user: one\nassistant: You said: one\nuser: next\n" {
				t.Errorf("the fork's model heard:\n%s", got)
			}
			runtimetest.Refused(k, &command.RollbackThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: turns[1].TurnID}, fault.NotFound)
			again := forkAt(k, next)
			if got := shownTurns(threadOf(k, again.SessionID, again.ThreadID)); got != "*one *next" {
				t.Errorf("a fork of it shows %q", got)
			}
			k.Completes(k.Submit(again.SessionID, "deep"))
			if got := lastHeard(&heard); got != "user: one\nassistant: You said: one\nuser: next\nassistant: You said: next\nuser: deep\n" {
				t.Errorf("the model of a fork of it heard:\n%s", got)
			}
			if got := back("", func(p *command.RollbackThread) { p.ToStart = true }); !slices.Equal(got, []string{turns[0].TurnID, next.TurnID}) {
				t.Errorf("back to the start removed %v", got)
			}
			k.Completes(k.Submit(fork.SessionID, "anew"))
			if got := lastHeard(&heard); got != "user: anew\n" {
				t.Errorf("the emptied fork's model heard:\n%s", got)
			}
			if n := len(k.Facts("sess_a")); n != origin || shownTurns(threadOf(k, "sess_a", turns[0].ThreadID)) != "one two three" {
				t.Errorf("the origin changed: %d facts, were %d", n, origin)
			}
		})
	}
}

// TestRollbackOfAForkSaysWhichFilesStay: those that inherited turns changed are the
// origin's; the fork's own are restored.
func TestRollbackOfAForkSaysWhichFilesStay(t *testing.T) {
	var heard runtimetest.Listener
	k, turns := runtimetest.ThreeEdits(t, &heard)
	fork := forkAt(k, turns[2])
	k.Completes(k.Submit(fork.SessionID, "own")) // the script begins anew: it writes a.txt
	if k.ReadFile("a.txt") != "one" {
		t.Fatalf("a.txt is %q", k.ReadFile("a.txt"))
	}
	for _, files := range []string{"keep", "restore"} {
		got := runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{
			SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: turns[0].TurnID, Files: files, Preview: files == "keep",
		})
		var said []string
		for _, f := range got.Files {
			said = append(said, f.Path+" "+f.Change)
			if own := f.Path == "a.txt" && files == "keep"; !own && !strings.Contains(f.Reason, "in session sess_a") {
				t.Errorf("%+v doesn't say whose it is", f)
			}
		}
		slices.Sort(said)
		want := map[string]string{"keep": "a.txt kept, b.txt kept, c.txt kept", "restore": "a.txt restored, b.txt unavailable, c.txt unavailable"}[files]
		if strings.Join(said, ", ") != want {
			t.Errorf("%s: %v, want %s", files, said, want)
		}
	}
	if k.ReadFile("a.txt") != "two" || k.ReadFile("b.txt") != "two" || k.ReadFile("c.txt") != "three" {
		t.Errorf("%q %q %q: not as at the fork", k.ReadFile("a.txt"), k.ReadFile("b.txt"), k.ReadFile("c.txt"))
	}
}

// TestForkInTheMiddleOfATurnShowsItAsStale, and it can be gone back to.
func TestForkInTheMiddleOfATurnShowsItAsStale(t *testing.T) {
	var heard runtimetest.Listener
	k := runtimetest.NewWith(t, runtimetest.ListenedBy(&heard), script.Answer{Tools: []script.Tool{{Name: "request_input", ID: "q", Arguments: map[string]any{"prompt": "Well?"}}}})
	r := k.Submit("sess_a", "one")
	k.WaitForAction("sess_a", 1)
	facts := k.Facts("sess_a")
	fork := runtimetest.Do[command.ForkThreadResult](k, &command.ForkThread{SessionID: "sess_a", ThreadID: r.ThreadID, AtSequence: facts[len(facts)-1].Sequence})
	read := threadOf(k, fork.SessionID, fork.ThreadID)
	if len(read.Turns) != 1 || read.Turns[0].Status != "stale" || read.Turns[0].Origin.EndSequence != 0 {
		t.Fatalf("%+v", read.Turns)
	}
	k.Script.Answers[0] = runtimetest.Says("ok")
	own := k.Submit(fork.SessionID, "two")
	k.Completes(own)
	got := runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{SessionID: fork.SessionID, ThreadID: fork.ThreadID, ToTurnID: r.TurnID})
	if !slices.Equal(got.RemovedTurns, []string{own.TurnID}) {
		t.Errorf("removed %v", got.RemovedTurns)
	}
	k.Completes(k.Submit(fork.SessionID, "three"))
	if got := lastHeard(&heard); !strings.Contains(got, "[request_input q]\nuser: three") {
		t.Errorf("the fork's model heard:\n%s", got)
	}
}
