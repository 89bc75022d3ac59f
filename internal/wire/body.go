package wire

import (
	"encoding/json"
	"errors"
	"net/http"

	"agentd/fault"
)

// ReadForeign decodes the body of a request of another project's protocol, of at most
// the given size. Unlike [Decode] it passes over unknown members: such protocols grow
// faster than their clients tell.
func ReadForeign(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	err := dec.Decode(into)
	if err == nil && dec.More() {
		err = errors.New("more than one value")
	}
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known): // the server's own bound
		return known
	case errors.As(err, &large):
		return fault.New(fault.PayloadTooLarge, "the body is larger than %d bytes", most)
	case errors.As(err, &kind) && kind.Field != "":
		return fault.Param(kind.Field, "can't be a %s", kind.Value)
	}
	return fault.New(fault.InvalidParams, "the body is not a JSON object")
}
