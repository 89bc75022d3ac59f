package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"

	"agentd/command"
	"agentd/event"
	"agentd/internal/wire"
)

// balancedDoor has a client that opens it and gives one turn after the other; it does what the
// guide says when a connection breaks.
type balancedDoor struct {
	name string
	open func(context.Context, *balancedClient) (turn func(n int) error, err error)
}

// balancedDoors are all doors.
var balancedDoors = []balancedDoor{
	{"commands and server-sent events", doorHTTP},
	{"JSON-RPC", doorRPC},
	{"WebSocket", doorSocket},
	{"channel", doorChannel},
	{"the feed of all sessions", doorFeed},
	{"MCP", doorMCP},
	{"MCP with sessions", doorMCPSession},
	{"A2A", doorA2A},
	{"AG-UI", doorAGUI},
	{"OpenAI", doorOpenAI},
	{"console", doorConsole},
	{"stdio", doorStdio},
	{"ACP", doorACP},
	{"agentd run", doorRun},
}

// doorHTTP gives commands, follows each turn, and follows the session from its beginning.
func doorHTTP(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return func(n int) error {
		var res command.SubmitTurnResult
		if err := c.command(ctx, c.submitParams(n), &res); err != nil {
			return err
		}
		return c.ended(ctx, &res)
	}, nil
}

func doorRPC(ctx context.Context, c *balancedClient) (func(int) error, error) {
	return func(n int) error {
		params, err := json.Marshal(c.submitParams(n))
		if err != nil {
			return err
		}
		for try := range 100 {
			_, answer, err := c.ask(ctx, http.MethodPost, "/v1/rpc", `{"jsonrpc":"2.0","id":1,"method":"submit_turn","params":`+string(params)+`}`)
			if err != nil {
				return err
			}
			var m struct {
				Result command.SubmitTurnResult
				Error  *struct{ Data wire.Problem }
			}
			if err := json.Unmarshal([]byte(answer), &m); err != nil {
				return fmt.Errorf("%w in %s", err, answer)
			}
			if m.Error == nil {
				return c.ended(ctx, &m.Result)
			}
			if m.Error.Data.RetryAfter == 0 {
				return errors.New(answer)
			}
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		return errors.New("no answer")
	}, nil
}

// balancedSocket is a WebSocket that is opened again, behind the last event that came.
type balancedSocket struct {
	c    *balancedClient
	conn *websocket.Conn
	last uint64
}

// turn gives a turn and reads to its end, over as many connections as it takes.
func (s *balancedSocket) turn(ctx context.Context, n int) error {
	submit, err := json.Marshal(s.c.submitParams(n))
	if err != nil {
		return err
	}
	sent, done := false, ""
	for try := 0; ctx.Err() == nil; try++ {
		if s.conn == nil {
			if err := s.dial(ctx); err != nil {
				s.c.again.Add(1)
				time.Sleep(10 * time.Millisecond << min(try, 6))
				continue
			}
			sent = false
		}
		if !sent {
			sent = s.write(ctx, "2", "submit_turn", string(submit))
			continue
		}
		turnID, err := s.read(ctx, &done)
		if err != nil {
			return err
		}
		if done != "" && turnID == done {
			return nil
		}
	}
	return ctx.Err()
}

func (s *balancedSocket) dial(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, s.c.front.url+"/v1/ws", &websocket.DialOptions{ //nolint:bodyclose // Dial closes it
		HTTPHeader: http.Header{"Authorization": {"Bearer " + s.c.front.token()}},
	})
	if err != nil {
		return err
	}
	conn.SetReadLimit(-1)
	s.conn = conn
	s.write(ctx, "1", "subscribe", fmt.Sprintf(`{"sessionId":%q,"after":%d}`, s.c.session, s.last))
	return nil
}

func (s *balancedSocket) write(ctx context.Context, id, method, params string) bool {
	if s.conn == nil {
		return false
	}
	err := s.conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	if err != nil {
		s.broken()
	}
	return err == nil
}

func (s *balancedSocket) broken() {
	s.c.again.Add(1)
	_ = s.conn.CloseNow()
	s.conn = nil
}

// read takes one message. The turn that was submitted is done's, and the result is one that
// ended.
func (s *balancedSocket) read(ctx context.Context, done *string) (ended string, err error) {
	_, data, err := s.conn.Read(ctx)
	if err != nil {
		s.broken()
		return "", nil //nolint:nilerr // the next connection goes on
	}
	m, err := wire.DecodeRPCMessage(data)
	switch {
	case err != nil:
		return "", err
	case m.Error != nil:
		if f := m.Error.Err(); f.RetryAfter == 0 {
			return "", f
		}
		s.broken()
	case m.Method == "subscription.ended":
		s.broken()
	case string(m.ID) == "2":
		var res command.SubmitTurnResult
		if err := json.Unmarshal(m.Result, &res); err != nil {
			return "", err
		}
		*done = res.TurnID
	case m.Method == "event":
		var e event.Event
		if _, err := event.DecodeHeader(m.Params, &e); err != nil {
			return "", err
		}
		if e.Sequence != s.last+1 {
			return "", fmt.Errorf("the subscription has %d after %d", e.Sequence, s.last)
		}
		s.last = e.Sequence
		if e.Type == event.TypeTurnCompleted {
			return e.TurnID, nil
		}
	}
	return "", nil
}

