package client

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answering is a server that says one thing, once.
type answering struct {
	body  string
	asked int
}

// RoundTrip implements [http.RoundTripper].
func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.asked++; a.asked > 1 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r,
	}, nil
}

// Whatever a server streams, the sequences that a follower sees grow, and it ends
// with the server.
func FuzzFollow(f *testing.F) {
	f.Add("id: 1\ndata: {\"sequence\":1,\"type\":\"turn.submitted\",\"eventId\":\"e\",\"sessionId\":\"s\"}\n\n")
	f.Add("event: snapshot\ndata: {}\n\nevent: snapshot.repaired\ndata: {\"continuesAfter\":7}\n\nid: 8\ndata: {\"sequence\":8,\"type\":\"x\"}\n\n")
	f.Add("event: problem\ndata: {\"code\":\"unauthenticated\"}\n\n")
	f.Add(": heartbeat\n\ndata: 1\n\n")
	f.Add("id: 18446744073709551616\ndata: {\"sequence\":-1}\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		server := &answering{body: body}
		c, err := New("http://127.0.0.1", &Options{HTTPClient: &http.Client{Transport: server}, MinBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		last := uint64(0)
		for e, err := range c.Follow(t.Context(), "s", 0, &FollowOptions{Retries: -1}) {
			if err != nil {
				break
			}
			if e.Frame == "snapshot.repaired" {
				last = 0
			}
			if e.Frame == "" && e.Sequence <= last {
				t.Errorf("%d comes after %d in %q", e.Sequence, last, body)
			}
			if e.Frame == "" {
				last = e.Sequence
			}
		}
	})
}
