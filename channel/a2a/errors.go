package a2a

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// kind is a kind of error of the protocol: one row of its table.
type kind struct {
	// reason is its name in details.
	reason string
	// rpc is its code in the JSON-RPC binding, http and status those of the other.
	rpc    int
	http   int
	status string
}

// The errors of version 1.0.1 of the specification that can happen here. Those from forbidden on are not
// in it: it leaves their codes to the server.
var (
	taskNotFound      = &kind{"TASK_NOT_FOUND", -32001, http.StatusNotFound, "NOT_FOUND"}
	taskNotCancelable = &kind{"TASK_NOT_CANCELABLE", -32002, http.StatusBadRequest, "FAILED_PRECONDITION"}
	pushNotSupported  = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, http.StatusBadRequest, "FAILED_PRECONDITION"}
	unsupported       = &kind{"UNSUPPORTED_OPERATION", -32004, http.StatusBadRequest, "FAILED_PRECONDITION"}
	contentType       = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, http.StatusBadRequest, "INVALID_ARGUMENT"}
	extensionRequired = &kind{"EXTENSION_SUPPORT_REQUIRED", -32008, http.StatusBadRequest, "FAILED_PRECONDITION"}
	versionUnknown    = &kind{"VERSION_NOT_SUPPORTED", -32009, http.StatusBadRequest, "FAILED_PRECONDITION"}

	parseError     = &kind{"PARSE_ERROR", -32700, http.StatusBadRequest, "INVALID_ARGUMENT"}
	invalidRequest = &kind{"INVALID_REQUEST", -32600, http.StatusBadRequest, "INVALID_ARGUMENT"}
	methodNotFound = &kind{"METHOD_NOT_FOUND", -32601, http.StatusNotFound, "NOT_FOUND"}
	invalidParams  = &kind{"INVALID_PARAMS", -32602, http.StatusBadRequest, "INVALID_ARGUMENT"}
	internalError  = &kind{"INTERNAL_ERROR", -32603, http.StatusInternalServerError, "INTERNAL"}

	forbidden   = &kind{"PERMISSION_DENIED", -32010, http.StatusForbidden, "PERMISSION_DENIED"}
	exhausted   = &kind{"RESOURCE_EXHAUSTED", -32011, http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"}
	unavailable = &kind{"UNAVAILABLE", -32012, http.StatusServiceUnavailable, "UNAVAILABLE"}
	tooLarge    = &kind{"PAYLOAD_TOO_LARGE", -32013, http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT"}
	wrongMethod = &kind{"METHOD_NOT_ALLOWED", -32600, http.StatusMethodNotAllowed, "INVALID_ARGUMENT"}
)

// domain of the errors' reasons.
const domain = "a2a-protocol.org"

// failure is an error as a peer sees it.
type failure struct {
	*kind
	message string
	// field is the parameter that doesn't fit, if it is about one.
	field string
	// metadata of the error, such as the task's id.
	metadata map[string]string
	// retryAfter is how long to wait before trying again, if that helps.
	retryAfter time.Duration
}

// Error implements error.
func (f *failure) Error() string { return f.message }

func errorf(k *kind, format string, args ...any) *failure {
	return &failure{kind: k, message: fmt.Sprintf(format, args...)}
}

// badParam is the refusal of a parameter.
func badParam(field, format string, args ...any) *failure {
	f := errorf(invalidParams, format, args...)
	f.field = field
	f.message = field + " " + f.message
	return f
}

// noTask is the refusal of a task that isn't there, or isn't the caller's: the two
// can't be told apart.
func noTask(id string) *failure {
	f := errorf(taskNotFound, "there is no task %s", wire.Clip(id))
	f.metadata = map[string]string{"taskId": wire.Clip(id)}
	return f
}

// failureOf is any error as a peer sees it. What it isn't meant to know stays
// here.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	known, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if errors.Is(err, context.DeadlineExceeded) {
			return errorf(unavailable, "this took too long; try again")
		}
		return errorf(internalError, "something went wrong inside the agent")
	}
	k := kindOf(known.Kind)
	if k == internalError {
		return errorf(k, "something went wrong inside the agent")
	}
	f := errorf(k, "%s", known.Detail)
	f.retryAfter = known.RetryAfter
	return f
}

// retrySeconds is how many seconds a peer should wait before it tries again; 0 if that
// doesn't help.
func (f *failure) retrySeconds() int64 { return int64(math.Ceil(f.retryAfter.Seconds())) }

// logFailure logs an error whose details the peer doesn't get.
func (s *Server) logFailure(r *http.Request, err error) {
	if r.Context().Err() == nil && failureOf(err).kind == internalError {
		s.opt.Logger.Error("a request from an A2A peer failed", "error", err)
	}
}

// kindOf maps our kinds of errors to the protocol's.
func kindOf(k fault.Kind) *kind {
	switch k { //nolint:exhaustive // the others are defects here
	case fault.InvalidParams, fault.Conflict, fault.PolicyRejected:
		return invalidParams
	case fault.NotFound:
		return taskNotFound
	case fault.Forbidden, fault.Unauthenticated:
		return forbidden
	case fault.PayloadTooLarge:
		return tooLarge
	case fault.RateLimited:
		return exhausted
	case fault.Unavailable:
		return unavailable
	}
	return internalError
}

// details are the typed objects that go with an error.
func (f *failure) details() []map[string]any {
	info := map[string]any{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": f.reason, "domain": domain,
	}
	if len(f.metadata) > 0 {
		info["metadata"] = f.metadata
	}
	out := []map[string]any{info}
	if s := f.retrySeconds(); s > 0 {
		out = append(out, map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%ds", s)})
	}
	if f.field != "" {
		out = append(out, map[string]any{
			"@type":           "type.googleapis.com/google.rpc.BadRequest",
			"fieldViolations": []map[string]string{{"field": f.field, "description": f.message}},
		})
	}
	return out
}
