package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

func shut(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func claim(t *testing.T, s store.Store, id string) store.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func appendOne(ctx context.Context, s store.Store, b *store.Batch) error {
	return s.Append(ctx, []*store.Batch{b})[0]
}

// survivor writes to one session whatever happens to the database, and remembers
// what was acknowledged.
type survivor struct {
	id    string
	acked []store.Record
	acks  chan struct{}
}

// run appends until ctx ends. After any failure it claims the session again,
// which makes the head definite.
func (v *survivor) run(ctx context.Context, s store.Store) error {
	for ctx.Err() == nil {
		c, err := s.Claim(ctx, v.id)
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the database is away; don't spin
			continue
		}
		if err := v.reconcile(ctx, s, c.Head); err != nil {
			if errors.Is(err, errLost) {
				return err
			}
			continue
		}
		v.write(ctx, s, c)
	}
	return nil
}

var errLost = errors.New("acknowledged records are gone")

// reconcile takes in what an append with an unknown outcome has written.
func (v *survivor) reconcile(ctx context.Context, s store.Store, head store.Head) error {
	if n := uint64(len(v.acked)); head.Sequence < n {
		return fmt.Errorf("%w: session %s is at %d, %d were acknowledged", errLost, v.id, head.Sequence, n)
	}
	var tail []store.Record
	for r, err := range s.Read(ctx, v.id, store.Range{After: uint64(len(v.acked))}) {
		if err != nil {
			return err
		}
		tail = append(tail, r)
	}
	v.acked = append(v.acked, tail...)
	return nil
}

func (v *survivor) write(ctx context.Context, s store.Store, c store.Claim) {
	for ctx.Err() == nil {
		records := storetest.Continue(v.id, storetest.HeadOf(v.acked), 3, 300)
		if err := appendOne(ctx, s, &store.Batch{SessionID: v.id, Epoch: c.Epoch, Records: records}); err != nil {
			return
		}
		v.acked = append(v.acked, records...)
		select {
		case v.acks <- struct{}{}:
		case <-ctx.Done():
		}
	}
}

// TestServerDies kills and restarts the server under load. What was acknowledged
// is there, without gaps, and the writers go on by themselves.
func TestServerDies(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	s := openStore(t, cluster.Database(t), &postgres.Options{MaxConns: 4})
	defer shut(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers []*survivor
	var running sync.WaitGroup
	for i := range 6 {
		v := &survivor{id: fmt.Sprintf("sess_%d", i), acks: make(chan struct{})}
		writers = append(writers, v)
		running.Go(func() {
			if err := v.run(ctx, s); err != nil {
				t.Error(err)
				cancel()
			}
		})
	}
	for round := range 4 {
		for _, v := range writers {
			for range 10 {
				select {
				case <-v.acks:
				case <-ctx.Done():
					t.Fatal("a writer failed")
				}
			}
		}
		if round%2 == 0 {
			cluster.Kill(t)
			cluster.Run(t)
		} else {
			cluster.Restart(t)
		}
	}
	for _, v := range writers {
		<-v.acks
	}
	cancel()
	running.Wait()
	for _, v := range writers {
		v.verify(t, s)
	}
}

// verify checks what is stored against what was acknowledged.
func (v *survivor) verify(t *testing.T, s store.Store) {
	t.Helper()
	var all []store.Record
	for r, err := range s.Read(t.Context(), v.id, store.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) < len(v.acked) {
		t.Fatalf("session %s has %d records, %d were acknowledged", v.id, len(all), len(v.acked))
	}
	for i, r := range v.acked {
		if all[i].Hash != r.Hash || !bytes.Equal(all[i].Data, r.Data) {
			t.Fatalf("session %s: record %d is not what was acknowledged", v.id, r.Sequence)
		}
	}
	if err := storetest.VerifyChain(v.id, all); err != nil {
		t.Error(err)
	}
}

// TestAnswerLost breaks the connection after the server has committed and before
// the store could hear of it.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	direct := pgtest.Quick(t).Database(t)
	p, url := newProxy(t, direct)
	s := openStore(t, url, &postgres.Options{AllowUnsafe: true, MaxConns: 1, LeaseTTL: time.Hour})
	defer shut(t, s)
	c := claim(t, s, "s")
	all := storetest.Records("s", 1, 3, 100)
	if err := appendOne(t.Context(), s, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[:1]}); err != nil {
		t.Fatal(err)
	}
	held := p.MuteAfter(all[1].Data)
	outcome := make(chan []error, 1)
	group := []*store.Batch{{SessionID: "s", Epoch: c.Epoch, Records: all[1:2]}, {SessionID: "s", Epoch: c.Epoch, Records: all[2:]}}
	go func() { outcome <- s.Append(t.Context(), group) }()
	<-held
	p.Cut()
	for i, err := range <-outcome {
		if !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("batch %d: %v, want ErrUnknownOutcome", i, err)
		}
	}
	p.Mend()
	again := claim(t, s, "s")
	if again.Head != storetest.HeadOf(all) {
		t.Errorf("the head is %d, want 3: the server had answered", again.Head.Sequence)
	}
	next := storetest.Continue("s", again.Head, 1, 100)
	if err := appendOne(t.Context(), s, &store.Batch{SessionID: "s", Epoch: again.Epoch, Records: next}); err != nil {
		t.Errorf("append after the connection is back: %v", err)
	}
}

