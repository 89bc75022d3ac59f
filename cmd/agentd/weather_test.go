package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/client"
	"agentd/command"
)

// A crowd of clients that connect and send nothing, that read a byte a second, or
// that vanish: a real server goes on for others, stays within its memory, is rid
// of them when they are gone, and stops in time while they hang.
func TestACrowdOfBadClients(t *testing.T) { weather(t, 100) }

func TestLongACrowdOfBadClients(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("1,000 clients of each kind run only with AGENTD_TEST_LONG")
	}
	weather(t, 1000)
}

func weather(t *testing.T, clients int) {
	s := newStorm(t, clients)
	before := s.calm()
	for _, kind := range []struct {
		name string
		open func(i int) net.Conn
		// hanging are figures that show that they hang.
		hanging []string
	}{
		{"silent", s.silent, []string{"agentd_connections"}},
		{"slow", s.slow, []string{`agentd_subscribers{transport="sse"}`, `agentd_subscribers{transport="websocket"}`, "agentd_answer_bytes"}},
	} {
		crowd := s.gather(kind.open)
		// The server bears them for some seconds; a busy machine may need those for the others.
		first := s.figures()
		s.others()
		f := s.figures()
		t.Logf("%s: %s; before: %s", kind.name, f, before)
		for _, name := range kind.hanging {
			if n := max(first.by[name], f.by[name]) - before.by[name]; n < float64(clients)/8 {
				t.Errorf("%s: %s is %v more than before: too few hung while others were served", kind.name, name, n)
			}
		}
		s.bounded(before, f)
		crowd.vanish()
		s.gone(before)
	}
	s.gather(s.silent)
	s.gather(s.slow)
	s.stops()
}

// storm is a server with something to read, and the figures that it tells.
type storm struct {
	t       *testing.T
	p       *process
	clients int
	client  *client.Client
	host    string
	session string
	ref     string
}

// Sizes: more than the buffers of a connection hold.
const (
	stormEvents = 1000
	stormEvent  = 3 << 10
	stormOutput = 3 << 20
)

func newStorm(t *testing.T, clients int) *storm {
	p := start(t, filepath.Join(t.TempDir(), "data"), "--log-level", "warn")
	s := &storm{t: t, p: p, clients: clients, client: p.client(), host: strings.TrimPrefix(p.url, "http://")}
	turn := p.submit(strings.Repeat("a long story ", stormOutput/13))
	p.completed(turn)
	s.session = turn.SessionID
	page, err := p.client().Events(t.Context(), s.session, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		if e.Type == "turn.submitted" {
			ref, err := between(string(e.Data), `"inputRef":"`, `"`)
			if err != nil {
				t.Fatal(err)
			}
			s.ref = ref
		}
	}
	s.fill()
	return s
}

// fill makes the session long.
func (s *storm) fill() {
	s.t.Helper()
	var batch []string
	for i := range stormEvents {
		batch = append(batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"create_task","params":{"sessionId":%q,"objective":%q}}`,
			i, s.session, strings.Repeat("x", stormEvent)))
		if len(batch) < 50 && i+1 < stormEvents {
			continue
		}
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.p.url+"/v1/rpc", strings.NewReader("["+strings.Join(batch, ",")+"]"))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.p.token())
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || strings.Count(string(answer), `"taskId"`) != len(batch) {
			s.t.Fatalf("%v: %s", err, answer)
		}
		batch = nil
	}
}

// crowd is the clients of one kind.
type crowd struct {
	conns []net.Conn
	stop  chan struct{}
	read  sync.WaitGroup
}

// gather opens the clients, and lets each that gets something read a byte of it a
// second.
func (s *storm) gather(open func(i int) net.Conn) *crowd {
	c := &crowd{stop: make(chan struct{})}
	for i := range s.clients {
		c.conns = append(c.conns, open(i))
	}
	c.read.Go(c.sip)
	s.t.Cleanup(c.vanish)
	return c
}

func (c *crowd) sip() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	one := make([]byte, 1)
	for {
		for _, conn := range c.conns {
			_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = conn.Read(one)
		}
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
	}
}

// vanish ends all of them without a word, half of them without even a proper end
// of the connection.
func (c *crowd) vanish() {
	select {
	case <-c.stop:
		return
	default:
	}
	close(c.stop)
	c.read.Wait()
	for i, conn := range c.conns {
		if tcp, ok := conn.(*net.TCPConn); ok && i%2 == 0 {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

func (s *storm) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.host)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
	return c
}

// silent clients send nothing, or begin a request and stop.
func (s *storm) silent(i int) net.Conn {
	c := s.dial()
	if i%2 == 1 {
		_, _ = io.WriteString(c, "GET /v1/catalog HTTP/1.1\r\nHost: ")
	}
	return c
}

// slow clients ask for much, over each door.
func (s *storm) slow(i int) net.Conn {
	c := s.dial()
	events := "/v1/sessions/" + s.session + "/events"
	var err error
	switch i % 4 {
	case 0:
		err = s.ask(c, events, "Accept: text/event-stream\r\n")
	case 1:
		if err = s.ask(c, "/v1/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"); err == nil {
			_, err = c.Write(textFrame(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"sessionId":"` + s.session + `"}}`))
		}
	case 2:
		err = s.ask(c, "/v1/outputs/"+url.PathEscape(s.ref), "")
	case 3:
		err = s.ask(c, events+"?limit=1000", "")
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// ask sends a request by hand, and waits for the first byte of the answer.
func (s *storm) ask(c net.Conn, path, headers string) error {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", path, s.host, s.p.token(), headers)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return err
}

