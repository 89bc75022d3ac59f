package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// formerProgram returns the program of a former version.
func formerProgram(t *testing.T) string {
	t.Helper()
	path := os.Getenv("AGENTD_TEST_FORMER")
	if path == "" {
		t.Skip("skipped: it needs the program of a former version, which AGENTD_TEST_FORMER names; make test-neighbours FORMER=<commit> builds it and runs this")
	}
	return path
}

const formerScript = `repeat: true
answers:
  - {when: {contains: allow}, text: I will., tools: [{name: shell, arguments: {command: touch allowed}}]}
  - {when: {contains: allow}, text: done}
  - {when: {contains: colour}, ask: {prompt: "Which colour?", schema: {type: string}}}
  - {when: {contains: colour}, text: done}
  - {text: done, stall: 150ms}
`

// TestLongTwoVersionsSideBySide updates three nodes of a former version one by one, tries to go
// back with the first of them, and goes on, while clients of both versions use every door,
// people answer what is asked, and every node is followed. What either version wrote, both read
// alike.
func TestLongTwoVersionsSideBySide(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("nodes of two versions run only with AGENTD_TEST_LONG")
	}
	f := newFleet(t, "1h", slow)
	f.program = formerProgram(t)
	b := newBalanced(f, formerScript)
	migrates := f.lacksSteps()
	doors := append(slices.Clone(balancedDoors), balancedDoor{"an approval", doorApproval}, balancedDoor{"a question", doorQuestion})
	crowd := b.gather(doors, 2, 100*time.Millisecond)
	crowd.everyDoor()
	w := b.watch("sess_door0", fmt.Sprintf("sess_door%d", len(doors)-2))
	if migrates {
		crowd.whileHeldUp(func() { b.update(0, "") })
	} else {
		b.update(0, "")
	}
	crowd.everyDoor()
	b.sameEverywhere()
	if migrates {
		b.refusesFormer(0)
	} else {
		b.update(0, b.former)
	}
	t.Logf("this version migrates the database of the former one: %v", migrates)
	crowd.everyDoor()
	b.sameEverywhere()
	for i := range b.nodes {
		b.update(i, "")
		crowd.everyDoor()
	}
	crowd.finish()
	b.sameEverywhere()
	w.finish()
	for _, p := range b.nodes {
		p.stop(syscall.SIGTERM)
	}
	if out, errs, code := program(t, "verify", "--data", f.url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// lacksSteps says whether this version migrates the fleet's database.
func (f *fleet) lacksSteps() bool {
	f.t.Helper()
	steps, err := filepath.Glob("../../store/postgres/migrations/*.sql")
	if err != nil {
		f.t.Fatal(err)
	}
	return f.count(`SELECT count(*) FROM agentd.migrations`) < int64(len(steps))
}

// update restarts a node with another program.
func (b *balanced) update(i int, path string) {
	b.t.Helper()
	b.f.program = path
	b.restart(i, i != 1)
}

// whileHeldUp does something while a transaction has the events' table as a vacuum has it, which
// steps may have to wait for. All clients go on meanwhile.
func (c *balancedCrowd) whileHeldUp(update func()) {
	t := c.b.t
	t.Helper()
	holder, looker := c.b.f.connect(), c.b.f.connect()
	tx, err := holder.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `LOCK TABLE agentd.events IN SHARE UPDATE EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		heldUp := false
		for !heldUp && !t.Failed() {
			select {
			case <-over:
				t.Error("the migration wasn't held up")
			case <-time.After(10 * time.Millisecond):
				const waits = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'agentd.events'::regclass)`
				if err := looker.QueryRow(t.Context(), waits).Scan(&heldUp); err != nil {
					t.Error(err)
				}
			}
		}
		c.everyDoor()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	})
	update()
	close(over)
	holding.Wait()
}

// refusesFormer stops a node and has the former version try to start in its place, and then this
// one.
func (b *balanced) refusesFormer(i int) {
	b.t.Helper()
	b.f.program = b.former
	listen := strings.TrimPrefix(b.nodes[i].url, "http://")
	if code := b.nodes[i].stop(syscall.SIGTERM); code != 0 {
		b.t.Errorf("%s ended with %d", b.names[i], code)
	}
	out, err := programOr(b.t, b.former, "serve", "--data", b.f.url, "--state-dir", b.dirs[i], "--config", b.fleetOf(i).config, "--listen", listen).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the data was written by a newer version of agentd") {
		b.t.Errorf("the former version ended with %v:\n%s", err, out)
	}
	b.f.program = ""
	b.nodes[i] = b.node(i, listen)
}

