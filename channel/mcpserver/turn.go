package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// The tools that last as long as a turn.
const (
	runTurn  = "run_turn"
	waitTurn = "wait_turn"
)

// waitArgs are what both tools take beside the ids.
type waitArgs struct {
	// TimeoutMs is how long to wait for the turn.
	TimeoutMs int64 `json:"timeoutMs"`
	// OnDisconnect says what becomes of the turn when the client goes away.
	OnDisconnect string `json:"onDisconnect"`
}

// waitProperties describe them.
func waitProperties() map[string]any {
	return map[string]any{
		"timeoutMs": map[string]any{
			"type": "integer", "minimum": 1, "maximum": 86400000,
			"description": "How long to wait for the turn, in milliseconds. If it isn't over by then, the answer says running, the turn continues, and wait_turn waits again.",
		},
		"onDisconnect": map[string]any{
			"type": "string", "enum": []any{"continue", "interrupt"},
			"description": "What becomes of the turn when the client goes away while it waits: continue (default) or interrupt.",
		},
	}
}

// addTurnTools offers run_turn and wait_turn.
func (s *Server) addTurnTools(srv *mcp.Server, role command.Role) {
	yes := true
	output := encodeJSON(orProblem(outcomeSchema(), s.schemas.problem))
	if role.Allows(command.RoleClient) {
		srv.AddTool(&mcp.Tool{
			Name: runTurn, Title: "Run a turn",
			Description: "Gives an agent an input, waits until the turn is over, and returns the agent's answer. " +
				"Without a sessionId a new session is opened; pass its id again to go on in the same conversation. " +
				"A turn that waits for a permission or an input is answered as action_required where the client can't be asked.",
			InputSchema: encodeJSON(s.runSchema()), OutputSchema: output,
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes},
		}, s.runTurn)
	}
	if role.Allows(command.RoleObserver) {
		no := false
		srv.AddTool(&mcp.Tool{
			Name: waitTurn, Title: "Wait for a turn",
			Description: "Waits until a turn that was submitted before is over, and returns the agent's answer.",
			InputSchema: encodeJSON(waitSchema()), OutputSchema: output,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		}, s.waitTurn)
	}
}

// runSchema is that of submit_turn with more.
func (s *Server) runSchema() map[string]any {
	schema := maps.Clone(s.schemas.submit)
	properties, _ := schema["properties"].(map[string]any)
	properties = maps.Clone(properties)
	maps.Copy(properties, waitProperties())
	schema["properties"] = properties
	return schema
}

func waitSchema() map[string]any {
	properties := waitProperties()
	delete(properties, "onDisconnect") // waiting for another client's turn doesn't end it
	for name, text := range map[string]string{"sessionId": "The session of the turn.", "turnId": "The turn to wait for."} {
		properties[name] = map[string]any{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$", "description": text}
	}
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []any{"sessionId", "turnId"}, "properties": properties,
	}
}

// runTurn submits a turn and waits for it. A client that was asked for input calls
// again with the answers and the state it was given: then the turn is there already.
func (s *Server) runTurn(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	id := identityFrom(ctx)
	submit, wait, err := runArgs(req.Params.Arguments)
	if err != nil {
		return s.failedResult(err, id), nil
	}
	if state := req.Params.RequestState; state != "" {
		return s.goOn(ctx, req, id, state, wait)
	}
	if submit.Metadata == nil {
		submit.Metadata = clientMetadata(req)
	}
	accepted, err := runCommandAs[command.SubmitTurnResult](channel.Accepting(ctx), s, id, submit)
	if err != nil {
		return s.failedResult(err, id), nil
	}
	ref := turnRef{Session: accepted.SessionID, Turn: accepted.TurnID, Sequence: accepted.Sequence}
	if slot := slotFrom(ctx); slot != nil {
		return slot.fill(s.newTask(ctx, id, ref))
	}
	return s.awaitTurn(ctx, req, id, ref, wait, true)
}

// runArgs reads the arguments of run_turn: those of submit_turn, and when to stop
// waiting.
func runArgs(data json.RawMessage) (*command.SubmitTurn, waitArgs, error) {
	members, wait, err := splitArgs(data)
	if err != nil {
		return nil, wait, err
	}
	p, err := command.Decode("submit_turn", encodeJSON(members))
	if err != nil {
		return nil, wait, err
	}
	return p.(*command.SubmitTurn), wait, nil
}

// splitArgs tells what says how to wait from the other arguments.
func splitArgs(data json.RawMessage) (map[string]json.RawMessage, waitArgs, error) {
	var wait waitArgs
	members := map[string]json.RawMessage{}
	if len(data) > 0 && json.Unmarshal(data, &members) != nil {
		return nil, wait, fault.New(fault.InvalidParams, "the arguments are not a JSON object")
	}
	err := takeWait(members, &wait)
	return members, wait, err
}

// takeWait reads and removes what says how to wait.
func takeWait(members map[string]json.RawMessage, wait *waitArgs) error {
	for name, into := range map[string]any{"timeoutMs": &wait.TimeoutMs, "onDisconnect": &wait.OnDisconnect} {
		value, ok := members[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fault.Param(name, "has the wrong type")
		}
		delete(members, name)
	}
	switch {
	case wait.TimeoutMs < 0:
		return fault.Param("timeoutMs", "is negative")
	case wait.OnDisconnect != "" && wait.OnDisconnect != "continue" && wait.OnDisconnect != "interrupt":
		return fault.Param("onDisconnect", "must be continue or interrupt")
	}
	return nil
}

