package wire

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"agentd/fault"
)

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem is an error as agentd sends it: RFC 9457 with a stable code. It is
// also the data of a JSON-RPC error.
type Problem struct {
	// Title is a short line for people, the same for every error of the code.
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail says what is wrong with this request, and what to do.
	Detail string `json:"detail"`
	// Code is the stable name of the kind of error.
	Code string `json:"code"`
	// Param is the path of the parameter that is at fault, if one is; of several the first.
	Param string `json:"param,omitempty"`
	// Errors are the parts of a document that break its schema, such as the fields of a form.
	Errors []ProblemField `json:"errors,omitempty"`
	// RetryAfter is how many seconds to wait before trying again, if that helps.
	RetryAfter int64 `json:"retryAfter,omitempty"`
	// RequestID joins the answer to the server's log.
	RequestID string `json:"requestId,omitempty"`
}

// ProblemField is a part of a document that breaks its schema.
type ProblemField struct {
	// Param is its path: payload.items[2].name.
	Param string `json:"param"`
	// Detail says what was expected there, and what was given.
	Detail string `json:"detail"`
}

// ProblemOf describes an error. One without a kind is internal, and its text
// stays inside.
func ProblemOf(err error) Problem {
	f := faultOf(err)
	d := f.Kind.Def()
	p := Problem{
		Title: d.Title, Status: d.HTTP, Detail: f.Detail, Code: string(f.Kind), Param: f.Param,
		RetryAfter: int64(math.Ceil(f.RetryAfter.Seconds())),
	}
	for _, field := range f.Fields {
		p.Errors = append(p.Errors, ProblemField(field))
	}
	return p
}

func faultOf(err error) *fault.Error {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.Wrap(fault.Internal, err, "something went wrong inside agentd")
}

// Err returns the problem as an error, with its kind.
func (p *Problem) Err() *fault.Error {
	detail := p.Detail
	if detail == "" {
		detail = p.Title
	}
	f := &fault.Error{
		Kind: fault.Kind(p.Code), Detail: detail, Param: p.Param,
		RetryAfter: time.Duration(p.RetryAfter) * time.Second,
	}
	for _, field := range p.Errors {
		f.Fields = append(f.Fields, fault.Field(field))
	}
	return f
}

// DecodeProblem reads a problem document. ok is false for a body that isn't one.
func DecodeProblem(data []byte) (p Problem, ok bool) {
	if json.Unmarshal(data, &p) != nil || p.Code == "" {
		return Problem{}, false
	}
	return p, true
}
