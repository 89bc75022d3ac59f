package transfer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"agentd/event"
)

// CloudEventPrefix stands before an event's type: the standard's address, from the
// right to the left.
const CloudEventPrefix = "io.github.limecloud.agentruntime."

// Media types of CloudEvents.
const (
	CloudEventType  = "application/cloudevents+json"
	CloudEventsType = "application/cloudevents-batch+json"
)

// cloudEvent is a CloudEvent 1.0 in JSON. The names of extensions have lower-case
// letters and digits only, as the specification wants them.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Sequence        string          `json:"sequence"`
	TraceParent     string          `json:"traceparent,omitempty"`
	TraceState      string          `json:"tracestate,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// CloudEvent returns a stored fact as a CloudEvent, one line of JSON. Its data is
// the whole envelope, so that nothing is lost.
func CloudEvent(data []byte) ([]byte, error) {
	var e event.Event
	payload, err := event.DecodeHeader(data, &e)
	if err != nil {
		return nil, fmt.Errorf("transfer: %w", err)
	}
	c := cloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: "/runtimes/" + e.RuntimeID, Type: CloudEventPrefix + string(e.Type),
		Subject: subjectOf(&e), Time: e.Time.Format(time.RFC3339Nano), DataContentType: "application/json",
		Sequence: strconv.FormatUint(e.Sequence, 10), Data: data,
	}
	if e.TraceID != "" && e.SpanID != "" {
		c.TraceParent = "00-" + e.TraceID + "-" + e.SpanID + "-01"
		if e.Type == event.TypeTurnSubmitted { // the one fact that has it
			var p struct {
				TraceState string `json:"traceState"`
			}
			if err := json.Unmarshal(payload, &p); err != nil {
				return nil, fmt.Errorf("transfer: %w", err)
			}
			c.TraceState = p.TraceState
		}
	}
	return json.Marshal(&c)
}

// subjectOf is the path of what the fact is about.
func subjectOf(e *event.Event) string {
	s := e.SessionID
	if e.ThreadID != "" {
		s += "/" + e.ThreadID
	}
	if e.TurnID != "" {
		s += "/" + e.TurnID
	}
	return s
}
