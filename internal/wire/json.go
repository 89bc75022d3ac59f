package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/fault"
	"agentd/internal/clip"
)

// MaxDepth is how deeply objects and arrays from outside may be nested.
const MaxDepth = 64

// Decode reads one JSON object into a struct. Nothing at all counts as {}. Names
// are matched exactly. A null leaves what it stands for absent. A
// [stdjson.RawMessage] keeps the caller's JSON without insignificant white space;
// a [stdjson.Number] takes a number or a string.
//
// Errors are faults of the kind InvalidParams whose Param is the path of the
// member that doesn't fit, such as "items[3].input".
func Decode(data []byte, into any) error {
	data = bytes.Trim(data, jsonSpace)
	if len(data) == 0 {
		return nil
	}
	if data[0] != '{' {
		return notAnObject(data).fault()
	}
	if decodeFlat(data, into) {
		return nil
	}
	if at := decodeInto(data, into); at != nil {
		return at.fault()
	}
	return nil
}

// DecodeValue is Decode for a value that need not be an object, found at the
// given path of a larger one.
func DecodeValue(path string, data []byte, into any) error {
	at := decodeInto(data, into)
	if at == nil {
		return nil
	}
	at.path = joinPath(path, at.path)
	return at.fault()
}

// jsonSpace is what JSON takes for white space.
const jsonSpace = " \t\r\n"

func notAnObject(data []byte) *placeError {
	if !jsontext.Value(data).IsValid() {
		return &placeError{reason: "the body is not valid JSON"}
	}
	return &placeError{reason: fmt.Sprintf("the body must be a JSON object, not %s", kindWord(jsontext.Kind(data[0])))}
}

func decodeInto(data []byte, into any) *placeError {
	if NestsDeeper(data, MaxDepth) {
		return &placeError{reason: fmt.Sprintf("the JSON is nested more than %d levels deep", MaxDepth)}
	}
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true), json.WithUnmarshalers(unmarshalers))
	if err != nil {
		return placeOf(err)
	}
	return nil
}

// unmarshalers say how the types of encoding/json that parameters use are read.
var unmarshalers = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(readRaw),
	json.UnmarshalFromFunc(readNumber),
)

func readRaw(dec *jsontext.Decoder, into *stdjson.RawMessage) error {
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() == 'n' {
		*into = nil
		return nil
	}
	v = v.Clone()
	if err := v.Compact(); err != nil {
		return err
	}
	*into = stdjson.RawMessage(v)
	return nil
}

func readNumber(dec *jsontext.Decoder, into *stdjson.Number) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '0', '"':
		*into = stdjson.Number(tok.String())
	case 'n':
		*into = ""
	default:
		return &placeError{reason: kindWord(tok.Kind()) + " doesn't fit here; a number or a string is expected"}
	}
	return nil
}

// NestsDeeper reports whether data has more than most levels of objects and arrays. It
// need not be valid.
func NestsDeeper(data []byte, most int) bool {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// placeError says where something doesn't fit, and why. It doesn't keep the
// decoder's own error, which may quote a value that belongs in no log.
type placeError struct{ path, reason string }

// Error implements error.
func (e *placeError) Error() string { return joinDetail(e.path, e.reason) }

func (e *placeError) fault() *fault.Error {
	return &fault.Error{Kind: fault.InvalidParams, Param: e.path, Detail: e.Error()}
}

func joinDetail(path, reason string) string {
	if path == "" {
		return reason
	}
	return path + ": " + reason
}

// placeOf turns a decoder's error into a place and a reason.
func placeOf(err error) *placeError {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return semanticPlace(semantic)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntacticPlace(syntactic)
	}
	return &placeError{reason: "the JSON can't be read"}
}

func semanticPlace(err *json.SemanticError) *placeError {
	at := &placeError{path: pathOf(err.JSONPointer)}
	var inner *placeError
	var known *fault.Error
	switch {
	case errors.As(err.Err, &inner):
		at.path, at.reason = joinPath(at.path, inner.path), inner.reason
	case errors.As(err.Err, &known):
		at.path = joinPath(at.path, known.Param)
		at.reason = strings.TrimPrefix(known.Detail, known.Param+": ")
	case errors.Is(err.Err, json.ErrUnknownName):
		at.reason = "unknown parameter"
	case err.JSONKind != 0:
		at.reason = kindWord(err.JSONKind) + " doesn't fit here"
		if want := typeWord(err.GoType); want != "" {
			at.reason += "; " + want + " is expected"
		}
	default:
		at.reason = "the value doesn't fit here"
	}
	return at
}

func syntacticPlace(err *jsontext.SyntacticError) *placeError {
	if errors.Is(err.Err, jsontext.ErrDuplicateName) {
		return &placeError{path: pathOf(err.JSONPointer), reason: "is given twice"}
	}
	if errors.Is(err.Err, io.ErrUnexpectedEOF) {
		return &placeError{reason: fmt.Sprintf("the body is not valid JSON: it is cut off at byte %d", err.ByteOffset)}
	}
	return &placeError{reason: fmt.Sprintf("the body is not valid JSON: %s at byte %d", Clip(err.Err.Error()), err.ByteOffset)}
}

// kindWord names a kind of JSON value.
func kindWord(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	default:
		return "a number"
	}
}

// typeWord says what a Go type takes, or "".
func typeWord(t reflect.Type) string {
	if t == nil {
		return ""
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2026-11-17T08:30:00Z"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeWord(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a non-negative integer of %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return ""
	}
}

// pathOf writes a JSON Pointer as parameters are named: /items/3/input is
// items[3].input.
func pathOf(p jsontext.Pointer) string {
	path := ""
	for token := range p.Tokens() {
		if isIndex(token) {
			path += "[" + token + "]"
			continue
		}
		path = joinPath(path, token)
	}
	return Clip(path)
}

func joinPath(path, name string) string {
	switch {
	case path == "" || name == "":
		return path + name
	case strings.HasPrefix(name, "["):
		return path + name
	default:
		return path + "." + name
	}
}

func isIndex(s string) bool {
	return s != "" && len(s) <= 9 && strings.Trim(s, "0123456789") == ""
}

// Clip shortens what is quoted back to a caller.
func Clip(s string) string { return Shorten(s, 120) }

// Shorten cuts a text to at most the given number of bytes and an ellipsis, without
// splitting a character. What isn't UTF-8 is replaced.
func Shorten(s string, most int) string { return clip.Valid(s, most) }
