// Package fault classifies errors. Every error that leaves agentd has a [Kind];
// the one table here maps a kind to its HTTP status, its JSON-RPC code and the
// failure category that a turn or a task records. Callers branch on the kind
// only, never on an error's text. The list of kinds is append-only: it crosses
// the wire.
//
// The package depends on the standard library only.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is a class of errors.
type Kind string

// The kinds. Their values are the stable codes on the wire.
const (
	InvalidParams       Kind = "invalid_params"
	Unauthenticated     Kind = "unauthenticated"
	Forbidden           Kind = "forbidden"
	NotFound            Kind = "not_found"
	MethodNotAllowed    Kind = "method_not_allowed"
	Conflict            Kind = "conflict"
	PolicyRejected      Kind = "policy_rejected"
	PayloadTooLarge     Kind = "payload_too_large"
	UnsupportedMedia    Kind = "unsupported_media_type"
	RangeNotSatisfiable Kind = "range_not_satisfiable"
	RateLimited         Kind = "rate_limited"
	HeaderTooLarge      Kind = "header_too_large"
	Internal            Kind = "internal"
	Unavailable         Kind = "unavailable"
)

// Def is the table's row for one kind.
type Def struct {
	Kind Kind
	// HTTP is the status code of the answer.
	HTTP int
	// RPC is the JSON-RPC error code.
	RPC int
	// Category is the failure category that work which stops on it records.
	Category string
	// Title is a short line for people, the same for every error of the kind.
	Title string
	// Means says when the kind is used and what to do.
	Means string
}

// JSON-RPC codes of the specification; everything of ours is RPCServer.
const (
	RPCParse          = -32700
	RPCInvalidRequest = -32600
	RPCMethodNotFound = -32601
	RPCInvalidParams  = -32602
	RPCServer         = -32000
)

var table = []Def{
	{InvalidParams, 400, RPCInvalidParams, "internal", "Invalid parameters", "A parameter is missing, unknown or doesn't fit; the detail names it."},
	{Unauthenticated, 401, RPCServer, "internal", "Not authenticated", "The bearer token is missing, wrong, expired or revoked."},
	{Forbidden, 403, RPCServer, "internal", "Forbidden", "The caller's role, account, host or origin doesn't allow it."},
	{NotFound, 404, RPCServer, "internal", "Not found", "No such thing, or the caller may not see it."},
	{MethodNotAllowed, 405, RPCServer, "internal", "Method not allowed", "The address exists, with another HTTP method."},
	{Conflict, 409, RPCServer, "internal", "Conflict", "The state doesn't allow it, or an id is in use with another content; the detail says which."},
	{PolicyRejected, 409, RPCServer, "internal", "Rejected by policy", "A policy forbids it now; the detail names the policy."},
	{PayloadTooLarge, 413, RPCServer, "internal", "Too large", "The body or a value in it is over the limit that the detail gives."},
	{UnsupportedMedia, 415, RPCServer, "internal", "Unsupported media type", "The body must be application/json."},
	{RangeNotSatisfiable, 416, RPCServer, "internal", "Range not satisfiable", "The range lies outside of the content."},
	{RateLimited, 429, RPCServer, "internal", "Too many requests", "A bound was reached; try again after the given time."},
	{HeaderTooLarge, 431, RPCServer, "internal", "Header too large", "The request's headers are over the limit."},
	{Internal, 500, RPCServer, "internal", "Internal error", "A defect of agentd or of its storage; the log has more under the request id."},
	{Unavailable, 503, RPCServer, "internal", "Unavailable", "It can't be done now: the store refuses writes, the server stops, or this build doesn't offer it."},
}

// Table returns the rows of all kinds, ordered by HTTP status. The slice is the caller's.
func Table() []Def { return append([]Def(nil), table...) }

// Def returns the kind's row; an unknown kind has Internal's.
func (k Kind) Def() Def {
	var internal Def
	for _, d := range table {
		if d.Kind == k {
			return d
		}
		if d.Kind == Internal {
			internal = d
		}
	}
	return internal
}

// Error is a classified error.
type Error struct {
	Kind Kind
	// Detail is for people: what is wrong with this request, and what to do.
	Detail string
	// Param names the parameter that is at fault, if one is; of several the first.
	Param string
	// Fields are the parts of a document that are at fault, if it was checked against
	// a schema.
	Fields []Field
	// RetryAfter is how long to wait before trying again, if that helps.
	RetryAfter time.Duration
	// Elsewhere is the address of the node that can do it, if it is known.
	Elsewhere string
	// Err is the cause. It is logged, never sent.
	Err error
}

// Field is a part of a document that doesn't fit.
type Field struct {
	// Param is its path: payload.items[2].name.
	Param string
	// Detail is for people: what was expected there, and what was given.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Detail, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns a classified error. The detail is formatted as by [fmt.Sprintf].
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Detail: fmt.Sprintf(format, args...)}
}

// Param returns an InvalidParams error that names the parameter.
func Param(name, format string, args ...any) *Error {
	return &Error{Kind: InvalidParams, Param: name, Detail: name + ": " + fmt.Sprintf(format, args...)}
}

// Rename gives the parameter that an error is about the name that the caller knows it
// by: one that is checked for several commands has another name in each. Other errors
// stay as they are.
func Rename(err error, from, to string) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Param != from {
		return err
	}
	renamed := *e
	renamed.Param, renamed.Detail = to, to+strings.TrimPrefix(e.Detail, from)
	return &renamed
}

// Within returns an InvalidParams error about a document that was sent as the parameter
// name and breaks a schema. Params of a classified cause are paths in the document.
func Within(name, schema string, err error) *Error {
	inner, ok := errors.AsType[*Error](err)
	if !ok {
		return Param(name, "%s; see %s", err, schema)
	}
	if len(inner.Fields) == 0 {
		return Param(join(name, inner.Param), "%s; see %s", strings.TrimPrefix(inner.Detail, inner.Param+": "), schema)
	}
	out := &Error{Kind: InvalidParams, Param: join(name, inner.Fields[0].Param)}
	for i, f := range inner.Fields {
		f.Param = join(name, f.Param)
		out.Fields = append(out.Fields, f)
		if i > 0 {
			out.Detail += "; "
		}
		out.Detail += f.Param + ": " + f.Detail
	}
	out.Detail += "; see " + schema
	return out
}

// join puts a path behind the name of what it is in.
func join(name, path string) string {
	if path == "" || strings.HasPrefix(path, "[") {
		return name + path
	}
	return name + "." + path
}

// Wrap classifies a cause. The detail must be fit for the caller's eyes.
func Wrap(k Kind, err error, format string, args ...any) *Error {
	return &Error{Kind: k, Detail: fmt.Sprintf(format, args...), Err: err}
}

// stopRetry is how long to wait when a runtime stops: by then another node, or the next process,
// answers.
const stopRetry = time.Second

// Stopping says that the runtime stops and that the same can be asked for again soon. The cause,
// which may be nil, is whatever part of it was closed already.
func Stopping(err error) *Error {
	return &Error{Kind: Unavailable, Detail: "the runtime is stopping", RetryAfter: stopRetry, Err: err}
}

// KindOf returns the kind of the first classified error in err's chain, and
// Internal for any other error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}
