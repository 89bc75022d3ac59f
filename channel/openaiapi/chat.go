package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// chatRequest is the part of a chat completion request that has an effect, or
// that is refused.
type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		ToolCalls json.RawMessage `json:"tool_calls"`
	} `json:"messages"`
	Stream        bool `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat *struct {
		Type       string `json:"type"`
		JSONSchema *struct {
			Schema event.Raw `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	Metadata map[string]string `json:"metadata"`
	refusable
}

// refusable is what neither API does here.
type refusable struct {
	N         int               `json:"n"`
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
	Logprobs  bool              `json:"logprobs"`
	Audio     json.RawMessage   `json:"audio"`
}

// check refuses what would otherwise silently not happen.
func (q *refusable) check() error {
	switch {
	case len(q.Tools)+len(q.Functions) > 0:
		return fault.Param("tools", "tools of the client are not supported: the agent's tools run inside agentd")
	case q.N > 1:
		return fault.Param("n", "only 1 answer is supported, not %d", q.N)
	case q.Logprobs:
		return fault.Param("logprobs", "are not supported")
	case len(q.Audio) > 0 && string(q.Audio) != "null":
		return fault.Param("audio", "is not supported")
	}
	return nil
}

func checkRole(at, role string) error {
	switch role {
	case "system", "developer", "user", "assistant":
		return nil
	}
	return fault.Param(at+".role", "%q is not supported; use system, developer, user or assistant", wire.Clip(role))
}

// messages reads the conversation.
func (q *chatRequest) messages() ([]said, error) {
	var out []said
	for i := range q.Messages {
		m := &q.Messages[i]
		at := fmt.Sprintf("messages[%d]", i)
		s := said{role: m.Role}
		if err := checkRole(at, m.Role); err != nil {
			return nil, err
		}
		if err := readContent(&s, at+".content", m.Content); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// schema is the JSON Schema that the answer must satisfy, if one is asked for.
func (q *chatRequest) schema() (event.Raw, error) {
	f := q.ResponseFormat
	if f == nil {
		return nil, nil
	}
	var given event.Raw
	if f.JSONSchema != nil {
		given = f.JSONSchema.Schema
	}
	return schemaOf("response_format", f.Type, given)
}

func schemaOf(at, kind string, given event.Raw) (event.Raw, error) {
	switch kind {
	case "", "text":
		return nil, nil
	case "json_object":
		return event.Raw(`{"type":"object"}`), nil
	case "json_schema":
		if len(given) == 0 || given[0] != '{' {
			return nil, fault.Param(at, "the schema is missing")
		}
		return given, nil
	}
	return nil, fault.Param(at+".type", "%q is not known", wire.Clip(kind))
}

// asked turns the request into ours.
func (a *API) askedChat(r *http.Request, c command.Caller, q *chatRequest) (*asked, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	messages, err := q.messages()
	if err != nil {
		return nil, err
	}
	out := &asked{model: q.Model, metadata: q.Metadata, api: "openai.chat"}
	if out.schema, err = q.schema(); err != nil {
		return nil, err
	}
	if out.place, err = a.namedSession(r.Context(), c, r, q.Metadata); err != nil {
		return nil, err
	}
	out.input, err = inputOf(messages, "", out.place.known)
	return out, err
}

func (a *API) chat(w http.ResponseWriter, r *http.Request, c command.Caller) error {
	var q chatRequest
	in, turn, err := beginRequest(a, w, r, c, &q, a.askedChat)
	if err != nil {
		return err
	}
	answer := &chatAnswer{
		ID: answerID("chatcmpl-", turn.SessionID, turn.TurnID), Created: a.opt.Clock().Unix(), Model: in.model,
	}
	if answer.Model == "" {
		answer.Model = AgentModel
	}
	if q.Stream {
		usage := q.StreamOptions != nil && q.StreamOptions.IncludeUsage
		return a.streamChat(w, r, c, turn, &chatStream{chatAnswer: answer, usage: usage, whole: len(in.schema) > 0})
	}
	o, err := a.followToEnd(r, c, turn)
	if err != nil {
		return err
	}
	answer.Object = "chat.completion"
	answer.Usage = usageOf(o.End.Usage())
	reason := finishReason(o)
	answer.Choices = []chatChoice{{Message: &chatMessage{Role: "assistant", Content: o.text()}, FinishReason: &reason}}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

// setTurnHeaders names session and turn in the answer's head.
func setTurnHeaders(w http.ResponseWriter, t *command.SubmitTurnResult) {
	w.Header().Set(HeaderSession, t.SessionID)
	w.Header().Set(HeaderTurn, t.TurnID)
}

// chatAnswer is an answer, or a chunk of one.
type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatDelta   `json:"delta,omitempty"`
	Logprobs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

type chatMessage struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// usageOf is what all model calls of a turn used.
func usageOf(u event.Usage) *chatUsage {
	out := &chatUsage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	out.PromptDetails.CachedTokens, out.CompletionDetails.ReasoningTokens = u.CachedInputTokens, u.ReasoningTokens
	return out
}

// finishReason says in the API's words why the answer ended.
func finishReason(o *outcome) string {
	if o.End.Failed != nil {
		return "length" // a failure that is told here is the bound of steps
	}
	if last := o.Last(); last != nil {
		switch last.Answer.StopReason {
		case "max_tokens":
			return "length"
		case "refusal":
			return "content_filter"
		}
	}
	return "stop"
}