// TestAdoptionAnswerLost breaks the connection after the server has given a node the sessions of
// a dead one, and before it could hear of it: it learns which they are.
func TestAdoptionAnswerLost(t *testing.T) {
	t.Parallel()
	direct := pgtest.Quick(t).Database(t)
	p, url := newProxy(t, direct)
	dead := openStore(t, direct, &postgres.Options{NodeID: "dead", AllowUnsafe: true, LeaseTTL: time.Hour})
	defer shut(t, dead)
	var want []string
	for i := range 5 {
		id := fmt.Sprintf("s%d", i)
		want = append(want, id)
		b := &store.Batch{SessionID: id, Epoch: claim(t, dead, id).Epoch, Records: storetest.Records(id, 1, 1, 100), Index: []store.IndexOp{{Entry: store.Entry{Kind: "open", Key: id}}}}
		if err := appendOne(t.Context(), dead, b); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, url, &postgres.Options{NodeID: "heir", AllowUnsafe: true, MaxConns: 1, LeaseTTL: time.Hour})
	defer shut(t, s)
	execute(t, connect(t, direct), `UPDATE agentd.nodes SET lease_until = clock_timestamp() WHERE node_id = 'dead'`)
	which := &store.Adoption{Kind: "open", Places: "place"}
	held := p.MuteAfter([]byte("commit"))
	type adopted struct {
		ids []string
		err error
	}
	outcome := make(chan adopted, 1)
	go func() {
		ids, err := s.Adopt(t.Context(), which, 64)
		outcome <- adopted{ids, err}
	}()
	<-held
	p.Cut()
	if got := <-outcome; got.err == nil {
		t.Errorf("the first call returns %v without an error", got.ids)
	}
	p.Mend()
	ids, err := s.Adopt(t.Context(), which, 64)
	slices.Sort(ids)
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("the second call returns %v, %v; want %v", ids, err, want)
	}
	if ids, err := s.Adopt(t.Context(), which, 64); err != nil || len(ids) != 0 {
		t.Errorf("the third call returns %v, %v; want none", ids, err)
	}
}

// TestNoConnection: what can't have been sent is a plain error.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	p, url := newProxy(t, pgtest.Quick(t).Database(t))
	s := openStore(t, url, &postgres.Options{AllowUnsafe: true, MaxConns: 1, LeaseTTL: time.Hour})
	defer shut(t, s)
	c := claim(t, s, "s")
	p.Cut()
	if _, err := s.Head(t.Context(), "s"); err == nil {
		t.Fatal("Head works over a cut connection")
	}
	b := &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: storetest.Records("s", 1, 1, 100)}
	if err := appendOne(t.Context(), s, b); err == nil || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("append without a connection: %v, want a plain error", err)
	}
	p.Mend()
	if head, err := s.Head(t.Context(), "s"); err != nil || head.Sequence != 0 {
		t.Errorf("head %d, %v, want 0", head.Sequence, err)
	}
	if err := appendOne(t.Context(), s, b); err != nil {
		t.Errorf("the same append once the connection is back: %v", err)
	}
}

