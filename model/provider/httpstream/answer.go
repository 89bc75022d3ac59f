package httpstream

import (
	"encoding/json"
	"slices"
	"strconv"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/model"
)

// Decoder reads one answer in a vendor's form. Its methods give what they read
// to the [Answer] and end it with [Answer.Finish]. An error that is no
// [*model.Error] counts as malformed.
type Decoder interface {
	// Event takes the next event of a stream.
	Event(e Event, a *Answer) error
	// Whole takes a body that is one JSON value, from a server that doesn't stream.
	Whole(body []byte, a *Answer) error
	// End is called when a stream has ended, or broke, before Finish. It finishes
	// the answer if all of it came, and otherwise emits nothing and returns an error.
	End(a *Answer) error
}

// Answer takes the pieces of an answer and hands them on.
type Answer struct {
	req       *model.Request
	yield     func(model.Chunk, error) bool
	stopped   bool
	text      Joiner
	reasoning Joiner
	calls     int
	written   int
	// summarised says that the reasoning is a summary.
	summarised bool
	// most bounds what is handed on.
	most  int64
	names map[string]string
	done  *model.Done
	// held is the last tool call until something follows it: only then, or at the
	// end, is it known to be whole. bare says that it came without arguments.
	held *model.ToolCall
	bare bool
}

func newAnswer(r *model.Request, yield func(model.Chunk, error) bool, most int64) *Answer {
	return &Answer{req: r, yield: yield, most: most, names: originalNames(r.Tools)}
}

// tooLong reports whether more came than an answer may hold. Nothing is handed on
// from there.
func (a *Answer) tooLong() bool { return int64(a.written) > a.most }

func (a *Answer) emit(c model.Chunk) {
	a.release()
	a.send(c)
}

func (a *Answer) send(c model.Chunk) {
	if !a.stopped && a.done == nil && !a.tooLong() && !a.yield(c, nil) {
		a.stopped = true
	}
}

// release hands on the call that was held back.
func (a *Answer) release() {
	if c := a.held; c != nil {
		a.held = nil
		a.send(model.Chunk{ToolCall: c})
	}
}

// cutCall stands for the arguments of a call whose answer ended before them.
const cutCall = "(nothing: the answer was cut off before the arguments)"

// cut marks the call with which an answer was broken off. One without arguments
// must not be taken for a call that needs none: a tool whose arguments are all
// optional would do more than was asked for.
func (a *Answer) cut(stopReason string) {
	if a.held != nil && a.bare && (stopReason == StopMaxTokens || stopReason == StopRefusal) {
		a.held.Arguments, a.held.Malformed = nil, cutCall
	}
}

// Text hands on a piece of the answer's text.
func (a *Answer) Text(t Text) {
	if s := a.text.Add(t); s != "" {
		a.endReasoning()
		a.written += len(s)
		a.emit(model.Chunk{Text: s})
	}
}

// endReasoning hands on what is held back of the reasoning: it comes before the text
// that follows it.
func (a *Answer) endReasoning() {
	if s := a.reasoning.Flush(); s != "" {
		a.emit(model.Chunk{Reasoning: s})
	}
}

// Reasoning hands on a piece of what the model says to itself.
func (a *Answer) Reasoning(t Text) {
	if s := a.reasoning.Add(t); s != "" {
		a.written += len(s)
		a.emit(model.Chunk{Reasoning: s})
	}
}

// ReasoningSummary hands on a piece of the summary that the provider makes of what the
// model says to itself.
func (a *Answer) ReasoningSummary(t Text) {
	a.summarised = true
	a.Reasoning(t)
}

// ToolCall hands on a whole tool call. It gives the call an id if it has none,
// takes no arguments for an empty object, and anything but an object for
// malformed. It returns the call as it is handed on, unless the answer turns out
// to be broken off at it.
func (a *Answer) ToolCall(id, name, arguments string) model.ToolCall {
	if id == "" {
		id = madeID(a.req, a.calls)
	}
	if original, ok := a.names[name]; ok {
		name = original
	}
	c := model.ToolCall{ProviderID: id, Name: name}
	c.Arguments, c.Malformed = parseArguments(arguments)
	a.calls++
	a.written += len(name) + len(arguments)
	a.release()
	held := c
	a.held, a.bare = &held, len(trimSpace([]byte(arguments))) == 0
	return c
}

// Calls is how many tool calls were handed on.
func (a *Answer) Calls() int { return a.calls }

// Written tells whether anything was handed on.
func (a *Answer) Written() bool { return a.written > 0 }

