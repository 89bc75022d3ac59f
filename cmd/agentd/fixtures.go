//go:build interopfixtures

package main

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/spf13/cobra"

	"agentd/channel/a2a"
	"agentd/channel/mcpserver"
	"agentd/event"
	"agentd/loop"
	"agentd/model"
	"agentd/tool/toolkind"
)

// fixtureFlags are --fixtures: what the conformance suites of protocols expect of a
// program under test.
type fixtureFlags struct{ on bool }

func (f *fixtureFlags) addFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "fixtures", false, "add what the conformance suites of protocols expect")
}

func (f *fixtureFlags) addToA2A(o *a2a.Options)       { o.Fixtures = f.on }
func (f *fixtureFlags) addToMCP(o *mcpserver.Options) { o.Fixtures = f.on }

// fixtureModel answers as the Agent2Agent protocol's test kit wants it, by the mark
// that the adapter puts into its input.
type fixtureModel struct{}

const fixtureName = "fixture"

// addModel makes it the model of turns that name none.
func (f *fixtureFlags) addModel(o *loop.Options) {
	if !f.on {
		return
	}
	info := model.Info{Provider: fixtureName, Model: fixtureName, Capabilities: []string{model.CapTools, model.CapStreaming}, HasCredential: true}
	o.Providers, o.Models = append(o.Providers, fixtureModel{}), append(o.Models, info)
	o.DefaultModel = info.ID()
}

// Name implements [model.Provider].
func (fixtureModel) Name() string { return fixtureName }

const (
	// resubscribeFor is how long the task of the test kit's reconnecting client works.
	resubscribeFor = 6 * time.Second
	// fixturePause keeps pieces of an answer apart, which are gathered otherwise.
	fixturePause = 200 * time.Millisecond
)

// sleep waits; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// fixtureTexts are the answers that are texts, piece by piece.
var fixtureTexts = map[string][]string{
	"tck-artifact-text":           {"Generated text content"},
	"tck-stream-001":              {"Stream hello from TCK"},
	"tck-stream-003":              {"Stream task lifecycle"},
	"tck-stream-ordering-001":     {"Ordered output"},
	"tck-stream-artifact-text":    {"Streamed text content"},
	"tck-stream-artifact-chunked": {"chunk-1 ", "chunk-2"},
}

// Stream implements [model.Provider].
func (fixtureModel) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		name := fixtureWanted(r)
		done := &model.Done{StopReason: "end_turn", Usage: event.Usage{InputTokens: 1, OutputTokens: 1}}
		switch name {
		case "tck-input-required":
			call := model.ToolCall{ProviderID: "call_input", Name: string(toolkind.RequestInput), Arguments: event.Raw(`{"prompt":"What else is needed?"}`)}
			done.StopReason = "tool_use"
			if !yield(model.Chunk{ToolCall: &call}, nil) {
				return
			}
			yield(model.Chunk{Done: done}, nil)
			return
		case "tck-reject-task":
			done.StopReason = "refusal"
		case "test-resubscribe-message-id":
			if !sleep(ctx, resubscribeFor) {
				yield(model.Chunk{}, ctx.Err())
				return
			}
		}
		for i, piece := range fixturePieces(name) {
			if i > 0 && !sleep(ctx, fixturePause) {
				yield(model.Chunk{}, ctx.Err())
				return
			}
			if !yield(model.Chunk{Text: piece}, nil) {
				return
			}
		}
		yield(model.Chunk{Done: done}, nil)
	}
}

// fixtureWanted is the behaviour that was asked for last: in what the user said, or
// in the answer to a question.
func fixtureWanted(r *model.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if name := a2a.FixtureIn(m.Text); name != "" {
			return name
		}
	}
	return ""
}

func fixturePieces(name string) []string {
	if texts, ok := fixtureTexts[name]; ok {
		return texts
	}
	var part *proto.Part
	switch name {
	case "tck-artifact-file", "tck-stream-artifact-file":
		part = proto.NewRawPart([]byte("Generated file content"))
	case "tck-artifact-file-url":
		part = proto.NewFileURLPart("https://example.com/output.txt", "text/plain")
	case "tck-artifact-data":
		part = proto.NewDataPart(map[string]any{"key": "value", "count": 42})
	case "tck-reject-task":
		return []string{"rejected"}
	default:
		return []string{"Hello from TCK"}
	}
	if !strings.HasSuffix(name, "-data") {
		part.Filename, part.MediaType = "output.txt", "text/plain"
	}
	text, err := a2a.FixtureAnswer(part)
	if err != nil {
		return nil // these parts always encode
	}
	return []string{text}
}