// TestDiskFull lets the server refuse a write as it does when the disk is full.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	execute(t, conn, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$`)
	execute(t, conn, `CREATE TRIGGER full_disk BEFORE INSERT ON agentd.appends EXECUTE FUNCTION full_disk()`)
	a, b := claim(t, s, "a"), claim(t, s, "b")
	group := []*store.Batch{
		{SessionID: "a", Epoch: a.Epoch, Records: storetest.Records("a", 1, 1, 100), Index: []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: "x"}}}},
		{SessionID: "b", Epoch: b.Epoch, Records: storetest.Records("b", 1, 1, 100)},
	}
	for i, err := range s.Append(t.Context(), group) {
		if !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("batch %d: %v, want ErrNoSpace", i, err)
		}
	}
	if _, err := s.Get(t.Context(), "k", "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a part of the batch was written: %v", err)
	}
	if s.Err() != nil {
		t.Errorf("Err is %v; a full disk must not end the store", s.Err())
	}
	execute(t, conn, `DROP TRIGGER full_disk ON agentd.appends`)
	for i, err := range s.Append(t.Context(), group) {
		if err != nil {
			t.Errorf("batch %d when there is space: %v", i, err)
		}
	}
}

// TestOneBatchPoisonsNoOther: what the tables can't hold fails alone.
func TestOneBatchPoisonsNoOther(t *testing.T) {
	t.Parallel()
	s := openStore(t, pgtest.Quick(t).Database(t), nil)
	defer shut(t, s)
	long := make([]byte, 0, 20_000)
	for i := range 20_000 { // too varied for the index to compress it
		long = append(long, byte(i*i>>3), byte(i*7))
	}
	ids := []string{"a", "b", "c"}
	group := make([]*store.Batch, 0, len(ids))
	for _, id := range ids {
		group = append(group, &store.Batch{SessionID: id, Epoch: claim(t, s, id).Epoch, Records: storetest.Records(id, 1, 1, 100)})
	}
	group[1].Index = []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: string(long)}}}
	group = append(group, &store.Batch{SessionID: "d", Index: []store.IndexOp{{Entry: store.Entry{Kind: "\xff", Key: "x"}}}})
	for i, err := range s.Append(t.Context(), group) {
		if bad := i == 1 || i == 3; (err != nil) != bad {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	for i, id := range ids {
		head, err := s.Head(t.Context(), id)
		if want := uint64(1 - i%2); err != nil || head.Sequence != want {
			t.Errorf("session %s is at %d, %v, want %d", id, head.Sequence, err, want)
		}
	}
}

// TestDamage: a changed or missing row ends a read with its place, whether it has one record
// or several.
func TestDamage(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	s := openStore(t, url, nil)
	defer shut(t, s)
	conn := connect(t, url)
	changes := map[string]string{
		"flipped":  `UPDATE agentd.events SET data = set_byte(data, 20, get_byte(data, 20) # 1) WHERE session_id = $1 AND sequence = $2`,
		"hash":     `UPDATE agentd.events SET hash = set_byte(hash, 0, get_byte(hash, 0) # 1) WHERE session_id = $1 AND sequence = $2`,
		"first":    `UPDATE agentd.events SET hash = substr(hash, 1, 32) || int8send($2 - 1) WHERE session_id = $1 AND sequence = $2`,
		"single":   `UPDATE agentd.events SET hash = substr(hash, 1, 31) WHERE session_id = $1 AND sequence = $2`,
		"missing":  `DELETE FROM agentd.events WHERE session_id = $1 AND sequence = $2`,
		"misplace": `UPDATE agentd.events SET sequence = 30 WHERE session_id = $1 AND sequence = $2`,
	}
	for _, packs := range []bool{false, true} {
		s.SetPacking(func() bool { return packs })
		for name, sql := range changes {
			id := fmt.Sprint(name, " ", packs)
			c := claim(t, s, id)
			records := storetest.Records(id, 1, 9, 100)
			b := &store.Batch{SessionID: id, Epoch: c.Epoch, Snapshots: []store.Snapshot{{Name: "n", Data: []byte("data")}}}
			for len(records) > 0 {
				b.Records, records = records[:3], records[3:]
				if err := appendOne(t.Context(), s, b); err != nil {
					t.Fatal(err)
				}
			}
			execute(t, conn, sql, id, 6)
			for _, reverse := range []bool{false, true} {
				var last error
				for _, err := range s.Read(t.Context(), id, store.Range{Reverse: reverse}) {
					last = err
				}
				if !errors.Is(last, store.ErrCorrupt) {
					t.Errorf("%s, reverse %v: the read ends with %v, want ErrCorrupt", id, reverse, last)
				}
			}
		}
	}
	execute(t, conn, `UPDATE agentd.snapshots SET data = 'date'`)
	if _, err := s.Snapshot(t.Context(), "hash true", "n"); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a changed snapshot: %v, want ErrCorrupt", err)
	}
}
