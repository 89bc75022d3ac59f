package loop

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
	"agentd/model"
	"agentd/store"
)

// conversation is what a thread's model gets. It is derived from the thread's
// facts and only grows: a fact adds messages at its end, so that the cost of a
// step doesn't depend on how long the thread is. It can be thrown away at any
// time; [transcripts.load] derives it again from the journal.
type conversation struct {
	// mu guards pending, through, offered and gap; the rest belongs to the
	// thread's runner.
	mu sync.Mutex
	// through is the last fact of the session that is in pending or in messages.
	through uint64
	// offered says that committed facts were. Those between what was read from the
	// journal and the first of them are the gap, which is still to be read.
	offered bool
	gap     store.Range
	// pending holds facts that are committed and not in messages yet.
	pending []heard
	// broken says that a fact was missed or taken back: derive it again.
	broken bool

	messages []*model.Message
	// tokens is the estimated size of messages.
	tokens int64
	// marks says where each turn since the last boundary begins, running is the turn
	// that runs.
	marks   []mark
	running string
	// covers is the last fact that the summary at the beginning stands for.
	covers uint64
	// inputs holds the inputs of turns that wait for their start.
	inputs map[string]input
	// steers holds inputs that the next model call is given.
	steers []input
	// asked are the calls of the last answer, results what came of them.
	asked   []event.ToolCallRequest
	results map[string]*model.Message
	// notes are passed to the model with its next call.
	notes []string
	// current is the input of the turn that runs, told again after a compaction.
	current *model.Message
	// spanned is the turn that the last boundary fell into, if it fell into one.
	spanned string
	// answer is the text of the last answer, schema what it must satisfy.
	answer string
	schema event.Raw
	// framed is what stands above the messages.
	framed *framed
}

// mark is the beginning of a turn.
type mark struct {
	turnID string
	from   int
	tokens int64
}

// input is a user's input, inline or behind a reference, and the schema that
// the answer must satisfy.
type input struct {
	parts  event.Raw
	ref    string
	schema event.Raw
}

// shown bounds what a model is shown of one tool result or file.
const shown = 32 << 10

// offer takes committed facts of the conversation's session, in order.
func (c *conversation) offer(threadID string, facts []event.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || len(facts) == 0 {
		return
	}
	last := facts[len(facts)-1].Sequence
	if last <= c.through {
		return
	}
	if first := facts[0].Sequence; first > c.through+1 {
		if c.offered {
			c.broken = true // a gap: derive it again
			return
		}
		c.gap, c.through = store.Range{After: c.through, Before: first}, first-1 // they are in the journal
	}
	c.offered = true
	for i := range facts {
		if facts[i].Sequence > c.through && facts[i].ThreadID == threadID && changesConversation(facts[i].Type) {
			c.pending = append(c.pending, heardOf(&facts[i]))
		}
	}
	c.through = last
}

// heard is what a conversation takes from a fact. The whole is eight times as large.
type heard struct {
	turnID, toolCallID string
	payload            event.Payload
}

func heardOf(e *event.Event) heard { return heard{e.TurnID, e.ToolCallID, e.Payload} }

// changesConversation reports whether facts of a type change the conversation.
func changesConversation(t event.Type) bool {
	switch t { //nolint:exhaustive // the rest is not told
	case event.TypeTurnSubmitted, event.TypeTurnStarted, event.TypeTurnSteered, event.TypeTurnCompleted, event.TypeTurnFailed,
		event.TypeModelRequested, event.TypeModelCompleted, event.TypeToolResult, event.TypeToolFailed,
		event.TypeContextCompactionCompleted, event.TypeHistoryRollbackCompleted, event.TypeHookCompleted, event.TypeRuntimeWarning:
		return true
	}
	return false
}

// takeGap returns what is still to be read from the journal before what is
// pending, and whether there is something.
func (c *conversation) takeGap() (store.Range, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.gap
	c.gap = store.Range{}
	return r, r.Before > 0
}

