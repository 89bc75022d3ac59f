package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"agentd/command"
)

// balancedPipe is a program that speaks JSON-RPC over its pipes, and talks to the balancer.
type balancedPipe struct {
	in  io.Writer
	out *bufio.Reader
	ids int
}

func (c *balancedClient) pipe(ctx context.Context, args ...string) (*balancedPipe, error) {
	cmd := programOr(c.t, c.program, append(args, "--server", c.front.url)...)
	cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+c.front.token())
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = in.Close() })
	c.t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			c.t.Errorf("%v: %v\n%s", args, err, said.String())
		}
	})
	return &balancedPipe{in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

// call sends a request and reads to its answer; hear gets what comes in between, and after the
// answer until it says that it heard enough.
func (p *balancedPipe) call(method string, params, result any, hear func(json.RawMessage) (enough bool)) error {
	p.ids++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.ids, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return err
	}
	for answered, enough := false, hear == nil; !answered || !enough; {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		var m struct {
			ID                    *int
			Method                string
			Params, Result, Error json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		switch {
		case m.Method != "" && hear != nil:
			enough = hear(m.Params) || enough
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error)
		case m.ID != nil && *m.ID == p.ids:
			answered = true
			if result != nil {
				if err := json.Unmarshal(m.Result, result); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// doorStdio subscribes once. The program goes on by itself; what it sends gets its key there.
func doorStdio(ctx context.Context, c *balancedClient) (func(int) error, error) {
	if err := c.command(ctx, &command.CreateSession{SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session}}, nil); err != nil {
		return nil, err
	}
	p, err := c.pipe(ctx, "stdio")
	if err != nil {
		return nil, err
	}
	if err := p.call("subscribe", map[string]any{"sessionId": c.session}, nil, nil); err != nil {
		return nil, err
	}
	return func(int) error {
		return p.call("submit_turn", map[string]any{"sessionId": c.session, "input": "go on"}, nil, func(e json.RawMessage) bool {
			return strings.Contains(string(e), `"type":"turn.completed"`)
		})
	}, nil
}

func doorACP(ctx context.Context, c *balancedClient) (func(int) error, error) {
	p, err := c.pipe(ctx, "acp")
	if err != nil {
		return nil, err
	}
	if err := p.call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, nil, nil); err != nil {
		return nil, err
	}
	var opened struct{ SessionID string }
	if err := p.call("session/new", map[string]any{"cwd": c.work, "mcpServers": []any{}}, &opened, nil); err != nil {
		return nil, err
	}
	c.session = opened.SessionID
	return func(int) error {
		var end struct{ StopReason string }
		err := p.call("session/prompt", map[string]any{"sessionId": c.session, "prompt": []any{map[string]any{"type": "text", "text": "go on"}}}, &end, nil)
		if err == nil && end.StopReason != "end_turn" {
			err = errors.New(end.StopReason)
		}
		return err
	}, nil
}

// doorRun has a program for each turn.
func doorRun(ctx context.Context, c *balancedClient) (func(int) error, error) {
	if err := c.command(ctx, &command.CreateSession{SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session}}, nil); err != nil {
		return nil, err
	}
	c.pause = time.Second // a program is much to start
	return func(int) error {
		cmd := programOr(c.t, c.program, "run", "--server", c.front.url, "--session", c.session, "go on")
		cmd.Env = append(cmd.Env, "AGENTD_TOKEN="+c.front.token())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "done") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}, nil
}

// TestProbesOfBalancers: the plain checks of balancers are answered: some send no Host.
func TestProbesOfBalancers(t *testing.T) {
	p := start(t, t.TempDir())
	for _, probe := range []string{
		"GET /readyz HTTP/1.0\r\n\r\n",
		"GET /healthz HTTP/1.0\r\nUser-Agent: probe\r\n\r\n",
		"GET /readyz HTTP/1.1\r\nHost: " + strings.TrimPrefix(p.url, "http://") + "\r\nConnection: close\r\n\r\n",
	} {
		if got := p.raw(probe); !strings.Contains(got, " 200 ") {
			t.Errorf("%q is answered %q", probe, got)
		}
	}
	if got := p.raw("GET /readyz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n"); !strings.Contains(got, " 403 ") {
		t.Errorf("another host is answered %q", got)
	}
}

// raw sends bytes and returns what comes back.
func (p *process) raw(text string) string {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, text); err != nil {
		p.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(answer)
}
