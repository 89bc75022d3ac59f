//go:build interopfixtures

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addResources offers fixed resources and one that is made on demand.
func (f *fixtures) addResources(srv *mcp.Server) {
	fixed := func(uri, name, mediaType string, c mcp.ResourceContents) {
		srv.AddResource(&mcp.Resource{URI: uri, Name: name, MIMEType: mediaType, Description: "Conformance fixture."}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			content := c
			content.URI, content.MIMEType = uri, mediaType
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&content}}, nil
		})
	}
	fixed("test://static-text", "static-text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	fixed("test://static-binary", "static-binary", "image/png", mcp.ResourceContents{Blob: pixel()})
	fixed(watchedURI, "watched-resource", "text/plain", mcp.ResourceContents{Text: "It changes every few seconds."})
	const before, after = "test://template/", "/data"
	srv.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: before + "{id}" + after, Name: "template", MIMEType: jsonType, Description: "Conformance fixture."}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, before), after)
		body, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: jsonType, Text: string(body)}}}, nil
	})
}

// fixedPrompt is a prompt with fixed messages.
func fixedPrompt(says string, content ...mcp.Content) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return promptMessages(says, content...), nil
	}
}

func promptMessages(says string, content ...mcp.Content) *mcp.GetPromptResult {
	res := &mcp.GetPromptResult{Description: says}
	for _, c := range content {
		res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: c})
	}
	return res
}

// addPrompts offers prompts.
func (f *fixtures) addPrompts(srv *mcp.Server) {
	srv.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "Conformance fixture: has no arguments."},
		fixedPrompt("A simple prompt", &mcp.TextContent{Text: "This is a simple prompt for testing."}))
	srv.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "Conformance fixture: has an image."},
		fixedPrompt("A prompt with an image", &mcp.ImageContent{Data: pixel(), MIMEType: "image/png"}, &mcp.TextContent{Text: "Please analyze the image above."}))
	srv.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "Conformance fixture: has arguments.",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Required: true}, {Name: "arg2", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		a := req.Params.Arguments
		return promptMessages("A prompt with arguments", &mcp.TextContent{Text: fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])}), nil
	})
	srv.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "Conformance fixture: has a resource.",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Required: true}},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		embedded := &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: req.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}}
		return promptMessages("A prompt with a resource", embedded, &mcp.TextContent{Text: "Please process the embedded resource above."}), nil
	})
	srv.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Conformance fixture: asks for a context first."},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if content, ok := accepted(req.Params.InputResponses, "user_context"); ok {
				return promptMessages("A prompt with a context", &mcp.TextContent{Text: fmt.Sprint("Context: ", content["context"])}), nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": form("Which context?", "context", "string")}}, nil
		})
}