// settle moves pending facts into messages. It reports false when the
// conversation must be derived again.
func (c *conversation) settle(ctx context.Context, s store.Store, through uint64) (bool, error) {
	c.mu.Lock()
	if c.broken || c.through < through {
		c.mu.Unlock()
		return false, nil
	}
	facts := c.pending
	c.pending = nil
	c.mu.Unlock()
	for i := range facts {
		if err := c.apply(ctx, s, facts[i]); err != nil {
			return false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.broken, nil
}

// apply adds what a fact says.
func (c *conversation) apply(ctx context.Context, s store.Store, e heard) error {
	switch p := e.payload.(type) {
	case *event.TurnSubmitted:
		in := input{parts: p.Input, ref: p.InputRef}
		if p.Options != nil {
			in.schema = p.Options.OutputSchema
		}
		c.inputs[e.turnID] = in
	case *event.TurnStarted:
		return c.startTurn(ctx, s, e.turnID)
	case *event.TurnSteered:
		c.steers = append(c.steers, input{parts: p.Input, ref: p.InputRef})
	case *event.ModelRequested:
		return c.asking(ctx, s, p)
	case *event.ModelCompleted:
		return c.answered(ctx, s, p)
	case *event.ToolResult:
		return c.toolResult(ctx, s, e.toolCallID, p)
	case *event.ToolFailed:
		c.toolFailed(e.toolCallID, p)
	case *event.TurnCompleted:
		c.endTurn(e.turnID)
	case *event.TurnFailed:
		if p.FailureCategory == "hook_blocked" && p.Steps == 0 {
			c.withdraw(e.turnID)
		}
		c.endTurn(e.turnID)
	case *event.CompactionCompleted:
		return c.compacted(ctx, s, p)
	case *event.RollbackCompleted:
		c.rolledBack(p)
	case *event.HookCompleted:
		return c.hooked(ctx, s, e.turnID, p)
	case *event.RuntimeNotice:
		if p.Code == codeRepeats {
			c.notes = append(c.notes, p.Message+" "+p.Advice)
		}
	}
	return nil
}

// appendMessage appends a message.
func (c *conversation) appendMessage(m *model.Message) {
	c.messages = append(c.messages, m)
	c.tokens += model.EstimateMessage(m)
}

func (c *conversation) startTurn(ctx context.Context, s store.Store, turnID string) error {
	in, ok := c.inputs[turnID]
	if !ok {
		return fmt.Errorf("loop: turn %s was started but never submitted", turnID)
	}
	delete(c.inputs, turnID)
	m, err := userMessage(ctx, s, in)
	if err != nil {
		return err
	}
	c.marks = append(c.marks, mark{turnID, len(c.messages), c.tokens})
	c.running, c.current, c.schema = turnID, m, in.schema
	c.appendMessage(m)
	return nil
}

// asking closes the step before: results in the order of their calls, then what
// was said in the meantime.
func (c *conversation) asking(ctx context.Context, s store.Store, p *event.ModelRequested) error {
	if p.Purpose == "compaction" {
		return nil
	}
	c.closeStep("the call was not carried out")
	for _, in := range c.steers {
		m, err := userMessage(ctx, s, in)
		if err != nil {
			return err
		}
		c.appendMessage(m)
	}
	c.steers = nil
	if p.Purpose == "repair" && p.Attempt == 1 {
		if _, complaint := CheckAnswer(c.schema, c.answer); complaint != "" {
			c.notes = append(c.notes, complaint)
		}
	}
	if len(c.notes) > 0 {
		c.appendMessage(&model.Message{Role: model.RoleUser, Text: strings.Join(c.notes, "\n\n")})
		c.notes = nil
	}
	return nil
}

// closeStep adds the results of the last answer's calls; providers want one for each.
func (c *conversation) closeStep(otherwise string) {
	for _, call := range c.asked {
		m := c.results[call.ToolCallID]
		if m == nil {
			m = &model.Message{Role: model.RoleTool, ToolCallID: providerID(call), ToolName: call.ToolName, Text: otherwise, IsError: true}
		}
		c.appendMessage(m)
	}
	c.asked = nil
	clear(c.results)
}

// providerID is the name by which the provider knows a call.
func providerID(call event.ToolCallRequest) string {
	if call.ProviderCallID != "" {
		return call.ProviderCallID
	}
	return call.ToolCallID
}

// maxAnswer is the largest answer that is read back.
const maxAnswer = 192 << 20

func (c *conversation) answered(ctx context.Context, s store.Store, p *event.ModelCompleted) error {
	if p.Purpose == "compaction" {
		return nil
	}
	said, err := p.Whole(func(ref string) ([]byte, error) { return store.ReadContent(ctx, s, ref, maxAnswer) })
	if err != nil || said == nil {
		return err
	}
	m := &model.Message{
		Role: model.RoleAssistant, Text: said.Text, Reasoning: said.Reasoning, Native: said.Native, NativeBy: p.Provider,
	}
	c.asked, c.answer = nil, said.Text
	for _, call := range said.ToolCalls {
		if call.ArgumentsRef != "" {
			text, err := readBlob(ctx, s, call.ArgumentsRef, 32<<20)
			if err != nil {
				return err
			}
			call.Arguments = event.Raw(text)
		}
		c.asked = append(c.asked, call)
		args := call.Arguments
		if !json.Valid(args) {
			args = event.Raw("{}") // what the model sent instead is in the error that it was given
		}
		m.ToolCalls = append(m.ToolCalls, model.ToolCall{ProviderID: providerID(call), Name: call.ToolName, Arguments: args})
	}
	if m.Text != "" || len(m.ToolCalls) > 0 || len(m.Native) > 0 {
		c.appendMessage(m)
	}
	return nil
}

// call returns a call of the last answer.
func (c *conversation) call(toolCallID string) (event.ToolCallRequest, bool) {
	for _, call := range c.asked {
		if call.ToolCallID == toolCallID {
			return call, true
		}
	}
	return event.ToolCallRequest{}, false
}

func (c *conversation) result(toolCallID, text string, isError bool, media []model.Media) {
	call, ok := c.call(toolCallID)
	if !ok {
		return
	}
	c.results[toolCallID] = &model.Message{
		Role: model.RoleTool, ToolCallID: providerID(call), ToolName: call.ToolName, Text: text, IsError: isError, Media: media,
	}
}

func (c *conversation) toolResult(ctx context.Context, s store.Store, toolCallID string, p *event.ToolResult) error {
	text := p.Preview
	if p.OutputRef != "" {
		b, err := readBlob(ctx, s, p.OutputRef, shown)
		switch {
		case errors.Is(err, store.ErrNotFound):
			text += fmt.Sprintf("\n[%d bytes in all; the rest has expired]", p.SizeBytes)
		case err != nil:
			return err
		default:
			text = b
			if p.SizeBytes > int64(len(b)) {
				text += fmt.Sprintf("\n[%d bytes in all; the rest is at %s]", p.SizeBytes, p.OutputRef)
			}
		}
	}
	var media []model.Media
	gone := 0
	for _, ref := range p.ImageRefs {
		b, err := readBlob(ctx, s, ref, maxMedia)
		if errors.Is(err, store.ErrNotFound) {
			gone++
			continue
		}
		if err != nil {
			return err
		}
		media = append(media, model.Media{MediaType: http.DetectContentType([]byte(b)), Data: []byte(b)})
	}
	text += strings.Repeat("\n[a picture was here; it has expired]", gone)
	c.result(toolCallID, text, p.Status == "error", media)
	return nil
}

func (c *conversation) toolFailed(toolCallID string, p *event.ToolFailed) {
	text := p.ErrorCategory + ": " + p.Message
	if p.Advice != "" {
		text += "\n" + p.Advice
	}
	c.result(toolCallID, text, true, nil)
}

func (c *conversation) endTurn(turnID string) {
	delete(c.inputs, turnID)
	if c.running == turnID {
		c.closeStep("the turn ended before the call was carried out")
		c.running, c.current, c.steers, c.notes = "", nil, nil, nil
	}
}

// withdraw takes the input of a turn out again: a hook kept it from the model.
func (c *conversation) withdraw(turnID string) {
	if n := len(c.marks); n > 0 && c.marks[n-1].turnID == turnID {
		m := c.marks[n-1]
		clear(c.messages[m.from:])
		c.messages, c.tokens = c.messages[:m.from:m.from], m.tokens
	}
}

// compacted starts anew from the summary.
func (c *conversation) compacted(ctx context.Context, s store.Store, p *event.CompactionCompleted) error {
	summary, err := readBlob(ctx, s, p.SummaryRef, 1<<20)
	if err != nil {
		return err
	}
	var waits *model.Message // the answer whose calls wait for a person
	if c.waiting() {
		waits = c.messages[len(c.messages)-1]
	} else {
		c.closeStep("the call was not carried out")
	}
	c.messages, c.tokens, c.marks, c.covers = nil, 0, nil, p.ThroughSequence
	c.spanned = c.running
	c.appendMessage(&model.Message{Role: model.RoleUser, Text: summaryIntro + summary})
	if c.current != nil {
		c.appendMessage(&model.Message{Role: model.RoleUser, Text: "The request that you are working on:\n\n" + c.current.Text, Media: c.current.Media})
	}
	if waits != nil {
		c.appendMessage(waits)
	}
	return nil
}

// waiting reports whether a call of the last answer has no result yet.
func (c *conversation) waiting() bool {
	return slices.ContainsFunc(c.asked, func(call event.ToolCallRequest) bool { return c.results[call.ToolCallID] == nil })
}

// soFar is all that was said, with the results of the last answer's calls: what a
// summary is made of. The conversation stays as it is.
func (c *conversation) soFar() []*model.Message {
	out := slices.Clip(c.messages)
	for _, call := range c.asked {
		m := c.results[call.ToolCallID]
		if m == nil {
			m = &model.Message{Role: model.RoleTool, ToolCallID: providerID(call), ToolName: call.ToolName, Text: "The call waits for an answer."}
		}
		out = append(out, m)
	}
	return out
}

const summaryIntro = "What happened in this conversation so far, in short:\n\n"

// rolledBack cuts the removed turns off, if they are all here: a summary may stand
// for some of them.
func (c *conversation) rolledBack(p *event.RollbackCompleted) {
	first := len(c.marks) - len(p.RemovedTurns)
	if first < 0 || c.covers > p.BaselineSequence {
		c.broken = true
		return
	}
	for _, m := range c.marks[first:] {
		if !slices.Contains(p.RemovedTurns, m.turnID) {
			c.broken = true
			return
		}
	}
	if first == len(c.marks) {
		return
	}
	m := c.marks[first]
	clear(c.messages[m.from:])
	c.messages, c.tokens, c.marks = c.messages[:m.from:m.from], m.tokens, c.marks[:first]
}

// hooked adds what a hook wants the model to know.
func (c *conversation) hooked(ctx context.Context, s store.Store, turnID string, p *event.HookCompleted) error {
	if in, ok := c.inputs[turnID]; ok && p.Point == "user_prompt_submit" && p.UpdatedInputRef != "" {
		in.parts, in.ref = nil, p.UpdatedInputRef
		c.inputs[turnID] = in
	}
	if p.Point == "stop" && p.Decision == "block" {
		c.notes = append(c.notes, "You can't stop yet: "+p.Reason)
	}
	for _, ref := range p.AdditionalContext {
		text, err := readBlob(ctx, s, ref, shown)
		if err != nil {
			return err
		}
		c.notes = append(c.notes, text)
	}
	return nil
}

// turnIDs lists the turns since the last boundary, also the one that it fell into.
func (c *conversation) turnIDs() []string {
	out := make([]string, 0, len(c.marks)+1)
	if c.spanned != "" {
		out = append(out, c.spanned)
	}
	for _, m := range c.marks {
		out = append(out, m.turnID)
	}
	return out
}

// maxMedia bounds a picture or a file of an input.
const maxMedia = 8 << 20

// userMessage turns an input into a message.
func userMessage(ctx context.Context, s store.Store, in input) (*model.Message, error) {
	raw := in.parts
	if in.ref != "" {
		b, err := readBlob(ctx, s, in.ref, 64<<20)
		if err != nil {
			return nil, err
		}
		raw = event.Raw(b)
	}
	m := &model.Message{Role: model.RoleUser}
	if text, ok := onlyText(raw); ok {
		m.Text = text
		return m, nil
	}
	var parts []command.Part
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("loop: input: %w", err)
	}
	var texts []string
	for _, p := range parts {
		if text := addPart(ctx, s, m, p); text != "" {
			texts = append(texts, text)
		}
	}
	m.Text = strings.Join(texts, "\n")
	return m, nil
}

// onlyText returns the text of an input that has nothing else, as most do.
func onlyText(raw event.Raw) (text string, ok bool) {
	rest, begins := bytes.CutPrefix(raw, []byte(`[{"type":"text","text":`))
	quoted, ends := bytes.CutSuffix(rest, []byte(`}]`))
	ok = begins && ends && json.Unmarshal(quoted, &text) == nil
	return text, ok
}

// addPart adds a part that isn't text to the message, or returns its text. A
// reference was checked when the turn was submitted: it is one that the caller may
// read. What can't be read any more, the model is told.
func addPart(ctx context.Context, s store.Store, m *model.Message, p command.Part) string {
	switch {
	case p.Type == "text":
		return p.Text
	case p.Path != "":
		return "The user refers to the file " + p.Path + "."
	case p.Ref != "":
		b, err := readBlob(ctx, s, p.Ref, shown)
		if err != nil {
			return "The content at " + p.Ref + " can't be read."
		}
		return b
	case p.URL != "":
		m.Media = append(m.Media, model.Media{MediaType: p.MediaType, Name: p.Name, URL: p.URL})
	case p.Data != "":
		data, err := base64.StdEncoding.DecodeString(p.Data)
		if err != nil {
			return "A part of the input is not valid base64 and was left out."
		}
		m.Media = append(m.Media, model.Media{MediaType: p.MediaType, Name: p.Name, Data: data})
	}
	return ""
}

// readBlob reads the beginning of what is behind a reference and, if it is
// longer, its end.
func readBlob(ctx context.Context, s store.Store, ref string, limit int64) (string, error) {
	b, err := s.OpenBlob(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("loop: %s: %w", ref, err)
	}
	defer func() { _ = b.Close() }() // it was only read
	size := b.Info().Size
	if size <= limit {
		all, err := io.ReadAll(b)
		if err != nil {
			return "", fmt.Errorf("loop: %s: %w", ref, err)
		}
		return string(all), nil
	}
	head, tail := make([]byte, limit*3/4), make([]byte, limit/4)
	if _, err := io.ReadFull(b, head); err != nil {
		return "", fmt.Errorf("loop: %s: %w", ref, err)
	}
	if _, err := b.Seek(-int64(len(tail)), io.SeekEnd); err != nil {
		return "", fmt.Errorf("loop: %s: %w", ref, err)
	}
	if _, err := io.ReadFull(b, tail); err != nil {
		return "", fmt.Errorf("loop: %s: %w", ref, err)
	}
	left := size - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", strings.ToValidUTF8(string(head), ""), left, strings.ToValidUTF8(string(tail), "")), nil
}
