package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// The messages of a subscription to tasks. The SDK serves methodListen for what it
// knows; it doesn't know taskIds, and sends no notification of an extension.
const (
	methodListen       = "subscriptions/listen"
	noticeAcknowledged = "notifications/subscriptions/acknowledged"
	noticeTask         = "notifications/tasks"
)

// maxListened bounds the tasks of one subscription; the others are not acknowledged.
const maxListened = 100

// notice is a message of a subscription to its client.
type notice struct {
	Method string
	Params any
}

// listening is one subscription to tasks.
type listening struct {
	s  *Server
	id *Identity
	// request is the id of the request that opened it.
	request json.RawMessage
	// send is called by one goroutine at a time.
	send func(context.Context, notice) error

	mu sync.Mutex
}

// taskNotice tells how a task stands now.
type taskNotice struct {
	Meta map[string]any `json:"_meta"`
	detailedTask
}

// listenResult says that a subscription is over.
type listenResult struct {
	ResultType string         `json:"resultType"`
	Meta       map[string]any `json:"_meta"`
}

// run acknowledges the tasks that can be followed, and sends their changes until all are over,
// the server stops, or ctx ends. It returns the answer to the request.
func (l *listening) run(ctx context.Context, taskIDs []string) (*listenResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.s.stop, cancel)()
	refs, err := l.known(ctx, taskIDs)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	agreed := map[string]any{"_meta": l.meta(), "notifications": map[string]any{"taskIds": names}}
	if err := l.sendNotice(ctx, notice{noticeAcknowledged, agreed}); err != nil {
		return nil, err
	}
	if err := l.followAll(ctx, cancel, refs); err != nil && l.s.stop.Err() == nil {
		return nil, err
	}
	return &listenResult{ResultType: "complete", Meta: l.meta()}, nil
}

// known returns the tasks that are there for this caller, each once.
func (l *listening) known(ctx context.Context, taskIDs []string) ([]turnRef, error) {
	var refs []turnRef
	seen := map[string]bool{}
	for _, taskID := range taskIDs {
		if seen[taskID] || len(refs) == maxListened {
			continue
		}
		seen[taskID] = true
		ref, err := l.s.turnOf(ctx, l.id, taskID)
		switch {
		case err == nil:
			refs = append(refs, ref)
		case fault.KindOf(err) != fault.NotFound:
			return nil, protocolError(err, l.id)
		}
	}
	return refs, nil
}

// followAll follows all tasks side by side. The first that fails ends the others.
func (l *listening) followAll(ctx context.Context, cancel context.CancelFunc, refs []turnRef) error {
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, ref := range refs {
		all.Go(func() {
			if err := l.follow(ctx, ref); err != nil {
				once.Do(func() { first = err })
				cancel()
			}
		})
	}
	all.Wait()
	return first
}

// follow tells how a task stands, and again whenever that changed, until it is over.
func (l *listening) follow(ctx context.Context, ref turnRef) error {
	rt := l.s.opt.Runtime
	_, last, err := rt.Events(ctx, l.id.Caller, ref.Session, ref.Sequence-1, 1)
	if err != nil {
		return protocolError(err, l.id)
	}
	stream, err := rt.Subscribe(ctx, l.id.Caller, ref.Session, last)
	if err != nil {
		return protocolError(err, l.id)
	}
	defer stream.Close()
	for said := ""; ; {
		t, err := turnTasks{l.s}.getTask(ctx, l.id, ref.String())
		if err != nil {
			return protocolError(err, l.id)
		}
		if now := taskStanding(&t.detailedTask); now != said {
			if err := l.sendNotice(ctx, notice{noticeTask, &taskNotice{Meta: l.meta(), detailedTask: t.detailedTask}}); err != nil {
				return err
			}
			said = now
		}
		if t.Status != taskWorking && t.Status != taskInput {
			return nil
		}
		if err := untilMoved(ctx, stream); err != nil {
			return err
		}
	}
}

// taskStanding is what a client gets notified of: the status, and what is asked.
func taskStanding(t *detailedTask) string {
	asked := make([]string, 0, len(t.InputRequests))
	for key := range t.InputRequests {
		asked = append(asked, key)
	}
	slices.Sort(asked)
	return t.Status + " " + strings.Join(asked, " ")
}

// untilMoved waits for a fact after which a turn may stand differently.
func untilMoved(ctx context.Context, stream command.Stream) error {
	var e event.Event
	for moved := false; !moved; {
		batch, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, d := range batch {
			if _, err := event.DecodeHeader(d.Data, &e); err != nil {
				return fmt.Errorf("mcpserver: %w", err)
			}
			moved = moved || moves(e.Type)
		}
	}
	return nil
}

func moves(t event.Type) bool {
	return strings.HasPrefix(string(t), "turn.") || strings.HasPrefix(string(t), "action.") || t == event.TypeThreadUpdated
}

// meta names the subscription that a message belongs to.
func (l *listening) meta() map[string]any {
	return map[string]any{mcp.MetaKeySubscriptionID: l.request}
}

func (l *listening) sendNotice(ctx context.Context, n notice) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.send(ctx, n)
}

// wireNotice and wireAnswer are messages as both transports write them.
type wireNotice struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type wireAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  *listenResult   `json:"result,omitempty"`
	Error   *jsonrpc.Error  `json:"error,omitempty"`
}

func noticeOf(n notice) json.RawMessage { return encodeJSON(&wireNotice{"2.0", n.Method, n.Params}) }

// answerOf is the answer to the request that opened a subscription.
func (l *listening) answerOf(res *listenResult, err error) json.RawMessage {
	a := &wireAnswer{Version: "2.0", ID: l.request, Result: res}
	if err != nil {
		var known *jsonrpc.Error
		if known, _ = err.(*jsonrpc.Error); known == nil { //nolint:errorlint // protocolError returns it as it is
			known, _ = protocolError(err, l.id).(*jsonrpc.Error) //nolint:errorlint // as above
		}
		a.Error = known
	}
	return encodeJSON(a)
}
