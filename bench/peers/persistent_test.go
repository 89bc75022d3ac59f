package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"agentd/bench/rig"
)

// dialect is how a program is spoken to that runs for long and takes turns over
// JSON-RPC, a message a line, on its standard input.
type dialect struct {
	args []string
	// greet is done once: a request, and a notification after it if there is one.
	hello, helloParams, after string
	// open asks for a session, whose id is in the result; prompt asks for a turn.
	open   func(cwd string) (method, params string)
	opened func(result []byte) string
	prompt func(session string) (method, params string)
	// ended names the notification that ends a turn, and tells whose; without it
	// the answer to the prompt is the end.
	ended string
	whose func(params []byte) string
}

// gooseTalks is goose behind the agent client protocol.
var gooseTalks = dialect{
	args: []string{"acp"}, hello: "initialize", helloParams: `{"protocolVersion":1,"clientCapabilities":{}}`,
	open: func(cwd string) (string, string) {
		return "session/new", `{"cwd":` + strconv.Quote(cwd) + `,"mcpServers":[]}`
	},
	opened: func(result []byte) string { return member(result, "sessionId") },
	prompt: func(session string) (string, string) {
		return "session/prompt", `{"sessionId":` + strconv.Quote(session) + `,"prompt":[{"type":"text","text":"go"}]}`
	},
}

// codexTalks is codex behind its own protocol for editors.
var codexTalks = dialect{
	args: []string{"app-server"}, hello: "initialize", helloParams: `{"clientInfo":{"name":"bench","version":"1"}}`, after: "initialized",
	open:   func(cwd string) (string, string) { return "thread/start", `{"cwd":` + strconv.Quote(cwd) + `}` },
	opened: func(result []byte) string { return member(result, "thread", "id") },
	prompt: func(session string) (string, string) {
		return "turn/start", `{"threadId":` + strconv.Quote(session) + `,"input":[{"type":"text","text":"go"}]}`
	},
	ended: "turn/completed",
	whose: func(params []byte) string { return member(params, "threadId") },
}

// member is a text within JSON, or empty.
func member(b []byte, path ...string) string {
	for _, name := range path[:len(path)-1] {
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil {
			return ""
		}
		b = m[name]
	}
	var m map[string]json.RawMessage
	var s string
	if json.Unmarshal(b, &m) != nil || json.Unmarshal(m[path[len(path)-1]], &s) != nil {
		return ""
	}
	return s
}

// message is what comes from a program.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// talker is a program that runs for long.
type talker struct {
	dialect
	cwd string
	cmd *exec.Cmd
	log bytes.Buffer

	mu      sync.Mutex
	in      io.Writer
	next    int
	waiting map[string]chan message // by the id of a request, or the session of a turn
	gone    error
}

// talk starts a program and greets it. It ends with the test.
func (p *peer) talk(tb testing.TB, d dialect) (*talker, error) {
	t := &talker{dialect: d, cwd: p.home + "/work", waiting: map[string]chan message{}}
	t.cmd = p.command(tb.Context(), d.args)
	t.cmd.Stderr = &t.log
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.in = in
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.read(out)
	}()
	tb.Cleanup(func() {
		_ = in.Close()
		_ = t.cmd.Process.Kill()
		<-done
		_ = t.cmd.Wait() // it was killed
	})
	if _, err := t.call(tb.Context(), d.hello, d.helloParams, ""); err != nil {
		return nil, err
	}
	if d.after != "" {
		return t, t.write(`{"jsonrpc":"2.0","method":"` + d.after + `"}`)
	}
	return t, nil
}

func (t *talker) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue // what isn't a message is a word for people
		}
		switch {
		case m.Method == "":
			t.tell(string(m.ID), m)
		case m.Method == t.ended && t.ended != "":
			t.tell(t.whose(m.Params), m)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = fmt.Errorf("the program ended: %s", tail(t.log.Bytes()))
	for _, c := range t.waiting {
		close(c)
	}
	t.waiting = nil
}

func (t *talker) tell(who string, m message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.waiting[who]; c != nil {
		c <- m
		delete(t.waiting, who)
	}
}

func (t *talker) write(line string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.in, line+"\n")
	return err
}

// wait returns where a message will come to.
func (t *talker) wait(who string) (chan message, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone != nil {
		return nil, t.gone
	}
	c := make(chan message, 1)
	t.waiting[who] = c
	return c, nil
}

// call makes a request and waits for its answer, and after that, if a session is
// given, for the end of its turn.
func (t *talker) call(ctx context.Context, method, params, session string) ([]byte, error) {
	t.mu.Lock()
	t.next++
	id := strconv.Itoa(t.next)
	t.mu.Unlock()
	answer, err := t.wait(id)
	if err != nil {
		return nil, err
	}
	var end chan message
	if session != "" && t.ended != "" {
		if end, err = t.wait(session); err != nil {
			return nil, err
		}
	}
	if err := t.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`); err != nil {
		return nil, err
	}
	m, err := t.receive(ctx, method, answer)
	if err == nil && end != nil {
		_, err = t.receive(ctx, method, end)
	}
	return m.Result, err
}

// patience is how long a program may take for anything.
const patience = time.Minute

func (t *talker) receive(ctx context.Context, method string, from chan message) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case m, ok := <-from:
		if !ok {
			return m, t.gone
		}
		if len(m.Error) > 0 {
			return m, fmt.Errorf("%s: %s", method, m.Error)
		}
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// measure measures turns in sessions of [turnsOfSession], as agentd's are.
func (t *talker) measure(ctx context.Context, at int, d time.Duration) *measured {
	before, err := rig.ReadUsage(t.cmd.Process.Pid)
	if err != nil {
		return &measured{err: err}
	}
	m := repeat(ctx, at, d, t.worker)
	after, err := rig.ReadUsage(t.cmd.Process.Pid)
	if m.err == nil {
		m.err = err
	}
	m.cpu = after.Sub(before).Total()
	return m
}

func (t *talker) worker(ctx context.Context) (func() (time.Duration, error), func()) {
	n, session := 0, ""
	return func() (time.Duration, error) {
		if n%turnsOfSession == 0 {
			method, params := t.open(t.cwd)
			result, err := t.call(ctx, method, params, "")
			if err != nil {
				return 0, err
			}
			session = t.opened(result)
		}
		n++
		began := time.Now()
		method, params := t.prompt(session)
		_, err := t.call(ctx, method, params, session)
		return time.Since(began), err
	}, func() {}
}
