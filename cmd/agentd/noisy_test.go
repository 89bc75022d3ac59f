package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
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
	out, errs, code := program(p.t, "tokens", "create", "--data", p.data, "--role", "client", "--account", account, "laptop-"+account)
	if code != 0 {
		p.t.Fatalf("%d %s%s", code, out, errs)
	}
	c, err := client.New(p.url, &client.Options{Token: strings.TrimSpace(out)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// TestWaitingTurnsOfOneAccountStopNobody: an account has all the threads that one may have at
// work on a model that never answers, and some that wait. The turns of others end, and the
// figures say which class of accounts waits.
func TestWaitingTurnsOfOneAccountStopNobody(t *testing.T) {
	const turns, room = 1040, 1024
	dir := t.TempDir()
	answers := writeFile(t, dir, "answers.yaml", "answers:\n  - {when: {contains: wait}, text: never, stall: 1h}\n")
	config := writeFile(t, dir, "agentd.yaml", "providers:\n  - {id: play, kind: script, script: "+answers+", models: [{id: m}]}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	noisy, quiet := p.accountClient("noisy"), p.accountClient("quiet")
	next := make(chan int)
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for i := range next {
				params := submitParams(t, "wait for it")
				params.SessionID, params.Create = fmt.Sprintf("sess_noisy%d", i), true
				if _, err := patient[command.SubmitTurnResult](t.Context(), noisy, params); err != nil {
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
	p.awaitRunning(room)
	s := &storm{t: t, p: p}
	for s.figures().by["agentd_threads_waiting"] != turns-room {
		time.Sleep(20 * time.Millisecond)
	}
	for range 3 {
		if err := submitAndFollow(t.Context(), quiet, submitParams(t, "hello")); err != nil {
			t.Error(err)
		}
		p.completed(p.submit("hello, too"))
	}
	f := s.figures()
	for name, want := range map[string]float64{
		`agentd_account_threads{accounts="busiest",state="waiting"}`:  turns - room,
		`agentd_account_threads{accounts="busiest",state="running"}`:  room,
		`agentd_account_threads{accounts="operator",state="waiting"}`: 0,
		`agentd_account_threads{accounts="others",state="waiting"}`:   0,
		"agentd_threads_waiting":                                      turns - room,
	} {
		if got, ok := f.by[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	p.stop(syscall.SIGKILL)
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
