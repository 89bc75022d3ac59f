package event

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends e as one compact JSON object on one line and returns the
// extended buffer. The order of the fields is fixed: the envelope's own fields,
// the ids that e carries, refs, benchmark, reward and comparison where set, the
// payload last.
//
// It doesn't allocate when dst has room, except for a map with more than 16
// keys. It must be given an event that passed [Check]; of any other it makes
// valid JSON, but not necessarily what was meant: a float that JSON can't say
// becomes null, a time outside the years 0 to 9999 the nearest one inside.
// Times are written in UTC with microseconds; bytes of a string that are not
// UTF-8 become U+FFFD.
func AppendJSON(dst []byte, e *Event) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, string(e.Type))
	dst = append(dst, `,"eventId":`...)
	dst = appendString(dst, e.ID)
	dst = append(dst, `,"schemaVersion":"`...)
	dst = append(dst, e.Type.SchemaVersion()...)
	dst = append(dst, `","timestamp":`...)
	dst = appendTime(dst, e.Time)
	dst = append(dst, `,"runtimeId":`...)
	dst = appendString(dst, e.RuntimeID)
	dst = append(dst, `,"sessionId":`...)
	dst = appendString(dst, e.SessionID)
	dst = append(dst, `,"sequence":`...)
	dst = strconv.AppendUint(dst, e.Sequence, 10)
	dst = e.appendScope(dst)
	if e.Refs != nil {
		dst = append(dst, `,"refs":`...)
		dst = appendStringMap(dst, e.Refs)
	}
	if e.Benchmark != nil {
		dst = append(dst, `,"benchmark":`...)
		dst = e.Benchmark.appendJSON(dst)
	}
	if e.Reward != nil {
		dst = append(dst, `,"reward":`...)
		dst = e.Reward.appendJSON(dst)
	}
	if e.Comparison != nil {
		dst = append(dst, `,"comparison":`...)
		dst = e.Comparison.appendJSON(dst)
	}
	dst = append(dst, `,"payload":`...)
	if e.Payload == nil {
		dst = append(dst, "{}"...)
	} else {
		dst = e.Payload.appendJSON(dst)
	}
	return append(dst, '}')
}

// appendScope appends the ids that are set.
func (s *Scope) appendScope(dst []byte) []byte {
	dst = appendSetString(dst, `,"threadId":`, s.ThreadID)
	dst = appendSetString(dst, `,"turnId":`, s.TurnID)
	dst = appendSetString(dst, `,"taskId":`, s.TaskID)
	dst = appendSetString(dst, `,"runId":`, s.RunID)
	dst = appendSetString(dst, `,"attemptId":`, s.AttemptID)
	dst = appendSetString(dst, `,"parentTaskId":`, s.ParentTaskID)
	dst = appendSetString(dst, `,"rootTaskId":`, s.RootTaskID)
	dst = appendSetString(dst, `,"stepId":`, s.StepID)
	dst = appendSetString(dst, `,"toolCallId":`, s.ToolCallID)
	dst = appendSetString(dst, `,"actionId":`, s.ActionID)
	dst = appendSetString(dst, `,"subagentId":`, s.SubagentID)
	dst = appendSetString(dst, `,"artifactId":`, s.ArtifactID)
	dst = appendSetString(dst, `,"evidenceId":`, s.EvidenceID)
	dst = appendSetString(dst, `,"processId":`, s.ProcessID)
	dst = appendSetString(dst, `,"channelId":`, s.ChannelID)
	dst = appendSetString(dst, `,"jobId":`, s.JobID)
	dst = appendSetString(dst, `,"jobItemId":`, s.JobItemID)
	dst = appendSetString(dst, `,"modelRequestId":`, s.ModelRequestID)
	dst = appendSetString(dst, `,"requestId":`, s.RequestID)
	dst = appendSetString(dst, `,"traceId":`, s.TraceID)
	return appendSetString(dst, `,"spanId":`, s.SpanID)
}

