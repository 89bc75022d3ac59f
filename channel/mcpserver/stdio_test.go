package mcpserver_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/channel/mcpserver"
	"agentd/command"
)

// stdio connects a client over a pair of pipes; end waits until the server returned.
func (k *kit) stdio(version string, tools ...string) (s *mcp.ClientSession, end func()) {
	k.t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- k.server.ServeStdio(context.Background(), fromClient, toClient, mcpserver.Identity{Caller: command.Local(), Role: command.RoleAdmin, Tools: tools})
		_ = toClient.Close() // the client reads its end
	}()
	c := mcp.NewClient(&mcp.Implementation{Name: "tester", Version: "1"}, nil)
	s, err := c.Connect(context.Background(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		k.t.Fatal(err)
	}
	return s, func() {
		_ = s.Close() // also closes what the server reads
		if err := <-done; err != nil {
			k.t.Errorf("ServeStdio: %v", err)
		}
	}
}

func TestOverStandardInputAndOutput(t *testing.T) {
	k := newKit(t).start()
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			s, end := k.stdio(version)
			defer end()
			if _, got := k.call(s, "run_turn", map[string]any{"input": "say hello"}); got["answer"] != "Hello to you." {
				t.Errorf("the turn is %v", got)
			}
			// The local caller is an admin, who sees the runtime's own session.
			if res, _ := k.call(s, "get_policy", map[string]any{}); res.IsError {
				t.Error(texts(res))
			}
			id := "sess_" + version
			ctx, cancel := context.WithCancel(t.Context())
			called := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"input": "wait long", "sessionId": id, "create": true}})
				called <- err
			}()
			k.running(id)
			cancel()
			if err := <-called; err == nil {
				t.Error("a cancelled call was answered")
			}
			if f := k.ended(id); f.Status != "cancelled" {
				t.Errorf("the turn ended as %s", f.Status)
			}
		})
	}
}

func TestAClientOnStandardInputThatIsGoneLeavesItsTurn(t *testing.T) {
	k := newKit(t).start()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- k.server.ServeStdio(context.Background(), in, out, mcpserver.Identity{Caller: command.Local(), Role: command.RoleAdmin})
	}()
	go func() { _, _ = io.Copy(io.Discard, fromServer) }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + older + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run_turn","arguments":{"input":"wait long","sessionId":"sess_g","create":true}}}`,
	} {
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	k.running("sess_g")
	if err := toServer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
	_ = out.Close()
	_, got := k.call(k.client("admin", newer, nil), "interrupt_turn", map[string]any{"sessionId": "sess_g"})
	if got["interrupted"] != true {
		t.Errorf("the turn ended with its client: %v", got)
	}
	k.ended("sess_g")
}

func TestToolsAreChosenOnStandardInputToo(t *testing.T) {
	k := newKit(t).start()
	s, end := k.stdio(newer, "run_t*")
	defer end()
	if tools := k.listTools(s); len(tools) != 1 || tools["run_turn"] == nil {
		t.Errorf("the tools are %v", tools)
	}
}

func TestALineThatIsNoMessageEndsNothing(t *testing.T) {
	k := newKit(t).start()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- k.server.ServeStdio(context.Background(), fromClient, toClient, mcpserver.Identity{Caller: command.Local(), Role: command.RoleAdmin})
		_, _ = fromClient.Close(), toClient.Close() // the client finds both at their end
	}()
	answers := bufio.NewReader(fromServer)
	say := func(line, want string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, want) {
			t.Errorf("%q is answered with %q, %v; want %s", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		`garbage`: `"code":-32700`, `{"jsonrpc":`: `"code":-32700`, "\ufeff{}": `"code":-32700`, `"x"`: `"code":-32600`, `[]`: `"code":-32600`, `{}`: `"code":-32600`,
		`{"jsonrpc":"2.0"}`: `"code":-32600`, `{"jsonrpc":"1.0","id":3,"method":"ping"}`: `"code":-32600`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`: `"code":-32600`,
	} {
		say(line, want)
	}
	say(`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`, `[{"jsonrpc":"2.0","id":3,"result":{}}]`)
	say(`[{"jsonrpc":"2.0","id":3,"method":"ping"},7]`, `"code":-32600`)
	say(`{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":"`+older+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"id":4`)
	_ = toServer.Close() // the server reads its end
	if err := <-done; err != nil {
		t.Errorf("ServeStdio: %v", err)
	}
}
