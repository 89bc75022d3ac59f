package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// faultSession is a session that clients write and read through both nodes while one of them
// is hit. What they did and were told is held against a model of a session.
type faultSession struct {
	w      *faultWorld
	id     string
	folder string

	mu         sync.Mutex
	operations []porcupine.Operation
	// turns are those that were acknowledged.
	turns []string
}

// What clients do with a session.
const (
	opRename = "rename"
	opTitle  = "title"
	opSubmit = "submit"
	opTurns  = "turns"
)

// sessionCall is an operation on a session, with what it writes.
type sessionCall struct{ op, value string }

// sessionModel is what a session is to its clients: a title, and the turns in the order in
// which they were given.
type sessionModel struct{ title, turns string }

// step carries out one call on the model, and reports whether its answer is the right one.
func (m sessionModel) step(in sessionCall, out string) (bool, sessionModel) {
	switch in.op {
	case opRename:
		m.title = in.value
	case opSubmit:
		m.turns += in.value + " "
	case opTitle:
		return out == m.title, m
	case opTurns:
		return out == m.turns, m
	}
	return true, m
}

// checkHistory holds what the clients saw against the model: there must be an order of all
// calls, each between its beginning and its end, in which every answer is right. Reads may be
// left out.
func (s *faultSession) checkHistory(t *testing.T, withoutReads bool) {
	t.Helper()
	if withoutReads {
		s.operations = slices.DeleteFunc(s.operations, func(o porcupine.Operation) bool {
			op := o.Input.(sessionCall).op
			return op == opTitle || op == opTurns
		})
	}
	model := porcupine.Model{
		Init: func() any { return sessionModel{} },
		Step: func(state, in, out any) (bool, any) {
			return state.(sessionModel).step(in.(sessionCall), out.(string))
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v → %v", in, out) },
	}
	if porcupine.CheckOperations(model, s.operations) {
		return
	}
	t.Errorf("session %s: no order of these calls explains what they were answered:", s.id)
	for _, o := range s.operations {
		t.Logf("%d: %v to %v: %v → %v", o.ClientId, time.Duration(o.Call), time.Duration(o.Return), o.Input, o.Output)
	}
}

// call carries out one operation, through one node or the other, until one answers. A command
// that is sent again has the key that it had.
func (s *faultSession) call(ctx context.Context, who int, r *rand.Rand, in sessionCall) error {
	begun := time.Since(s.w.began)
	for try := r.IntN(2); ; try++ {
		if in.op == opTitle || in.op == opTurns {
			begun = time.Since(s.w.began) // what was read before counts for nothing
		}
		out, err := s.tryCall(ctx, s.w.nodes[try%2], patience<<min(try/2, 5), in)
		if err == nil {
			s.recordCall(who, in, begun, out)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("session %s: %s %s is not answered: %w", s.id, in.op, in.value, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// recordCall adds an operation that was answered to the history.
func (s *faultSession) recordCall(who int, in sessionCall, begun time.Duration, out string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations = append(s.operations, porcupine.Operation{
		ClientId: who, Input: in, Call: int64(begun), Output: out, Return: int64(time.Since(s.w.began)),
	})
	if in.op == opSubmit {
		s.turns = append(s.turns, in.value)
	}
}

// patience is how long a client waits for an answer before it asks the other node. It grows
// with each round: otherwise a busy machine could keep every client from ever being quick enough.
const patience = 1500 * time.Millisecond

func (s *faultSession) tryCall(ctx context.Context, n *faultNode, within time.Duration, in sessionCall) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := n.client()
	if err != nil {
		return "", err
	}
	defer c.Close()
	key := command.Mutation{IdempotencyKey: s.id + in.op + in.value}
	switch in.op {
	case opRename:
		_, err = client.Call[command.UpdateSessionResult](ctx, c, &command.UpdateSession{SessionID: s.id, Title: &in.value, Mutation: key})
		return "", err
	case opSubmit:
		_, err = client.Call[command.SubmitTurnResult](ctx, c, &command.SubmitTurn{SessionID: s.id, TurnID: in.value, Input: event.Raw(`"do it"`), Mutation: key})
		return "", err
	case opTitle:
		none := 0
		read, err := client.Call[command.SessionRead](ctx, c, &command.GetSession{SessionID: s.id, Limit: &none})
		if err != nil {
			return "", err
		}
		return read.Title, nil
	}
	page, err := c.Events(ctx, s.id, 0, 1000)
	if err != nil {
		return "", err
	}
	var turns strings.Builder
	for i := range page.Events {
		if page.Events[i].Type == event.TypeTurnSubmitted {
			turns.WriteString(scopeOf(&page.Events[i]).TurnID + " ")
		}
	}
	return turns.String(), nil
}

// factScope is what a fact is about.
type factScope struct{ TurnID, ToolCallID, ThreadID string }

func scopeOf(e *client.Event) factScope {
	var s factScope
	_ = json.Unmarshal(e.Data, &s) // an envelope that isn't one has no ids
	return s
}

// writeAndRead writes and reads the session through both nodes, as two clients do, for as long as ctx
// lasts: one writes, one reads. The first turn is there when it returns from begin.
func (s *faultSession) writeAndRead(ctx context.Context, seed uint64) error {
	errs := make(chan error, 2)
	writing, written := context.WithCancel(ctx)
	go func() {
		defer written()
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range 3 {
			in := sessionCall{opRename, fmt.Sprintf("title %d", i)}
			if i == 1 && r.IntN(2) == 0 {
				in = sessionCall{opSubmit, "turn_" + s.id + "_second"}
			}
			if err := s.call(ctx, 1, r, in); err != nil {
				errs <- err
				return
			}
			time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
		}
		errs <- nil
	}()
	go func() {
		r := rand.New(rand.NewPCG(seed, 2))
		for i := 0; writing.Err() == nil; i++ {
			in := sessionCall{op: []string{opTitle, opTurns}[i%2]}
			if err := s.call(ctx, 2, r, in); err != nil {
				errs <- err
				return
			}
			time.Sleep(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		}
		errs <- nil
	}()
	if err := <-errs; err != nil {
		return err
	}
	return <-errs
}

// turnModel is what may become of the turns of a session, and of their tool calls.
type turnModel struct {
	next uint64
	// turns and calls have what was begun, and whether it has ended.
	turns, calls map[string]bool
	// marks has the mark that the command of each call leaves, and ran those whose command ran
	// to its end. Others ended otherwise: killed with the session that its node lost, or
	// without a known result.
	marks   map[string]string
	ran     map[string]bool
	blocked []string
	// facts are those that were taken, for people.
	facts []string
}

func newTurnModel() *turnModel {
	return &turnModel{next: 1, turns: map[string]bool{}, calls: map[string]bool{}, marks: map[string]string{}, ran: map[string]bool{}}
}

// takeFact takes the next fact, and says what is wrong with it.
func (m *turnModel) takeFact(e *client.Event) error {
	if e.Sequence != m.next {
		return fmt.Errorf("the stream has %d, and %d should come", e.Sequence, m.next)
	}
	m.next++
	m.facts = append(m.facts, string(e.Data))
	at := scopeOf(e)
	switch e.Type {
	case event.TypeTurnSubmitted:
		return nowBegun(m.turns, at.TurnID, e)
	case event.TypeTurnCompleted:
		return nowEnded(m.turns, at.TurnID, e)
	case event.TypeTurnFailed:
		return fmt.Errorf("a turn failed: %s", e.Data)
	case event.TypeToolStarted:
		if err := m.takeCommand(at.ToolCallID, e); err != nil {
			return err
		}
		return nowBegun(m.calls, at.ToolCallID, e)
	case event.TypeToolResult:
		full, err := e.Decode()
		if err != nil {
			return err
		}
		m.ran[at.ToolCallID] = full.Payload.(*event.ToolResult).Status == "ok"
		return nowEnded(m.calls, at.ToolCallID, e)
	case event.TypeToolFailed:
		return nowEnded(m.calls, at.ToolCallID, e)
	case event.TypeThreadUpdated:
		if text := string(e.Data); strings.Contains(text, "tool_lost") && !strings.Contains(text, "resumed") {
			m.blocked = append(m.blocked, at.ThreadID)
		}
	}
	return nil
}

// mark is what the commands of the script leave, each its own.
var mark = regexp.MustCompile(`mark-\d+\.`)

// takeCommand notes the mark of a call's command. No other call may have the same command.
func (m *turnModel) takeCommand(callID string, e *client.Event) error {
	full, err := e.Decode()
	if err != nil {
		return err
	}
	leaves := mark.FindString(string(full.Payload.(*event.ToolStarted).SafeArgs))
	for other, known := range m.marks {
		if other != callID && known == leaves {
			return fmt.Errorf("call %s has the command of %s: %s", callID, other, e.Data)
		}
	}
	m.marks[callID] = leaves
	return nil
}

// checkMarks holds what the commands left behind against what is recorded of each call: one
// that has a result ran once, and one that was cut off at most once.
func (s *faultSession) checkMarks(m *turnModel) error {
	left, err := os.ReadFile(filepath.Join(s.folder, "witness"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no command may have run
		return err
	}
	times := map[string]int{}
	for _, one := range mark.FindAllString(string(left), -1) {
		times[one]++
	}
	for callID, leaves := range m.marks {
		n := times[leaves]
		delete(times, leaves)
		if n > 1 || n == 0 && m.ran[callID] {
			return fmt.Errorf("the command of call %s ran %d times:\n%s", callID, n, strings.Join(m.facts, "\n"))
		}
	}
	if len(times) > 0 {
		return fmt.Errorf("commands of no call ran, %v:\n%s", times, strings.Join(m.facts, "\n"))
	}
	return nil
}

// checkRest reads what came after the last turn, up to now: nothing begins or ends again, and
// no command runs.
func (s *faultSession) checkRest(ctx context.Context, n *faultNode, m *turnModel) error {
	c, err := n.client()
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		page, err := c.Events(ctx, s.id, m.next-1, 1000)
		if err != nil {
			return err
		}
		for i := range page.Events {
			if err := m.takeFact(&page.Events[i]); err != nil {
				return err
			}
		}
		if m.next > page.LastSequence {
			break
		}
	}
	if open := m.open(); open > 0 || len(m.turns) != len(s.turns) {
		return fmt.Errorf("%d turns and calls are open, and of %d turns %d are known:\n%s", open, len(s.turns), len(m.turns), strings.Join(m.facts, "\n"))
	}
	return s.checkMarks(m)
}

func nowBegun(all map[string]bool, id string, e *client.Event) error {
	if _, known := all[id]; known {
		return fmt.Errorf("it begins twice: %s", e.Data)
	}
	all[id] = false
	return nil
}

func nowEnded(all map[string]bool, id string, e *client.Event) error {
	over, known := all[id]
	if !known || over {
		return fmt.Errorf("it ends twice, or before it began: %s", e.Data)
	}
	all[id] = true
	return nil
}

// open counts turns and calls that have not ended.
func (m *turnModel) open() int {
	n := 0
	for _, all := range []map[string]bool{m.turns, m.calls} {
		for _, over := range all {
			if !over {
				n++
			}
		}
	}
	return n
}
