package event

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// scanEnvelope reads an envelope as AppendJSON writes it: compact, plain ASCII
// in the ids, no id twice. The fields may be in any order. It gives up (ok is
// false) at anything else, which readEnvelope then reads or rejects. Strings
// that known holds are used again.
func scanEnvelope(data []byte, e, known *Event) (payload []byte, version string, ok bool) {
	*e = Event{}
	s := scanner{data: data}
	if payload, version, ok = s.ordered(e, known); ok {
		return payload, version, true
	}
	*e = Event{}
	return scanUnordered(data, e, known)
}

// ordered reads an envelope whose fields come in the order in which AppendJSON writes
// them, as those of nearly all facts do: no name has to be looked up.
func (s *scanner) ordered(e, known *Event) (payload []byte, version string, ok bool) {
	if !s.acceptLiteral(`{"type":`) || !s.typeName(e, known) || !s.id(`,"eventId":`, &e.ID, known.ID) || !s.acceptLiteral(`,"schemaVersion":`) {
		return nil, "", false
	}
	if version, ok = s.version(); !ok {
		return nil, "", false
	}
	ok = s.acceptLiteral(`,"timestamp":`) && s.time(&e.Time) &&
		s.id(`,"runtimeId":`, &e.RuntimeID, known.RuntimeID) && s.id(`,"sessionId":`, &e.SessionID, known.SessionID) &&
		s.acceptLiteral(`,"sequence":`) && s.uint(&e.Sequence) && s.scope(&e.Scope, &known.Scope) &&
		(!s.acceptLiteral(`,"refs":`) || s.json(&e.Refs)) && s.acceptLiteral(`,"payload":`)
	if !ok {
		return nil, "", false
	}
	payload = s.value()
	return payload, version, len(payload) > 0 && payload[0] == '{' && s.acceptByte('}') && s.i == len(s.data)
}

// scope reads the ids that are there, in the order in which appendScope writes them.
func (s *scanner) scope(v, known *Scope) bool {
	return s.id(`,"threadId":`, &v.ThreadID, known.ThreadID) &&
		s.id(`,"turnId":`, &v.TurnID, known.TurnID) &&
		s.id(`,"taskId":`, &v.TaskID, known.TaskID) &&
		s.id(`,"runId":`, &v.RunID, known.RunID) &&
		s.id(`,"attemptId":`, &v.AttemptID, known.AttemptID) &&
		s.id(`,"parentTaskId":`, &v.ParentTaskID, known.ParentTaskID) &&
		s.id(`,"rootTaskId":`, &v.RootTaskID, known.RootTaskID) &&
		s.id(`,"stepId":`, &v.StepID, known.StepID) &&
		s.id(`,"toolCallId":`, &v.ToolCallID, known.ToolCallID) &&
		s.id(`,"actionId":`, &v.ActionID, known.ActionID) &&
		s.id(`,"subagentId":`, &v.SubagentID, known.SubagentID) &&
		s.id(`,"artifactId":`, &v.ArtifactID, known.ArtifactID) &&
		s.id(`,"evidenceId":`, &v.EvidenceID, known.EvidenceID) &&
		s.id(`,"processId":`, &v.ProcessID, known.ProcessID) &&
		s.id(`,"channelId":`, &v.ChannelID, known.ChannelID) &&
		s.id(`,"jobId":`, &v.JobID, known.JobID) &&
		s.id(`,"jobItemId":`, &v.JobItemID, known.JobItemID) &&
		s.id(`,"modelRequestId":`, &v.ModelRequestID, known.ModelRequestID) &&
		s.id(`,"requestId":`, &v.RequestID, known.RequestID) &&
		s.id(`,"traceId":`, &v.TraceID, known.TraceID) &&
		s.id(`,"spanId":`, &v.SpanID, known.SpanID)
}

// id reads an id if its key comes next. It fails at one that isn't plain.
func (s *scanner) id(key string, v *string, known string) bool {
	if !s.acceptLiteral(key) {
		return true
	}
	b, ok := s.plainString()
	if *v = known; string(b) != known {
		*v = string(b)
	}
	return ok
}

// scanUnordered is scanEnvelope for fields in any order.
func scanUnordered(data []byte, e, known *Event) (payload []byte, version string, ok bool) {
	s := scanner{data: data}
	if !s.acceptByte('{') {
		return nil, "", false
	}
	for {
		key, ok := s.plainString()
		if !ok || !s.acceptByte(':') {
			return nil, "", false
		}
		switch string(key) {
		case "schemaVersion":
			version, ok = s.version()
		case "payload":
			payload = s.value()
		default:
			ok = s.field(key, e, known)
		}
		if !ok {
			return nil, "", false
		}
		if !s.acceptByte(',') {
			break
		}
	}
	ok = s.acceptByte('}') && s.i == len(data) && len(payload) > 0 && payload[0] == '{'
	return payload, version, ok
}

