package channel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/session"
	"agentd/state"
	"agentd/store"
	"agentd/store/storetest"
)

// clientPeer is a client that offers a tool, has it called once, and remembers
// nothing of what it did before a crash but its ids.
type clientPeer struct{ r *agentd.Runtime }

// peerOptions are those of the runtime that the client is at.
func peerOptions(dir string, s store.Store) agentd.Options {
	opt := agentd.Options{Store: s, Provider: script.New("script", &script.Script{Answers: []script.Answer{opensEditor, runtimetest.Says("done")}}), Model: "test", RuntimeID: "runtime_a"}
	opt.Loop.Workspace, opt.Loop.Host.Mode, opt.Channels.ToolGrace = dir, "bypass", time.Hour
	return opt
}

func openPeer(dir string, s store.Store) (*clientPeer, error) {
	r, err := agentd.Open(context.Background(), peerOptions(dir, s))
	return &clientPeer{r}, err
}

// work does what is left: it connects or comes back, submits, and answers until
// the turn has ended.
func (p *clientPeer) work(ctx context.Context) error {
	connect := &command.ConnectChannel{ChannelID: "chan_a", Transport: "sse", PeerRole: "client", SessionID: "sess_a"}
	editor(nil)(connect)
	var token string
	for _, c := range []command.Params{
		&command.CreateSession{SessionID: "sess_a"}, connect,
		&command.SubmitTurn{SessionID: "sess_a", TurnID: "turn_a", Input: runtimetest.Quoted("open it")},
	} {
		res, err := p.r.Do(ctx, command.Local(), c)
		if err != nil {
			return err
		}
		if opened, ok := res.(*command.ConnectChannelResult); ok {
			token = opened.ResumeToken
			back := &command.ReconnectChannel{ChannelID: "chan_a", ResumeToken: token}
			if _, err := p.r.Do(ctx, command.Local(), back); err != nil {
				return err
			}
		}
	}
	sub, err := p.r.Subscribe(ctx, command.Local(), "sess_a", 0)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		if ended, err := p.help(ctx); ended || err != nil {
			return err
		}
	}
}

// help submits the result of a call that waits.
func (p *clientPeer) help(ctx context.Context) (ended bool, err error) {
	var pending string
	if err := p.r.View(ctx, "sess_a", func(s *state.Session) error {
		ended = s.MainThread().Turn("turn_a") == nil
		for _, a := range s.Actions.Pending {
			pending = a.ActionID
		}
		return nil
	}); err != nil || ended || pending == "" {
		return ended, err
	}
	_, err = p.r.Do(ctx, command.Local(), submitResult(pending, `{"output":"open"}`))
	if fault.KindOf(err) == fault.Conflict {
		err = nil
	}
	return false, err
}

// TestCrashAtEveryWriteOfAClientsCall lets the process die before and after each
// write of a turn that a client carries out a tool for. The client comes back each
// time, so nothing is lost and nothing happens twice.
func TestCrashAtEveryWriteOfAClientsCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			mem := storetest.NewMem()
			d := runtimetest.NewDyingStore(storetest.Strict(t, mem), n, after)
			p, err := openPeer(t.TempDir(), d)
			if err == nil {
				ctx, cancel := context.WithCancel(context.Background())
				stop := context.AfterFunc(runtimetest.ContextOf(d.Died), cancel)
				err = p.work(ctx)
				stop()
				cancel()
				_ = p.r.Close(context.Background()) // a runtime whose store died can't end well
			}
			select {
			case <-d.Died:
			default:
				if err != nil || n < 10 {
					t.Fatalf("without a crash, after %d writes: %v", n, err)
				}
				t.Logf("crashed at each of %d writes (after: %v)", n, after)
				goto next
			}
			mem.Expire()
			finishAfterCrash(t, mem, fmt.Sprintf("crash at write %d (after: %v)", n, after))
		}
	next:
	}
}

