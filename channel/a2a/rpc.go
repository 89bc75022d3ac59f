package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/internal/wire"
)

// rpcRequest is a request of the JSON-RPC binding.
type rpcRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type rpcError struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Data    []map[string]any `json:"data,omitempty"`
}

type rpcResponse struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

// operation carries out one method; a streaming one returns a stream.
type operation func(ctx context.Context, c *call, params []byte) (any, *stream, error)

// methods are the operations of the protocol by their names.
func (s *Server) methods() map[string]operation {
	return map[string]operation{
		"SendMessage":          unaryOperation(s.sendMessage),
		"SendStreamingMessage": streaming(s.sendStreaming),
		"GetTask":              unaryOperation(s.getTask),
		"ListTasks":            unaryOperation(s.listTasks),
		"CancelTask":           unaryOperation(s.cancelTask),
		"SubscribeToTask":      streaming(s.subscribe),

		"CreateTaskPushNotificationConfig": unaryOperation(s.createPush),
		"GetTaskPushNotificationConfig":    unaryOperation(s.getPush),
		"ListTaskPushNotificationConfigs":  unaryOperation(s.listPushes),
		"DeleteTaskPushNotificationConfig": unaryOperation(s.deletePush),
		"GetExtendedAgentCard": unaryOperation(func(ctx context.Context, c *call, _ *proto.GetExtendedAgentCardRequest) (*proto.AgentCard, error) {
			return s.extendedCard(ctx, c)
		}),
	}
}

func unaryOperation[P, R any](do func(context.Context, *call, *P) (R, error)) operation {
	return func(ctx context.Context, c *call, params []byte) (any, *stream, error) {
		p := new(P)
		if err := decodeParams(params, p); err != nil {
			return nil, nil, err
		}
		res, err := do(ctx, c, p)
		return res, nil, err
	}
}

func streaming[P any](do func(context.Context, *call, *P) (*stream, error)) operation {
	return func(ctx context.Context, c *call, params []byte) (any, *stream, error) {
		p := new(P)
		if err := decodeParams(params, p); err != nil {
			return nil, nil, err
		}
		st, err := do(ctx, c, p)
		return nil, st, err
	}
}

// serveRPC answers a request of the JSON-RPC binding.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request) {
	if p := strings.TrimSuffix(r.URL.Path, "/"); p != RPCPath {
		writeREST(w, r, errorf(methodNotFound, "there is nothing at this address"))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeREST(w, r, errorf(wrongMethod, "the JSON-RPC binding only accepts POST"))
		return
	}
	req := &rpcRequest{}
	result, st, err := s.dispatchRPC(w, r, req)
	if err == nil && st != nil {
		wrap := func(v any) any { return &rpcResponse{JSONRPC: "2.0", ID: req.ID, Result: v} }
		st.serve(w, r, s.opt.Heartbeat, wrap, func(err error) any { return rpcFailure(req.ID, err) })
		return
	}
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, "application/json", &rpcResponse{JSONRPC: "2.0", ID: req.ID, Result: result})
	case !s.opt.PassOn(r.Context(), err):
		s.refuseRPC(w, r, req, err)
	}
}

func (s *Server) refuseRPC(w http.ResponseWriter, r *http.Request, req *rpcRequest, err error) {
	s.logFailure(r, err)
	writeJSON(w, http.StatusOK, "application/json", rpcFailure(req.ID, err))
}

func rpcFailure(id json.RawMessage, err error) *rpcResponse {
	f := failureOf(err)
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return &rpcResponse{JSONRPC: "2.0", ID: id, Error: &rpcError{Code: f.rpc, Message: f.message, Data: f.details()}}
}

func (s *Server) dispatchRPC(w http.ResponseWriter, r *http.Request, req *rpcRequest) (any, *stream, error) {
	if err := jsonBody(r); err != nil {
		return nil, nil, err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return nil, nil, err
	}
	if err := req.read(body); err != nil {
		return nil, nil, err
	}
	c, err := s.openCall(r)
	if err != nil {
		return nil, nil, err
	}
	do, ok := s.operations[*req.Method]
	if !ok {
		return nil, nil, errorf(methodNotFound, "there is no method %s", wire.Clip(*req.Method))
	}
	return do(r.Context(), c, req.Params)
}

// read checks a request's envelope. The id is kept as far as it is one, so that the
// answer to a bad request has it.
func (q *rpcRequest) read(body []byte) error {
	if !json.Valid(body) {
		return errorf(parseError, "the body is not JSON")
	}
	if b := bytes.TrimSpace(body); b[0] != '{' {
		return errorf(invalidRequest, "the body must be a single JSON-RPC request; batches are not supported")
	}
	var raw struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Params  json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return errorf(invalidRequest, "the request can't be read")
	}
	if !validID(raw.ID) {
		return errorf(invalidRequest, "id must be a string or a number")
	}
	q.ID = raw.ID
	if string(raw.JSONRPC) != `"2.0"` {
		return errorf(invalidRequest, `jsonrpc must be "2.0"`)
	}
	if json.Unmarshal(raw.Method, &q.Method) != nil || q.Method == nil || *q.Method == "" {
		return errorf(invalidRequest, "method must be a string")
	}
	if q.Params = raw.Params; string(q.Params) == "null" {
		q.Params = nil
	}
	if len(q.Params) > 0 && q.Params[0] != '{' {
		return errorf(invalidParams, "params must be an object")
	}
	return nil
}

// validID reports whether a request's id is one that an answer can carry. A request
// without one would get no answer, and every method here has one.
func validID(id json.RawMessage) bool {
	if len(id) == 0 {
		return false
	}
	switch c := id[0]; {
	case c == '"', c == '-', c >= '0' && c <= '9':
		return true
	}
	return false
}

// writeJSON writes an answer.
func writeJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":500,"status":"INTERNAL","message":"the answer can't be encoded"}}`)
	}
	b = append(b, '\n')
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // who went away needs no answer
}
