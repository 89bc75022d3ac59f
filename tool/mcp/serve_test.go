//go:build unix

package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serve is the test binary as a server.
func serve(mode string) int {
	ctx := context.Background()
	switch mode {
	case "real", "legacy":
		opts := &sdk.ServerOptions{}
		if mode == "legacy" {
			opts.SupportedProtocolVersions = []string{revisionLegacy}
		}
		if err := newRealServer(opts, nil).Run(ctx, &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "no such database")
		return 3
	case "hang":
		time.Sleep(time.Hour)
	case "deaf": // Answers neither the end of its input nor a signal.
		return deaf()
	case "flood":
		return flood()
	case "noise":
		for {
			fmt.Println("this is not the protocol")
		}
	case "parent":
		return parent()
	default: // A server by hand, that misbehaves as the mode says.
		return handmade(mode)
	}
	return 0
}

// newRealServer is a well-behaved server of the SDK. What waits there for a
// cancellation ends with quit too.
func newRealServer(opts *sdk.ServerOptions, quit <-chan struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	var cancelled atomic.Int64
	proceed := make(chan struct{}, 1)
	add := func(name string, h func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "the tool " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("meta", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		raw, err := json.Marshal(r.Params.Meta)
		return text(string(raw)), err
	})
	add("wait", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: "waiting", Progress: 1})
		select {
		case <-ctx.Done():
			cancelled.Add(1)
			return nil, ctx.Err()
		case <-quit:
			return text("quit"), nil
		}
	})
	add("cancelled", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(cancelled.Load())), nil
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := 1; i <= 4; i++ {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Message: fmt.Sprint("step ", i), Progress: float64(i), Total: 4,
			})
		}
		// A result may overtake what was told before it.
		select {
		case <-proceed:
			return text("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	add("proceed", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		proceed <- struct{}{}
		return text("ok"), nil
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "disk full"}}}, nil
	})
	add("elicit", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who are you?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
		return text(fmt.Sprintf("asked: %v", err)), nil
	})
	add("roots", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res, err := r.Session.ListRoots(ctx, nil) //nolint:staticcheck // Deprecated, and still asked for.
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(res.Roots)
		return text(string(raw)), err
	})
	add("input", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if got, ok := r.Params.InputResponses["r"].(*sdk.ListRootsResult); ok { //nolint:staticcheck // The same.
			raw, err := json.Marshal(got.Roots)
			return text(string(raw)), err
		}
		ask := sdk.InputRequestMap{"r": &sdk.ListRootsParams{}} //nolint:staticcheck // The same.
		return &sdk.CallToolResult{InputRequests: ask, RequestState: "s"}, nil
	})
	add("inputPerson", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"r": &sdk.ElicitParams{Message: "name?"}}}, nil
	})
	add("big", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text("BEGIN" + strings.Repeat("é", 1<<17) + "END"), nil
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("grown", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("new"), nil })
		return text("ok"), nil
	})
	add("kill", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	s.AddTool(&sdk.Tool{
		Name: "readKill", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	add("pid", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("env", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("child", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		cmd := exec.Command("sleep", "3600")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return text(fmt.Sprint(cmd.Process.Pid)), nil
	})
	return s
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

// handmade speaks just enough of the older revision, and badly.
func handmade(mode string) int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 4<<20)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if mode == "greets" {
		say("Welcome to the server!")
		say(`{"level":"info","msg":"ready"}`)
	}
	calls := 0
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || len(m.ID) == 0 {
			continue
		}
		result := func(raw string) { say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, raw) }
		switch m.Method {
		case "initialize":
			result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"by hand","version":"0"}}`)
		case "tools/list":
			result(`{"tools":` + strings.ReplaceAll(lists[mode], "\n", "") + `}`)
		case "tools/call":
			calls++
			if mode == "stops-reading" {
				time.Sleep(time.Hour)
			}
			if mode == "floods-once" && calls == 1 {
				result(`{"content":[{"type":"text","text":"` + strings.Repeat("x", maxMessage) + `"}]}`)
				continue
			}
			if mode == "says-closing" && calls == 1 {
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32004,"message":"server is closing"}}`, m.ID)
				continue
			}
			result(answers[mode])
		case "server/discover":
			switch mode {
			case "ignores-discover":
			case "dies-on-discover":
				return 9
			default:
				say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
			}
		}
	}
	return 0
}

const oneTool = `[{"name":"t","inputSchema":{"type":"object"}}]`

// lists are the tools of handmade servers.
var lists = map[string]string{
	"greets": oneTool, "ignores-discover": oneTool, "dies-on-discover": oneTool, "stops-reading": oneTool, "floods-once": oneTool,
	"odd-content": oneTool, "says-closing": oneTool, "bad-utf8": oneTool, "no-content": oneTool,
	"lies": `[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]`,
	"schemas": `[
		{"name":"good","inputSchema":{"type":"object"}},
		{"name":"untyped","inputSchema":{"properties":{"a":{"type":"string","pattern":"^(?!x)"}}}},
		{"name":"none"},
		{"name":"remote","inputSchema":{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"}}}},
		{"name":"file","inputSchema":{"type":"object","properties":{"a":{"$ref":"file:///etc/hostname"}}}},
		{"name":"broken","inputSchema":{"type":"object","properties":{"a":{"type":"strnig"}}}},
		{"name":"array","inputSchema":{"type":"array"}},
		{"name":"text","inputSchema":"object"},
		{"name":"good","inputSchema":{"type":"object"},"description":"the same name again"},
		{"name":"","inputSchema":{"type":"object"}}]`,
}

// answers are the results of their calls.
var answers = map[string]string{
	"greets": `{"content":[{"type":"text","text":"hello"}]}`, "ignores-discover": `{"content":[]}`, "dies-on-discover": `{"content":[]}`,
	"says-closing": `{"content":[{"type":"text","text":"a second time"}]}`,
	"floods-once":  `{"content":[{"type":"text","text":"small"}]}`,
	"odd-content":  `{"content":[{"type":"hologram","beam":7},{"type":"image","data":"%%%","mimeType":"image/png"},{"type":"text","text":"fine"}]}`,
	"bad-utf8":     "{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfeb\"}]}",
	"no-content":   `{}`,
	"lies":         `{"content":[{"type":"text","text":"n is many"}],"structuredContent":{"n":"many"}}`,
	"schemas":      `{"content":[]}`,
}
