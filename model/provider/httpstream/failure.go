package httpstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/internal/clip"
	"agentd/model"
)

const (
	// maxMessage is the length of the longest message of an error.
	maxMessage = 2 << 10
	// maxShown is how much of what a server sent is quoted in a message.
	maxShown = 300
)

// Failure is an error as a server describes it, whatever the vendor.
type Failure struct {
	// HTTPStatus of the answer, or the status that an error inside a stream names;
	// 0 if neither says.
	HTTPStatus int
	// Code and Type are the vendor's words for what went wrong.
	Code, Type string
	Message    string
	// RetryAfter is how long the body asks to wait.
	RetryAfter time.Duration
}

// ParseFailure reads the error that a JSON body or event describes; nil if it
// describes none. It knows the forms of the vendors and of common servers.
func ParseFailure(body []byte) *Failure {
	body = trimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return nil
		}
		body = list[0]
	}
	var outer struct {
		Type    string          `json:"type"`
		Object  string          `json:"object"`
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message string          `json:"message"`
		Code    json.RawMessage `json:"code"`
		// Some servers in front of vLLM say it flat.
		FlatType    string          `json:"error_type"`
		FlatCode    json.RawMessage `json:"error_code"`
		FlatMessage string          `json:"error_message"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return nil
	}
	switch {
	case len(outer.Error) > 0 && !bytes.Equal(outer.Error, []byte("null")):
		return parseInner(outer.Error)
	case outer.Type == "error" || outer.Object == "error":
		return parseInner(body)
	case outer.Message != "" && len(outer.Code) > 0:
		return parseInner(body)
	case outer.FlatMessage != "":
		return &Failure{Type: outer.FlatType, Code: plainText(outer.FlatCode), Message: outer.FlatMessage, RetryAfter: waitInMessage(outer.FlatMessage)}
	case len(outer.Detail) > 0:
		return &Failure{Message: plainText(outer.Detail)}
	}
	return nil
}

// parseInner reads the object, or the bare text, of an error.
func parseInner(b []byte) *Failure {
	var inner struct {
		Type    string          `json:"type"`
		Status  json.RawMessage `json:"status"`
		Message json.RawMessage `json:"message"`
		Code    json.RawMessage `json:"code"`
		Details []struct {
			Reason     string `json:"reason"`
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
		Metadata struct {
			Raw json.RawMessage `json:"raw"`
		} `json:"metadata"`
	}
	if json.Unmarshal(b, &inner) != nil {
		// Other types than expected: take what is text.
		return &Failure{Message: plainText(b)}
	}
	f := &Failure{Type: inner.Type, Code: plainText(inner.Code), Message: plainText(inner.Message)}
	if f.Type == "" || f.Type == "error" {
		f.Type = plainText(inner.Status)
	}
	if n, err := strconv.Atoi(f.Code); err == nil {
		f.Code = ""
		if n >= 300 && n < 600 {
			f.HTTPStatus = n
		}
	}
	for _, d := range inner.Details {
		if f.Code == "" {
			f.Code = d.Reason
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			f.RetryAfter = wait
		}
	}
	if raw := plainText(inner.Metadata.Raw); raw != "" {
		f.Message += " (" + clip.Valid(raw, maxShown) + ")"
	}
	if f.RetryAfter == 0 {
		f.RetryAfter = waitInMessage(f.Message)
	}
	return f
}

// plainText returns a JSON string's text, and any other value as it is written.
func plainText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return clip.Valid(string(raw), maxShown)
}

// Error returns the failure as the port's error.
func (f *Failure) Error() *model.Error {
	category, retryable := classifyFailure(f)
	message := f.Message
	if message == "" {
		message = strings.TrimSpace(f.Type + " " + f.Code)
	}
	if message == "" {
		message = "the server gave no reason"
	}
	if f.HTTPStatus != 0 {
		message = fmt.Sprintf("HTTP %d: %s", f.HTTPStatus, message)
	}
	return &model.Error{Category: category, Message: clip.Valid(message, maxMessage), Retryable: retryable, RetryAfter: f.RetryAfter, HTTPStatus: f.HTTPStatus}
}

// ContentFilter is the error of an answer that the server's filter stopped.
func ContentFilter(reason string) *model.Error {
	return &model.Error{Category: model.ContentFilter, Message: "the provider's filter stopped the answer: " + reason}
}

// Unfinished is the error of a stream that ended before its answer did.
func Unfinished() *model.Error { return malformed("the stream ended before the answer did") }

// malformed is an answer that makes no sense. Asking again may help: most often
// something on the way cut it.
func malformed(format string, args ...any) *model.Error {
	return &model.Error{Category: model.Malformed, Message: fmt.Sprintf(format, args...), Retryable: true}
}

// asMalformed returns a decoder's error as the port's.
func asMalformed(err error, data []byte) error {
	if e, ok := errors.AsType[*model.Error](err); ok {
		return e
	}
	if len(data) > 0 {
		return malformed("the server sent what can't be read: %s in %s", unreadable(err), clip.Valid(string(data), maxShown))
	}
	return malformed("the server sent what can't be read: %s", unreadable(err))
}

// unreadable says what is wrong with what a server sent, without the names of our types.
func unreadable(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%q can't be a JSON %s there", wrong.Field, wrong.Value)
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it is not valid JSON"
	}
	return err.Error()
}

// interruptedError is the error of a request whose caller doesn't wait any more.
func interruptedError(caller context.Context) *model.Error {
	if errors.Is(context.Cause(caller), context.DeadlineExceeded) {
		return &model.Error{Category: model.Timeout, Message: "the time for the request is over", Retryable: true}
	}
	return &model.Error{Category: model.Interrupted, Message: context.Cause(caller).Error(), Retryable: true}
}

// broken is the error of a request or an answer that the connection didn't carry
// to its end.
func (x *exchange) broken(err error, answering bool) error {
	if x.caller.Err() != nil {
		return interruptedError(x.caller)
	}
	cause := context.Cause(x.ctx)
	var timeout net.Error
	switch {
	case errors.Is(cause, errIdle):
		return &model.Error{Category: model.Timeout, Message: fmt.Sprintf("the server sent nothing for %s", x.conn.idle), Retryable: true}
	case errors.Is(err, errEventTooLong):
		return &model.Error{Category: model.Malformed, Message: fmt.Sprintf("the server sent a piece longer than %d bytes", x.conn.maxEvent)}
	case errors.Is(err, errTooMuch):
		return &model.Error{Category: model.Malformed, Message: fmt.Sprintf("the body of the answer is longer than %d bytes", x.conn.maxBody)}
	case errors.Is(err, errTooLong):
		return &model.Error{Category: model.Malformed, Message: fmt.Sprintf("the answer is longer than %d bytes; providers[].maxAnswerBytes sets how much is taken", x.conn.maxAnswer)}
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && answering:
		return Unfinished()
	case errors.As(err, &timeout) && timeout.Timeout():
		return &model.Error{Category: model.Timeout, Message: x.place(answering) + bare(err), Retryable: true}
	}
	return &model.Error{Category: model.Network, Message: x.place(answering) + bare(err), Retryable: !permanent(err)}
}

func (x *exchange) place(answering bool) string {
	if answering {
		return "the connection broke in the middle of the answer: "
	}
	return "can't reach " + x.conn.base.Host + ": "
}

// bare returns the message without the address that package net/http puts before
// it: the address may hold what is secret.
func bare(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

// permanent tells failures that asking again doesn't cure.
func permanent(err error) bool {
	var cert *tls.CertificateVerificationError
	return errors.As(err, &cert) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