// textFrame is a WebSocket message of a client, masked with zeros.
func textFrame(text string) []byte {
	frame := []byte{0x81, 0x80 | 126}
	frame = binary.BigEndian.AppendUint16(frame, uint16(len(text)))
	return append(append(frame, 0, 0, 0, 0), text...)
}

// others do what clients do while the crowd hangs.
func (s *storm) others() {
	s.t.Helper()
	for range 5 {
		s.turn()
	}
	// A part of it is small, and goes on whatever the token's others hold.
	out, err := s.client.Output(s.t.Context(), s.ref, client.Range{Offset: -1000})
	if err != nil {
		s.t.Fatalf("an output: %v", err)
	}
	defer out.Body.Close()
	if n, err := io.Copy(io.Discard, out.Body); err != nil || n != 1000 {
		s.t.Errorf("%d bytes of an output, %v", n, err)
	}
}

// turn submits one, follows it to its end and reads its page.
func (s *storm) turn() {
	s.t.Helper()
	r, err := client.Call[command.SubmitTurnResult](s.t.Context(), s.client, submitParams(s.t, "hello"))
	if err != nil {
		s.t.Fatalf("a turn: %v", err)
	}
	for e, err := range s.client.Follow(s.t.Context(), r.SessionID, r.Sequence, nil) {
		if err != nil {
			s.t.Fatalf("a stream: %v", err)
		}
		if e.Type == "turn.completed" {
			break
		}
	}
	if _, err := s.client.Events(s.t.Context(), r.SessionID, 0, 1000); err != nil {
		s.t.Fatalf("a page: %v", err)
	}
}

// figures are the server's metrics.
type figures struct{ by map[string]float64 }

func (f *figures) String() string {
	return fmt.Sprintf("%v connections, %v in flight, %v and %v subscribers, %v goroutines, memory %.0f MiB, live %.0f MiB, answers %.0f MiB",
		f.by["agentd_connections"], f.by["agentd_http_in_flight"], f.by[`agentd_subscribers{transport="sse"}`],
		f.by[`agentd_subscribers{transport="websocket"}`], f.by["agentd_goroutines"], mib(f.by["agentd_memory_bytes"]), mib(f.by["agentd_heap_live_bytes"]), mib(f.by["agentd_answer_bytes"]))
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }

func (s *storm) figures() *figures {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.p.url+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.p.token())
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	f := &figures{by: map[string]float64{}}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		var n float64
		if _, err := fmt.Sscan(value, &n); err == nil {
			f.by[name] = n
		}
	}
	return f
}

// calm lets others work once, so that what is measured later is the crowd's, and
// returns the figures then.
func (s *storm) calm() *figures {
	s.others()
	f := s.figures()
	for range 50 { // what the runtime ends in the background
		next := s.figures()
		if next.by["agentd_goroutines"] >= f.by["agentd_goroutines"] {
			break
		}
		f = next
	}
	return f
}

// bounded: a client that hangs costs what a connection and a batch of events take,
// and large answers have a bound of their own.
func (s *storm) bounded(before, now *figures) {
	s.t.Helper()
	const each, answers, room = 512 << 10, 128 << 20, 32 << 20
	// The heap may grow to four times what is in use before it is collected.
	for name, garbage := range map[string]float64{"agentd_heap_live_bytes": 1, "agentd_memory_bytes": 4} {
		most := before.by[name] + garbage*(float64(s.clients*each)+answers+room)
		if got := now.by[name]; got > most {
			s.t.Errorf("%s is %.0f MiB, before %.0f MiB, want at most %.0f", name, mib(got), mib(before.by[name]), mib(most))
		}
	}
}

// gone waits until nothing of the crowd is left.
func (s *storm) gone(before *figures) {
	s.t.Helper()
	var f *figures
	for range 10_000 { // only a defect takes that many
		f = s.figures()
		if f.by["agentd_http_in_flight"] <= 1 && f.by["agentd_connections"] <= before.by["agentd_connections"]+5 &&
			f.by[`agentd_subscribers{transport="sse"}`] == 0 && f.by[`agentd_subscribers{transport="websocket"}`] == 0 &&
			f.by["agentd_answer_bytes"] == 0 && f.by["agentd_goroutines"] <= before.by["agentd_goroutines"]+20 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("after the crowd: %s; before: %s", f, before)
}

// stops: the server ends within its own time, so that nothing has to be given up.
func (s *storm) stops() {
	s.t.Helper()
	s.p.signal(syscall.SIGTERM)
	logged := s.p.remainingLog()
	if code := s.p.stopped(); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
	for _, bad := range []string{"cut off", "in time", "panic"} {
		if strings.Contains(logged, bad) {
			s.t.Errorf("the log says %q:\n%s", bad, logged)
		}
	}
}

// stopped waits for the end of a server and returns its exit code.
func (p *process) stopped() int {
	p.t.Helper()
	p.log.Wait()
	_ = p.cmd.Wait() // how it ended is in the state
	return p.cmd.ProcessState.ExitCode()
}