func finishAfterCrash(t *testing.T, mem *storetest.Mem, when string) {
	t.Helper()
	s, dir := storetest.Strict(t, mem), t.TempDir()
	p, err := openPeer(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // so that a broken test ends
	defer cancel()
	if err := p.work(ctx); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if err := p.r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	counts := map[event.Type]int{}
	for _, e := range runtimetest.FactsOf(t, s, "sess_a") {
		counts[e.Type]++
	}
	if counts[event.TypeTurnSubmitted] != 1 || counts[event.TypeTurnCompleted] != 1 || counts[event.TypeToolResult] != 1 ||
		counts[event.TypeToolFailed] != 0 || counts[event.TypeActionRequired] != 1 || counts[event.TypeActionResolved] != 1 {
		t.Errorf("%s: got %v", when, counts)
	}
	report, err := session.Verify(context.Background(), s, session.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%s: %v, %v", when, report.Problems, err)
	}
	runtimetest.DecideAgain(t, s)
}

// TestFactsOfAChannelAlternate has peers connect, come back, fall away and go from
// many goroutines at once: in each session a channel comes and goes by turns, and
// what it is called at the end is what the facts say.
func TestFactsOfAChannelAlternate(t *testing.T) {
	k := runtimetest.New(t)
	sessions := []string{"sess_0", "sess_1"}
	tokens := map[string]string{}
	for _, id := range sessions {
		k.Completes(k.Submit(id, "hello"))
	}
	for _, id := range []string{"chan_0", "chan_1", "chan_2"} {
		tokens[id] = connect(k, "sess_0", id, nil)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 7))
			for range 60 {
				id, sessionID := fmt.Sprintf("chan_%d", random.IntN(3)), sessions[random.IntN(2)]
				if err := comeOrGo(k, random.IntN(5), id, tokens[id], sessionID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for id := range tokens {
		for _, l := range listed(k, id).Links {
			here := alternates(k, l.SessionID, id)
			if want := map[bool]string{true: "connected", false: "disconnected"}[here]; l.Status != want {
				t.Errorf("%s in %s is called %s, the facts say %s", id, l.SessionID, l.Status, want)
			}
		}
	}
}

// comeOrGo does one thing to a channel.
func comeOrGo(k *runtimetest.Kit, what int, id, token, sessionID string) error {
	ctx := context.Background()
	var err error
	switch what {
	case 0, 1:
		_, err = k.Runtime.Do(ctx, command.Local(), &command.ReconnectChannel{ChannelID: id, ResumeToken: token, SessionID: sessionID})
	case 2:
		_, err = k.Runtime.Do(ctx, command.Local(), &command.AckEvents{ChannelID: id, SessionID: sessionID, Sequence: 3})
	case 3:
		_, err = k.Runtime.Do(ctx, command.Local(), &command.DisconnectChannel{ChannelID: id})
	default:
		var s command.ChannelStream
		if s, err = k.Runtime.FollowChannel(ctx, command.Local(), id, sessionID); err == nil {
			s.Left("closed")
		}
	}
	if fault.KindOf(err) == fault.Conflict {
		return nil // it is not there
	}
	return err
}

// alternates holds the facts of a channel in a session against their order and
// returns whether it is there at the end.
func alternates(k *runtimetest.Kit, sessionID, channelID string) bool {
	k.Helper()
	here, fresh := false, false
	for _, e := range ofChannel(k, sessionID, channelID) {
		switch e.Type {
		case event.TypeChannelConnected:
			if here {
				k.Errorf("%s, fact %d: connected twice", sessionID, e.Sequence)
			}
			here, fresh = true, true
		case event.TypeChannelResumed: // a peer that is new to the session resumes as it connects
			if here && !fresh {
				k.Errorf("%s, fact %d: resumed while it was there", sessionID, e.Sequence)
			}
			here, fresh = true, false
		case event.TypeChannelDisconnected:
			if !here {
				k.Errorf("%s, fact %d: gone twice", sessionID, e.Sequence)
			}
			here, fresh = false, false
		}
	}
	return here
}
