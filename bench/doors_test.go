package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// process is a real agentd server.
type process struct {
	tb    testing.TB
	cmd   *exec.Cmd
	url   string
	token string
	ready time.Duration
	log   bytes.Buffer
}

var listens = regexp.MustCompile(`http://\S+`)

// program builds agentd once for each test.
func program(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "agentd")
	build := exec.Command("go", "build", "-o", path, "agentd/cmd/agentd")
	build.Dir = ".."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return path
}

// serve starts a server and waits for its word that it is ready.
func serve(tb testing.TB, path, data string) *process {
	tb.Helper()
	p := &process{tb: tb, cmd: exec.Command(path, "serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "error")}
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the server said nothing: %v", err)
	}
	p.ready = time.Since(began)
	p.url = listens.FindString(line)
	token, err := os.ReadFile(filepath.Join(data, "token"))
	if err != nil {
		tb.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	return p
}

func (p *process) stop() {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.tb.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.tb.Errorf("%v\n%s", err, p.log.Bytes())
	}
}

func (p *process) client() *client.Client {
	p.tb.Helper()
	c, err := client.New(p.url, &client.Options{Token: p.token})
	if err != nil {
		p.tb.Fatal(err)
	}
	return c
}

// think is how long a client waits before each operation of [BenchmarkSubmit], so
// that all of them find the machine idle, the disk included.
const think = time.Millisecond

// BenchmarkSubmit is the time until submit_turn is acknowledged over HTTP by a
// server that does nothing else: the turn before has ended, and all that follows
// from it. Beside it, in the same rounds: the first turn of a new session, an HTTP
// request that the server answers from memory, the shortest command that is made
// durable, and the disk alone, in the same directory with as many bytes as a
// submission's facts have: fdatasync of a preallocated file and of one that grows,
// and fsync of one that grows. Every one of them comes after the end of a turn and
// the same pause: what follows right after another operation finds warm caches, and
// the second of two fsyncs takes three quarters of the first. The disk is measured
// once more without pauses.
func BenchmarkSubmit(b *testing.B) {
	dir := b.TempDir()
	p := serve(b, program(b), filepath.Join(dir, "data"))
	defer p.stop()
	c, h := p.client(), p.plain()
	defer c.Close()
	defer h.conn.Close()
	size := submissionSize(b, c)
	in := newSyncFile(b, filepath.Join(dir, "preallocated"), 64<<20, size)
	end := newSyncFile(b, filepath.Join(dir, "appended"), 0, size)
	grown := newSyncFile(b, filepath.Join(dir, "grown"), 0, size)
	grown.sync = grown.f.Sync
	var first, submit, create, health, overwrite, add, whole result
	for b.Loop() {
		var r command.SubmitTurnResult
		first.time(b, func() error { return h.post("submit_turn", `{"input":"hello"}`, &r) })
		waitForEnd(b, c, &r)
		again := fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"input":"hello"}`, r.SessionID, r.ThreadID)
		for _, other := range []struct {
			*result
			op func() error
		}{
			{&create, func() error { return h.post("create_session", `{}`, nil) }},
			{&health, func() error { return h.do("GET", "/healthz", "", nil) }},
			{&overwrite, in.write},
			{&add, end.write},
			{&whole, grown.write},
		} {
			submit.time(b, func() error { return h.post("submit_turn", again, &r) })
			waitForEnd(b, c, &r)
			other.time(b, other.op)
		}
	}
	busy := measureN(b, 1, 1000, func(int) error { return in.write() })
	b.ReportMetric(submit.percentile(50), "p50-µs")
	b.ReportMetric(submit.percentile(99), "p99-µs")
	b.ReportMetric(first.percentile(50), "first-p50-µs")
	b.ReportMetric(whole.percentile(50), "fsync-p50-µs")
	b.ReportMetric(submit.percentile(50)/whole.percentile(50), "of-fsync")
	b.ReportMetric(create.percentile(50), "create-p50-µs")
	b.ReportMetric(health.percentile(50), "http-p50-µs")
	b.ReportMetric(overwrite.percentile(50), "fdatasync-p50-µs")
	b.ReportMetric(add.percentile(50), "fdatasync-append-p50-µs")
	b.ReportMetric(busy.percentile(50), "fdatasync-busy-p50-µs")
	b.ReportMetric(submit.percentile(50)/overwrite.percentile(50), "of-fdatasync")
	b.ReportMetric(submit.percentile(50)/busy.percentile(50), "of-fdatasync-busy")
	b.ReportMetric((submit.percentile(50)-health.percentile(50))/overwrite.percentile(50), "of-fdatasync-without-http")
	b.ReportMetric(0, "ns/op")
}

// time measures one operation after a pause.
func (r *result) time(tb testing.TB, op func() error) {
	tb.Helper()
	time.Sleep(think)
	began := time.Now()
	if err := op(); err != nil {
		tb.Fatal(err)
	}
	r.times = append(r.times, time.Since(began))
	r.n++
}

// plain is one HTTP connection without the goroutines of Go's client, whose
// changes take as long as the server does.
type plain struct {
	conn  net.Conn
	in    *bufio.Reader
	token string
}

func (p *process) plain() *plain {
	p.tb.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.tb.Fatal(err)
	}
	return &plain{conn: conn, in: bufio.NewReader(conn), token: p.token}
}

// post carries out a command.
func (h *plain) post(name, params string, result any) error {
	return h.do("POST", "/v1/commands/"+name, params, result)
}

func (h *plain) do(method, path, body string, result any) error {
	_, err := fmt.Fprintf(h.conn, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, h.conn.RemoteAddr(), h.token, len(body), body)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(h.in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(answer, result)
	}
	return err
}

// submissionSize is the size of the facts of one submission.
func submissionSize(b *testing.B, c *client.Client) int {
	b.Helper()
	r, err := client.Call[command.SubmitTurnResult](b.Context(), c, &command.SubmitTurn{Input: event.Raw(`"hello"`)})
	if err != nil {
		b.Fatal(err)
	}
	waitForEnd(b, c, r)
	page, err := c.Events(b.Context(), r.SessionID, 0, int(r.Sequence))
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for _, e := range page.Events {
		n += len(e.Data)
	}
	return n
}

// syncFile is a file to which some bytes are made durable, again and again.
type syncFile struct {
	f    *os.File
	sync func() error
	data []byte
	pos  int64
}

// newSyncFile makes a file with so many bytes written already.
func newSyncFile(b *testing.B, path string, written int64, size int) *syncFile {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	zero := make([]byte, 1<<20)
	for n := int64(0); n < written; n += int64(len(zero)) {
		if _, err := f.WriteAt(zero, n); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return &syncFile{f: f, sync: func() error { return syscall.Fdatasync(int(f.Fd())) }, data: make([]byte, size)}
}

func (s *syncFile) write() error {
	if _, err := s.f.WriteAt(s.data, s.pos); err != nil {
		return err
	}
	s.pos += int64(len(s.data))
	return s.sync()
}

// waitForEnd waits until the server is idle again: the task of the turn is the
// last that ends.
func waitForEnd(tb testing.TB, c *client.Client, r *command.SubmitTurnResult) {
	tb.Helper()
	for e, err := range c.Follow(context.Background(), r.SessionID, r.Sequence, nil) {
		if err != nil {
			tb.Fatal(err)
		}
		if strings.Contains(string(e.Data), `"task.completed"`) {
			return
		}
	}
}

// BenchmarkCommands is the rate of create_session with 64 connections, over HTTP
// and as JSON-RPC over WebSocket.
func BenchmarkCommands(b *testing.B) {
	const connections = 64
	path := program(b)
	b.Run("http", func(b *testing.B) {
		p := serve(b, path, filepath.Join(b.TempDir(), "data"))
		defer p.stop()
		clients := make([]*client.Client, connections)
		for i := range clients {
			clients[i] = p.client()
			defer clients[i].Close()
		}
		report(b, measureN(b, connections, b.N, func(i int) error {
			_, err := client.Call[command.CreateSessionResult](context.Background(), clients[i], &command.CreateSession{})
			return err
		}))
	})
	b.Run("websocket", func(b *testing.B) {
		p := serve(b, path, filepath.Join(b.TempDir(), "data"))
		defer p.stop()
		conns := make([]*websocket.Conn, connections)
		for i := range conns {
			conns[i] = p.dial()
			defer conns[i].CloseNow() //nolint:errcheck // the end of a benchmark
		}
		report(b, measureN(b, connections, b.N, func(i int) error { return rpc(conns[i]) }))
	})
}

func report(b *testing.B, r *result) {
	b.ReportMetric(r.rate(), "commands/s")
	b.ReportMetric(r.percentile(50), "p50-µs")
	b.ReportMetric(r.percentile(99), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

func (p *process) dial() *websocket.Conn {
	p.tb.Helper()
	c, _, err := websocket.Dial(context.Background(), "ws"+strings.TrimPrefix(p.url, "http")+"/v1/ws", &websocket.DialOptions{
		HTTPHeader: map[string][]string{"Authorization": {"Bearer " + p.token}},
	})
	if err != nil {
		p.tb.Fatal(err)
	}
	return c
}

func rpc(c *websocket.Conn) error {
	ctx := context.Background()
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"create_session","params":{}}`)); err != nil {
		return err
	}
	_, answer, err := c.Read(ctx)
	if err == nil && !strings.Contains(string(answer), `"sessionId"`) {
		err = fmt.Errorf("answer: %s", answer)
	}
	return err
}

// BenchmarkStart is the time from the start of the program to its word that it is
// ready, over an empty store and over one with 100,000 sessions.
func BenchmarkStart(b *testing.B) {
	path := program(b)
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "data")
			fill(b, dir, n)
			serve(b, path, dir).stop()
			var times []time.Duration
			for b.Loop() {
				p := serve(b, path, dir)
				times = append(times, p.ready)
				p.stop()
			}
			b.ReportMetric(float64(median(times).Microseconds())/1000, "ms-to-ready")
			b.ReportMetric(0, "ns/op")
		})
	}
}