// Finish ends the answer; only the first call counts. An answer with tool calls
// that claims to have come to its ordinary end has stopped for them: some servers
// don't tell the two apart. Done without usage gets an estimate.
func (a *Answer) Finish(d model.Done) {
	if a.done != nil {
		return
	}
	a.cut(d.StopReason)
	a.release()
	a.endReasoning()
	if s := a.text.Flush(); s != "" {
		a.emit(model.Chunk{Text: s})
	}
	d.ReasoningSummarised = a.summarised
	switch d.StopReason {
	case StopEndTurn, StopOther:
		if a.calls > 0 {
			d.StopReason = StopToolUse
		}
	case StopToolUse:
		if a.calls == 0 {
			d.StopReason = StopEndTurn
		}
	}
	if d.Usage == (event.Usage{}) {
		d.Usage, d.Estimated = estimate(a.req, a.written), true
	}
	a.done = &d
}

// Stop reasons of model.completed.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopSequence  = "stop_sequence"
	StopRefusal   = "refusal"
	StopOther     = "other"
)

// madePrefix marks ids that were made here because the server gave none.
const madePrefix = "made_"

// madeID names a call whose server gave it no id, differently in each request.
func madeID(r *model.Request, n int) string {
	id := r.RequestID
	if id == "" {
		id = strconv.FormatInt(r.Call, 10)
	}
	if len(id) > 26 {
		id = id[len(id)-26:]
	}
	return CallID(madePrefix + id + "_" + strconv.Itoa(n))
}

// parseArguments returns the arguments of a tool call as a compact JSON object,
// or what came instead of one.
func parseArguments(s string) (arguments event.Raw, malformed string) {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal([]byte(s), &object); {
	case len(trimSpace([]byte(s))) == 0, err == nil && object == nil:
		return event.Raw("{}"), ""
	case err != nil:
		return nil, clip.Valid(s, maxMalformed)
	}
	return compactJSON([]byte(s)), ""
}

// maxMalformed is how much is kept of arguments that are no JSON object.
const maxMalformed = 32 << 10

// estimate guesses the usage at four bytes a token.
func estimate(r *model.Request, written int) event.Usage {
	const bytesPerToken, tokensPerMedia = 4, 1000
	in, media := len(r.System), 0
	for _, m := range r.Messages {
		in += len(m.Text)
		media += len(m.Media)
		for i := range m.ToolCalls {
			in += len(m.ToolCalls[i].Name) + len(m.ToolCalls[i].Arguments)
		}
	}
	for i := range r.Tools {
		in += len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema)
	}
	return event.Usage{
		InputTokens:  int64((in+bytesPerToken-1)/bytesPerToken + media*tokensPerMedia),
		OutputTokens: int64((written + bytesPerToken - 1) / bytesPerToken),
	}
}

// Fragments puts tool calls together that come in pieces, several at a time. The
// zero value is ready.
type Fragments struct {
	calls map[int]*fragment
	order []int
}

type fragment struct {
	id, name  string
	arguments []byte
	joiner    Joiner
}

// Add takes a piece of the call with the index. An id or name that comes again is
// the same one; some servers repeat them in each piece.
func (f *Fragments) Add(index int, id, name string, arguments Text) error {
	c, ok := f.calls[index]
	if !ok {
		if len(f.order) >= MaxToolCalls {
			return malformed("the answer holds more than %d tool calls", MaxToolCalls)
		}
		if f.calls == nil {
			f.calls = map[int]*fragment{}
		}
		c = &fragment{}
		f.calls[index] = c
		f.order = append(f.order, index)
	}
	if id != "" {
		c.id = id
	}
	if name != "" {
		c.name = name
	}
	c.arguments = append(c.arguments, c.joiner.Add(arguments)...)
	return nil
}

// Last returns the index of the call that began last, or -1.
func (f *Fragments) Last() int {
	if len(f.order) == 0 {
		return -1
	}
	return f.order[len(f.order)-1]
}

// ID returns the id of the call with the index.
func (f *Fragments) ID(index int) string {
	if c := f.calls[index]; c != nil {
		return c.id
	}
	return ""
}

// Find returns the index of the call with the id, or a new one.
func (f *Fragments) Find(id string) int {
	next := 0
	for _, i := range f.order {
		if f.calls[i].id == id {
			return i
		}
		next = max(next, i+1)
	}
	return next
}

// Indices returns the indices of the calls, in the order in which Flush hands them
// on.
func (f *Fragments) Indices() []int { return slices.Sorted(slices.Values(f.order)) }

// Flush hands all calls on, in the order of their indices.
func (f *Fragments) Flush(a *Answer) {
	for _, i := range f.Indices() {
		c := f.calls[i]
		a.ToolCall(c.id, c.name, string(c.arguments)+c.joiner.Flush())
	}
	f.calls, f.order = nil, nil
}
