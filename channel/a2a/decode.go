package a2a

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// free are the objects whose keys are the peer's own.
var free = map[string]bool{"metadata": true, "data": true, "params": true, "header": true}

// camel rewrites the names of an object's fields, snake_case as in the protocol's
// definition, to those of its JSON form: a reader of such JSON takes both. What a
// peer put into free objects stays as it is.
func camel(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			if !free[k] {
				inner = camel(inner)
			}
			if name := camelName(k); name == k || v[name] == nil {
				k = name
			}
			out[k] = inner
		}
		return out
	case []any:
		for i := range v {
			v[i] = camel(v[i])
		}
	}
	return v
}

func camelName(s string) string {
	if !strings.Contains(s, "_") {
		return s
	}
	parts := strings.Split(s, "_")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// maxDepth bounds how deep JSON of a peer may be nested.
const maxDepth = 100

// decodeParams reads the parameters of an operation. Unknown ones are ignored, as
// the protocol asks.
func decodeParams(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	if wire.NestsDeeper(data, maxDepth) {
		return errorf(invalidParams, "the parameters are nested deeper than %d levels", maxDepth)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return errorf(parseError, "this is not JSON: %v", err)
	}
	if _, ok := v.(map[string]any); !ok {
		return errorf(invalidParams, "the parameters are not an object")
	}
	b, err := json.Marshal(camel(v))
	if err != nil {
		return errorf(invalidParams, "the parameters can't be read: %v", err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return misfit(err)
	}
	return nil
}

// misfit says which parameter has the wrong form.
func misfit(err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) && typed.Field != "" {
		return badParam(typed.Field, "has the wrong type: JSON %s", typed.Value)
	}
	return errorf(invalidParams, "the parameters have the wrong form: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// readBody reads a body up to the bound.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opt.MaxBody))
	var large *http.MaxBytesError
	var known *fault.Error
	switch {
	case errors.As(err, &known): // the server's own bound
		return nil, known
	case errors.As(err, &large):
		return nil, errorf(tooLarge, "the body is larger than %d bytes", s.opt.MaxBody)
	case err != nil:
		return nil, errorf(invalidRequest, "the body could not be read")
	}
	// The deadline for the body must not end an answer that takes longer.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a writer without deadlines has none to take away
	return body, nil
}

// jsonBody reports whether a body is said to be JSON.
func jsonBody(r *http.Request) error {
	got := r.Header.Get("Content-Type")
	name, _, err := mime.ParseMediaType(got)
	if err == nil && (name == "application/json" || name == "application/a2a+json") {
		return nil
	}
	return errorf(contentType, "the content type must be application/json or application/a2a+json, not %q", wire.Clip(got))
}

// negotiate refuses versions that the server doesn't speak. A peer that names none
// speaks 0.3; the patch number doesn't matter.
func negotiate(r *http.Request) error {
	got := strings.TrimSpace(r.Header.Get("A2A-Version"))
	if got == "" {
		got = strings.TrimSpace(r.URL.Query().Get("A2A-Version"))
	}
	if got == "" {
		got = "0.3"
	}
	if got == Version || strings.HasPrefix(got, Version+".") {
		return nil
	}
	f := errorf(versionUnknown, "protocol version %s is not supported; use %s", wire.Clip(got), Version)
	f.metadata = map[string]string{"supportedVersions": Version}
	return f
}

// openCall begins a request of a peer: who it is, and whether the two speak the same
// protocol.
func (s *Server) openCall(r *http.Request) (*call, error) {
	caller, role, ok := s.opt.Caller(r.Context())
	if !ok {
		return nil, errorf(forbidden, "send Authorization: Bearer TOKEN")
	}
	if err := negotiate(r); err != nil {
		return nil, err
	}
	caller.Adapter = true
	c := &call{caller: caller, role: role}
	for _, line := range r.Header.Values("A2A-Extensions") {
		for uri := range strings.SplitSeq(line, ",") {
			if uri = strings.TrimSpace(uri); uri != "" {
				c.extensions = append(c.extensions, uri)
			}
		}
	}
	return c, s.checkExtensions(c.extensions)
}