// clientMetadata records which program asked, as it calls itself.
func clientMetadata(req *mcp.CallToolRequest) event.Raw {
	info := req.ClientInfo()
	if info == nil || info.Name == "" {
		return nil
	}
	return encodeJSON(map[string]any{"mcpClient": map[string]any{"name": wire.Clip(info.Name), "version": wire.Clip(info.Version)}})
}

// goOn answers what the turn waited for, and waits on.
func (s *Server) goOn(ctx context.Context, req *mcp.CallToolRequest, id *Identity, state string, wait waitArgs) (*mcp.CallToolResult, error) {
	ref, err := s.turnOf(ctx, id, state)
	if err != nil {
		return nil, protocolError(err, id)
	}
	answers := map[string]*mcp.ElicitResult{}
	for key, response := range req.Params.InputResponses {
		if answer, ok := response.(*mcp.ElicitResult); ok && answer != nil {
			answers[key] = answer
		}
	}
	if err := s.answerActions(channel.Accepting(ctx), id, ref, answers); err != nil {
		return s.failedResult(err, id), nil
	}
	return s.awaitTurn(ctx, req, id, ref, wait, true)
}

// waitTurn waits for a turn that was submitted before.
func (s *Server) waitTurn(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	id := identityFrom(ctx)
	members, wait, err := splitArgs(req.Params.Arguments)
	if err != nil {
		return s.failedResult(err, id), nil
	}
	if state := req.Params.RequestState; state != "" {
		return s.goOn(ctx, req, id, state, wait)
	}
	sessionID, turnID, err := turnArgs(members)
	if err != nil {
		return s.failedResult(err, id), nil
	}
	ref, err := s.findTurn(ctx, id, sessionID, turnID)
	if err != nil {
		return s.failedResult(err, id), nil
	}
	if slot := slotFrom(ctx); slot != nil {
		return slot.fill(s.newTask(ctx, id, ref))
	}
	return s.awaitTurn(ctx, req, id, ref, wait, false)
}

// turnArgs reads the ids, and refuses anything else.
func turnArgs(members map[string]json.RawMessage) (sessionID, turnID string, err error) {
	for name, into := range map[string]*string{"sessionId": &sessionID, "turnId": &turnID} {
		if json.Unmarshal(members[name], into) != nil || !event.ValidID(*into) {
			return "", "", fault.Param(name, "is missing or not an id")
		}
		delete(members, name)
	}
	for name := range members {
		return "", "", fault.Param(wire.Clip(name), "is not a parameter of %s", waitTurn)
	}
	return sessionID, turnID, nil
}

// awaitTurn follows a turn until it is over, until something is needed, or until the
// time is up. With owns the call's end by its client ends the turn.
func (s *Server) awaitTurn(ctx context.Context, req *mcp.CallToolRequest, id *Identity, ref turnRef, wait waitArgs, owns bool) (*mcp.CallToolResult, error) {
	limit := s.opt.MaxWait
	if wait.TimeoutMs > 0 {
		limit = min(limit, time.Duration(wait.TimeoutMs)*time.Millisecond)
	}
	call, done := s.sessions.add(ctx, callKey(req.Session.ID(), userOf(id)))
	defer done()
	waiting, cancel := context.WithTimeout(call, limit)
	defer cancel()
	defer context.AfterFunc(s.stop, cancel)()
	w := &waiter{s: s, id: id, req: req, ref: ref, watch: newWatch(ref), seen: newProgress(req)}
	res, err := w.run(waiting)
	switch {
	case err == nil:
		return res, nil
	case call.Err() != nil:
		return nil, s.clientLeft(call, req, id, ref, wait, owns)
	case s.stop.Err() != nil:
		f := fault.Stopping(errStopping)
		f.Detail = "the server is stopping; the turn continues after the restart, and " + waitTurn + " waits for it again"
		return s.failedResult(f, id), nil
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		return (&outcome{ref: ref, watch: w.watch, status: "running"}).result(), nil
	}
	return s.failedResult(err, id), nil
}

// clientLeft decides what becomes of a turn whose client doesn't wait any more. A client
// that says so wants it stopped; one that is gone may come back.
func (s *Server) clientLeft(ctx context.Context, req *mcp.CallToolRequest, id *Identity, ref turnRef, wait waitArgs, owns bool) error {
	cause := context.Cause(ctx)
	// In the newer revision over HTTP a broken connection and a cancelled request look
	// the same.
	told := errors.Is(cause, context.Canceled) && (!overHTTP(req) || req.ProtocolVersion() < statelessSince)
	if owns && (told || wait.OnDisconnect == "interrupt") {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		if err := s.stopTurn(stop, id, ref, "the client cancelled its call"); err != nil {
			s.opt.Logger.Warn("a cancelled call left its turn running", "sessionId", ref.Session, "turnId", ref.Turn, "error", err)
		}
	}
	return fmt.Errorf("the call ended before the turn: %w", cause)
}

// stopWithin bounds how long stopping a turn may take once the client is gone.
const stopWithin = 10 * time.Second

func overHTTP(req *mcp.CallToolRequest) bool { return req.Extra != nil && req.Extra.Header != nil }

// stopTurn interrupts a turn, or takes it out of the queue. One that is over stays so.
func (s *Server) stopTurn(ctx context.Context, id *Identity, ref turnRef, reason string) error {
	_, err := s.runCommand(ctx, id, &command.InterruptTurn{SessionID: ref.Session, TurnID: ref.Turn, Reason: reason})
	return err
}
