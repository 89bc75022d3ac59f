package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

func TestPeerComesBackWhereItWas(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_r", "chan_r", nil)
	runtimetest.Do[command.ChannelResult](k, &command.AckEvents{ChannelID: "chan_r", Sequence: 9})
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_r"})
	k.Completes(k.Submit("sess_r", "while it was away"))
	last := uint64(len(k.Facts("sess_r")))

	back := runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_r", ResumeToken: token})
	var snap state.SessionSnapshot
	if err := json.Unmarshal(back.Snapshot, &snap); err != nil {
		t.Fatal(err)
	}
	if back.ReplayFrom != 10 || back.RecoveryMode != "replay" || back.Gap != nil || snap.SessionID != "sess_r" || snap.Sequence < last {
		t.Errorf("got %+v at %d", back, snap.Sequence)
	}
	if after := follow(k, "chan_r", "sess_r").After(); after != 9 {
		t.Errorf("a stream without a cursor begins after %d", after)
	}
	resumed := runtimetest.Payloads[*event.ChannelResumed](k, "sess_r")
	if len(resumed) != 1 || resumed[0].ReplayFrom != 10 || resumed[0].LastSequence != 9 || resumed[0].RecoveryMode != "replay" {
		t.Errorf("got %+v", resumed)
	}
	if k.CountFacts("sess_r", event.TypeSnapshotRepaired) != 0 {
		t.Error("a gap was marked where there is none")
	}
	// What the peer says that it has wins over what it acknowledged, also backwards,
	// and counts as acknowledged.
	for _, c := range []struct{ has, from, acked uint64 }{{4, 5, 9}, {12, 13, 12}, {0, 1, 12}} {
		back := runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_r", ResumeToken: token, LastSequence: new(c.has)})
		if rec := listed(k, "chan_r"); back.ReplayFrom != c.from || rec.LastAcknowledged != c.acked {
			t.Errorf("has %d: from %d, acknowledged %d", c.has, back.ReplayFrom, rec.LastAcknowledged)
		}
	}
}

func TestCursorPastTheEndIsRepaired(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_p", "chan_p", nil)
	last := uint64(len(k.Facts("sess_p")))
	back := runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_p", ResumeToken: token, LastSequence: new(uint64(500))})
	if back.RecoveryMode != "snapshot_repair" || back.ReplayFrom != last+1 || back.Gap == nil || *back.Gap != (command.ChannelGap{From: last + 1, To: 500, Reason: "cursor_past_end"}) {
		t.Errorf("got %+v, %+v", back, back.Gap)
	}
	repaired := runtimetest.Payloads[*event.SnapshotRepaired](k, "sess_p")
	if len(repaired) != 1 || repaired[0].GapFrom != last+1 || repaired[0].GapTo != 500 || repaired[0].SnapshotSequence != last || repaired[0].Status != "stale" {
		t.Errorf("got %+v", repaired)
	}
	checkRepair(k, "sess_p", back, "stale")
	if rec := listed(k, "chan_p"); rec.LastAcknowledged != 0 {
		t.Errorf("a sequence that nobody gave out is acknowledged: %d", rec.LastAcknowledged)
	}
	// A cursor at the end is none past it.
	last = uint64(len(k.Facts("sess_p")))
	back = runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_p", ResumeToken: token, LastSequence: &last})
	if back.RecoveryMode != "replay" || back.ReplayFrom != last+1 {
		t.Errorf("got %+v", back)
	}
}