// closeObject ends an object whose fields were all appended with a leading
// comma after start: the first comma becomes the opening brace.
func closeObject(dst []byte, start int) []byte {
	if len(dst) == start {
		return append(dst, "{}"...)
	}
	dst[start] = '{'
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// plain marks the bytes that stand for themselves in a JSON string.
var plain = func() (t [256]bool) {
	for b := 0x20; b < utf8.RuneSelf; b++ {
		t[b] = b != '"' && b != '\\'
	}
	return t
}()

// plainFrom returns the first place in s, from i on, of a byte that isn't
// plain. It looks at eight bytes at a time: almost all strings are plain ASCII.
func plainFrom[T string | []byte](s T, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// The top bit of a byte is set where the byte is below 0x20, a quote, a
		// backslash or above 0x7f; now and then, by a borrow, in one above it.
		if found := (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// AppendString appends s as a JSON string. Invalid UTF-8 is replaced.
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

// appendString appends s as a JSON string. HTML characters are not escaped;
// U+2028 and U+2029 are, for readers that take JSON for JavaScript.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start, i := 0, plainFrom(s, 0)
	for i < len(s) {
		size := 1
		if c := s[i]; c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			start = i + 1
		} else if r, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\ufffd`...)
			start = i + 1
		} else if size = n; r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[start:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			start = i + n
		}
		i = plainFrom(s, i+size)
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends the escape of a quote, a backslash or a control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// appendTime appends t as a quoted RFC 3339 time in UTC with six digits of a
// second, so that times sort as text and have one length.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	micro := t.Nanosecond() / 1000
	if year < 0 {
		year, month, day, hour, minute, second, micro = 0, 1, 1, 0, 0, 0, 0
	}
	if year > maxYear {
		year, month, day, hour, minute, second, micro = maxYear, 12, 31, 23, 59, 59, 999999
	}
	dst = append(dst, '"')
	dst = append2(append2(dst, year/100), year%100)
	dst = append2(append(dst, '-'), int(month))
	dst = append2(append(dst, '-'), day)
	dst = append2(append(dst, 'T'), hour)
	dst = append2(append(dst, ':'), minute)
	dst = append2(append(dst, ':'), second)
	dst = append2(append(dst, '.'), micro/10000)
	dst = append2(append2(dst, micro/100%100), micro%100)
	return append(dst, 'Z', '"')
}

// maxYear is the last year that RFC 3339 can say.
const maxYear = 9999

// append2 appends a number below 100 with two digits.
func append2(dst []byte, v int) []byte {
	return append(dst, byte('0'+v/10), byte('0'+v%10))
}

// appendFloat appends f as encoding/json does: the shortest text that reads
// back as f, with an exponent for very small and very large numbers.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	abs := math.Abs(f)
	if abs == 0 || (abs >= 1e-6 && abs < 1e21) {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// A two-digit exponent loses its leading zero: e-09 becomes e-9.
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// appendRaw appends a JSON value without the white space outside its strings.
// An empty one becomes null.
func appendRaw(dst []byte, raw Raw) []byte {
	if len(raw) == 0 {
		return append(dst, "null"...)
	}
	inString, start := false, 0
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case !inString && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
			dst = append(dst, raw[start:i]...)
			start = i + 1
		}
	}
	return append(dst, raw[start:]...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// inlineKeys is the number of keys that a map may have to be sorted without
// allocating.
const inlineKeys = 16

func appendStringMap(dst []byte, m map[string]string) []byte {
	var buf [inlineKeys]string
	start := len(dst)
	for _, k := range sortedKeys(buf[:0], m) {
		dst = append(dst, ',')
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = appendString(dst, m[k])
	}
	return closeObject(dst, start)
}

func appendIntMap(dst []byte, m map[string]int64) []byte {
	var buf [inlineKeys]string
	start := len(dst)
	for _, k := range sortedKeys(buf[:0], m) {
		dst = append(dst, ',')
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, m[k], 10)
	}
	return closeObject(dst, start)
}

func sortedKeys[V any](keys []string, m map[string]V) []string {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
