package server_test

import (
	"context"
	"io"
	"testing"
	"time"

	"agentd/internal/adaptertest"
	"agentd/server"
)

// TestStdioEndsWithoutAReader: a client that doesn't read must not keep the program
// from ending.
func TestStdioEndsWithoutAReader(t *testing.T) {
	out := adaptertest.NewStuck()
	in, feed := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.New(newFake(), nil).ServeStdio(ctx, in, out, server.LocalIdentity()) }()
	if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"method":"list_sessions"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-out.Entered
	stop()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute): // only a defect takes that long
		t.Error("a client that doesn't read keeps the program from ending")
	}
	close(out.Release)
	_ = feed.Close()
}