// scanner is a place in compact JSON.
type scanner struct {
	data []byte
	i    int
}

func (s *scanner) acceptByte(c byte) bool {
	if s.i >= len(s.data) || s.data[s.i] != c {
		return false
	}
	s.i++
	return true
}

// plainString returns the inside of a string without escapes and of ASCII only.
func (s *scanner) plainString() ([]byte, bool) {
	if !s.acceptByte('"') {
		return nil, false
	}
	start := s.i
	s.i = plainFrom(s.data, s.i)
	end := s.i
	return s.data[start:end], s.acceptByte('"')
}

// version returns a schema version that is known, so that it needs no copy.
func (s *scanner) version() (string, bool) {
	b, ok := s.plainString()
	switch {
	case ok && string(b) == SchemaStandard:
		return SchemaStandard, true
	case ok && string(b) == SchemaExtension:
		return SchemaExtension, true
	}
	return "", false
}

// field reads one field of the envelope that isn't the payload.
func (s *scanner) field(key []byte, e, known *Event) bool {
	switch string(key) {
	case "type":
		return e.Type == "" && s.typeName(e, known)
	case "timestamp":
		return e.Time.IsZero() && s.time(&e.Time)
	case "sequence":
		return e.Sequence == 0 && s.uint(&e.Sequence)
	case "refs":
		return e.Refs == nil && s.json(&e.Refs)
	case "benchmark":
		return e.Benchmark == nil && s.json(&e.Benchmark)
	case "reward":
		return e.Reward == nil && s.json(&e.Reward)
	case "comparison":
		return e.Comparison == nil && s.json(&e.Comparison)
	}
	p := e.text(key)
	if p == nil || *p != "" {
		return false
	}
	b, ok := s.plainString()
	if old := *known.text(key); old == string(b) {
		*p = old
	} else {
		*p = string(b)
	}
	return ok
}

func (s *scanner) typeName(e, known *Event) bool {
	b, ok := s.plainString()
	if string(known.Type) == string(b) {
		e.Type = known.Type
		return ok
	}
	i, listed := byType()[Type(b)]
	if listed {
		e.Type = catalog[i].Type
	}
	return ok && listed
}

func (s *scanner) json(v any) bool {
	raw := s.value()
	return len(raw) > 0 && json.Unmarshal(raw, v) == nil
}

// maxDigits is the number of digits that always fit into 64 bits.
const maxDigits = 19

// uint reads a number without sign, fraction or exponent.
func (s *scanner) uint(v *uint64) bool {
	start := s.i
	for s.i < len(s.data) && isDigit(s.data[s.i]) {
		*v = *v*10 + uint64(s.data[s.i]-'0')
		s.i++
	}
	n := s.i - start
	if n > maxDigits {
		var err error
		*v, err = strconv.ParseUint(string(s.data[start:s.i]), 10, 64)
		return err == nil && s.data[start] != '0'
	}
	return n > 0 && (n == 1 || s.data[start] != '0')
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// timeLayout is the form that appendTime writes.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// time reads a time in the form that appendTime writes.
func (s *scanner) time(t *time.Time) bool {
	b, ok := s.plainString()
	if !ok || len(b) != len(timeLayout) {
		return false
	}
	for i := range b {
		if c := timeLayout[i]; isDigit(c) != isDigit(b[i]) || !isDigit(c) && c != b[i] {
			return false
		}
	}
	month, day := parseDigits(b[5:7]), parseDigits(b[8:10])
	hour, minute, second := parseDigits(b[11:13]), parseDigits(b[14:16]), parseDigits(b[17:19])
	*t = time.Date(parseDigits(b[:4]), time.Month(month), day, hour, minute, second, parseDigits(b[20:26])*1000, time.UTC)
	// A date that doesn't exist would have been moved to one that does.
	return t.Month() == time.Month(month) && t.Day() == day && hour < 24 && minute < 60 && second < 60
}

func parseDigits(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

// value steps over an object or a list and returns it, or nil when it isn't
// compact or doesn't end. What is inside isn't looked at any closer.
func (s *scanner) value() []byte {
	start, depth := s.i, 0
	for s.i < len(s.data) {
		switch s.data[s.i] {
		case '"':
			if !s.skipString() {
				return nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth <= 0 {
				s.i++
				return s.data[start:s.i]
			}
		case ' ', '\n', '\r', '\t':
			return nil
		}
		if depth == 0 {
			return nil
		}
		s.i++
	}
	return nil
}

// skipString steps over a string, escapes included.
func (s *scanner) skipString() bool {
	s.i++
	for {
		n := bytes.IndexByte(s.data[s.i:], '"')
		if n < 0 {
			return false
		}
		end := s.i + n
		slashes := 0
		for slashes < n && s.data[end-1-slashes] == '\\' {
			slashes++
		}
		s.i = end + 1
		if slashes%2 == 0 {
			return true
		}
	}
}
