//go:build interopfixtures

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addContent offers tools that return each kind of content.
func (f *fixtures) addContent(srv *mcp.Server) {
	image := &mcp.ImageContent{Data: pixel(), MIMEType: "image/png"}
	embedded := func(uri, mediaType, text string) mcp.Content {
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mediaType, Text: text}}
	}
	addFixtureTool(srv, "test_simple_text", "returns a text", anything, constantResult(&mcp.TextContent{Text: "This is a simple text response for testing."}))
	addFixtureTool(srv, "test_image_content", "returns an image", anything, constantResult(image))
	addFixtureTool(srv, "test_audio_content", "returns a sound", anything, constantResult(&mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"}))
	addFixtureTool(srv, "test_embedded_resource", "returns a resource", anything, constantResult(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")))
	addFixtureTool(srv, "test_multiple_content_types", "returns several kinds of content", anything,
		constantResult(&mcp.TextContent{Text: "Multiple content types test:"}, image, embedded("test://mixed-content-resource", jsonType, `{"test":"data","value":123}`)))
	addFixtureTool(srv, "test_error_handling", "fails", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := textResult("This tool intentionally returns an error for testing")
		res.IsError = true
		return res, nil
	})
	addFixtureTool(srv, "json_schema_2020_12_tool", "has a schema with much of the vocabulary", richSchema, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult("got " + string(req.Params.Arguments)), nil
	})
	addFixtureTool(srv, "test_x_mcp_header", "mirrors an argument into a header", headerSchema, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult("got " + string(req.Params.Arguments)), nil
	})
}

// richSchema uses keywords that must reach a client unchanged.
var richSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},
"additionalProperties":false}`)

// headerSchema has an argument that clients send as a header too.
var headerSchema = json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","description":"Sent as Mcp-Param-Region too.","x-mcp-header":"Region"},"level":{"type":"integer"}}}`)

// pauseBriefly waits a moment, as a tool at work does.
func pauseBriefly(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// addBehaviour offers tools that do something while they run.
func (f *fixtures) addBehaviour(srv *mcp.Server) {
	addFixtureTool(srv, "test_tool_with_logging", "writes log messages", anything, withLogging)
	addFixtureTool(srv, "test_logging_tool", "writes a log message", anything, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		log(ctx, req, "a message of the tool")
		return textResult("done"), nil
	})
	addFixtureTool(srv, "test_tool_with_progress", "reports progress", anything, withProgress)
	addFixtureTool(srv, "test_streaming_elicitation", "reports progress while the call is open", anything, withProgress)
	addFixtureTool(srv, "test_reconnection", "closes the stream before it answers", anything, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Extra != nil && req.Extra.CloseSSEStream != nil {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 100 * time.Millisecond})
		}
		pauseBriefly(ctx)
		return textResult("Reconnection test completed successfully"), nil
	})
	addFixtureTool(srv, "test_missing_capability", "needs a client that samples", anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if caps := req.ClientCapabilities(); caps != nil && caps.Sampling != nil { //nolint:staticcheck // the suite asks about it
			return textResult("the client samples"), nil
		}
		return nil, &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this tool needs the capability sampling",
			Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
		}
	})
}

func log(ctx context.Context, req *mcp.CallToolRequest, says string) {
	_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: "fixture", Data: says}) //nolint:staticcheck // the suite asks for it
}

func withLogging(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	for _, says := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		log(ctx, req, says)
		pauseBriefly(ctx)
	}
	return textResult("Tool with logging executed successfully"), nil
}

func withProgress(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for done := 0.0; done <= 100 && token != nil; done += 50 {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // a client may be gone
			ProgressToken: token, Progress: done, Total: 100, Message: fmt.Sprintf("%.0f of 100", done),
		})
		pauseBriefly(ctx)
	}
	return textResult(fmt.Sprint(token)), nil
}

// addChanges offers tools that change the lists of tools and prompts.
func (f *fixtures) addChanges(srv *mcp.Server) {
	addFixtureTool(srv, "test_trigger_tool_change", "changes the list of tools", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		const name = "test_tool_that_comes_and_goes"
		addFixtureTool(srv, name, "comes and goes", anything, constantResult(&mcp.TextContent{Text: "here"}))
		srv.RemoveTools(name)
		return textResult("changed"), nil
	})
	addFixtureTool(srv, "test_trigger_prompt_change", "changes the list of prompts", anything, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		const name = "test_prompt_that_comes_and_goes"
		srv.AddPrompt(&mcp.Prompt{Name: name}, fixedPrompt("comes and goes", &mcp.TextContent{Text: "here"}))
		srv.RemovePrompts(name)
		return textResult("changed"), nil
	})
}
