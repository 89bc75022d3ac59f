//go:build interopfixtures

//nolint:staticcheck // the suite also tests what the newer revision gives up
package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// form asks for one value.
func form(message, name, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []any{name},
	}}
}

// accepted returns what was filled into a form.
func accepted(responses mcp.InputResponseMap, key string) (map[string]any, bool) {
	r, ok := responses[key].(*mcp.ElicitResult)
	if !ok || r == nil || r.Action != "accept" {
		return nil, false
	}
	return r.Content, true
}

// sampled returns the text of a model's answer.
func sampled(responses mcp.InputResponseMap, key string) (string, bool) {
	var content mcp.Content
	switch r := responses[key].(type) {
	case *mcp.CreateMessageResult:
		content = r.Content
	case *mcp.CreateMessageWithToolsResult:
		if len(r.Content) > 0 {
			content = r.Content[0]
		}
	default:
		return "", false
	}
	t, ok := content.(*mcp.TextContent)
	if !ok {
		return "", false
	}
	return t.Text, true
}

// sampling asks for a model's answer.
func sampling(prompt string, tokens int64) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: tokens, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}}}
}

// addQuestions offers tools that ask the client while they run, as the older
// revisions do.
func (f *fixtures) addQuestions(srv *mcp.Server) {
	needs := func(name string) json.RawMessage {
		return encodeJSON(map[string]any{"type": "object", "properties": map[string]any{name: map[string]any{"type": "string"}}, "required": []any{name}})
	}
	addFixtureTool(srv, "test_sampling", "asks the client's model", needs("prompt"), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args := toolArguments[struct {
			Prompt string `json:"prompt"`
		}](req)
		r, err := req.Session.CreateMessage(ctx, sampling(args.Prompt, 100))
		if err != nil {
			return nil, err
		}
		answer, _ := sampled(mcp.InputResponseMap{"": r}, "")
		return textResult("LLM response: " + answer), nil
	})
	elicit := func(name, says string, schema json.RawMessage, ask func(*mcp.CallToolRequest) *mcp.ElicitParams) {
		addFixtureTool(srv, name, says, schema, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r, err := req.Session.Elicit(ctx, ask(req))
			if err != nil {
				return nil, err
			}
			return textResult(fmt.Sprintf("Elicitation completed: action=%s, content=%s", r.Action, encodeJSON(r.Content))), nil
		})
	}
	elicit("test_elicitation", "asks a person", needs("message"), func(req *mcp.CallToolRequest) *mcp.ElicitParams {
		args := toolArguments[struct {
			Message string `json:"message"`
		}](req)
		return &mcp.ElicitParams{Mode: "form", Message: args.Message, RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"username":{"type":"string","description":"User's response"},"email":{"type":"string","description":"User's email address"}},"required":["username","email"]}`)}
	})
	elicit("test_elicitation_sep1034_defaults", "asks with defaults", anything, fixedForm(defaultsForm))
	elicit("test_elicitation_sep1330_enums", "asks for choices", anything, fixedForm(choicesForm))
}

func fixedForm(schema json.RawMessage) func(*mcp.CallToolRequest) *mcp.ElicitParams {
	return func(*mcp.CallToolRequest) *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "form", Message: "Please fill this in.", RequestedSchema: schema}
	}
}

// defaultsForm has a default of each plain type, choicesForm each way to choose.
var (
	defaultsForm = json.RawMessage(`{"type":"object","properties":{
"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}},"required":[]}`)
	choicesForm = json.RawMessage(`{"type":"object","properties":{
"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}},"required":[]}`)
)

// addRounds offers tools that ask by answering, as the newer revision does: the
// client calls again with what was asked for.
func (f *fixtures) addRounds(srv *mcp.Server) {
	type answers = mcp.InputResponseMap
	round := func(name, says string, requests mcp.InputRequestMap, done func(answers) (string, bool)) {
		addFixtureTool(srv, name, says, anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if says, ok := done(req.Params.InputResponses); ok {
				return textResult(says), nil
			}
			return &mcp.CallToolResult{InputRequests: requests}, nil
		})
	}
	round("test_input_required_result_elicitation", "asks for a name", mcp.InputRequestMap{"user_name": form("What is your name?", "name", "string")}, func(a answers) (string, bool) {
		content, ok := accepted(a, "user_name")
		name, isText := content["name"].(string)
		return "Hello, " + name + "!", ok && isText
	})
	round("test_input_required_result_sampling", "asks the client's model", mcp.InputRequestMap{"capital_question": sampling("What is the capital of France?", 100)}, func(a answers) (string, bool) {
		return sampled(a, "capital_question")
	})
	round("test_input_required_result_list_roots", "asks for the roots", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}, roots)
	addFixtureTool(srv, "test_input_required_result_request_state", "keeps a state", anything, f.keepsState("state-ok"))
	addFixtureTool(srv, "test_input_required_result_tampered_state", "refuses a state that was changed", anything, f.keepsState("state-ok"))
	addFixtureTool(srv, "test_input_required_result_multiple_inputs", "asks for several things at once", anything, f.asksSeveral)
	addFixtureTool(srv, "test_input_required_result_multi_round", "asks twice", anything, f.asksTwice)
	addFixtureTool(srv, "test_input_required_result_capabilities", "asks for what the client can do", anything, asksCapable)
}

