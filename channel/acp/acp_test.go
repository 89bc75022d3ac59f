package acp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"agentd/channel/acp"
	"agentd/command"
	"agentd/internal/adaptertest"
	"agentd/internal/leaktest"
	"agentd/model/provider/script"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// line is any message.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// peer is a client that speaks raw lines.
type testClient struct {
	*testing.T
	in     *io.PipeWriter
	lines  *bufio.Scanner
	served chan error
	nextID int
	// aside are messages that came while another was waited for.
	aside []line
	once  sync.Once
}

func connect(t *testing.T, rt command.Runtime) *testClient {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	p := &testClient{T: t, in: inWrite, lines: bufio.NewScanner(outRead), served: make(chan error, 1)}
	p.lines.Buffer(nil, 1<<20)
	a := acp.New(acp.Options{Runtime: rt, Caller: command.Local(), Version: "test"})
	go func() {
		err := a.Serve(t.Context(), inRead, outWrite)
		_ = outWrite.Close()
		p.served <- err
	}()
	t.Cleanup(p.leave)
	return p
}

// leave ends the input and waits for the agent.
func (p *testClient) leave() {
	p.once.Do(func() {
		_ = p.in.Close()
		for p.lines.Scan() {
			continue // what it still says, nobody hears
		}
		if err := <-p.served; err != nil {
			p.Errorf("Serve: %v", err)
		}
	})
}

func (p *testClient) send(text string) {
	p.Helper()
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.Fatal(err)
	}
}

// next returns the first message that fits.
func (p *testClient) next(fits func(*line) bool) line {
	p.Helper()
	for i := range p.aside {
		if fits(&p.aside[i]) {
			m := p.aside[i]
			p.aside = append(p.aside[:i], p.aside[i+1:]...)
			return m
		}
	}
	for p.lines.Scan() {
		var m line
		if err := json.Unmarshal(p.lines.Bytes(), &m); err != nil {
			p.Fatalf("%v: %s", err, p.lines.Bytes())
		}
		if fits(&m) {
			return m
		}
		p.aside = append(p.aside, m)
	}
	p.Fatal("the agent ended")
	return line{}
}

func (p *testClient) answerTo(id string) line {
	p.Helper()
	return p.next(func(m *line) bool { return m.Method == "" && string(m.ID) == id })
}

func (p *testClient) awaitRequest(method string) line {
	p.Helper()
	return p.next(func(m *line) bool { return m.Method == method })
}

// ask sends a request and returns its answer's id.
func (p *testClient) ask(method, params string) string {
	p.Helper()
	p.nextID++
	id := fmt.Sprint(p.nextID)
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return id
}

