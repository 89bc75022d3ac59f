//go:build interopfixtures

package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/event"
)

// fixtures are what the protocol's conformance suite expects of a server: tools,
// resources and prompts with fixed names and fixed behaviour. Nothing of it touches
// the runtime, and nothing of it is there unless [Options] asks for it.
type fixtures struct {
	stop context.Context
	ids  *event.IDs
	// key protects what goes to a client and back.
	key [sha256.Size]byte

	mu    sync.Mutex
	tasks map[string]*fixtureWork
	// running are the goroutines of tasks and of the resource that changes.
	running sync.WaitGroup
}

// fixtureOptions are the part of [Options] that only builds for that suite have.
type fixtureOptions struct {
	// Fixtures adds what the suite expects.
	Fixtures bool
}

// newFixtures returns the fixtures that were asked for, or nil.
func newFixtures(stop context.Context, o *Options) *fixtures {
	if !o.Fixtures {
		return nil
	}
	f := &fixtures{stop: stop, ids: o.IDs, tasks: map[string]*fixtureWork{}}
	_, _ = rand.Read(f.key[:]) // it never fails, by its contract
	return f
}

// wait waits for what the fixtures started, after stop ended.
func (f *fixtures) wait() { f.running.Wait() }

// capabilities adds what the fixtures show.
func (f *fixtures) capabilities(o *mcp.ServerOptions) {
	o.Capabilities.Logging = &mcp.LoggingCapabilities{} //nolint:staticcheck // the older revision still has it
	o.Capabilities.Tools = &mcp.ToolCapabilities{ListChanged: true}
	o.Capabilities.Prompts = &mcp.PromptCapabilities{ListChanged: true}
	o.Capabilities.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}
	o.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
}

// register offers the fixtures.
func (f *fixtures) register(srv *mcp.Server) {
	f.addContent(srv)
	f.addBehaviour(srv)
	f.addChanges(srv)
	f.addQuestions(srv)
	f.addRounds(srv)
	f.addTasks(srv)
	f.addResources(srv)
	f.addPrompts(srv)
	f.running.Go(func() { f.touch(srv) })
}

// source returns who knows a task if it is one of the fixtures', else nil.
func (f *fixtures) source(taskID string) taskSource {
	if f == nil || !strings.HasPrefix(taskID, fixtureTask) {
		return nil
	}
	return f
}

// anything is the schema of a tool that doesn't look at its arguments.
var anything = json.RawMessage(`{"type":"object"}`)

// addFixtureTool adds a fixture's tool.
func addFixtureTool(srv *mcp.Server, name, says string, schema json.RawMessage, h mcp.ToolHandler) {
	srv.AddTool(&mcp.Tool{Name: name, Description: "Conformance fixture: " + says + ".", InputSchema: schema}, h)
}

// textResult is a result of one text.
func textResult(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// constantResult returns the same result.
func constantResult(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

// toolArguments reads a tool's arguments; what doesn't fit stays empty.
func toolArguments[T any](req *mcp.CallToolRequest) T {
	var args T
	_ = json.Unmarshal(req.Params.Arguments, &args)
	return args
}

// watchedURI is the resource that changes by itself.
const watchedURI = "test://watched-resource"

// touch changes the watched resource until the server stops.
func (f *fixtures) touch(srv *mcp.Server) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-f.stop.Done():
			return
		case <-tick.C:
			_ = srv.ResourceUpdated(f.stop, &mcp.ResourceUpdatedNotificationParams{URI: watchedURI}) // there may be no listener
		}
	}
}

// pixel is a PNG of one red pixel, silence a WAV without a sound.
func pixel() []byte {
	return []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\b\x02\x00\x00\x00\x90wS\xde" +
		"\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
}

func silence() []byte {
	return []byte("RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x02\x00\x00\x00\x00\x00")
}