func roots(a mcp.InputResponseMap) (string, bool) {
	r, ok := a["client_roots"].(*mcp.ListRootsResult)
	if !ok || r == nil {
		return "", false
	}
	var uris []string
	for _, root := range r.Roots {
		uris = append(uris, root.URI)
	}
	return "roots: " + strings.Join(uris, " "), true
}

// sign protects a state that goes to the client and back.
func (f *fixtures) sign(state string) string {
	mac := hmac.New(sha256.New, f.key[:])
	mac.Write([]byte(state))
	return base64.RawURLEncoding.EncodeToString([]byte(state)) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verified returns a state that sign protected.
func (f *fixtures) verified(signed string) (string, error) {
	encoded, _, _ := strings.Cut(signed, ".")
	state, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || !hmac.Equal([]byte(f.sign(string(state))), []byte(signed)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState was changed"}
	}
	return string(state), nil
}

func (f *fixtures) keepsState(says string) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			if _, err := f.verified(req.Params.RequestState); err != nil {
				return nil, err
			}
			if _, ok := accepted(req.Params.InputResponses, "confirm"); ok {
				return textResult(says), nil
			}
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": form("Please confirm", "ok", "boolean")}, RequestState: f.sign("asked")}, nil
	}
}

func (f *fixtures) asksSeveral(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a := req.Params.InputResponses
	name, named := accepted(a, "user_name")
	greeting, greeted := sampled(a, "greeting")
	where, rooted := roots(a)
	if named && greeted && rooted {
		return textResult(fmt.Sprint(greeting, " ", name["name"], ", ", where)), nil
	}
	return &mcp.CallToolResult{RequestState: f.sign("several"), InputRequests: mcp.InputRequestMap{
		"user_name": form("What is your name?", "name", "string"), "greeting": sampling("Generate a greeting", 50), "client_roots": &mcp.ListRootsParams{},
	}}, nil
}

// asksTwice keeps what it heard in the state that the client brings back.
func (f *fixtures) asksTwice(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"step1": form("Step 1: What is your name?", "name", "string")}, RequestState: f.sign("")}, nil
	}
	name, err := f.verified(req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	if color, ok := accepted(req.Params.InputResponses, "step2"); ok && name != "" {
		return textResult(fmt.Sprint(name, " likes ", color["color"])), nil
	}
	if first, ok := accepted(req.Params.InputResponses, "step1"); ok {
		name = fmt.Sprint(first["name"])
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"step2": form("Step 2: What is your favorite color?", "color", "string")}, RequestState: f.sign(name)}, nil
}

// asksCapable asks for what the client says that it can do, and nothing else.
func asksCapable(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return textResult("thank you"), nil
	}
	requests := mcp.InputRequestMap{}
	if caps := req.ClientCapabilities(); caps != nil {
		if caps.Elicitation != nil {
			requests["user_name"] = form("What is your name?", "name", "string")
		}
		if caps.Sampling != nil {
			requests["greeting"] = sampling("Generate a greeting", 50)
		}
	}
	if len(requests) == 0 {
		return textResult("the client can't be asked"), nil
	}
	return &mcp.CallToolResult{InputRequests: requests}, nil
}
