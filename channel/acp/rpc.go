package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"

	"agentd/event"
	"agentd/fault"
)

// Codes of JSON-RPC and of the protocol.
const (
	codeInternal    = -32603
	codeNotFound    = -32002
	codeAuth        = -32000
	codeCancelled   = -32800
	maxMessageBytes = 64 << 20
)

// rpcError is the error of an answer.
type rpcError struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    event.Raw `json:"data,omitempty"`
}

// Error implements error.
func (e *rpcError) Error() string { return fmt.Sprintf("JSON-RPC error %d: %s", e.Code, e.Message) }

func errorf(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// errorOf describes an error to the client. A fault's detail is for its eyes;
// another error's cause is not.
func errorOf(err error) *rpcError {
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		if errors.Is(err, context.Canceled) {
			return errorf(codeCancelled, "the request was cancelled")
		}
		return errorf(codeInternal, "something went wrong inside agentd")
	}
	code := codeInternal
	switch f.Kind { //nolint:exhaustive // the others are ours to explain
	case fault.InvalidParams:
		code = fault.RPCInvalidParams
	case fault.NotFound:
		code = codeNotFound
	case fault.Unauthenticated:
		code = codeAuth
	case fault.Conflict, fault.PolicyRejected:
		code = fault.RPCInvalidRequest
	}
	return &rpcError{Code: code, Message: f.Detail, Data: faultData(f)}
}

// faultData is what a program reads of a fault.
func faultData(f *fault.Error) event.Raw {
	b, err := marshalPlain(struct {
		Code string `json:"code"`
		// RetryAfter is how many seconds to wait before trying again, if that helps.
		RetryAfter int64 `json:"retryAfter,omitempty"`
	}{string(f.Kind), int64(math.Ceil(f.RetryAfter.Seconds()))})
	if err != nil {
		return nil // texts and numbers always encode
	}
	return b
}

// jsonObject returns a JSON object of one text.
func jsonObject(name, value string) event.Raw {
	b, err := marshalPlain(map[string]string{name: value})
	if err != nil {
		return nil // a map of texts always encodes
	}
	return b
}

// marshalPlain encodes without escaping what only HTML needs escaped.
func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("acp: encode: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// message is any message of JSON-RPC.
type message struct {
	JSONRPC string    `json:"jsonrpc"`
	ID      event.Raw `json:"id,omitempty"`
	Method  string    `json:"method,omitempty"`
	Params  any       `json:"params,omitempty"`
	Result  any       `json:"result,omitempty"`
	Error   *rpcError `json:"error,omitempty"`
}

// received is a message as it came.
type received struct {
	JSONRPC string    `json:"jsonrpc"`
	ID      event.Raw `json:"id"`
	Method  *string   `json:"method"`
	Params  event.Raw `json:"params"`
	Result  event.Raw `json:"result"`
	Error   *rpcError `json:"error"`
}

// wire is the two pipes of a connection: whole messages out, one after the other,
// and answers to what this side asked.
type wire struct {
	mu      sync.Mutex
	out     io.Writer
	broken  error
	lost    context.CancelCauseFunc
	nextID  int64
	waiting map[string]chan received
}

// send writes one message. A pipe that can't be written any more ends the
// connection, so the error needs no second handling.
func (w *wire) send(m *message) {
	m.JSONRPC = "2.0"
	b, err := marshalPlain(m)
	if err != nil {
		m.Params, m.Result, m.Error = nil, nil, errorf(codeInternal, "the answer can't be encoded")
		if b, err = marshalPlain(m); err != nil {
			return // unreachable: the message holds texts alone
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return
	}
	if _, err := w.out.Write(append(b, '\n')); err != nil {
		w.broken = fmt.Errorf("acp: write: %w", err)
		w.lost(w.broken)
	}
}

// notify sends a message that wants no answer.
func (w *wire) notify(method string, params any) { w.send(&message{Method: method, Params: params}) }

// answer sends a result or an error.
func (w *wire) answer(id event.Raw, result any, err error) {
	if err != nil {
		w.send(&message{ID: id, Error: errorOf(err)})
		return
	}
	w.send(&message{ID: id, Result: result})
}

// ask sends a request and waits for its answer. If ctx ends first, the client is
// told that the answer is no longer needed.
func (w *wire) ask(ctx context.Context, method string, params, result any) error {
	w.mu.Lock()
	w.nextID++
	id := strconv.FormatInt(w.nextID, 10)
	answered := make(chan received, 1)
	w.waiting[id] = answered
	w.mu.Unlock()
	w.send(&message{ID: event.Raw(id), Method: method, Params: params})
	select {
	case m := <-answered:
		if m.Error != nil {
			return m.Error
		}
		if m.Result == nil {
			return errorf(codeInternal, "the answer to %s has no result", method)
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("acp: answer to %s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.waiting, id)
		w.mu.Unlock()
		w.notify("$/cancel_request", map[string]event.Raw{"requestId": event.Raw(id)})
		return ctx.Err()
	}
}

// deliverAnswer hands an answer to its request; one that no request waits for is dropped.
func (w *wire) deliverAnswer(m received) {
	w.mu.Lock()
	answered := w.waiting[string(m.ID)]
	delete(w.waiting, string(m.ID))
	w.mu.Unlock()
	if answered != nil {
		answered <- m
	}
}

// parseMessage reads one line. What is no message is the error to answer with.
func parseMessage(line []byte) (received, *rpcError) {
	var m received
	if !json.Valid(line) {
		return m, errorf(fault.RPCParse, "the line is not valid JSON")
	}
	if line[0] == '[' {
		return m, errorf(fault.RPCInvalidRequest, "batches are not part of the protocol")
	}
	if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
		return received{ID: validID(m.ID)}, errorf(fault.RPCInvalidRequest, "the line is not a message of JSON-RPC 2.0")
	}
	if validID(m.ID) == nil && m.ID != nil {
		return received{}, errorf(fault.RPCInvalidRequest, "the id is neither a string, a number nor null")
	}
	if m.Method == nil && m.Result == nil && m.Error == nil {
		return received{ID: m.ID}, errorf(fault.RPCInvalidRequest, "the message has neither a method nor a result")
	}
	return m, nil
}

// validID returns an id that an answer may carry, or nil.
func validID(id event.Raw) event.Raw {
	if len(id) == 0 || id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f' {
		return nil
	}
	return id
}

// errTooLong says that a line was skipped.
var errTooLong = errors.New("acp: the line is too long")

// readLine returns the next line that isn't empty. A line over the bound is read
// to its end and dropped.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		var line []byte
		long := false
		for {
			part, err := r.ReadSlice('\n')
			if !long {
				line = append(line, part...)
			}
			if len(line) > maxMessageBytes {
				long, line = true, nil
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return bytes.TrimSpace(line), err
			}
		}
		if long {
			return nil, errTooLong
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}