func TestCursorThatRetentionRemovedIsRepaired(t *testing.T) {
	k := runtimetest.NewWith(t, nil)
	token := channelIn(k, "sess_t", "chan_t", nil)
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_t"})
	last := uint64(len(k.Facts("sess_t")))
	gone, err := k.Runtime.TrimSession(t.Context(), command.Local(), "sess_t", session.TrimOptions{Before: 6})
	if err != nil || gone.Through != 5 {
		t.Fatalf("got %+v, %v", gone, err)
	}
	back := runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_t", ResumeToken: token, LastSequence: new(uint64(2))})
	if back.RecoveryMode != "snapshot_repair" || back.ReplayFrom != 6 || back.Gap == nil || *back.Gap != (command.ChannelGap{From: 3, To: 5, Reason: "retention"}) || len(back.Snapshot) == 0 {
		t.Errorf("got %+v, %+v", back, back.Gap)
	}
	repaired := runtimetest.Payloads[*event.SnapshotRepaired](k, "sess_t")
	if len(repaired) != 2 || repaired[0].GapTo != 5 || repaired[0].Status != "unavailable" || repaired[1].GapFrom != 3 || repaired[1].GapTo != 5 || repaired[1].Status != "unavailable" {
		t.Errorf("got %+v", repaired)
	}
	checkRepair(k, "sess_t", back, "unavailable")
	// A cursor behind what is gone is as good as any.
	back = runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_t", ResumeToken: token, LastSequence: &last})
	if back.RecoveryMode != "replay" || back.ReplayFrom != last+1 || back.Gap != nil {
		t.Errorf("got %+v", back)
	}
}

// remote-channels.md, recovery, and the acceptance scenario of a reconnect: where events
// can't be sent again, snapshot.repaired and the snapshot that goes with it mark what is
// stale or unavailable; events.md, recovery: snapshot.updated names the recovery mode.
func checkRepair(k *runtimetest.Kit, sessionID string, back *command.ReconnectChannelResult, status string) {
	k.Helper()
	var snap state.SessionSnapshot
	if err := json.Unmarshal(back.Snapshot, &snap); err != nil {
		k.Fatal(err)
	}
	if snap.RepairStatus != status || snap.Stale != (status == "stale") || snap.Truncated != (status == "unavailable") {
		k.Errorf("the snapshot says repairStatus %q, stale %v, truncated %v", snap.RepairStatus, snap.Stale, snap.Truncated)
	}
	updated := runtimetest.Payloads[*event.SnapshotUpdated](k, sessionID)
	if len(updated) != 1 || updated[0].RecoveryMode != "snapshot_repair" || updated[0].AtSequence == 0 {
		k.Errorf("got %+v", updated)
	}
	// The gap is the peer's: who asks for the session as it is gets it whole, as far as
	// it is still there.
	now := runtimetest.Do[session.GetSessionResult](k, &command.GetSession{SessionID: sessionID})
	if now.Stale || now.Truncated != (status == "unavailable") {
		k.Errorf("everybody is told stale %v, truncated %v", now.Stale, now.Truncated)
	}
}

func TestPeerThatComesTwiceReplacesItself(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_d", "chan_d", nil)
	old := follow(k, "chan_d", "sess_d")
	p := &command.ReconnectChannel{ChannelID: "chan_d", ResumeToken: token}
	p.IdempotencyKey = "back"
	runtimetest.Do[command.ReconnectChannelResult](k, p)
	select {
	case <-old.Context().Done():
	default:
		t.Error("the connection before goes on")
	}
	fresh := follow(k, "chan_d", "sess_d")
	old.Left("closed") // too late to matter
	runtimetest.Do[command.ReconnectChannelResult](k, p)
	if rec := listed(k, "chan_d"); rec.Status != "connected" || fresh.Context().Err() != nil {
		t.Errorf("got %+v, %v", rec, fresh.Context().Err())
	}
	gone := runtimetest.Payloads[*event.ChannelDisconnected](k, "sess_d")
	if len(gone) != 1 || gone[0].Reason != "replaced" || k.CountFacts("sess_d", event.TypeChannelResumed) != 1 {
		t.Errorf("got %+v", gone)
	}
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_d"})
	if fresh.Context().Err() == nil {
		t.Error("a stream outlives its channel")
	}
}

