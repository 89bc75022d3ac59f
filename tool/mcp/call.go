package mcp

import (
	"context"
	"strconv"
	"sync"

	"agentd/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// call makes a call on the connection. It returns as soon as ctx or the
// connection ends, even if the server doesn't take the request off the wire.
func (l *link) call(ctx context.Context, r *remote, call *tool.Call) (*sdk.CallToolResult, error) {
	if !l.enter() {
		return nil, sdk.ErrConnectionClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	token, s := l.follow(call.Host)
	type outcome struct {
		res *sdk.CallToolResult
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		defer l.leave() // end waits for it.
		defer cancel(nil)
		defer stop()
		res, err := l.rounds(ctx, r, call, token)
		done <- outcome{res, err}
	}()
	defer l.unfollow(token, s)
	select {
	case o := <-done:
		return o.res, o.err
	case <-ctx.Done():
		select {
		case o := <-done:
			return o.res, o.err
		default:
			return nil, context.Cause(ctx)
		}
	}
}

// rounds makes the request, and answers what the server asks for on the way if it
// is no more than the roots.
func (l *link) rounds(ctx context.Context, r *remote, call *tool.Call, token string) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: r.original, Arguments: callArguments(call.Input), Meta: sdk.Meta{}}
	if call.TraceParent != "" {
		params.Meta["traceparent"] = call.TraceParent
	}
	if call.TraceState != "" {
		params.Meta["tracestate"] = call.TraceState
	}
	params.SetProgressToken(token)
	for range maxRounds {
		res, err := l.session.CallTool(ctx, params)
		if err != nil || !res.NeedsInput() {
			return res, err
		}
		answers := sdk.InputResponseMap{}
		for id, request := range res.InputRequests {
			answer, ok := l.roots.answer(request)
			if !ok {
				return nil, asksFor(r, request)
			}
			answers[id] = answer
		}
		next := *params
		next.InputResponses, next.RequestState = answers, res.RequestState
		params = &next
	}
	return nil, tool.Errorf(tool.Execution, "the MCP server %q asked for input %d times and gave no result", r.server.cfg.ID, maxRounds)
}

// asksFor is the error of a call that can't continue without input that isn't available.
func asksFor(r *remote, request sdk.InputRequest) *tool.Error {
	e := tool.Errorf(tool.Execution, "the MCP server %q asked for %s during the call, which was declined", r.server.cfg.ID, requestPurpose(request))
	e.Advice = "Give all that the tool needs in its arguments."
	return e
}

// sink hands the progress of a call to its host, until the call returned.
type sink struct {
	mu   sync.Mutex
	host tool.Host
}

// follow registers a call for progress.
func (l *link) follow(host tool.Host) (string, *sink) {
	s := &sink{host: host}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens++
	token := "call-" + strconv.Itoa(l.tokens)
	l.progress[token] = s
	return token, s
}

// unfollow ends the progress: after it the host isn't called any more.
func (l *link) unfollow(token string, s *sink) {
	l.mu.Lock()
	delete(l.progress, token)
	l.mu.Unlock()
	s.mu.Lock()
	s.host = nil
	s.mu.Unlock()
}

// progressed passes on a notification of the server.
func (l *link) progressed(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	s := l.progress[token]
	l.mu.Unlock()
	if s == nil {
		return
	}
	fraction := -1.0
	if p.Total > 0 {
		fraction = min(max(p.Progress/p.Total, 0), 1)
	}
	message := cleanText(p.Message, maxNote)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		s.host.Progress(message, fraction, "")
	}
}
