package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentd/bench/rig"
	"agentd/client"
	"agentd/command"
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
	p := serve(b, rig.Build(b), filepath.Join(dir, "data"))
	defer p.stop()
	h := p.plain()
	size := submissionSize(b, h, filepath.Join(dir, "data"))
	in := newSyncFile(b, filepath.Join(dir, "preallocated"), 64<<20, size)
	end := newSyncFile(b, filepath.Join(dir, "appended"), 0, size)
	grown := newSyncFile(b, filepath.Join(dir, "grown"), 0, size)
	grown.sync = grown.f.Sync
	begin, open := h.command("submit_turn", `{"input":"hello"}`), h.command("create_session", `{}`)
	healthz := h.request("GET", "/healthz", "")
	var first, submit, create, health, overwrite, add, whole result
	for b.Loop() {
		first.time(b, func() error { return h.exchange(begin) })
		r := h.submitted()
		again := h.command("submit_turn", fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"input":"hello"}`, r.SessionID, r.ThreadID))
		for _, other := range []struct {
			*result
			op func() error
		}{
			{&create, func() error { return h.exchange(open) }},
			{&health, func() error { return h.exchange(healthz) }},
			{&overwrite, in.write},
			{&add, end.write},
			{&whole, grown.write},
		} {
			submit.time(b, func() error { return h.exchange(again) })
			h.submitted()
			other.time(b, other.op)
		}
	}
	busy := measureN(b, 1, 1000, func(int) error { return in.write() })
	b.ReportMetric(float64(size), "bytes")
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

// plain is one HTTP connection over a blocking socket: what Go's client and its
// poller do takes as long as the server does.
type plain struct {
	tb          testing.TB
	fd          int
	host, token string
	in          [64 << 10]byte
	answer      []byte // the last one's, in in
	length      int    // of its header
}

func (p *process) plain() *plain {
	p.tb.Helper()
	host := strings.TrimPrefix(p.url, "http://")
	addr, err := netip.ParseAddrPort(host)
	if err != nil {
		p.tb.Fatal(err)
	}
	// Not net.Dial: the runtime's poller would be woken by each answer too, and the
	// server would pay for that.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		p.tb.Fatal(err)
	}
	return &plain{tb: p.tb, fd: fd, host: host, token: p.token}
}

// command is the request that carries out a command.
func (h *plain) command(name, params string) []byte {
	return h.request("POST", "/v1/commands/"+name, params)
}

func (h *plain) request(method, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, h.host, h.token, len(body), body)
}

var headerEnd = []byte("\r\n\r\n")

// exchange sends a request and returns when its whole answer is there.
func (h *plain) exchange(request []byte) error {
	if _, err := syscall.Write(h.fd, request); err != nil {
		return err
	}
	got, whole := 0, len(h.in)
	for got < whole {
		n, err := syscall.Read(h.fd, h.in[got:])
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		got += n
		if end := bytes.Index(h.in[:got], headerEnd); end >= 0 && whole == len(h.in) {
			length, err := strconv.Atoi(headerValue(h.in[:end+2], "\r\nContent-Length: "))
			if err != nil {
				return err
			}
			h.length = end + len(headerEnd)
			whole = h.length + length
		}
	}
	h.answer = h.in[:got]
	if !bytes.HasPrefix(h.answer, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("%s", h.answer)
	}
	return nil
}

// headerValue finds a header that must be there.
func headerValue(header []byte, name string) string {
	_, rest, _ := bytes.Cut(header, []byte(name))
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return string(value)
}

// submitted decodes the answer to submit_turn and waits until the server is idle
// again: the task of the turn is the last that ends.
func (h *plain) submitted() command.SubmitTurnResult {
	h.tb.Helper()
	var r command.SubmitTurnResult
	if err := json.Unmarshal(h.answer[h.length:], &r); err != nil {
		h.tb.Fatal(err)
	}
	page := h.request("GET", fmt.Sprintf("/v1/sessions/%s/events?after=%d", r.SessionID, r.Sequence), "")
	for {
		time.Sleep(think)
		if err := h.exchange(page); err != nil {
			h.tb.Fatal(err)
		}
		if bytes.Contains(h.answer, []byte(`"task.completed"`)) {
			return r
		}
	}
}

// submissionSize is what a submission into a session that is open adds to the
// server's log: the least of several, because the turn that follows may add to it
// before it is looked at.
func submissionSize(b *testing.B, h *plain, data string) int {
	b.Helper()
	if err := h.exchange(h.command("submit_turn", `{"input":"hello"}`)); err != nil {
		b.Fatal(err)
	}
	r := h.submitted()
	again := h.command("submit_turn", fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"input":"hello"}`, r.SessionID, r.ThreadID))
	least := int64(math.MaxInt64)
	for range 20 {
		before := logSize(b, data)
		if err := h.exchange(again); err != nil {
			b.Fatal(err)
		}
		least = min(least, logSize(b, data)-before)
		h.submitted()
	}
	return int(least)
}

// logSize is how many bytes the store's logs hold.
func logSize(b *testing.B, data string) (size int64) {
	b.Helper()
	logs, err := filepath.Glob(filepath.Join(data, "db", "*.log"))
	if err != nil || len(logs) == 0 {
		b.Fatal("the store has no log ", err)
	}
	for _, path := range logs {
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		size += info.Size()
	}
	return size
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

// BenchmarkCommands is the rate of create_session with 64 connections, over HTTP
// and as JSON-RPC over WebSocket.
func BenchmarkCommands(b *testing.B) {
	const connections = 64
	path := rig.Build(b)
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
	path := rig.Build(b)
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "data")
			fill(b, dir, n)
			// Not the program made it, so it has to be told to use it.
			if out, err := exec.Command(path, "data", "accept", "--yes", dir).CombinedOutput(); err != nil {
				b.Fatalf("agentd data accept: %v\n%s", err, out)
			}
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
