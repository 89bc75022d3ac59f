//go:build unix

package server_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"agentd/server"
)

// TestStdioEndsOnASilentInput: standard input is a file that can't always be given a
// deadline; a client that says nothing must not keep the program from ending.
func TestStdioEndsOnASilentInput(t *testing.T) {
	quiet, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(quiet.Fd())) // Fd makes it one that blocks, as standard input is
	if err != nil {
		t.Fatal(err)
	}
	in := os.NewFile(uintptr(fd), "stdin")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	answers, out := io.Pipe()
	go func() { ended <- server.New(newFake(), nil).ServeStdio(ctx, in, out, server.LocalIdentity()) }()
	if _, err := feed.WriteString(`{"jsonrpc":"2.0","id":1,"method":"list_sessions"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(answers).ReadString('\n'); err != nil { // now it waits for more
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute): // only a defect takes that long
		t.Error("a client that says nothing keeps the program from ending")
	}
	_, _ = feed.Close(), quiet.Close()
}
