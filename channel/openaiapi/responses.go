package openaiapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"agentd/channel/turnview"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// responsePrefix begins the ids of responses.
const responsePrefix = "resp_"

// responseRequest is the part of a request that has an effect, or that is refused.
type responseRequest struct {
	Model              string            `json:"model"`
	Input              json.RawMessage   `json:"input"`
	Instructions       string            `json:"instructions"`
	PreviousResponseID string            `json:"previous_response_id"`
	Conversation       json.RawMessage   `json:"conversation"`
	Stream             bool              `json:"stream"`
	Background         bool              `json:"background"`
	Metadata           map[string]string `json:"metadata"`
	Text               *struct {
		Format *struct {
			Type   string    `json:"type"`
			Schema event.Raw `json:"schema"`
		} `json:"format"`
	} `json:"text"`
	refusable
}

// items reads the input: a text, or a list of messages.
func (q *responseRequest) items() ([]said, error) {
	var text string
	if json.Unmarshal(q.Input, &text) == nil {
		s := said{role: "user"}
		s.add(command.Part{Type: "text", Text: text})
		return []said{s}, nil
	}
	var items []struct {
		Type    string          `json:"type"`
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(q.Input, &items) != nil {
		return nil, fault.Param("input", "is neither a string nor a list of messages")
	}
	var out []said
	for i := range items {
		at := fmt.Sprintf("input[%d]", i)
		if items[i].Type == "reasoning" {
			continue // what an earlier answer thought comes back with it
		}
		if items[i].Type != "" && items[i].Type != "message" {
			return nil, fault.Param(at+".type", "%q is not supported; use message", wire.Clip(items[i].Type))
		}
		if err := checkRole(at, items[i].Role); err != nil {
			return nil, err
		}
		s := said{role: items[i].Role}
		if err := readContent(&s, at+".content", items[i].Content); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// conversation is the session that the request names as its conversation.
func (q *responseRequest) conversation() (string, error) {
	if len(q.Conversation) == 0 || string(q.Conversation) == "null" {
		return "", nil
	}
	var id string
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(q.Conversation, &id) != nil && json.Unmarshal(q.Conversation, &object) == nil {
		id = object.ID
	}
	if !event.ValidID(id) {
		return "", fault.Param("conversation", "is not an id")
	}
	if q.PreviousResponseID != "" {
		return "", fault.Param("conversation", "give either conversation or previous_response_id, not both")
	}
	return id, nil
}

// placeOf finds where the conversation goes on.
func (a *API) placeOf(r *http.Request, c command.Caller, q *responseRequest) (place, error) {
	session, err := q.conversation()
	if err != nil {
		return place{}, err
	}
	if session != "" {
		return place{sessionID: session, known: true}, nil
	}
	if q.PreviousResponseID != "" {
		sessionID, turnID, err := parseID(responsePrefix, q.PreviousResponseID)
		if err != nil {
			return place{}, err
		}
		return a.branch(r.Context(), c, r, sessionID, turnID)
	}
	return a.namedSession(r.Context(), c, r, q.Metadata)
}

func (a *API) askedResponse(r *http.Request, c command.Caller, q *responseRequest) (*asked, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	items, err := q.items()
	if err != nil {
		return nil, err
	}
	out := &asked{model: q.Model, metadata: q.Metadata, api: "openai.responses", background: q.Background}
	if q.Text != nil && q.Text.Format != nil {
		if out.schema, err = schemaOf("text.format", q.Text.Format.Type, q.Text.Format.Schema); err != nil {
			return nil, err
		}
	}
	if out.place, err = a.placeOf(r, c, q); err != nil {
		return nil, err
	}
	out.input, err = inputOf(items, q.Instructions, out.place.known)
	return out, err
}

func (a *API) createResponse(w http.ResponseWriter, r *http.Request, c command.Caller) error {
	var q responseRequest
	in, turn, err := beginRequest(a, w, r, c, &q, a.askedResponse)
	if err != nil {
		return err
	}
	res := a.newResponse(turn.SessionID, turn.TurnID, &q)
	if q.Stream {
		return a.streamResponse(w, r, c, turn, &responseStream{response: res, whole: len(in.schema) > 0, background: q.Background})
	}
	if q.Background {
		res.Status = "queued"
		writeJSON(w, http.StatusOK, res)
		return nil
	}
	o, err := a.followToEnd(r, c, turn)
	if err != nil {
		return err
	}
	res.finish(o)
	writeJSON(w, http.StatusOK, res)
	return nil
}

// response is a response as a whole.
type response struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	CreatedAt          int64             `json:"created_at"`
	Status             string            `json:"status"`
	Background         bool              `json:"background"`
	Error              *responseError    `json:"error"`
	IncompleteDetails  *incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	Model              string            `json:"model"`
	Output             []outputItem      `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Conversation       *conversation     `json:"conversation"`
	Tools              []struct{}        `json:"tools"`
	ToolChoice         string            `json:"tool_choice"`
	Metadata           map[string]string `json:"metadata"`
	Usage              *responseUsage    `json:"usage"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type conversation struct {
	ID string `json:"id"`
}

// outputItem is a message, or the reasoning before one.
type outputItem struct {
	ID      string        `json:"id"`
	Type    string        `json:"type"`
	Status  string        `json:"status"`
	Role    string        `json:"role,omitempty"`
	Content []outputText  `json:"content,omitzero"`
	Summary []summaryText `json:"summary,omitzero"`
}

type outputText struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
}

type summaryText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type responseUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int64 `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int64 `json:"total_tokens"`
}

func (a *API) newResponse(sessionID, turnID string, q *responseRequest) *response {
	res := &response{
		ID: answerID(responsePrefix, sessionID, turnID), Object: "response", CreatedAt: a.opt.Clock().Unix(), Status: "in_progress",
		Background: q.Background, Model: q.Model, Output: []outputItem{}, Tools: []struct{}{}, ToolChoice: "auto",
		Conversation: &conversation{sessionID}, Metadata: q.Metadata,
	}
	if res.Model == "" {
		res.Model = AgentModel
	}
	if res.Metadata == nil {
		res.Metadata = map[string]string{}
	}
	if q.Instructions != "" {
		res.Instructions = &q.Instructions
	}
	if q.PreviousResponseID != "" {
		res.PreviousResponseID = &q.PreviousResponseID
	}
	return res
}

// itemOf is a part of a model call's answer as an item.
func itemOf(callID string, kind turnview.PartKind, status, text string) outputItem {
	if kind == turnview.Reasoning {
		return outputItem{ID: "rs_" + callID, Type: "reasoning", Status: "completed", Summary: []summaryText{{"summary_text", text}}}
	}
	return messageItem(callID, status, text)
}

func messageItem(id, status, text string) outputItem {
	return outputItem{ID: "msg_" + id, Type: "message", Status: status, Role: "assistant", Content: []outputText{textPart(text)}}
}

func textPart(text string) outputText { return outputText{"output_text", text, []struct{}{}} }

// items returns what a turn said so far.
func (o *outcome) items() []outputItem {
	out := []outputItem{}
	if structured := o.structured(); len(structured) > 0 {
		return append(out, messageItem("structured", "completed", string(structured)))
	}
	for i := range o.Calls {
		call := &o.Calls[i]
		if call.Failed {
			continue
		}
		for _, p := range call.Parts {
			status := "completed"
			if p.Open {
				status = "in_progress"
			}
			out = append(out, itemOf(call.ID, p.Kind, status, string(p.Content)))
		}
	}
	return out
}

// finish fills in how a turn ended.
func (res *response) finish(o *outcome) {
	res.Output = o.items()
	res.Status = "completed"
	switch failure := o.failed(); {
	case o.End == nil:
		res.Status = "in_progress"
		return
	case failure != nil && o.End.Category() == "interrupted":
		res.Status = "cancelled"
	case failure != nil:
		res.Status, res.Error = "failed", &responseError{*failure.Code, failure.Message}
	case finishReason(o) == "length":
		res.Status, res.IncompleteDetails = "incomplete", &incomplete{"max_output_tokens"}
	case finishReason(o) == "content_filter":
		res.Status, res.IncompleteDetails = "incomplete", &incomplete{"content_filter"}
	}
	u := o.End.Usage()
	res.Usage = &responseUsage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	res.Usage.InputDetails.CachedTokens, res.Usage.OutputDetails.ReasoningTokens = u.CachedInputTokens, u.ReasoningTokens
}
