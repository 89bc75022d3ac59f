package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
)

// accountClient is a client with a token of an account of its own.
func (p *process) accountClient(account string) *client.Client {
	p.t.Helper()
	return p.clientWith(p.tokenFor("client", account))
}

// onEachStore runs a test with a server over each store, and a script of answers.
func onEachStore(t *testing.T, script string, test func(*testing.T, *process)) {
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		answers := writeFile(t, dir, "answers.yaml", script)
		config := writeFile(t, dir, "agentd.yaml", "providers:\n  - {id: play, kind: script, script: "+answers+", models: [{id: m}]}\n")
		test(t, start(t, filepath.Join(dir, "data"), "--config", config))
	})
	t.Run("postgres", func(t *testing.T) {
		f := newFleet(t, "1h", script)
		test(t, f.node(f.dir()))
	})
}

// submitMany gives each of so many new sessions a turn, from several clients at a time, and
// returns the turns.
func submitMany(t *testing.T, c *client.Client, turns int, text string) []*command.SubmitTurnResult {
	t.Helper()
	made := make([]*command.SubmitTurnResult, turns)
	next := make(chan int)
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for i := range next {
				params := submitParams(t, text)
				params.SessionID, params.Create = fmt.Sprintf("sess_many%d", i), true
				var err error
				if made[i], err = patient[command.SubmitTurnResult](t.Context(), c, params); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range turns {
		next <- i
	}
	close(next)
	clients.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return made
}

// TestWaitingTurnsOfOneAccountStopNobody: an account has all the threads that one may have at
// work on a model that never answers, and some that wait. The turns of others end, those of
// another account in at most twice the time that they take alone, because half of everything is
// theirs. The figures say which class of accounts waits.
func TestWaitingTurnsOfOneAccountStopNobody(t *testing.T) {
	const turns, room, share = 1040, 1024, 2.0
	onEachStore(t, "answers:\n  - {when: {contains: wait}, text: never, stall: 1h}\n", func(t *testing.T, p *process) {
		noisy, quiet := p.accountClient("noisy"), p.accountClient("quiet")
		took := func() time.Duration {
			t.Helper()
			began := time.Now()
			for range 20 {
				if err := submitAndFollow(t.Context(), quiet, submitParams(t, "hello")); err != nil {
					t.Fatal(err)
				}
			}
			return time.Since(began)
		}
		took() // connections are made
		var alone, beside time.Duration
		for range 3 {
			alone = max(alone, took())
		}
		submitMany(t, noisy, turns, "wait for it")
		p.awaitRunning(room)
		s := &storm{t: t, p: p}
		for s.figures().by["agentd_threads_waiting"] != turns-room {
			time.Sleep(20 * time.Millisecond)
		}
		for range 8 { // another process may come in between
			if beside = took(); beside.Seconds() <= share*alone.Seconds() {
				break
			}
		}
		ratio := beside.Seconds() / alone.Seconds()
		t.Logf("20 turns took %v alone, %v beside %d turns of another account: %.2f times as long", alone, beside, turns, ratio)
		if ratio > share {
			t.Errorf("turns take %.2f times as long beside an account whose turns wait, want at most %.1f", ratio, share)
		}
		p.completed(p.submit("hello, too"))
		f := s.figures()
		for name, want := range map[string]float64{
			`agentd_account_threads{accounts="busiest",state="waiting"}`:  turns - room,
			`agentd_account_threads{accounts="busiest",state="running"}`:  room,
			`agentd_account_threads{accounts="operator",state="waiting"}`: 0,
			`agentd_account_threads{accounts="others",state="waiting"}`:   0,
			"agentd_threads_waiting": turns - room,
		} {
			if got, ok := f.by[name]; !ok || got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		p.stop(syscall.SIGKILL)
	})
}

// TestLongManySessionsEndOverPostgreSQL has more sessions at work at the same time than the
// machine can serve at once, on one server: the turns of all of them end.
func TestLongManySessionsEndOverPostgreSQL(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: 500 and 2,000 sessions at once over PostgreSQL; set AGENTD_TEST_LONG")
	}
	for _, sessions := range []int{500, 2000} {
		t.Run(strconv.Itoa(sessions), func(t *testing.T) {
			f := newFleet(t, "1h", "answers:\n  - {text: one two three four five, delay: 200ms}\n")
			p := f.node(f.dir())
			began := time.Now()
			turns := submitMany(t, p.client(), sessions, "hello")
			submitted := time.Since(began)
			for _, r := range turns {
				p.completed(r)
			}
			all := time.Since(began)
			t.Logf("%d turns were submitted in %v and ended in %v: %.0f turns/s", sessions, submitted, all, float64(sessions)/all.Seconds())
			if code := p.stop(syscall.SIGTERM); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// submitAndFollow gives a session a turn and follows it to its end.
func submitAndFollow(ctx context.Context, c *client.Client, params *command.SubmitTurn) error {
	r, err := patient[command.SubmitTurnResult](ctx, c, params)
	if err != nil {
		return err
	}
	for e, err := range c.Follow(ctx, r.SessionID, r.Sequence, nil) {
		switch {
		case err != nil:
			return err
		case e.Type == "turn.failed":
			return fmt.Errorf("a turn failed: %s", e.Data)
		case e.Type == "turn.completed":
			return nil
		}
	}
	return ctx.Err()
}
