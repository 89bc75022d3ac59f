package event

import (
	"encoding/json"
	"strconv"
)

// OptionalInt is an integer that can be absent, null or a number. The zero
// value is absent.
type OptionalInt struct {
	Present bool
	Null    bool
	Value   int64
}

// Int returns a present number.
func Int(v int64) OptionalInt { return OptionalInt{Present: true, Value: v} }

// NullInt returns a present null.
func NullInt() OptionalInt { return OptionalInt{Present: true, Null: true} }

// IsZero reports whether the value is absent.
func (o OptionalInt) IsZero() bool { return !o.Present }

func (o OptionalInt) appendJSON(dst []byte) []byte {
	if !o.Present || o.Null {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, o.Value, 10)
}

// MarshalJSON implements [json.Marshaler].
func (o OptionalInt) MarshalJSON() ([]byte, error) { return o.appendJSON(nil), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (o *OptionalInt) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*o = NullInt()
		return nil
	}
	*o = OptionalInt{Present: true}
	return json.Unmarshal(b, &o.Value)
}