// open initializes and opens a session.
func (p *testClient) open(capabilities string) string {
	p.Helper()
	p.answerTo(p.ask("initialize", `{"protocolVersion":1,"clientCapabilities":`+capabilities+`}`))
	m := p.answerTo(p.ask("session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, p.TempDir())))
	var s struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(m.Result, &s); err != nil || s.SessionID == "" {
		p.Fatalf("%v: %+v", err, m)
	}
	return s.SessionID
}

func (p *testClient) prompt(sessionID, text string) string {
	p.Helper()
	return p.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}`, sessionID, text))
}

func (p *testClient) refused(m line, code int) {
	p.Helper()
	if m.Error == nil || m.Error.Code != code || m.Error.Message == "" {
		p.Fatalf("got %+v %s, want error %d", m.Error, m.Result, code)
	}
}

func TestWhatIsNoMessageIsAnsweredAndPassedOver(t *testing.T) {
	p := connect(t, adaptertest.Open(t))
	for _, c := range []struct {
		line string
		id   string
		code int
	}{
		{`garbage`, "null", -32700},
		{`{"jsonrpc":"2.0","id":`, "null", -32700},
		{`[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`, "null", -32600},
		{`"text"`, "null", -32600},
		{`{"id":7,"method":"initialize"}`, "7", -32600},
		{`{"jsonrpc":"2.0","id":8}`, "8", -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"initialize"}`, "null", -32600},
		{`{"jsonrpc":"2.0","id":9,"method":5}`, "9", -32600},
		{`{"jsonrpc":"2.0","id":"a","method":"session/list","params":{}}`, `"a"`, -32600}, // not initialized
		{`{"jsonrpc":"2.0","id":10,"method":"initialize","params":[]}`, "10", -32602},
		{`{"jsonrpc":"2.0","id":11,"method":"initialize","params":{"protocolVersion":"one"}}`, "11", -32602},
		{`{"jsonrpc":"2.0","id":12,"method":"nothing","params":{}}`, "12", -32601},
	} {
		p.send(c.line)
		p.refused(p.answerTo(c.id), c.code)
	}
	p.send("")                                                                      // empty lines are no messages
	p.send(`{"jsonrpc":"2.0","method":"unknown/notification"}`)                     // neither answered
	p.send(`{"jsonrpc":"2.0","id":99,"result":{}}`)                                 // nor this
	p.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":""}}`) // nor that
	m := p.answerTo(p.ask("initialize", `{"protocolVersion":7}`))
	if !strings.Contains(string(m.Result), `"protocolVersion":1,`) {
		t.Errorf("%s", m.Result)
	}
}

func TestALineOverTheBoundIsSkipped(t *testing.T) {
	p := connect(t, adaptertest.Open(t))
	sent := make(chan struct{})
	go func() { // the answer comes while the line is still being sent
		defer close(sent)
		chunk := strings.Repeat("x", 1<<20)
		for range 65 {
			_, _ = io.WriteString(p.in, chunk)
		}
		_, _ = io.WriteString(p.in, "\n")
	}()
	p.refused(p.answerTo("null"), -32700)
	<-sent
	p.answerTo(p.ask("initialize", `{"protocolVersion":1}`))
}

func TestAClientThatIsGoneLeavesTheTurn(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}},
		script.Answer{Text: "Written."})
	p := connect(t, rt)
	id := p.open("{}")
	p.prompt(id, "write")
	p.awaitRequest("session/request_permission")
	p.leave()

	// Nothing was decided for the client.
	res, err := rt.Do(t.Context(), command.Local(), &command.ListActions{SessionID: id, Status: "pending"})
	if err != nil || len(res.(*command.ListActionsResult).Actions) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	again := connect(t, rt)
	again.answerTo(again.ask("initialize", `{"protocolVersion":1}`))
	again.refused(again.answerTo(again.ask("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":"/elsewhere"}`, id))), -32602)
	var list struct {
		Sessions []struct{ SessionID, Cwd string }
	}
	if err := json.Unmarshal(again.answerTo(again.ask("session/list", "{}")).Result, &list); err != nil || len(list.Sessions) != 1 {
		t.Fatalf("%v %+v", err, list)
	}
	again.answerTo(again.ask("session/resume", fmt.Sprintf(`{"sessionId":%q,"cwd":%q}`, id, list.Sessions[0].Cwd)))
	m := again.awaitRequest("session/request_permission")
	// A prompt behind it waits for its turn.
	prompt := again.prompt(id, "hello")
	again.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, m.ID))
	again.next(func(m *line) bool { return strings.Contains(string(m.Params), "Written.") })
	if m := again.answerTo(prompt); !strings.Contains(string(m.Result), "end_turn") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
}

func TestWhatIsNoClearYesIsNone(t *testing.T) {
	for name, answer := range map[string]string{
		"an unknown option": `"result":{"outcome":{"outcome":"selected","optionId":"allow_everything"}}`,
		"an empty outcome":  `"result":{"outcome":{}}`,
		"cancelled":         `"result":{"outcome":{"outcome":"cancelled"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			rt := adaptertest.Open(t,
				script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}},
				script.Answer{Text: "Not written."})
			p := connect(t, rt)
			prompt := p.prompt(p.open("{}"), "write")
			m := p.awaitRequest("session/request_permission")
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer))
			p.answerTo(prompt)
			p.next(func(m *line) bool { return strings.Contains(string(m.Params), `"status":"failed"`) })
		})
	}
}

func TestAClientThatCannotBeAskedIsTold(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": "a.txt", "content": "x"}}}},
		script.Answer{Text: "Not written."})
	p := connect(t, rt)
	id := p.open("{}")
	prompt := p.prompt(id, "write")
	m := p.awaitRequest("session/request_permission")
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
	p.next(func(m *line) bool { return strings.Contains(string(m.Params), "agentd approve action_") })
	// It is still asked, and can be answered another way.
	res, err := rt.Do(t.Context(), command.Local(), &command.ListActions{SessionID: id, Status: "pending"})
	if err != nil {
		t.Fatal(err)
	}
	var action command.ActionRecord
	if err := json.Unmarshal(res.(*command.ListActionsResult).Actions[0], &action); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Do(t.Context(), command.Local(), &command.RespondAction{ActionID: action.ActionID, Decision: "deny"}); err != nil {
		t.Fatal(err)
	}
	p.answerTo(prompt)
}

func TestAnAnswerThatDoesNotFitIsAskedForAgain(t *testing.T) {
	rt := adaptertest.Open(t,
		script.Answer{Ask: &script.Ask{Prompt: "How many?", Schema: map[string]any{"type": "integer", "minimum": 3}}},
		script.Answer{Text: "Good."})
	p := connect(t, rt)
	prompt := p.prompt(p.open(`{"elicitation":{"form":{}}}`), "go")
	for _, value := range []string{"1", "5"} {
		m := p.awaitRequest("elicitation/create")
		if !strings.Contains(string(m.Params), "How many?") {
			t.Errorf("%s", m.Params)
		}
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"value":%s}}}`, m.ID, value))
	}
	if m := p.answerTo(prompt); !strings.Contains(string(m.Result), "end_turn") {
		t.Errorf("%s %+v", m.Result, m.Error)
	}
}

func TestAnOutputThatBreaksEndsTheConnection(t *testing.T) {
	inRead, inWrite := io.Pipe()
	defer inWrite.Close()
	outRead, outWrite := io.Pipe()
	_ = outRead.Close()
	served := make(chan error, 1)
	go func() {
		served <- acp.New(acp.Options{Runtime: adaptertest.Open(t), Caller: command.Local()}).Serve(t.Context(), inRead, outWrite)
	}()
	if _, err := io.WriteString(inWrite, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err == nil {
		t.Error("a broken pipe is no error")
	}
}
