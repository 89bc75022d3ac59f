package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Decode reads an event that [AppendJSON] wrote, or any JSON object with the
// same fields in another order. A field that isn't known is ignored, so that
// the facts of a later release can be read; a type or a schema version that
// isn't known is an error. Decode doesn't [Check] the event.
func Decode(data []byte) (*Event, error) {
	e := new(Event)
	payload, err := DecodeHeader(data, e)
	if err != nil {
		return nil, err
	}
	if err := e.DecodePayload(payload); err != nil {
		return nil, err
	}
	return e, nil
}

// DecodeHeader reads everything but the payload into e, whose Payload becomes
// nil, and returns the payload's bytes for [Event.DecodePayload]. They may be
// part of data; that they are well-formed shows only when they are decoded.
//
// An unknown type isn't an error here. Strings that e holds already are
// kept where they are equal, so reading a session into the same Event again and
// again allocates little.
func DecodeHeader(data []byte, e *Event) (payload []byte, err error) {
	known := *e
	payload, version, ok := scanEnvelope(data, e, &known)
	if !ok {
		payload, version, err = readEnvelope(data, e)
	}
	if err != nil {
		return nil, fmt.Errorf("event: decode: %w", err)
	}
	if d, ok := Lookup(e.Type); ok && version != d.schemaVersion() {
		return nil, fmt.Errorf("event: decode: %s has schema version %q, this release reads %q", e.Type, version, d.schemaVersion())
	}
	return payload, nil
}

// DecodePayload sets e's payload from the bytes that [DecodeHeader] returned.
func (e *Event) DecodePayload(payload []byte) error {
	p := newPayload(e.Type)
	if p == nil {
		return fmt.Errorf("event: decode: type %q is not in the catalogue", e.Type)
	}
	s := scanner{data: payload}
	if decodeObject(&s, p) && s.i == len(payload) {
		e.Payload = p
		return nil
	}
	p = newPayload(e.Type)
	if err := json.Unmarshal(payload, p); err != nil {
		return fmt.Errorf("event: decode: payload of %s: %w", e.Type, err)
	}
	e.Payload = p
	return nil
}

// id returns the field with the given name on the wire, or nil.
func (s *Scope) id(wire []byte) *string {
	switch string(wire) {
	case "threadId":
		return &s.ThreadID
	case "turnId":
		return &s.TurnID
	case "taskId":
		return &s.TaskID
	case "runId":
		return &s.RunID
	case "attemptId":
		return &s.AttemptID
	case "parentTaskId":
		return &s.ParentTaskID
	case "rootTaskId":
		return &s.RootTaskID
	case "stepId":
		return &s.StepID
	case "toolCallId":
		return &s.ToolCallID
	case "actionId":
		return &s.ActionID
	case "subagentId":
		return &s.SubagentID
	}
	return s.rareID(wire)
}

// rareID is id for the ids that few events carry.
func (s *Scope) rareID(wire []byte) *string {
	switch string(wire) {
	case "artifactId":
		return &s.ArtifactID
	case "evidenceId":
		return &s.EvidenceID
	case "processId":
		return &s.ProcessID
	case "channelId":
		return &s.ChannelID
	case "jobId":
		return &s.JobID
	case "jobItemId":
		return &s.JobItemID
	case "modelRequestId":
		return &s.ModelRequestID
	case "requestId":
		return &s.RequestID
	case "traceId":
		return &s.TraceID
	case "spanId":
		return &s.SpanID
	}
	return nil
}

// text returns the envelope's own string or the id with the given name, or nil.
func (e *Event) text(wire []byte) *string {
	switch string(wire) {
	case "eventId":
		return &e.ID
	case "runtimeId":
		return &e.RuntimeID
	case "sessionId":
		return &e.SessionID
	}
	return e.id(wire)
}

// readEnvelope reads an envelope of any valid shape, slowly.
func readEnvelope(data []byte, e *Event) (payload []byte, version string, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, "", err
	}
	*e = Event{}
	for name, raw := range fields {
		if name == "schemaVersion" {
			err = json.Unmarshal(raw, &version)
		} else if name != "payload" {
			err = e.readField(name, raw)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
	}
	payload, err = compactObject(fields["payload"])
	if err != nil {
		return nil, "", fmt.Errorf("payload: %w", err)
	}
	return payload, version, nil
}

// readField reads one field of the envelope; an unknown one is skipped.
func (e *Event) readField(name string, raw []byte) error {
	switch name {
	case "type":
		return json.Unmarshal(raw, &e.Type)
	case "timestamp":
		return e.readTime(raw)
	case "sequence":
		return json.Unmarshal(raw, &e.Sequence)
	case "refs":
		return json.Unmarshal(raw, &e.Refs)
	case "benchmark":
		return json.Unmarshal(raw, &e.Benchmark)
	case "reward":
		return json.Unmarshal(raw, &e.Reward)
	case "comparison":
		return json.Unmarshal(raw, &e.Comparison)
	}
	if p := e.text([]byte(name)); p != nil {
		return json.Unmarshal(raw, p)
	}
	return nil
}

func (e *Event) readTime(raw []byte) error {
	var t time.Time
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	if err := checkTime("timestamp", t); err != nil {
		return err
	}
	e.Time = t.UTC()
	return nil
}

var errNoObject = errors.New("is not an object")

// compactObject returns a JSON object without insignificant white space.
func compactObject(raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errNoObject
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
