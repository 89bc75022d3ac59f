package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Build compiles agentd for the test, or takes the program that
// AGENTD_BENCH_BINARY names.
func Build(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("AGENTD_BENCH_BINARY"); path != "" {
		return path
	}
	// Built in its own module, with the versions that the product links.
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "agentd").Output()
	must(tb, err)
	path := filepath.Join(tb.TempDir(), "agentd")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/agentd")
	build.Dir = strings.TrimSpace(string(root))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build agentd: %v\n%s", err, out)
	}
	return path
}

// Server is an agentd process.
type Server struct {
	// Workspace is the folder that tools work in; it has a file note.txt.
	Workspace string

	url, token string
	cmd        *exec.Cmd
	http       *http.Client
	log        bytes.Buffer
}

// settings are the configuration of a server. Everything that isn't the subject
// of a measurement is as a user gets it; mode auto lets commands run in their
// sandbox, where the default would ask, and the context window is so large that
// no thread is compacted.
const settings = `providers:
  - id: fake
    kind: openai
    baseURL: %s
    models:
      - {id: %s, capabilities: [tools, streaming], contextWindow: 100000000, maxOutputTokens: 8192, price: {inputPerMTok: 0.001, outputPerMTok: 0.001}}
routing: {default: fake/%s}
permissions: {mode: auto}
workspace: {root: %q}
`

var listens = regexp.MustCompile(`http://\S+`)

// Start starts a server over an empty store, which asks the model at the base
// URL. It ends with the test.
func Start(tb testing.TB, program, baseURL string) *Server {
	tb.Helper()
	return start(tb, program, baseURL, "")
}

// StartNode is Start over a database, which other servers may share.
func StartNode(tb testing.TB, program, baseURL, database string) *Server {
	tb.Helper()
	return start(tb, program, baseURL, database)
}

func start(tb testing.TB, program, baseURL, database string) *Server {
	tb.Helper()
	dir := tb.TempDir()
	s := &Server{Workspace: filepath.Join(dir, "workspace")}
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2048, DisableCompression: true}}
	config, data := filepath.Join(dir, "agentd.yaml"), filepath.Join(dir, "data")
	must(tb, os.Mkdir(s.Workspace, 0o700))
	must(tb, os.WriteFile(filepath.Join(s.Workspace, "note.txt"), []byte("a note of one line\n"), 0o600))
	must(tb, os.WriteFile(config, fmt.Appendf(nil, settings, baseURL, ModelName, ModelName, s.Workspace), 0o600))
	where := []string{"--data", data}
	if database != "" {
		where = []string{"--data", database, "--state-dir", data}
	}
	s.cmd = exec.Command(program, append([]string{"serve", "--config", config, "--listen", "127.0.0.1:0", "--log-level", "error"}, where...)...)
	s.cmd.Stderr = &s.log
	s.cmd.Dir, s.cmd.Env = s.Workspace, append(os.Environ(), "XDG_STATE_HOME="+dir)
	out, err := s.cmd.StdoutPipe()
	must(tb, err)
	must(tb, s.cmd.Start())
	tb.Cleanup(func() { s.stop(tb) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.cmd.Wait()
		tb.Fatalf("agentd did not start: %v\n%s", err, s.log.Bytes())
	}
	s.url = listens.FindString(line)
	token, err := os.ReadFile(filepath.Join(data, "token"))
	must(tb, err)
	s.token = strings.TrimSpace(string(token))
	return s
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) stop(tb testing.TB) {
	s.http.CloseIdleConnections()
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		tb.Errorf("agentd: %v\n%s", err, s.log.Bytes())
	}
}

// Usage is what the server has used so far.
func (s *Server) Usage(tb testing.TB) Usage {
	tb.Helper()
	u, err := ReadUsage(s.cmd.Process.Pid)
	must(tb, err)
	return u
}

// Session is a session with one follower.
type Session struct {
	s    *Server
	id   string
	body io.ReadCloser
	in   *bufio.Reader
}

// Session makes a session and follows it; types are the events that are told.
func (s *Server) Session(ctx context.Context, types string) (*Session, error) {
	return s.SessionSeenBy(ctx, s, types)
}

// SessionSeenBy makes a session that is followed through another server of the same
// database.
func (s *Server) SessionSeenBy(ctx context.Context, other *Server, types string) (*Session, error) {
	var made struct {
		SessionID string `json:"sessionId"`
	}
	if err := s.command(ctx, "create_session", `{}`, &made); err != nil {
		return nil, err
	}
	req, err := other.request(ctx, http.MethodGet, "/v1/sessions/"+made.SessionID+"/events?after=0&types="+types, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := other.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("follow: %s", resp.Status)
	}
	return &Session{s: s, id: made.SessionID, body: resp.Body, in: bufio.NewReaderSize(resp.Body, 16<<10)}, nil
}

// Close ends the follower.
func (c *Session) Close() { _ = c.body.Close() }

// Submit submits a turn and waits for the acknowledgement.
func (c *Session) Submit(ctx context.Context, input string) error {
	return c.s.command(ctx, "submit_turn", `{"sessionId":`+quoted(c.id)+`,"input":`+quoted(input)+`}`, nil)
}

var dataField = []byte("data: ")

// Next returns the next event that the follower is told, valid until the call
// after.
func (c *Session) Next() ([]byte, error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull { //nolint:errorlint // as bufio documents it
			return nil, fmt.Errorf("an event of more than %d bytes", c.in.Size())
		}
		if err != nil {
			return nil, err
		}
		if data, ok := bytes.CutPrefix(line, dataField); ok {
			return data, nil
		}
	}
}

// Type reports whether an event is of a type.
func Type(data []byte, name string) bool {
	return bytes.Contains(data, []byte(`"type":"`+name+`"`))
}

// Turn submits a turn and waits for its end. The session must be told the ends of
// turns: see [Ends].
func (c *Session) Turn(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := c.Submit(ctx, "go"); err != nil {
		return 0, err
	}
	for {
		data, err := c.Next()
		switch {
		case err != nil:
			return 0, err
		case Type(data, "turn.completed"):
			return time.Since(began), nil
		case Type(data, "turn.failed"), Type(data, "action.required"), Type(data, "tool.failed"):
			return 0, fmt.Errorf("the turn did not go as planned: %s", data)
		}
	}
}

// Ends are the events that [Session.Turn] needs to be told.
const Ends = "turn.completed,turn.failed,action.required,tool.failed"

func (s *Server) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	return req, err
}

// errBusy says that the server has too much to do right now.
var errBusy = errors.New("the server is busy")

// command carries out a command. A server that is busy is asked again, as it asks
// for.
func (s *Server) command(ctx context.Context, name, params string, result any) error {
	for {
		err := s.post(ctx, name, params, result)
		if !errors.Is(err, errBusy) {
			return err
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func (s *Server) post(ctx context.Context, name, params string, result any) error {
	req, err := s.request(ctx, http.MethodPost, "/v1/commands/"+name, strings.NewReader(params))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%s: %w", name, errBusy)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", name, resp.Status, answer)
	case result == nil:
		return nil
	}
	return json.Unmarshal(answer, result)
}
