package agentd_test

import (
	"context"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

func TestRuntimeIDIsMadeOnce(t *testing.T) {
	k := runtimetest.New(t)
	id := k.Runtime.ID()
	k.Close()
	k.Open()
	if k.Runtime.ID() != id || id == "" {
		t.Errorf("%s became %s", id, k.Runtime.ID())
	}
}

func TestWhatTheStoreRepairedIsAFact(t *testing.T) {
	s := &repaired{storetest.Strict(t, storetest.NewMem())}
	r, err := agentd.Open(context.Background(), agentd.Options{Store: s, Provider: script.New("script", nil), Model: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.Background())
	records, _, err := r.Events(context.Background(), command.Local(), event.RuntimeSession, 0, 10)
	if err != nil || len(records) != 3 || !strings.Contains(string(records[2].Data), "17 bytes") {
		t.Errorf("got %v, %v", records, err)
	}
	acme := command.Caller{Account: "acme"}
	if _, _, err := r.Events(context.Background(), acme, event.RuntimeSession, 0, 10); err == nil {
		t.Error("somebody who is no admin sees the runtime's own session")
	}
}

type repaired struct{ store.Store }

func (s *repaired) Meta(ctx context.Context) (store.Meta, error) {
	m, err := s.Store.Meta(ctx)
	m.Recovery = []string{"17 bytes at the end of the log could not be read"}
	return m, err
}