// sameEverywhere reads all sessions through all nodes.
func (b *balanced) sameEverywhere() {
	b.t.Helper()
	rows, err := b.f.connect().Query(b.t.Context(), `SELECT session_id, head FROM agentd.sessions WHERE head > 0`)
	if err != nil {
		b.t.Fatal(err)
	}
	type session struct {
		ID   string
		Head uint64
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[session])
	if err != nil || len(sessions) == 0 {
		b.t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	for _, s := range sessions {
		var first string
		for i, p := range b.nodes {
			p.reads(s.ID)
			read, err := digest(b.t.Context(), p.client(), s.ID, s.Head)
			switch {
			case err != nil:
				b.t.Errorf("%s reads %s: %v", b.names[i], s.ID, err)
			case i == 0:
				first = read
			case read != first:
				b.t.Errorf("%s reads other facts of %s than %s", b.names[i], s.ID, b.names[0])
			}
		}
	}
}

// digest follows a session up to a sequence, and returns the sum of what it read.
func digest(ctx context.Context, c *client.Client, id string, last uint64) (string, error) {
	sum, at := sha256.New(), uint64(0)
	for e, err := range c.Follow(ctx, id, 0, nil) {
		if err != nil {
			return "", err
		}
		if at++; e.Sequence != at {
			return "", fmt.Errorf("%d comes in the place of %d", e.Sequence, at)
		}
		sum.Write(e.Data)
		if at == last {
			break
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), ctx.Err()
}

// watchers follow sessions through every node, whatever version it has.
type watchers struct {
	b        *balanced
	sessions []string
	// last has the end of each session as soon as it is known.
	last map[string]chan uint64
	done sync.WaitGroup
}

func (b *balanced) watch(sessions ...string) *watchers {
	w := &watchers{b: b, sessions: sessions, last: map[string]chan uint64{}}
	for _, id := range sessions {
		w.last[id] = make(chan uint64, len(b.nodes))
		for i, p := range b.nodes {
			c := p.client()
			w.done.Go(func() {
				if err := w.follow(c, id); err != nil {
					b.t.Errorf("%s through %s: %v", id, b.names[i], err)
				}
			})
		}
	}
	return w
}

// follow reads a session once, in order, to its end.
func (w *watchers) follow(c *client.Client, id string) error {
	end, at := uint64(0), uint64(0)
	for e, err := range c.Follow(w.b.t.Context(), id, 0, nil) {
		if err != nil {
			return err
		}
		if at++; e.Sequence != at {
			return fmt.Errorf("%d comes in the place of %d", e.Sequence, at)
		}
		select {
		case end = <-w.last[id]:
		default:
		}
		if end != 0 && at >= end {
			return nil
		}
	}
	return errors.New("it ended")
}

// finish gives each session one more turn, which all have to see.
func (w *watchers) finish() {
	w.b.t.Helper()
	for _, id := range w.sessions {
		head := w.b.f.count(`SELECT head FROM agentd.sessions WHERE session_id = '` + id + `'`)
		for range w.b.nodes {
			w.last[id] <- uint64(head) + 1
		}
		turn := call[command.SubmitTurnResult](w.b.nodes[0], &command.SubmitTurn{SessionID: id, Input: command.Text("go on")})
		w.b.nodes[0].completed(turn)
	}
	w.done.Wait()
}

// doorApproval has every turn ask for permission, and gives it.
func doorApproval(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return answered(ctx, c, "allow", func(id string) *command.RespondAction {
		return &command.RespondAction{ActionID: id, Decision: "allow"}
	})
}

// doorQuestion has every turn ask a person something, and answers.
func doorQuestion(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return answered(ctx, c, "colour", func(id string) *command.RespondAction {
		return &command.RespondAction{ActionID: id, Decision: "submit", Payload: event.Raw(`"red"`)}
	})
}

// answered gives turns that wait for an answer.
func answered(ctx context.Context, c *balancedClient, text string, answer func(actionID string) *command.RespondAction) (func(int) error, error) {
	made := &command.CreateSession{SessionID: c.session, PermissionMode: "default", Mutation: command.Mutation{IdempotencyKey: c.session}}
	if err := c.command(ctx, made, nil); err != nil {
		return nil, err
	}
	return func(n int) error {
		submit := c.submitParams(n)
		submit.Input = command.Text(text)
		var turn command.SubmitTurnResult
		if err := c.command(ctx, submit, &turn); err != nil {
			return err
		}
		for e, err := range c.front.client().Follow(ctx, turn.SessionID, turn.Sequence, nil) {
			if err != nil {
				return err
			}
			switch {
			case scopeOf(&e).TurnID != turn.TurnID:
			case e.Type == event.TypeActionRequired:
				asked, err := e.Decode()
				if err != nil {
					return err
				}
				given := answer(asked.ActionID)
				given.IdempotencyKey = c.key(n) + "-answer"
				if err := c.command(ctx, given, nil); err != nil {
					return err
				}
			case e.Type == event.TypeTurnCompleted:
				return nil
			}
		}
		return ctx.Err()
	}, nil
}

const takeoverScript = `answers:
  - {when: {contains: wait}, text: never, stall: 1h}
  - {when: {contains: colour}, ask: {prompt: "Which colour?", schema: {type: string}}}
`

// TestLongTakeoverBetweenVersions kills a node in the middle of turns, and one of the other
// version goes on with them, with those that wait, and with its questions.
func TestLongTakeoverBetweenVersions(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("nodes of two versions run only with AGENTD_TEST_LONG")
	}
	former := formerProgram(t)
	for name, programs := range map[string][]string{"this version takes over": {former, ""}, "the former version takes over": {"", former}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "1h", takeoverScript)
			fleets, nodes := [2]*fleet{f, f.quick()}, [2]*process{}
			for _, version := range []string{former, ""} { // once this one migrated, the former one can't start
				i := slices.Index(programs, version)
				fleets[i].program = version
				nodes[i] = fleets[i].node(f.dir())
			}
			lost, rest := nodes[0], nodes[1]
			long := lost.submit("hello")
			lost.completed(long)
			var turns []*command.SubmitTurnResult
			for range 100 {
				turns = append(turns, lost.in(long.SessionID, "", "hello"))
			}
			for _, text := range []string{"wait", "and then", "go on"} {
				turns = append(turns, lost.in(long.SessionID, "", text))
			}
			asks := lost.submit("colour")
			asked := rest.until(asks.SessionID, event.TypeActionRequired, 1)
			rest.until(long.SessionID, event.TypeModelRequested, 102)
			f.kill(lost)
			for _, turn := range turns {
				rest.completed(turn)
			}
			call[command.RespondActionResult](rest, &command.RespondAction{ActionID: asked.ActionID, Decision: "submit", Payload: event.Raw(`"red"`)})
			rest.completed(asks)
			// What was taken over goes back.
			fleets[1].program = ""
			back := fleets[1].node(f.dir())
			again := rest.submit("hello")
			rest.completed(again)
			f.kill(rest)
			for _, id := range []string{long.SessionID, asks.SessionID, again.SessionID} {
				back.completed(back.in(id, "", "once more"))
			}
			back.stop(syscall.SIGTERM)
			if out, errs, code := program(t, "verify", "--data", f.url); code != 0 {
				t.Errorf("verify: %d\n%s%s", code, out, errs)
			}
		})
	}
}

// TestLongTwoVersionsUnderFaults has what the fault suite does happen to a node of either version,
// while the other one is the other node. The former version is started again in it.
func TestLongTwoVersionsUnderFaults(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("nodes of two versions run only with AGENTD_TEST_LONG")
	}
	f := newFleet(t, "1h", slow)
	f.program = formerProgram(t)
	f.node(f.dir()).stop(syscall.SIGTERM)
	if f.lacksSteps() {
		t.Skip("skipped: the former version can't be started again, because this one migrates its database")
	}
	w := newFaultWorld(t, f.program)
	faultRounds(t, w, 0, 2*len(w.kinds()))
}
