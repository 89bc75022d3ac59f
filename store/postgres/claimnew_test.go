package postgres_test

import (
	"errors"
	"testing"
	"time"

	"agentd/internal/pgtest"
	"agentd/store"
	"agentd/store/postgres"
	"agentd/store/storetest"
)

func claimNew(t *testing.T, s *postgres.Store, id string) store.Claim {
	t.Helper()
	c, err := s.ClaimNew(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sessionRows(t *testing.T, url, id string) (n int) {
	t.Helper()
	if err := connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM agentd.sessions WHERE session_id = $1`, id).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNewSessionIsClaimedByItsFirstAppend: nothing is written before, and from then on the
// session is like any other one.
func TestNewSessionIsClaimedByItsFirstAppend(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := node(t, url, "a", time.Hour), node(t, url, "b", time.Hour)
	defer shut(t, a)
	defer shut(t, b)
	all := storetest.Records("s", 1, 4, 100)
	c := claimNew(t, a, "s")
	if n := sessionRows(t, url, "s"); n != 0 || c.Head.Sequence != 0 {
		t.Errorf("%d rows before the first append, the claim is %+v", n, c)
	}
	old := claim(t, a, "old")
	// Both batches of the new session and one of another are a group.
	for i, err := range a.Append(t.Context(), []*store.Batch{
		{SessionID: "s", Epoch: c.Epoch, Records: all[:2]},
		{SessionID: "old", Epoch: old.Epoch, Records: storetest.Records("old", 1, 1, 100)},
		{SessionID: "s", Epoch: c.Epoch, Records: all[2:3]},
	}) {
		if err != nil {
			t.Errorf("batch %d of the first group: %v", i, err)
		}
	}
	var owned *store.OwnedError
	if _, err := b.Claim(t.Context(), "s"); !errors.As(err, &owned) || owned.Owner != "a" {
		t.Errorf("claim by another node: %v, want it owned by a", err)
	}
	if err := appendOne(t.Context(), a, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: all[3:]}); err != nil {
		t.Errorf("the next append: %v", err)
	}
	if head, err := b.Head(t.Context(), "s"); err != nil || head.Sequence != 4 || head.Hash != all[3].Hash {
		t.Errorf("the head is %+v, %v", head, err)
	}
	again := claim(t, a, "s")
	if again.Epoch <= c.Epoch || again.Head.Sequence != 4 {
		t.Errorf("the next claim is %+v", again)
	}
	if err := appendOne(t.Context(), a, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: storetest.Records("s", 5, 1, 100)}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("an append under the first claim after the second: %v, want ErrFenced", err)
	}
	// Without records, too.
	c = claimNew(t, a, "entries")
	if err := appendOne(t.Context(), a, &store.Batch{SessionID: "entries", Epoch: c.Epoch, Index: []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: "e"}}}}); err != nil {
		t.Error(err)
	}
	if c := claim(t, a, "entries"); c.Head != (store.Head{}) {
		t.Errorf("a session without records has the head %+v", c.Head)
	}
}

// TestNewSessionThatIsThere: an id that was taken after all is fenced, and takes nothing from
// whose it is, nor from the others of the group.
func TestNewSessionThatIsThere(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a, b := node(t, url, "a", time.Hour), node(t, url, "b", time.Hour)
	defer shut(t, a)
	defer shut(t, b)
	theirs := claim(t, b, "taken")
	c, other := claimNew(t, a, "taken"), claimNew(t, a, "free")
	errs := a.Append(t.Context(), []*store.Batch{
		{SessionID: "taken", Epoch: c.Epoch, Records: storetest.Records("taken", 1, 1, 100), Index: []store.IndexOp{{Entry: store.Entry{Kind: "k", Key: "taken"}}}},
		{SessionID: "free", Epoch: other.Epoch, Records: storetest.Records("free", 1, 1, 100)},
	})
	if !errors.Is(errs[0], store.ErrFenced) || errs[1] != nil {
		t.Errorf("the group ends with %v, want the first fenced and the other one written", errs)
	}
	if _, err := a.Get(t.Context(), "k", "taken"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a part of the fenced batch was written: %v", err)
	}
	if err := appendOne(t.Context(), b, &store.Batch{SessionID: "taken", Epoch: theirs.Epoch, Records: storetest.Records("taken", 1, 1, 100)}); err != nil {
		t.Errorf("the owner's append: %v", err)
	}
	// It isn't taken for a new one for ever.
	var owned *store.OwnedError
	if _, err := a.Claim(t.Context(), "taken"); !errors.As(err, &owned) {
		t.Errorf("the claim after it: %v, want it owned by b", err)
	}
	// Records that don't begin the session are a conflict, as ever.
	c = claimNew(t, a, "late")
	if err := appendOne(t.Context(), a, &store.Batch{SessionID: "late", Epoch: c.Epoch, Records: storetest.Records("late", 2, 1, 100)}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("records that begin at 2: %v, want ErrConflict", err)
	}
	if n := sessionRows(t, url, "late"); n != 0 {
		t.Errorf("a session whose first append failed has %d rows", n)
	}
}

// TestNewSessionThatIsGivenUp leaves nothing behind.
func TestNewSessionThatIsGivenUp(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	a := node(t, url, "a", time.Hour)
	defer shut(t, a)
	for name, end := range map[string]func(store.Claim) error{
		"released": func(c store.Claim) error { return a.Release(t.Context(), "released", c.Epoch) },
		"yielded":  func(c store.Claim) error { return a.Yield(t.Context(), "yielded", c.Epoch) },
	} {
		c := claimNew(t, a, name)
		if err := end(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := sessionRows(t, url, name); n != 0 {
			t.Errorf("a new session that was %s has %d rows", name, n)
		}
		if err := appendOne(t.Context(), a, &store.Batch{SessionID: name, Epoch: c.Epoch, Records: storetest.Records(name, 1, 1, 100)}); !errors.Is(err, store.ErrFenced) {
			t.Errorf("an append after it was %s: %v, want ErrFenced", name, err)
		}
	}
}

// TestReplacedNodeMakesNoSession: the process that has its name now doesn't know of what it
// would own.
func TestReplacedNodeMakesNoSession(t *testing.T) {
	t.Parallel()
	url := pgtest.Quick(t).Database(t)
	before := node(t, url, "a", time.Hour)
	defer shut(t, before)
	c := claimNew(t, before, "s")
	now := node(t, url, "a", time.Hour)
	defer shut(t, now)
	if err := appendOne(t.Context(), before, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: storetest.Records("s", 1, 1, 100)}); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("the first append of the process before: %v, want ErrReplaced", err)
	}
	if n := sessionRows(t, url, "s"); n != 0 {
		t.Errorf("%d rows of the session", n)
	}
}