func TestRestartDisconnectsAndATurnIsNotRepeated(t *testing.T) {
	k := runtimetest.New(t, runtimetest.Says("one"), runtimetest.Says("two"), runtimetest.Says("three"))
	token := channelIn(k, "sess_w", "chan_w", nil)
	turn := &command.SubmitTurn{SessionID: "sess_w", TurnID: "turn_w", Input: runtimetest.Quoted("once")}
	k.Completes(runtimetest.Do[command.SubmitTurnResult](k, turn))
	k.Close()
	k.Open()
	gone := k.WaitFor("sess_w", runtimetest.FactIs(event.TypeChannelDisconnected, "")).Payload.(*event.ChannelDisconnected)
	if gone.Reason != "runtime_restart" {
		t.Errorf("got %+v", gone)
	}
	for range 3 { // a peer that doesn't know whether its turn arrived sends it again
		runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_w", ResumeToken: token})
		runtimetest.Do[command.SubmitTurnResult](k, turn)
	}
	n := 0
	for _, e := range k.Facts("sess_w") {
		if e.Type == event.TypeTurnSubmitted && e.TurnID == "turn_w" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the turn was submitted %d times", n)
	}
}

func TestChannelIsKnownAfterItLeftTheWorkingSet(t *testing.T) {
	k := runtimetest.New(t)
	token := channelIn(k, "sess_v", "chan_first", nil)
	runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: "chan_first"})
	for i := range 60 {
		id := fmt.Sprintf("chan_%02d", i)
		connect(k, "sess_v", id, nil)
		runtimetest.Do[command.ChannelResult](k, &command.DisconnectChannel{ChannelID: id})
	}
	runtimetest.Refused(k, &command.ReconnectChannel{ChannelID: "chan_first", ResumeToken: "wrong"}, fault.Forbidden)
	runtimetest.Do[command.ReconnectChannelResult](k, &command.ReconnectChannel{ChannelID: "chan_first", ResumeToken: token})
	var got state.Channel
	for _, c := range sessionSnapshot(k, "sess_v").ChannelSummary.Channels {
		if c.ChannelID == "chan_first" {
			got = c
		}
	}
	if got.Status != "connected" || got.Transport != "websocket" || got.PeerRole != "client" {
		t.Errorf("got %+v", got)
	}
	var ids []string
	for cursor := ""; ; {
		page := runtimetest.Do[command.ListChannelsResult](k, &command.ListChannels{Page: command.Page{Limit: 7, Cursor: cursor}})
		for _, c := range page.Channels {
			ids = append(ids, c.ChannelID)
		}
		if page.Total != 61 {
			t.Errorf("a page counts %d channels", page.Total)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(ids) != 61 {
		t.Errorf("%d channels are listed: %v", len(ids), ids)
	}
}

// counted counts the records that are read from a store.
type counted struct {
	store.Store
	records atomic.Int64
}

func (s *counted) Read(ctx context.Context, id string, r store.Range) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for rec, err := range s.Store.Read(ctx, id, r) {
			s.records.Add(1)
			if !yield(rec, err) {
				return
			}
		}
	}
}

// crowd is many peers over some sessions.
type crowd struct {
	*runtimetest.Kit
	store    *counted
	sessions int
	peers    []*crowdPeer
}

// crowdPeer is one of them: where it is, and how far it has got.
type crowdPeer struct {
	id, session, token string
	has                uint64
	stream             interface {
		Next(ctx context.Context) ([]store.Record, error)
		Close()
	}
}

// newCrowd opens sessions with a history, and peers that have got differently far.
func newCrowd(t *testing.T, sessions, peers int) *crowd {
	t.Helper()
	s := &counted{Store: storetest.NewMem()}
	c := &crowd{store: s, sessions: sessions, Kit: &runtimetest.Kit{
		T: t, Store: s, Dir: t.TempDir(),
		Change: func(o *agentd.Options) { o.IndexDelay = time.Hour }, // the index reads events for itself
	}}
	c.Open()
	for i := range sessions {
		for range 10 {
			c.Submit(fmt.Sprintf("sess_%03d", i), "hello")
		}
		c.Completes(c.Submit(fmt.Sprintf("sess_%03d", i), "the last"))
	}
	for i := range peers {
		p := &crowdPeer{id: fmt.Sprintf("chan_%03d", i), session: fmt.Sprintf("sess_%03d", i%sessions)}
		p.token = connect(c.Kit, p.session, p.id, nil)
		c.peers = append(c.peers, p)
	}
	for i, p := range c.peers {
		p.has = c.head(p.session) - uint64(i%40)
		runtimetest.Do[command.ChannelResult](c.Kit, &command.AckEvents{ChannelID: p.id, Sequence: p.has})
	}
	return c
}

