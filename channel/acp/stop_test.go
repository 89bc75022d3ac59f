package acp_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"agentd/channel/acp"
	"agentd/internal/adaptertest"
)

// TestAClientThatDoesNotRead: it must not keep the program from ending.
func TestAClientThatDoesNotRead(t *testing.T) {
	out := adaptertest.NewStuck()
	in, feed := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- acp.New(acp.Options{StopWait: 10 * time.Millisecond}).Serve(ctx, in, out)
	}()
	if _, err := io.Copy(feed, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n")); err != nil {
		t.Fatal(err)
	}
	<-out.Entered
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute): // only a defect takes that long
		t.Error("a client that doesn't read keeps the agent from ending")
	}
	close(out.Release)
	_ = feed.Close()
}
