package wire

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/fault"
)

// MaxBatch is how many messages a JSON-RPC batch may have.
const MaxBatch = 1000

// RPCRequest is a JSON-RPC 2.0 request or notification.
type RPCRequest struct {
	// ID is the caller's id as it came: a string, a number or null. It is nil for a
	// notification, which gets no answer.
	ID stdjson.RawMessage
	// Method is the name of what is asked for.
	Method string
	// Params is an object, or nil if there are none.
	Params stdjson.RawMessage
	// Err is set on a message that is no valid request: the answer to send.
	Err *RPCError
}

// Notification reports whether the caller wants no answer.
func (r *RPCRequest) Notification() bool { return r.ID == nil && r.Err == nil }

// RPCError is the error object of a response.
type RPCError struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    *Problem `json:"data,omitempty"`
}

// Error implements error.
func (e *RPCError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

// Err returns the error as a fault.
func (e *RPCError) Err() *fault.Error {
	switch {
	case e.Data != nil && e.Data.Code != "":
		return e.Data.Err()
	case e.Code == fault.RPCMethodNotFound:
		return fault.New(fault.NotFound, "%s", e.Message)
	case e.Code == fault.RPCParse, e.Code == fault.RPCInvalidRequest, e.Code == fault.RPCInvalidParams:
		return fault.New(fault.InvalidParams, "%s", e.Message)
	default:
		return fault.New(fault.Internal, "%s", e.Message)
	}
}

// RPCErrorOf describes an error as a JSON-RPC error object, with the problem in
// its data.
func RPCErrorOf(err error) *RPCError {
	p := ProblemOf(err)
	return &RPCError{Code: fault.Kind(p.Code).Def().RPC, Message: p.Detail, Data: &p}
}

// MethodNotFound is the error for a method that isn't offered.
func MethodNotFound(method string) *RPCError {
	p := ProblemOf(fault.New(fault.NotFound, "there is no command %s", Clip(method)))
	return &RPCError{Code: fault.RPCMethodNotFound, Message: p.Detail, Data: &p}
}

// ParseRPC reads one message or a batch. batch says that the answers go into a
// list. An error is the one answer to all of it, with the id null: it isn't JSON,
// or it is an empty or too large batch. A message of a batch that is no request
// carries its own error.
func ParseRPC(data []byte) (requests []RPCRequest, batch bool, err *RPCError) {
	data = bytes.Trim(data, jsonSpace)
	if NestsDeeper(data, MaxDepth) {
		return nil, false, rpcError(fault.RPCParse, fmt.Sprintf("the JSON is nested more than %d levels deep", MaxDepth))
	}
	// The list is counted before it is kept: a batch of a million empty objects
	// costs a scan, not a million requests.
	if len(data) == 0 || data[0] != '[' {
		if err := validJSON(data); err != nil {
			return nil, false, err
		}
		return []RPCRequest{parseRequest(data)}, false, nil
	}
	return parseBatch(data)
}

func parseBatch(data []byte) ([]RPCRequest, bool, *RPCError) {
	if err := validJSON(data); err != nil {
		return nil, false, err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	if _, err := dec.ReadToken(); err != nil {
		return nil, false, rpcError(fault.RPCParse, "the message is not valid JSON")
	}
	var requests []RPCRequest
	for dec.PeekKind() != ']' {
		if len(requests) == MaxBatch {
			return nil, false, rpcError(fault.RPCInvalidRequest, fmt.Sprintf("a batch has at most %d messages", MaxBatch))
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, false, rpcError(fault.RPCParse, "the message is not valid JSON")
		}
		requests = append(requests, parseRequest(v.Clone()))
	}
	if len(requests) == 0 {
		return nil, false, rpcError(fault.RPCInvalidRequest, "a batch must have at least one message")
	}
	return requests, true, nil
}

// validJSON checks syntax, UTF-8 and duplicate names of everything in data.
func validJSON(data []byte) *RPCError {
	var v jsontext.Value
	if err := json.Unmarshal(data, &v); err != nil {
		at := placeOf(err)
		return rpcError(fault.RPCParse, strings.Replace(at.Error(), "the body", "the message", 1))
	}
	return nil
}

// parseRequest reads one message that is valid JSON.
func parseRequest(data []byte) RPCRequest {
	var m struct {
		Version stdjson.RawMessage `json:"jsonrpc"`
		ID      jsontext.Value     `json:"id"`
		Method  stdjson.RawMessage `json:"method"`
		Params  stdjson.RawMessage `json:"params"`
	}
	if data[0] != '{' {
		return RPCRequest{Err: rpcError(fault.RPCInvalidRequest, "a message must be a JSON object")}
	}
	if err := json.Unmarshal(data, &m, json.WithUnmarshalers(unmarshalers)); err != nil {
		return RPCRequest{Err: rpcError(fault.RPCInvalidRequest, placeOf(err).Error())}
	}
	r := RPCRequest{ID: stdjson.RawMessage(m.ID), Params: m.Params}
	switch kind := m.ID.Kind(); {
	case len(m.ID) > 0 && kind != '"' && kind != '0' && kind != 'n':
		r.ID, r.Err = nil, rpcError(fault.RPCInvalidRequest, "id: expected a string, a number or null")
	case string(m.Version) != `"2.0"`:
		r.Err = rpcError(fault.RPCInvalidRequest, `jsonrpc: expected "2.0"`)
	case json.Unmarshal(m.Method, &r.Method) != nil || r.Method == "":
		r.Err = rpcError(fault.RPCInvalidRequest, "method: expected a name")
	case len(m.Params) > 0 && m.Params[0] == '[':
		r.Err = rpcError(fault.RPCInvalidParams, "params: pass parameters by name, in an object")
	case len(m.Params) > 0 && m.Params[0] != '{':
		r.Err = rpcError(fault.RPCInvalidRequest, "params: expected an object")
	}
	return r
}

func rpcError(code int, message string) *RPCError {
	p := ProblemOf(fault.New(fault.InvalidParams, "%s", message))
	return &RPCError{Code: code, Message: message, Data: &p}
}

// null is the id of an answer to a message without a usable id.
const null = "null"

// AppendRPCResult appends the response to a request. The result must be valid JSON.
func AppendRPCResult(dst []byte, id, result stdjson.RawMessage) []byte {
	dst = appendID(append(dst, `{"jsonrpc":"2.0","id":`...), id)
	if len(result) == 0 {
		result = stdjson.RawMessage(null)
	}
	dst = append(append(dst, `,"result":`...), result...)
	return append(dst, '}')
}

// AppendRPCError appends the response to a request that failed; the id is nil
// when it could not be read.
func AppendRPCError(dst []byte, id stdjson.RawMessage, e *RPCError) []byte {
	dst = appendID(append(dst, `{"jsonrpc":"2.0","id":`...), id)
	body, err := stdjson.Marshal(e)
	if err != nil {
		// An error object has strings and numbers only.
		panic(err)
	}
	dst = append(append(dst, `,"error":`...), body...)
	return append(dst, '}')
}

// AppendRPCNotification appends a message that wants no answer. The parameters
// must be valid JSON.
func AppendRPCNotification(dst []byte, method string, params stdjson.RawMessage) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0"`...), method, params)
}

// AppendRPCRequest appends a request. The id and the parameters must be valid JSON.
func AppendRPCRequest(dst []byte, id stdjson.RawMessage, method string, params stdjson.RawMessage) []byte {
	return appendCall(appendID(append(dst, `{"jsonrpc":"2.0","id":`...), id), method, params)
}

func appendCall(dst []byte, method string, params stdjson.RawMessage) []byte {
	// A name that isn't UTF-8 is quoted all the same, with replacements.
	dst, _ = jsontext.AppendQuote(append(dst, `,"method":`...), method)
	if len(params) > 0 {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

func appendID(dst []byte, id stdjson.RawMessage) []byte {
	if len(id) == 0 {
		return append(dst, null...)
	}
	return append(dst, id...)
}

// RPCMessage is what the asking side receives: a response, or a notification.
type RPCMessage struct {
	// ID of the request that is answered; nil on a notification.
	ID stdjson.RawMessage `json:"id,omitempty"`
	// Result or Error of a response.
	Result stdjson.RawMessage `json:"result,omitempty"`
	Error  *RPCError          `json:"error,omitempty"`
	// Method and Params of a notification, or of a request of the other side.
	Method string             `json:"method,omitempty"`
	Params stdjson.RawMessage `json:"params,omitempty"`
}

// DecodeRPCMessage reads one message on the asking side. Members that it doesn't
// know are passed over: the other side may be newer.
func DecodeRPCMessage(data []byte) (*RPCMessage, error) {
	var m struct {
		Version string `json:"jsonrpc"`
		RPCMessage
	}
	if err := stdjson.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("wire: JSON-RPC message: %w", err)
	}
	if m.Version != "2.0" {
		return nil, fmt.Errorf("wire: JSON-RPC message: version %q is not 2.0", Clip(m.Version))
	}
	return &m.RPCMessage, nil
}
