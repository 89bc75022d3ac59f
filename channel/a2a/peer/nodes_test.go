package peer_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/channel/a2a/peer"
)

// TestNotificationsAtAnotherNode: a notification may come to a node that doesn't follow the
// task. It knows the secret, also one of a key of before, and has the owner of the task's
// session answer; without one it takes the notification itself.
func TestNotificationsAtAnotherNode(t *testing.T) {
	f := newFake(t)
	f.push = true
	k := newKit(t, f, func(o *peerOptions) {
		o.Peers[0].Delivery, o.Poll, o.MaxPoll = "push", hour, hour
	})
	k.delegate()
	k.stands("running")
	cfg := f.pushes[0]
	elsewhere, asked := true, ""
	opt := k.opt
	opt.Push.Key = bytes.Repeat([]byte{9}, 32)
	opt.Push.OtherKeys = func(context.Context) ([][]byte, error) { return [][]byte{k.opt.Push.Key}, nil }
	opt.Push.PassOn = func(_ context.Context, sessionID string) bool {
		asked = sessionID
		return elsewhere
	}
	other, err := peer.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	other.Start(k.runtime.Port())
	defer other.Close()
	door := httptest.NewServer(other.PushHandler())
	defer door.Close()
	address := strings.Replace(cfg.URL, k.push.URL, door.URL, 1)
	if got := postUpdate(t, address, cfg.Token+"x"); got != 401 || asked != "" {
		t.Errorf("without the secret: %d, %q was passed on", got, asked)
	}
	if got := postUpdate(t, address, cfg.Token); got == 401 || asked != sess {
		t.Errorf("%d, and what was passed on is of %q", got, asked)
	}
	elsewhere = false
	if got := postUpdate(t, address, cfg.Token); got != 204 {
		t.Errorf("with no other node: %d", got)
	}
}