func doorSocket(ctx context.Context, c *balancedClient) (func(int) error, error) {
	if err := c.command(ctx, &command.CreateSession{SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session}}, nil); err != nil {
		return nil, err
	}
	s := &balancedSocket{c: c}
	return func(n int) error { return s.turn(ctx, n) }, nil
}

// sse reads a stream until see says that it saw enough, over as many connections as it takes.
// Before each, begin says what to ask for.
func (c *balancedClient) sse(ctx context.Context, begin func() (method, path, body string, header []string, err error), see func(*wire.SSEFrame) (bool, error)) error {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			c.again.Add(1)
			time.Sleep(10 * time.Millisecond << min(try, 6))
		}
		method, path, body, header, err := begin()
		if err != nil {
			return err
		}
		over, err := c.sseOnce(ctx, method, path, body, header, see)
		if over || err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *balancedClient) sseOnce(ctx context.Context, method, path, body string, header []string, see func(*wire.SSEFrame) (bool, error)) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.front.url+path, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+c.front.token())
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 500 && res.StatusCode != http.StatusInternalServerError {
		return false, nil
	}
	if res.StatusCode == http.StatusConflict && strings.Contains(path, "channelId=") {
		return false, nil // the session's node stopped since: the channel comes back once more
	}
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(res.Body)
		return false, fmt.Errorf("%s: %s %s", path, res.Status, data)
	}
	frames := wire.NewSSEReader(res.Body, 0)
	for {
		f, err := frames.Next()
		if err != nil || f.Event == "problem" {
			return false, nil
		}
		if over, err := see(&f); over || err != nil {
			return over, err
		}
	}
}

// doorChannel follows its session as a channel, which comes back with its token.
func doorChannel(ctx context.Context, c *balancedClient) (func(int) error, error) {
	if err := c.command(ctx, &command.CreateSession{SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session}}, nil); err != nil {
		return nil, err
	}
	var opened command.ConnectChannelResult
	connect := &command.ConnectChannel{Transport: "sse", PeerRole: "client", SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session + "-channel"}}
	if err := c.command(ctx, connect, &opened); err != nil {
		return nil, err
	}
	last, tries := uint64(0), 0
	return func(n int) error {
		var turn command.SubmitTurnResult
		if err := c.command(ctx, c.submitParams(n), &turn); err != nil {
			return err
		}
		begin := func() (string, string, string, []string, error) {
			tries++
			err := c.command(ctx, &command.ReconnectChannel{
				ChannelID: opened.ChannelID, ResumeToken: opened.ResumeToken, SessionID: c.session, LastSequence: &last,
				Mutation: command.Mutation{IdempotencyKey: fmt.Sprintf("%s-back-%d", c.session, tries)},
			}, nil)
			return http.MethodGet, fmt.Sprintf("/v1/sessions/%s/events?channelId=%s&after=%d", c.session, opened.ChannelID, last), "", nil, err
		}
		return c.sse(ctx, begin, func(f *wire.SSEFrame) (bool, error) {
			var e event.Event
			if _, err := event.DecodeHeader(f.Data, &e); err != nil {
				return false, err
			}
			if e.Sequence != last+1 {
				return false, fmt.Errorf("the channel has %d after %d", e.Sequence, last)
			}
			last = e.Sequence
			return e.Type == event.TypeTurnCompleted && e.TurnID == turn.TurnID, nil
		})
	}, nil
}

// doorFeed follows all sessions. Each fact comes once, in order.
func doorFeed(ctx context.Context, c *balancedClient) (func(int) error, error) {
	cursor, at := "", map[string]uint64{}
	if err := c.command(ctx, &command.CreateSession{SessionID: c.session, Mutation: command.Mutation{IdempotencyKey: c.session}}, nil); err != nil {
		return nil, err
	}
	return func(n int) error {
		var turn command.SubmitTurnResult
		begin := func() (string, string, string, []string, error) {
			if cursor == "" {
				return http.MethodGet, "/v1/feed", "", nil, nil
			}
			return http.MethodGet, "/v1/feed?after=" + url.QueryEscape(cursor), "", nil, nil
		}
		if cursor != "" { // else it begins now, and the turn comes after it
			if err := c.command(ctx, c.submitParams(n), &turn); err != nil {
				return err
			}
		}
		given := cursor != ""
		submitted := make(chan error, 1)
		return c.sse(ctx, begin, func(f *wire.SSEFrame) (bool, error) {
			if !given {
				given = true
				go func() { submitted <- c.command(ctx, c.submitParams(n), &turn) }()
			}
			var e event.Event
			if _, err := event.DecodeHeader(f.Data, &e); err != nil {
				return false, err
			}
			cursor = f.ID
			if before := at[e.SessionID]; before != 0 && e.Sequence != before+1 {
				return false, fmt.Errorf("the feed has %d after %d of %s", e.Sequence, before, e.SessionID)
			}
			at[e.SessionID] = e.Sequence
			if e.Type != event.TypeTurnCompleted || e.SessionID != c.session {
				return false, nil
			}
			if turn.TurnID == "" {
				if err := <-submitted; err != nil {
					return false, err
				}
			}
			return e.TurnID == turn.TurnID, nil
		})
	}, nil
}
