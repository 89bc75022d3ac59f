package loop_test

import (
	"strings"
	"testing"
	"time"

	"agentd/event"
	"agentd/model"
	"agentd/tool"
)

// turnRuns follows the runs of one turn through its facts.
type turnRuns struct {
	*testing.T
	turnID, taskID, run string
	// count is the ordinal of the attempt under way; over says that it has ended.
	count int64
	began time.Time
	over  bool
	lost  map[string]bool
	// cut says that a recovery ended something of the turn, again that it began
	// another attempt.
	cut, again bool
}

// verifyAttempts: a recovery that cut something off in a turn gives the turn's own
// task one more attempt, and what follows is of that run.
func (c *crashCase) verifyAttempts(facts []*event.Event) (recovered int) {
	c.Helper()
	turns := map[string]*turnRuns{}
	for _, e := range facts {
		switch p := e.Payload.(type) {
		case *event.TurnSubmitted:
			turns[e.TurnID] = &turnRuns{T: c.T, turnID: e.TurnID, taskID: e.TaskID, run: e.RunID, over: true, lost: map[string]bool{}}
		case *event.HistoryReconstructed:
			for _, t := range turns {
				if t.cut != t.again {
					c.Errorf("fact %d: turn %s was cut off: %v; another attempt began: %v", e.Sequence, t.turnID, t.cut, t.again)
				}
				t.cut, t.again = false, false
			}
		case *event.TaskAttemptStarted:
			if p.Reason == "crash_recovery" {
				recovered++
			}
		}
		if t := turns[e.TurnID]; t != nil {
			t.foldFact(e)
		}
	}
	for _, t := range turns {
		if t.cut || t.again || !t.over {
			c.Errorf("turn %s ended with %+v", t.turnID, t)
		}
	}
	return recovered
}

func (t *turnRuns) foldFact(e *event.Event) {
	t.Helper()
	switch p := e.Payload.(type) {
	case *event.TaskAttemptStarted:
		t.starts(e, p)
	case *event.TaskAttemptCompleted:
		t.over = true
		if took := e.Time.Sub(t.began).Milliseconds(); p.DurationMs < took-1 || p.DurationMs > took+1 {
			t.Errorf("fact %d: attempt %d of turn %s took %d ms, its fact says %d", e.Sequence, t.count, t.turnID, took, p.DurationMs)
		}
	case *event.TaskAttemptFailed:
		if !t.cut || t.over || e.RunID != t.run || p.Status != "unknown" || p.FailureCategory != "lost" || !p.Retryable || p.NextAttemptPolicy == "" {
			t.Errorf("fact %d ends attempt %d of turn %s: %+v", e.Sequence, t.count, t.turnID, p)
		}
		t.over, t.lost[t.run] = true, true
		return
	}
	if e.TaskID == t.taskID && e.RunID != t.run || t.lost[e.RunID] {
		t.Errorf("%s, fact %d of turn %s, is of run %s, want %s", e.Type, e.Sequence, t.turnID, e.RunID, t.run)
	}
	if cutOff(e) && !t.over {
		t.cut = true
	}
}

// starts takes the beginning of an attempt: the first, or one after a lost one.
func (t *turnRuns) starts(e *event.Event, p *event.TaskAttemptStarted) {
	t.Helper()
	want := "first"
	if t.count > 0 {
		want = "crash_recovery"
		if t.again || !t.lost[t.run] || e.RunID == t.run {
			t.Errorf("fact %d: another attempt, run %s, after run %s", e.Sequence, e.RunID, t.run)
		}
		t.run, t.again = e.RunID, true
	}
	t.count++
	t.over, t.began = false, e.Time
	if p.AttemptCount != t.count || p.Reason != want || e.RunID != t.run || e.AttemptID != t.run || e.TaskID != t.taskID {
		t.Errorf("fact %d, attempt %d of turn %s: %+v %+v", e.Sequence, t.count, t.turnID, e.Scope, p)
	}
}

// cutOff reports whether a fact is the end of something that a crash cut off.
func cutOff(e *event.Event) bool {
	switch p := e.Payload.(type) {
	case *event.ModelFailed:
		return p.ErrorCategory == model.Interrupted && strings.HasPrefix(p.Message, "the runtime stopped during")
	case *event.ToolFailed:
		return p.ErrorCategory == tool.Lost
	case *event.ToolProgress:
		return p.Phase == event.PhaseLost
	case *event.HookFailed:
		return p.ErrorCategory == "lost"
	case *event.CompactionFailed:
		return p.Error.Category == "interrupted"
	}
	return false
}
