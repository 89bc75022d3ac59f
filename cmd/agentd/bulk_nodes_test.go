package main

import (
	"fmt"
	"sync"
	"testing"

	"agentd/command"
)

// TestBulkKeysLeaveNoRows gives bulk commands with idempotency keys of their own to two nodes at
// once: each is answered, repeated at the other node it says the same, and the table of
// sessions has no row for each key.
func TestBulkKeysLeaveNoRows(t *testing.T) {
	f := newFleet(t, "1h", "answers:\n  - {text: done}\n")
	nodes := []*process{f.node(f.dir()), f.node(f.dir())}
	var ids []string
	for i := range 2 {
		ids = append(ids, call[command.CreateSessionResult](nodes[0], &command.CreateSession{SessionID: fmt.Sprint("part_0", i)}).SessionID)
	}
	archive := func(n int) *command.ArchiveSessions {
		p := &command.ArchiveSessions{SessionIDs: ids, Archived: new(n%2 == 0)}
		p.IdempotencyKey = fmt.Sprint("key ", n)
		return p
	}
	const calls = 200
	first := make([]*command.ArchiveSessionsResult, calls)
	var wg sync.WaitGroup
	for lane := range 8 {
		wg.Go(func() {
			for n := lane; n < calls; n += 8 {
				first[n] = call[command.ArchiveSessionsResult](nodes[n%2], archive(n))
			}
		})
	}
	wg.Wait()
	for n := range calls {
		again := call[command.ArchiveSessionsResult](nodes[(n+1)%2], archive(n))
		if first[n].Failed > 0 || fmt.Sprint(again.BulkCounts) != fmt.Sprint(first[n].BulkCounts) {
			t.Errorf("call %d: %+v, repeated %+v", n, first[n].BulkCounts, again.BulkCounts)
		}
	}
	if rows := f.count(`SELECT count(*) FROM agentd.sessions WHERE head = 0`); rows > 100 {
		t.Errorf("%d calls left %d rows that belong to no session", calls, rows)
	}
}

// count asks the database for a number.
func (f *fleet) count(sql string) (n int64) {
	f.t.Helper()
	conn := f.connect()
	if err := conn.QueryRow(f.t.Context(), sql).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
