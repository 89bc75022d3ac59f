package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/internal/wire"
)

func doorMCP(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return func(n int) error {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"name":"run_turn","arguments":` +
			fmt.Sprintf(`{"sessionId":%q,"create":true,"input":"go on","idempotencyKey":%q}`, c.session, c.key(n)) + `}}`
		for try := range 100 {
			_, answer, err := c.ask(ctx, http.MethodPost, mcpPath, body, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "run_turn")
			switch {
			case err != nil:
				return err
			case strings.Contains(answer, `"completed"`):
				return nil
			case !strings.Contains(answer, `"retryAfter":`) && strings.Contains(answer, "}"):
				return errors.New(answer)
			}
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		return errors.New("no answer")
	}, nil
}

// doorMCPSession uses a revision with sessions: one whose node is gone is opened again.
func doorMCPSession(ctx context.Context, c *balancedClient) (func(int) error, error) {
	var s *mcp.ClientSession
	return func(n int) error {
		var err error
		for try := range 100 {
			if s == nil {
				transport := &mcp.StreamableClientTransport{Endpoint: c.front.url + mcpPath, HTTPClient: &http.Client{Transport: tokenTransport{c.front.token(), http.DefaultTransport}}}
				if s, err = mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}); err != nil {
					s = nil
				}
			}
			if s != nil {
				var res *mcp.CallToolResult
				res, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"sessionId": c.session, "create": true, "input": "go on", "idempotencyKey": c.key(n)}})
				if err == nil && !res.IsError {
					return nil
				}
				if err == nil {
					text, _ := json.Marshal(res)
					if !strings.Contains(string(text), `"retryAfter":`) {
						return errors.New(string(text))
					}
				}
				_ = s.Close()
				s = nil
			}
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		return fmt.Errorf("no answer: %w", err)
	}, nil
}

// doorA2A sends messages, every other one with a stream. A message that is sent again leads to
// the same task.
func doorA2A(ctx context.Context, c *balancedClient) (func(int) error, error) {
	version := []string{"A2A-Version", "1.0"}
	contextID := c.session
	return func(n int) error {
		key := fmt.Sprintf("%s-%d", contextID, n)
		body := fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","contextId":%q,"parts":[{"text":"go on"}]}}`, key, contextID)
		if n%2 == 1 {
			begin := func() (string, string, string, []string, error) {
				return http.MethodPost, "/a2a/rest/message:stream", body, version, nil
			}
			return c.sse(ctx, begin, func(f *wire.SSEFrame) (bool, error) {
				return strings.Contains(string(f.Data), "TASK_STATE_COMPLETED"), nil
			})
		}
		status, answer, err := c.ask(ctx, http.MethodPost, "/a2a/rest/message:send", body, version...)
		for try := 0; err == nil && status == http.StatusOK && !strings.Contains(answer, "TASK_STATE_COMPLETED") && try < 100; try++ {
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
			status, answer, err = c.ask(ctx, http.MethodPost, "/a2a/rest/message:send", body, version...)
		}
		if err == nil && !strings.Contains(answer, "TASK_STATE_COMPLETED") {
			err = fmt.Errorf("%d %s", status, answer)
		}
		if err != nil {
			return err
		}
		var res struct {
			Task struct {
				Metadata struct {
					Agentd struct{ SessionID string }
				}
			}
		}
		err = json.Unmarshal([]byte(answer), &res)
		c.session = res.Task.Metadata.Agentd.SessionID
		return err
	}, nil
}

func doorAGUI(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return func(n int) error {
		body := fmt.Sprintf(`{"threadId":%q,"runId":%q,"messages":[{"id":"m","role":"user","content":"go on"}],"forwardedProps":{"onDisconnect":"continue"}}`, c.session, c.key(n))
		begin := func() (string, string, string, []string, error) { return http.MethodPost, "/agui", body, nil, nil }
		return c.sse(ctx, begin, func(f *wire.SSEFrame) (bool, error) {
			if strings.Contains(string(f.Data), `"RUN_ERROR"`) && !strings.Contains(string(f.Data), "is stopping") {
				return false, errors.New(string(f.Data))
			}
			return strings.Contains(string(f.Data), `"RUN_FINISHED"`), nil
		})
	}, nil
}

// doorOpenAI asks for responses and completions, in one piece and as a stream.
func doorOpenAI(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return func(n int) error {
		path, body, end := "/v1/responses", fmt.Sprintf(`{"model":"agentd","input":"go on","stream":%v,"metadata":{"session_id":%q}}`, n%4 == 1, c.session), `"response.completed"`
		if n%4 > 1 {
			path, body, end = "/v1/chat/completions", fmt.Sprintf(`{"model":"agentd","messages":[{"role":"user","content":"go on"}],"stream":%v,"metadata":{"session_id":%q}}`, n%4 == 3, c.session), "[DONE]"
		}
		key := []string{"Idempotency-Key", c.key(n)}
		if n%2 == 1 {
			begin := func() (string, string, string, []string, error) { return http.MethodPost, path, body, key, nil }
			return c.sse(ctx, begin, func(f *wire.SSEFrame) (bool, error) {
				return strings.Contains(f.Event+string(f.Data), strings.Trim(end, `"`)), nil
			})
		}
		for try := range 100 {
			status, answer, err := c.ask(ctx, http.MethodPost, path, body, key...)
			if err != nil || status == http.StatusOK {
				return err
			}
			if status != http.StatusServiceUnavailable || !strings.Contains(answer, "is stopping") {
				return fmt.Errorf("%d %s", status, answer)
			}
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		return errors.New("no answer")
	}, nil
}

// doorConsole logs in once, loads the page, and gives commands with the cookie.
func doorConsole(ctx context.Context, c *balancedClient) (func(int) error, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar}
	do := func(method, path, body string) (answer string, err error) {
		for try := range 200 {
			var req *http.Request
			if req, err = http.NewRequestWithContext(ctx, method, c.front.url+path, strings.NewReader(body)); err != nil {
				return "", err
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Sec-Fetch-Site", "same-origin")
			req.Header.Set("X-Agentd-Console", "1")
			var res *http.Response
			if res, err = browser.Do(req); err == nil {
				var data []byte
				data, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err == nil && res.StatusCode == http.StatusOK {
					return string(data), nil
				}
				if err == nil && res.StatusCode < 502 {
					return "", fmt.Errorf("%s: %s %s", path, res.Status, data)
				}
			}
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		return "", fmt.Errorf("%s is not answered: %w", path, err)
	}
	if _, err := do(http.MethodPost, "/ui/login", fmt.Sprintf(`{"token":%q}`, c.front.token())); err != nil {
		return nil, err
	}
	return func(n int) error {
		if _, err := do(http.MethodGet, "/ui/", ""); err != nil {
			return err
		}
		params, err := json.Marshal(c.submitParams(n))
		if err != nil {
			return err
		}
		answer, err := do(http.MethodPost, "/v1/commands/submit_turn", string(params))
		if err != nil {
			return err
		}
		var turn command.SubmitTurnResult
		if err := json.Unmarshal([]byte(answer), &turn); err != nil {
			return err
		}
		return c.ended(ctx, &turn)
	}, nil
}
