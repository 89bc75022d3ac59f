//go:build unix

package mcp

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// deaf serves, and then stays whatever it is told.
func deaf() int {
	signal.Ignore(syscall.SIGTERM)
	_ = newRealServer(nil, nil).Run(context.Background(), &sdk.StdioTransport{})
	time.Sleep(time.Hour)
	return 0
}

// flood writes 64 MiB to standard error and then serves.
func flood() int {
	w := bufio.NewWriter(os.Stderr)
	line := strings.Repeat("noise ", 1000) + "\n"
	for range 64 << 20 / len(line) {
		_, _ = w.WriteString(line)
	}
	_, _ = w.WriteString("the last line\n")
	_ = w.Flush()
	_ = newRealServer(nil, nil).Run(context.Background(), &sdk.StdioTransport{})
	return 0
}

// parent is a runtime with one server; it tells its pid and waits to be killed.
func parent() int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	c := Open(context.Background(), []Server{{ID: "s", Command: []string{exe}, Env: []string{modeVariable + "=deaf"}}}, Options{
		OnProcess: func(_ string, pid int, running bool) {
			if running {
				fmt.Println(pid)
			}
		},
	})
	_ = c.Settle(context.Background())
	fmt.Println(c.Status()[0].State)
	time.Sleep(time.Hour)
	return 0
}
