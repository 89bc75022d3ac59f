package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/store"
	"agentd/store/storetest"
	"agentd/transfer"
)

// awayStore has contents that can't be reached while it is away.
type awayStore struct {
	*storetest.Mem
	away atomic.Bool
}

func (s *awayStore) OpenBlob(ctx context.Context, ref string) (store.Blob, error) {
	b, err := s.Mem.OpenBlob(ctx, ref)
	if err != nil || !s.away.Load() {
		return b, err
	}
	return store.NewBlob(b.Info(), func(int) ([]byte, error) { return nil, fmt.Errorf("get: %w", store.ErrAway) }), b.Close()
}

// TestExportSaysThatContentsAreAway: contents that can't be reached for now end an export with an
// error that says when to come again, and what was written till then isn't taken for a session.
func TestExportSaysThatContentsAreAway(t *testing.T) {
	large := strings.Repeat("a line of a long output\n", 2000)
	for name, text := range map[string]string{"a text": large, "JSON": `{"lines":"` + strings.ReplaceAll(large, "\n", " ") + `"}`} {
		s := &awayStore{Mem: storetest.NewMem()}
		tools := runtimetest.WithTools(t, runtimetest.ReadOnlyTool("look", runtimetest.GivesText(text)))
		k := runtimetest.NewWith(t, func(o *agentd.Options) { o.Store = s; tools(o) }, runtimetest.CallsTool("look", map[string]any{}), runtimetest.Says("done"))
		k.Completes(k.Submit("sess_a", "look"))
		s.away.Store(true)
		var file bytes.Buffer
		err := k.Runtime.ExportSession(context.Background(), command.Local(), "sess_a", &file)
		if f, is := errors.AsType[*fault.Error](err); !is || f.Kind != fault.Unavailable || f.RetryAfter == 0 || !strings.Contains(f.Detail, "object storage") {
			t.Errorf("%s: an export ends with %v", name, err)
		}
		if _, err := transfer.Read(&file, transfer.Visitor{}); err == nil {
			t.Errorf("%s: what was written is read as a whole session", name)
		}
		s.away.Store(false)
		k.ExportSession("sess_a")
	}
}
