package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// The functions here append what the generated encoders of states and records are made of.
// Each appends the bytes that [json.Marshal] makes of the same value: stored states are
// compared with what is folded again, byte by byte, also by later and earlier versions.
// Facts were checked before they are folded, so that there are no values that JSON
// can't say.

// recordSize is what a record takes, mostly.
const recordSize = 1536

// Encode returns the bytes as which a record is stored.
func (x *Evicted) Encode() ([]byte, error) {
	b, ok := appendStored(make([]byte, 0, recordSize), x.Data)
	if !ok {
		return nil, fmt.Errorf("state: record %s: %T is no part of a state", x.Name, x.Data)
	}
	return b, nil
}

// closeObject ends an object whose fields were all appended with a leading comma after
// start: the first comma becomes the opening brace.
func closeObject(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

// escaped marks the bytes of a string for which [json.Marshal] is asked: those that it
// escapes, and those that are not ASCII.
var escaped = func() (t [256]bool) {
	for b := range t {
		t[b] = b < 0x20 || b >= 0x80 || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&'
	}
	return t
}()

func isPlain[T ~string | ~[]byte](s T) bool {
	for i := range len(s) {
		if escaped[s[i]] {
			return false
		}
	}
	return true
}

func appendString(dst []byte, s string) []byte {
	if !isPlain(s) {
		return appendOther(dst, s)
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// appendTime appends a time. The years of facts have four digits.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func appendFloat(dst []byte, f float64) []byte {
	if abs := math.Abs(f); abs == 0 || (abs >= 1e-6 && abs < 1e21) {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	return appendOther(dst, f)
}

// appendRaw appends a JSON value. Most are plain texts, in which there is nothing to leave
// out or to escape.
func appendRaw(dst []byte, raw json.RawMessage) []byte {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' && isPlain(raw[1:n-1]) {
		return append(dst, raw...)
	}
	return appendOther(dst, raw)
}

func appendMap[V any](dst []byte, m map[string]V, value func([]byte, V) []byte) []byte {
	if m == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, k), ':')
		dst = value(dst, m[k])
	}
	return append(dst, '}')
}

// appendOther appends any value. One that can't be encoded is null.
func appendOther(dst []byte, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, b...)
}
