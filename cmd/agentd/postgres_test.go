package main

import (
	"bytes"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/pgtest"
)

// TestServePostgres runs over a database, with the files of this machine in a
// state directory.
func TestServePostgres(t *testing.T) {
	url, dir := pgtest.Shared(t).Database(t), t.TempDir()
	p := start(t, dir, "--data", url, "--state-dir", dir)
	r := p.submit("hello")
	p.completed(r)
	if out, errs, code := program(t, "sessions", "--data", url, "--state-dir", dir); code != 0 || !strings.Contains(out, r.SessionID) {
		t.Errorf("sessions: %d\n%s%s", code, out, errs)
	}
	if _, errs, code := program(t, "backup", "--data", url, "--state-dir", dir, "b.tar"); code != exitUsage || !strings.Contains(errs, "pg_dump") {
		t.Errorf("backup: %d\n%s", code, errs)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if out, errs, code := program(t, "verify", "--data", url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, errs)
	}
}

// TestANodeDoesNotListenBeforeItsTablesAreReady: who reached it, such as a balancer that doesn't
// know yet that it stopped, would wait for an answer as long as it waits for the tables.
func TestANodeDoesNotListenBeforeItsTablesAreReady(t *testing.T) {
	f := newFleet(t, "1h", slow)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, dir, conn := l.Addr().String(), f.dir(), f.connect()
	_ = l.Close()
	const lock = `(x'6167656e7464'::bigint)` // another node migrates
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock`+lock); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, data: dir, lines: make(chan string, 10_000), cmd: self(t, "serve", "--data", f.url, "--state-dir", dir, "--listen", address)}
	var beginning sync.WaitGroup
	beginning.Go(p.begin)
	p.wait("another node brings the tables up to date")
	reached, err := net.Dial("tcp", address)
	if err == nil {
		_ = reached.Close()
		t.Error("a node that waits for its tables takes connections")
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_unlock`+lock); err != nil {
		t.Fatal(err)
	}
	beginning.Wait()
	p.completed(p.submit("hello"))
}

// TestASessionMovesToADatabase takes a session over from a directory, on a machine on
// which nothing ran yet: its evidence there is the same but for id, time and key.
func TestASessionMovesToADatabase(t *testing.T) {
	url, dir := pgtest.Shared(t).Database(t), t.TempDir()
	here, file, state := filepath.Join(dir, "here"), filepath.Join(dir, "s.jsonl"), filepath.Join(dir, "not", "yet")
	must := func(args ...string) string {
		t.Helper()
		out, errs, code := program(t, args...)
		if code != 0 {
			t.Fatalf("%v: %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	var first struct{ SessionID string }
	line, _, _ := strings.Cut(must("run", "--json", "--data", here, "hello"), "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatal(err)
	}
	must("sessions", "export", first.SessionID, "--data", here, "--out", file)
	must("sessions", "import", file, "--data", url, "--state-dir", state)
	var packs [2]map[string]json.RawMessage
	for i, where := range [][]string{{"--data", here}, {"--data", url, "--state-dir", state}} {
		if err := json.Unmarshal([]byte(must(append([]string{"export", "evidence", first.SessionID}, where...)...)), &packs[i]); err != nil {
			t.Fatal(err)
		}
		for _, own := range []string{"evidenceId", "exportedAt", "integrity"} {
			delete(packs[i], own)
		}
	}
	for name, section := range packs[0] {
		if other := packs[1][name]; !bytes.Equal(section, other) {
			t.Errorf("%s: %s and %s", name, section, other)
		}
	}
}

// TestNodesForward has two nodes over one database: what reaches the node that
// doesn't own the session is carried out by the one that does.
func TestNodesForward(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	a, b := f.node(f.dir()), f.node(f.dir())
	r := a.submit("hello")
	a.completed(r)
	c := b.client()
	var second command.SubmitTurnResult
	if err := c.Do(t.Context(), &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"again"`)}, &second); err != nil {
		t.Fatalf("through the other node: %v", err)
	}
	b.completed(&second)
	page, err := c.Events(t.Context(), r.SessionID, 0, 1000)
	if err != nil || len(page.Events) < 30 {
		t.Fatalf("%d events, %v", len(page.Events), err)
	}
	err = c.Do(t.Context(), &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`{}`)}, &second)
	if fault.KindOf(err) != fault.InvalidParams {
		t.Errorf("a mistake through the other node: %v", err)
	}
	// A node that dies keeps its sessions until its lease is over.
	a.stop(syscall.SIGKILL)
	f.leaseEnds(a, time.Second)
	for {
		err := c.Do(t.Context(), &command.SubmitTurn{SessionID: r.SessionID, Input: event.Raw(`"and again"`)}, &second)
		if err == nil {
			break
		}
		if fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("after the first node died: %v", err)
		}
	}
	b.completed(&second)
}
