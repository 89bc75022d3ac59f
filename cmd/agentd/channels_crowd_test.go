package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
	"agentd/fault"
)

// remotePeer is one of many: where it is, and how far it has got.
type remotePeer struct {
	id, session, token string
	has                uint64
	body               *bufio.Scanner
	close              func() error
}

// atOnce has all peers do something at the same time.
func atOnce(t *testing.T, peers []*remotePeer, do func(*remotePeer) error) {
	t.Helper()
	var all sync.WaitGroup
	begin := make(chan struct{})
	for _, p := range peers {
		all.Go(func() {
			<-begin
			if err := do(p); err != nil {
				t.Errorf("%s: %v", p.id, err)
			}
		})
	}
	close(begin)
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// patient carries out a command, again if the server has too much to do: all peers
// use one token, which has a bound of commands under way, and on a busy machine a write
// may take so long that no more are let in.
func patient[R any](ctx context.Context, c *client.Client, p command.Params) (*R, error) {
	for {
		res, err := client.Call[R](ctx, c, p)
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.RateLimited && (f.Kind != fault.Unavailable || f.RetryAfter == 0) {
			return res, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestManyChannelsComeBackToAKilledServer kills a server that 500 peers follow, each
// of which has got differently far, and has them come back to the next one at the
// same time over HTTP: what each lacks comes once and in order.
func TestManyChannelsComeBackToAKilledServer(t *testing.T) {
	const sessions, peers = 10, 500
	data := t.TempDir()
	p := start(t, data)
	var ids []string
	heads := map[string]uint64{}
	for range sessions {
		turn := p.submit("hello")
		p.completed(turn)
		ids = append(ids, turn.SessionID)
	}
	c := p.client()
	var crowd []*remotePeer
	for i := range peers {
		crowd = append(crowd, &remotePeer{id: fmt.Sprintf("chan_%03d", i), session: ids[i%sessions], has: uint64(1 + i%15)})
	}
	atOnce(t, crowd, func(x *remotePeer) error {
		res, err := patient[command.ConnectChannelResult](t.Context(), c, &command.ConnectChannel{ChannelID: x.id, Transport: "sse", PeerRole: "client", SessionID: x.session})
		if err != nil {
			return err
		}
		x.token = res.ResumeToken
		_, err = patient[command.ChannelResult](t.Context(), c, &command.AckEvents{ChannelID: x.id, Sequence: x.has})
		return err
	})
	p.stop(syscall.SIGKILL)

	p = start(t, data)
	c = p.client()
	authorization := "Bearer " + p.token()
	atOnce(t, crowd, func(x *remotePeer) error { return x.back(t.Context(), c, p.url, authorization) })
	for _, id := range ids {
		page, err := c.Events(t.Context(), id, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		heads[id] = page.LastSequence
	}
	atOnce(t, crowd, func(x *remotePeer) error { return x.catchUp(heads[x.session]) })
}

// back brings a peer back: with its token, and a stream that begins where it was.
func (x *remotePeer) back(ctx context.Context, c *client.Client, url, authorization string) error {
	res, err := patient[command.ReconnectChannelResult](ctx, c, &command.ReconnectChannel{ChannelID: x.id, ResumeToken: x.token})
	if err != nil {
		return err
	}
	if res.RecoveryMode != "replay" || res.ReplayFrom != x.has+1 {
		return fmt.Errorf("it goes on at %d (%s), want %d", res.ReplayFrom, res.RecoveryMode, x.has+1)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/sessions/"+x.session+"/events?channelId="+x.id, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Accept", "text/event-stream")
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if stream.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("the stream is %s", stream.Status), stream.Body.Close())
	}
	x.body, x.close = bufio.NewScanner(stream.Body), stream.Body.Close
	x.body.Buffer(nil, 1<<20)
	return nil
}

// catchUp reads what the peer lacks: each event once and in order.
func (x *remotePeer) catchUp(through uint64) error {
	for x.has < through && x.body.Scan() {
		text, ok := strings.CutPrefix(x.body.Text(), "id: ")
		if !ok {
			continue
		}
		sequence, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return err
		}
		if x.has++; sequence != x.has {
			return fmt.Errorf("got %d, want %d", sequence, x.has)
		}
	}
	if x.has < through {
		return fmt.Errorf("the stream ended at %d of %d: %w", x.has, through, x.body.Err())
	}
	return x.close()
}
