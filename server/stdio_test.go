package server_test

import (
	"context"
	"io"
	"testing"
	"time"

	"agentd/server"
)

// stuck is a pipe that nobody empties, and that knows no deadlines.
type stuck struct{ entered, release chan struct{} }

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.entered <- struct{}{}:
	default:
	}
	<-s.release
	return len(p), nil
}

// TestStdioEndsWithoutAReader: a client that doesn't read must not keep the program
// from ending.
func TestStdioEndsWithoutAReader(t *testing.T) {
	out := &stuck{entered: make(chan struct{}, 1), release: make(chan struct{})}
	in, feed := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.New(newFake(), nil).ServeStdio(ctx, in, out, server.LocalIdentity()) }()
	if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-out.entered
	stop()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute): // only a defect takes that long
		t.Error("a client that doesn't read keeps the program from ending")
	}
	close(out.release)
	_ = feed.Close()
}
