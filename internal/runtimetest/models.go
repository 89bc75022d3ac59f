package runtimetest

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentd"
	"agentd/event"
	"agentd/model"
	"agentd/model/provider/script"
)

// FakeModel answers by a function.
type FakeModel struct {
	// ProviderName is its name, Answer sends the chunks of one answer.
	ProviderName string
	Answer       func(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error
}

// Name implements [model.Provider].
func (m *FakeModel) Name() string { return m.ProviderName }

// Stream implements [model.Provider].
func (m *FakeModel) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		open := true
		err := m.Answer(ctx, r, func(c model.Chunk) bool {
			open = open && yield(c, nil)
			return open
		})
		if err != nil && open {
			yield(model.Chunk{}, err)
		}
	}
}

// AnswerEnd is the last chunk of an answer that used so many tokens.
func AnswerEnd(stop string, in, out int64) model.Chunk {
	return model.Chunk{Done: &model.Done{StopReason: stop, Usage: event.Usage{InputTokens: in, OutputTokens: out}}}
}

// Listener passes requests on and remembers them.
type Listener struct {
	model.Provider
	mu       sync.Mutex
	requests []*model.Request
}

// Stream implements [model.Provider].
func (l *Listener) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	l.mu.Lock()
	heard := *r
	heard.Messages = slices.Clone(r.Messages)
	l.requests = append(l.requests, &heard)
	l.mu.Unlock()
	return l.Provider.Stream(ctx, r)
}

// Heard returns the requests so far.
func (l *Listener) Heard() []*model.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// ListenedBy puts a listener in front of the kit's own provider.
func ListenedBy(into *Listener) func(*agentd.Options) {
	return func(o *agentd.Options) {
		into.Provider = o.Provider
		o.Provider = into
	}
}

// HaltingModel sends the first piece of each answer and then nothing more, until it goes
// on.
type HaltingModel struct {
	model.Provider
	// GoesOn ends the halting.
	GoesOn atomic.Bool
}

// Stream implements [model.Provider].
func (h *HaltingModel) Stream(ctx context.Context, r *model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		for c, err := range h.Provider.Stream(ctx, r) {
			if !yield(c, err) {
				return
			}
			if !h.GoesOn.Load() {
				<-ctx.Done()
				yield(model.Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// Use puts it in front of the kit's own provider.
func (h *HaltingModel) Use(o *agentd.Options) {
	h.Provider = o.Provider
	o.Provider = h
}

// StuckModel is a model that answers when its context ends.
func StuckModel(asked chan<- struct{}) func(*agentd.Options) {
	return func(o *agentd.Options) {
		o.Provider = &FakeModel{ProviderName: "stuck", Answer: func(ctx context.Context, _ *model.Request, _ func(model.Chunk) bool) error {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-ctx.Done()
			return ctx.Err()
		}}
	}
}

// TalkingModel answers turns with their number and summaries with a summary.
type TalkingModel struct {
	// Requests are the conversations that it was asked to answer.
	Requests []string
	// Tokens that an answer claims to have used.
	Tokens int64
	// Summary answers a request for a summary; nil gives one.
	Summary func(ctx context.Context, n int64) error
	// Answer comes before an ordinary answer; an error takes its place.
	Answer func(n int64) error
	// Summaries counts the requests for summaries.
	Summaries atomic.Int64
	answers   atomic.Int64
}

// Stream answers one request.
func (k *TalkingModel) Stream(ctx context.Context, r *model.Request, send func(model.Chunk) bool) error {
	last := r.Messages[len(r.Messages)-1].Text
	if strings.Contains(last, "is about to be replaced by a summary") {
		n := k.Summaries.Add(1)
		if k.Summary != nil {
			if err := k.Summary(ctx, n); err != nil {
				return err
			}
		}
		send(model.Chunk{Text: "in short"})
		send(AnswerEnd("end_turn", 50, 5))
		return nil
	}
	k.Requests = append(k.Requests, Conversation(r))
	if n := k.answers.Add(1); k.Answer != nil {
		if err := k.Answer(n); err != nil {
			return err
		}
	}
	send(model.Chunk{Text: "answer"})
	send(AnswerEnd("end_turn", k.Tokens, 0))
	return nil
}

// Use makes it the only model, with a context of 1,000 tokens.
func (k *TalkingModel) Use(o *agentd.Options) {
	QuickBackoff(o)
	o.Provider = nil
	o.Loop.Providers = []model.Provider{&FakeModel{ProviderName: "talker", Answer: k.Stream}}
	o.Loop.Models = []model.Info{{Provider: "talker", Model: "m", HasCredential: true, Capabilities: []string{model.CapTools}, ContextWindow: 1000}}
	o.Loop.DefaultModel = "talker/m"
}

// Conversation is a request's conversation in words.
func Conversation(r *model.Request) string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Role + ": " + m.Text)
		for _, c := range m.ToolCalls {
			b.WriteString(" <" + c.Name + " " + c.ProviderID + " " + string(c.Arguments) + ">")
		}
		if m.Role == model.RoleTool {
			b.WriteString(" [" + m.ToolName + " " + m.ToolCallID + "]")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// ToolSchema is what a model is told of a tool's input.
func ToolSchema(t *testing.T, tools []model.ToolSpec, name string) string {
	t.Helper()
	for _, s := range tools {
		if s.Name == name {
			return string(s.Schema)
		}
	}
	t.Fatalf("there is no tool %s", name)
	return ""
}

// CallsTool is an answer that asks for one tool call.
func CallsTool(name string, args map[string]any) script.Answer {
	return script.Answer{Tools: []script.Tool{{Name: name, Arguments: args}}}
}

// Says is an answer of text alone.
func Says(text string) script.Answer { return script.Answer{Text: text} }

// WritesFile is an answer that asks for a file to be written.
func WritesFile(path, content string) script.Answer {
	return CallsTool("write_file", map[string]any{"path": path, "content": content})
}

// Plan is the plan of [PlanningAnswers].
const Plan = "# Plan\n\n1. Write a.txt\n2. Look at it"

// PlanningAnswers is what a model does in mode plan: it looks around, hands its plan over, and
// then carries it out.
func PlanningAnswers() []script.Answer {
	return []script.Answer{
		CallsTool("list_files", map[string]any{"path": "."}),
		CallsTool("present_plan", map[string]any{"plan": Plan}),
		CallsTool("write_file", map[string]any{"path": "a.txt", "content": "a"}),
		Says("done"),
	}
}

// QuickBackoff has failed model calls tried again almost at once.
func QuickBackoff(o *agentd.Options) { o.Loop.Backoff = model.Backoff{Base: time.Millisecond} }
