package providertest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/model"
	"agentd/model/provider/httpstream"
)

// stops: the provider ends soon after its caller wants it to.
func (s Subject) stops(t *testing.T) {
	// Server that sends half an answer and tells when its client is gone.
	half := func(t *testing.T) (*Server, <-chan struct{}) {
		gone := make(chan struct{})
		return Serve(t, func(w http.ResponseWriter, r *http.Request) {
			Write(w, s.Half, 0)
			<-r.Context().Done()
			close(gone)
		}), gone
	}
	t.Run("context", func(t *testing.T) {
		srv, gone := half(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var last error
		for c, err := range s.New(httpstream.Options{BaseURL: srv.URL}).Stream(ctx, sampleRequest()) {
			if c.Text != "" {
				cancel(errors.New("the user said stop"))
			}
			last = err
		}
		var e *model.Error
		if !errors.As(last, &e) || e.Category != model.Interrupted || !strings.Contains(e.Message, "the user said stop") {
			t.Fatalf("got %v", last)
		}
		<-gone
	})
	t.Run("deadline", func(t *testing.T) {
		srv, gone := half(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		got := Collect(ctx, t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		if got.Err == nil || got.Err.Category != model.Timeout {
			t.Fatalf("got %v", got.Err)
		}
		if srv.Count() > 0 {
			<-gone
		}
	})
	t.Run("ended before", func(t *testing.T) {
		srv := Play(t, s.Hello, 0)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		got := Collect(ctx, t, s.New(httpstream.Options{BaseURL: srv.URL}), sampleRequest())
		if got.Err == nil || got.Err.Category != model.Interrupted {
			t.Fatalf("got %v", got.Err)
		}
	})
	t.Run("consumer", func(t *testing.T) {
		srv, gone := half(t)
		for c := range s.New(httpstream.Options{BaseURL: srv.URL}).Stream(t.Context(), sampleRequest()) {
			if c.Text != "" {
				break
			}
		}
		<-gone
	})
}

// reuses: an iterator can be played twice, and connections serve again.
func (s Subject) reuses(t *testing.T) {
	// The end of a body is waited for only shortly, so on a busy machine a connection
	// may be given up; not time and again.
	var connections int
	for range 10 {
		if connections = s.playThrice(t); connections == 1 {
			return
		}
	}
	t.Fatalf("three requests went over %d connections, whenever it was tried", connections)
}

// playThrice plays one iterator three times and returns over how many connections.
func (s Subject) playThrice(t *testing.T) int {
	srv := Play(t, s.Hello, 5)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	p := s.New(httpstream.Options{BaseURL: srv.URL, Client: &http.Client{Transport: transport}})
	seq := p.Stream(t.Context(), sampleRequest())
	for range 3 {
		var text strings.Builder
		for c, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString(c.Text)
		}
		if text.String() != HelloText {
			t.Fatalf("got %q", text.String())
		}
	}
	if srv.Count() != 3 {
		t.Fatalf("%d requests", srv.Count())
	}
	return srv.Connections()
}
