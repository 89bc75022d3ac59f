package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/fault"
	"agentd/internal/wire"
)

// faultOf classifies an error. The text of one without a kind stays inside.
func faultOf(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if errors.Is(err, errStopping) {
		return fault.Stopping(err)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.Unavailable, err, "the call was abandoned; it may still complete")
	}
	return fault.Wrap(fault.Internal, err, "something went wrong inside agentd; its log has more")
}

func problemOf(err error, requestID string) *wire.Problem {
	p := wire.ProblemOf(faultOf(err))
	p.RequestID = requestID
	return &p
}

// failedResult is the result of a tool that couldn't do what was asked. The model reads
// the detail, a program the problem.
func (s *Server) failedResult(err error, id *Identity) *mcp.CallToolResult {
	p := problemOf(err, id.Caller.RequestID)
	if p.Code == string(fault.Internal) {
		s.opt.Logger.Error("a tool failed", "error", err, "requestId", id.Caller.RequestID)
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: p.Code + ": " + p.Detail}},
		StructuredContent: p,
		IsError:           true,
	}
}

// commandResult is the result of a command: as data, and as text for clients that read
// no data.
func commandResult(result any) *mcp.CallToolResult {
	data, err := json.Marshal(result)
	if err != nil || len(data) == 0 || data[0] != '{' {
		data = []byte("{}") // results are objects, by the command's contract
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: string(data)}},
		StructuredContent: json.RawMessage(data),
	}
}

// protocolError is a fault as an error of the protocol, where no tool is there to
// report it.
func protocolError(err error, id *Identity) error {
	p := problemOf(err, id.Caller.RequestID)
	code := int64(jsonrpc.CodeInternalError)
	switch fault.Kind(p.Code) {
	case fault.InvalidParams, fault.NotFound, fault.Forbidden, fault.Conflict, fault.PolicyRejected, fault.RangeNotSatisfiable, fault.PayloadTooLarge:
		code = jsonrpc.CodeInvalidParams
	default:
	}
	return &jsonrpc.Error{Code: code, Message: p.Detail, Data: encodeJSON(p)}
}
