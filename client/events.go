package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"agentd/event"
	"agentd/fault"
)

// Event is one event of a stream or a page.
type Event struct {
	// Frame is empty for an event. A stream may also carry a "snapshot", and a
	// "snapshot.repaired" where it could not go on from the cursor: Data says
	// then which sequences are missing.
	Frame string
	// Type, ID, SessionID and Sequence are those of the envelope.
	Type      event.Type
	ID        string
	SessionID string
	Sequence  uint64
	// Data is the envelope as it is stored, or the frame's content.
	Data json.RawMessage
}

// Decode returns the event with its typed payload.
func (e *Event) Decode() (*event.Event, error) {
	out, err := event.Decode(e.Data)
	if err != nil {
		return nil, fmt.Errorf("client: event %d of %s: %w", e.Sequence, e.SessionID, err)
	}
	return out, nil
}

// parseEvent reads what the client needs of an envelope.
func parseEvent(data []byte) (Event, error) {
	var head struct {
		Type      event.Type `json:"type"`
		EventID   string     `json:"eventId"`
		SessionID string     `json:"sessionId"`
		Sequence  uint64     `json:"sequence"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Event{}, fault.Wrap(fault.Unavailable, err, "an event is malformed")
	}
	return Event{Type: head.Type, ID: head.EventID, SessionID: head.SessionID, Sequence: head.Sequence, Data: data}, nil
}

// Page is a page of a session's events.
type Page struct {
	Events []Event
	// LastSequence is the session's last sequence.
	LastSequence uint64
	// NextAfter is what to pass as after for the next page.
	NextAfter uint64
	// Gap says which events are missing before the first; nil if none are.
	Gap *Gap
}

// Gap marks events that can't be redelivered.
type Gap struct {
	// From and To are the first and the last sequence that is missing.
	From uint64 `json:"gapFrom"`
	To   uint64 `json:"gapTo"`
	// Reason is retention, or cursor_past_end for a cursor that the server never gave
	// out; Status is unavailable or stale.
	Reason string `json:"reason"`
	Status string `json:"status"`
}

// Events returns the events of a session after a sequence, at most limit of them;
// zero means the server's default.
func (c *Client) Events(ctx context.Context, sessionID string, after uint64, limit int) (*Page, error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	req, err := c.request(ctx, http.MethodGet, eventsPath(sessionID), query, nil)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Events       []json.RawMessage `json:"events"`
		LastSequence uint64            `json:"lastSequence"`
		NextAfter    uint64            `json:"nextAfter"`
		Gap          *Gap              `json:"gap"`
	}
	if err := c.json(req, &answer); err != nil {
		return nil, err
	}
	page := &Page{LastSequence: answer.LastSequence, NextAfter: answer.NextAfter, Gap: answer.Gap}
	for _, data := range answer.Events {
		e, err := parseEvent(data)
		if err != nil {
			return nil, err
		}
		page.Events = append(page.Events, e)
	}
	return page, nil
}

func eventsPath(sessionID string) string {
	return "/v1/sessions/" + url.PathEscape(sessionID) + "/events"
}
