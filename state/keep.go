package state

import (
	"bytes"
	"time"

	"agentd/event"
	"agentd/internal/clip"
)

// A state may share memory with the payloads that it was folded from and with
// the views that were made of it. So nothing below the elements of a section's
// own lists is ever written to: it is replaced. The helpers here return new
// slices for that reason; [recent] works in place and serves only a section's
// own lists, which views copy.

// pushed returns a new list with v at its end and at most keep elements, the
// oldest dropped.
func pushed[T any](list []T, v T, keep int) []T {
	if n := len(list) + 1 - keep; n > 0 {
		list = list[n:]
	}
	out := make([]T, 0, len(list)+1)
	return append(append(out, list...), v)
}

// firstN returns at most n elements, nil when there are none. The result shares
// memory with list and can be appended to without writing to it.
func firstN[T any](list []T, n int) []T {
	if len(list) == 0 {
		return nil
	}
	n = min(n, len(list))
	return list[:n:n]
}

// removed takes the element at i out of a section's own list, in place; nil
// when nothing is left.
func removed[T any](list []T, i int) []T {
	var zero T
	copy(list[i:], list[i+1:])
	list[len(list)-1] = zero
	list = list[:len(list)-1]
	if len(list) == 0 {
		return nil
	}
	return list
}

// indexWhere returns where match first holds, or -1.
func indexWhere[T any](list []*T, match func(*T) bool) int {
	for i, x := range list {
		if match(x) {
			return i
		}
	}
	return -1
}

// addCount changes a counter; one that is zero isn't kept, so that equal counters
// encode equally.
func addCount(counts map[string]int64, key string, by int64) map[string]int64 {
	if counts == nil {
		counts = make(map[string]int64)
	}
	if n := counts[key] + by; n > 0 {
		counts[key] = n
	} else {
		delete(counts, key)
	}
	return counts
}

// journalTime is t as the journal keeps it: in UTC, with microseconds. A time of a
// payload passes through here so that a fact just decided and the same fact read
// back fold to the same state.
func journalTime(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// previewBytes bounds the text that a read model shows of something that the
// journal or a reference has whole.
const previewBytes = 240

// preview cuts s to a preview, at a character's end.
func preview(s string) string { return clip.Prefix(s, previewBytes) }

// presentValue returns r, or nil when it says nothing: an absent value and null are
// the same here, as they are in the journal.
func presentValue(r event.Raw) event.Raw {
	r = bytes.TrimSpace(r)
	if len(r) == 0 || string(r) == "null" {
		return nil
	}
	return r
}

// asObject returns r as a JSON object: what isn't one becomes its field "value".
func asObject(r event.Raw) event.Raw {
	r = presentValue(r)
	if r == nil || r[0] == '{' {
		return r
	}
	out := make(event.Raw, 0, len(r)+10)
	out = append(out, `{"value":`...)
	return append(append(out, r...), '}')
}

// isKnown reports whether an id names something: it is there and doesn't say that
// it doesn't apply.
func isKnown(id string) bool { return id != "" && id != event.NotApplicable }
