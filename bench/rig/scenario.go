package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scenario is what the fake model answers. The zero value answers "done".
type Scenario struct {
	// Tool is the tool that the first answer of a turn calls, with the arguments as
	// JSON; without one the turn has a single answer.
	Tool, Arguments string
	// Tokens is the length of the last answer, one every Every. Without them it is
	// one word, written at once.
	Tokens int
	Every  time.Duration
	// Delay is how long the provider thinks before each answer.
	Delay time.Duration
}

// answers are the bodies of a scenario, in both protocols.
type answers struct {
	Scenario
	chatCall, chatText           []byte
	responsesCall, responsesText []byte
}

func prepare(s Scenario) *answers {
	return &answers{
		Scenario: s, chatCall: chatCall(s), chatText: chatText("done"),
		responsesCall: responsesCall(s), responsesText: responsesText("done"),
	}
}

// The usage is the same in all answers: what it says is not measured.
const chatUsage = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105}}`

func chatCall(s Scenario) []byte {
	return frames(
		chatChunk(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":`+quoted(s.Tool)+`,"arguments":""}}]}`, "null"),
		chatChunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+quoted(s.Arguments)+`}}]}`, "null"),
		chatChunk(`{}`, `"tool_calls"`), chatUsage, "[DONE]")
}

func chatText(text string) []byte {
	return frames(chatChunk(`{"role":"assistant","content":`+quoted(text)+`}`, "null"), chatChunk(`{}`, `"stop"`), chatUsage, "[DONE]")
}

func chatChunk(delta, finish string) string {
	return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`
}

func responsesCall(s Scenario) []byte {
	return responses(`{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_1","name":` + quoted(s.Tool) + `,"arguments":` + quoted(s.Arguments) + `}`)
}

func responsesText(text string) []byte {
	return responses(`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":` + quoted(text) + `,"annotations":[]}]}`)
}

// responses is an answer of one item in the other protocol.
func responses(item string) []byte {
	return frames(
		`{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m","output":[]}}`,
		`{"type":"response.output_item.done","sequence_number":1,"output_index":0,"item":`+item+`}`,
		`{"type":"response.completed","sequence_number":2,"response":{"id":"r","object":"response","status":"completed","model":"m","output":[`+item+`],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":105}}}`,
	)
}

// frames are server-sent events; those of the second protocol are named by their
// type.
func frames(data ...string) []byte {
	var b bytes.Buffer
	for _, d := range data {
		var typed struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(d), &typed); err == nil && typed.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", typed.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.Bytes()
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a form in JSON
	}
	return string(b)
}

// A streamed answer says when it began, in microseconds, and then counts, so that
// whoever reads it knows when each token was due.
const (
	stampWidth = 17 // sixteen digits and a space
	tokenWidth = 5  // four digits and a space
)

func token(n int, began time.Time) string {
	if n == 0 {
		return fmt.Sprintf("%016d ", began.UnixMicro())
	}
	return fmt.Sprintf("%04d ", n%10_000)
}

// Due reads the pieces of one streamed answer and tells when their tokens were
// due.
type Due struct {
	every time.Duration
	began time.Time
	next  int
	rest  string
}

// NewDue returns a reader of an answer with a token every so often.
func NewDue(every time.Duration) *Due { return &Due{every: every} }

// Add reads a piece of the answer and calls late with the time at which each of
// its tokens was due.
func (d *Due) Add(piece string, due func(time.Time)) error {
	d.rest += piece
	for {
		width := tokenWidth
		if d.next == 0 {
			width = stampWidth
		}
		if len(d.rest) < width {
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimRight(d.rest[:width], " "), 10, 64)
		if err != nil {
			return fmt.Errorf("token %d: %w", d.next, err)
		}
		if d.next == 0 {
			d.began = time.UnixMicro(n)
		} else if int(n) != d.next%10_000 {
			return fmt.Errorf("got token %d, want %d", n, d.next)
		}
		due(d.began.Add(time.Duration(d.next) * d.every))
		d.rest = d.rest[width:]
		d.next++
	}
}

// Tokens is how many were read.
func (d *Due) Tokens() int { return d.next }