func (c *crowd) head(sessionID string) uint64 {
	c.Helper()
	h, err := c.store.Head(context.Background(), sessionID)
	if err != nil {
		c.Fatal(err)
	}
	return h.Sequence
}

// all has every peer do something at the same time.
func (c *crowd) all(do func(*crowdPeer) error) {
	c.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, p := range c.peers {
		wg.Go(func() {
			<-start
			if err := do(p); err != nil {
				c.Errorf("%s: %v", p.id, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if c.Failed() {
		c.FailNow()
	}
}

// back brings a peer back and follows its session from where it was.
func (c *crowd) back(p *crowdPeer) error {
	ctx := context.Background()
	res, err := c.Runtime.Do(ctx, command.Local(), &command.ReconnectChannel{ChannelID: p.id, ResumeToken: p.token})
	if err != nil {
		return err
	}
	if b := res.(*command.ReconnectChannelResult); b.ReplayFrom != p.has+1 || b.RecoveryMode != "replay" {
		return fmt.Errorf("goes on at %d (%s), want %d", b.ReplayFrom, b.RecoveryMode, p.has+1)
	}
	ch, err := c.Runtime.FollowChannel(ctx, command.Local(), p.id, p.session)
	if err != nil {
		return err
	}
	p.stream, err = c.Runtime.Subscribe(ctx, command.Local(), p.session, ch.After())
	return err
}

// read takes what a peer lacks, each event once and in order.
func (c *crowd) read(p *crowdPeer, through uint64) error {
	defer p.stream.Close()
	for p.has < through {
		records, err := p.stream.Next(context.Background())
		if err != nil {
			return err
		}
		for _, rec := range records {
			if p.has++; rec.Sequence != p.has {
				return fmt.Errorf("got %d, want %d", rec.Sequence, p.has)
			}
		}
	}
	return nil
}

// TestManyPeersComeBackAtOnce has 500 peers come back at the same time after a
// restart, each with a cursor of its own: nothing is lost, nothing comes twice, and
// what is read is what is missing.
func TestManyPeersComeBackAtOnce(t *testing.T) {
	c := newCrowd(t, 25, 500)
	c.Close()
	c.store.records.Store(0)
	c.Open()
	c.all(c.back)
	total, missing := int64(0), int64(0)
	ends := map[string]uint64{}
	for i := range c.sessions {
		id := fmt.Sprintf("sess_%03d", i)
		ends[id] = c.head(id)
		total += int64(ends[id])
	}
	for _, p := range c.peers {
		missing += int64(ends[p.session] - p.has)
	}
	c.all(func(p *crowdPeer) error { return c.read(p, ends[p.session]) })
	read := c.store.records.Load()
	t.Logf("500 peers of %d sessions with %d events lacked %d; %d records were read", c.sessions, total, missing, read)
	// A session opens with its snapshot and a short tail; a peer costs what it lacks, and
	// one record: whether its cursor can still be replayed. The bound leaves no room for
	// reading the log anew, not even once for all of them.
	most := missing + int64(2*len(c.peers))
	if read > most {
		t.Errorf("%d records were read, at most %d are called for", read, most)
	}
	if slack := most - missing - int64(len(c.peers)); slack >= total/10 {
		t.Fatalf("the bound has room for %d of the log's %d events: it shows nothing", slack, total)
	}
	for i := range c.sessions {
		id := fmt.Sprintf("sess_%03d", i)
		if gone, back := c.CountFacts(id, event.TypeChannelDisconnected), c.CountFacts(id, event.TypeChannelResumed); gone != 20 || back != 20 {
			t.Errorf("%s: %d went, %d came back", id, gone, back)
		}
	}
	c.Close()
}
