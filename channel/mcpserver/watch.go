package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/channel/turnview"
	"agentd/event"
)

// watch is what the facts of a turn say so far.
type watch struct {
	turnview.View
	taskID, runID string
	// answer is the newest answer of the model; one that is kept as an output is
	// fetched when the turn is over.
	answer string
	// updated is when the newest fact happened.
	updated time.Time
	// asked says that something may wait for an answer.
	asked bool
}

func newWatch(ref turnRef) *watch { return &watch{View: turnview.View{TurnID: ref.Turn}} }

// apply applies a fact of the turn.
func (w *watch) apply(e *event.Event, payload []byte) error {
	w.ThreadID, w.updated = e.ThreadID, e.Time
	if e.TaskID != "" {
		w.taskID, w.runID = e.TaskID, e.RunID
	}
	switch e.Type { //nolint:exhaustive // most facts say nothing about how a turn stands
	case event.TypeModelCompleted, event.TypeTurnCompleted, event.TypeTurnFailed:
		if err := e.DecodePayload(payload); err != nil {
			return fmt.Errorf("mcpserver: %w", err)
		}
		w.Fold(e)
		if last := w.Last(); last != nil && last.Answer.Message != nil {
			w.answer = last.Answer.Message.Text
		}
	case event.TypeActionRequired:
		w.asked = true
	}
	return nil
}

// maxAnswer bounds how much of an answer that is kept as an output is sent inline.
const maxAnswer = 4 << 20

// fetchAnswer reads an answer that is kept as an output.
func (s *Server) fetchAnswer(ctx context.Context, id *Identity, w *watch) (err error) {
	last := w.Last()
	if last == nil {
		return nil
	}
	w.answer, err = turnview.AnswerText(last.Answer, func(ref string) ([]byte, error) {
		out, err := s.opt.Runtime.Output(ctx, id.Caller, ref)
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(out.Content, maxAnswer))
		if err = errors.Join(err, out.Content.Close()); err != nil {
			return nil, fmt.Errorf("mcpserver: answer: %w", err)
		}
		return data, nil
	})
	return err
}

// waiter waits for one turn in one call.
type waiter struct {
	s     *Server
	id    *Identity
	req   *mcp.CallToolRequest
	ref   turnRef
	watch *watch
	seen  *progress
	// question is put to the client now, or nil.
	question *question
}

// run follows the turn until it is over or needs what this call can't give.
func (w *waiter) run(ctx context.Context) (*mcp.CallToolResult, error) {
	stream, err := w.s.opt.Runtime.Subscribe(ctx, w.id.Caller, w.ref.Session, w.ref.Sequence-1)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	defer w.drop()
	var e event.Event
	for {
		// An answer of the client wakes the wait as a fact does.
		next, cancel := w.untilAnswered(ctx)
		batch, err := stream.Next(next)
		cancel()
		if err != nil && (ctx.Err() != nil || next.Err() == nil) {
			return nil, err
		}
		for _, d := range batch {
			payload, err := event.DecodeHeader(d.Data, &e)
			if err != nil {
				return nil, fmt.Errorf("mcpserver: %w", err)
			}
			if err := w.foldFact(ctx, &e, payload); err != nil {
				return nil, err
			}
		}
		if w.watch.End != nil {
			return w.ended(ctx)
		}
		if res, err := w.attend(ctx); res != nil || err != nil {
			return res, err
		}
	}
}

// foldFact applies a fact of this turn, or of a subagent that works for it.
func (w *waiter) foldFact(ctx context.Context, e *event.Event, payload []byte) error {
	if w.question != nil && e.Type == event.TypeActionResolved && e.ActionID == w.question.action.ActionID {
		w.drop() // another client answered
		w.watch.asked = true
	}
	if e.TurnID != w.ref.Turn {
		w.watch.asked = w.watch.asked || e.Type == event.TypeActionRequired
		return nil
	}
	w.seen.report(ctx, e)
	return w.watch.apply(e, payload)
}

// ended returns the turn's result.
func (w *waiter) ended(ctx context.Context) (*mcp.CallToolResult, error) {
	if err := w.s.fetchAnswer(ctx, w.id, w.watch); err != nil {
		return nil, err
	}
	return (&outcome{ref: w.ref, watch: w.watch}).result(), nil
}

// progress tells a client that asked for it what a turn does.
type progress struct {
	req   *mcp.CallToolRequest
	token any
	steps float64
}

// newProgress returns nil for a client that didn't ask.
func newProgress(req *mcp.CallToolRequest) *progress {
	if token := req.Params.GetProgressToken(); token != nil {
		return &progress{req: req, token: token}
	}
	return nil
}

// report sends a step. A client that can't be reached misses it.
func (p *progress) report(ctx context.Context, e *event.Event) {
	if p == nil {
		return
	}
	var says string
	switch e.Type {
	case event.TypeTurnSubmitted:
		says = "submitted"
	case event.TypeTurnStarted:
		says = "started"
	case event.TypeModelRequested:
		says = "asks the model"
	case event.TypeToolProgress:
		if p, ok := e.Payload.(*event.ToolProgress); !ok || p.Phase != event.PhaseRunning {
			return
		}
		says = "runs a tool"
	case event.TypeActionRequired:
		says = "waits for an answer"
	case event.TypeTurnCompleted:
		says = "completed"
	case event.TypeTurnFailed:
		says = "failed"
	default:
		return // most facts are no step for a person
	}
	p.steps++
	_ = p.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: p.steps, Message: says}) // see above
}
