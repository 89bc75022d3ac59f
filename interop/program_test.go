package interop_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// folder is a new one with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { replayFolder(t, dir) })
	return dir
}

// served is "agentd serve" in a folder that has a config.yaml whose data is ./data.
// It ends with the test, and can be killed and started again before.
type served struct {
	t       *testing.T
	program string
	dir     string
	args    []string
	env     []string

	cmd    *exec.Cmd
	log    *bytes.Buffer
	url    string
	token  string // the admin's
	client *client.Client
}

// serve starts a server. Env is what its environment has beside that of all.
func serve(t *testing.T, dir string, env []string, args ...string) *served {
	t.Helper()
	program, err := protoBuild()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, program)
	}
	s := &served{t: t, program: program, dir: dir, args: args, env: append(protoEnvironment(), env...)}
	s.start()
	t.Cleanup(func() {
		s.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log.Bytes())
		}
	})
	return s
}

func (s *served) start() {
	s.t.Helper()
	s.log = &bytes.Buffer{}
	s.cmd = exec.Command(s.program, append([]string{"serve", "--json", "--config", "config.yaml", "--listen", "127.0.0.1:0"}, s.args...)...)
	s.cmd.Dir, s.cmd.Stderr, s.cmd.Env = s.dir, s.log, s.env
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		s.t.Fatalf("agentd serve: %v\n%s", err, s.log.Bytes())
	}
	var note struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &note); err != nil {
		s.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(s.dir, "data", "token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.url, s.token = note.URL, string(bytes.TrimSpace(token))
	if s.client, err = client.New(s.url, &client.Options{Token: s.token}); err != nil {
		s.t.Fatal(err)
	}
}

// end ends the program, and waits for it: as it should with SIGTERM, as in a crash
// with SIGKILL.
func (s *served) end(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		return // a crash that the test wanted
	}
	s.client.Close()
	_ = s.cmd.Process.Signal(sig) // it may be gone, which Wait tells
	if err := s.cmd.Wait(); err != nil && sig != syscall.SIGKILL {
		s.t.Errorf("agentd serve: %v", err)
	}
	s.cmd = nil
}

// kill ends the program as a crash does.
func (s *served) kill() {
	s.t.Helper()
	s.end(syscall.SIGKILL)
}

// await returns the first fact of a session that fits.
func (s *served) await(sessionID string, fits func(*event.Event) bool) *event.Event {
	s.t.Helper()
	for e, err := range s.client.Follow(s.t.Context(), sessionID, 0, nil) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Frame != "" {
			continue
		}
		d, err := e.Decode()
		if err != nil {
			s.t.Fatal(err)
		}
		if fits(d) {
			return d
		}
	}
	s.t.Fatalf("the fact did not come in %s", sessionID)
	return nil
}

// servedDo has a server carry out a command that must succeed.
func servedDo[R any](s *served, p command.Params) *R {
	s.t.Helper()
	res, err := client.Call[R](s.t.Context(), s.client, p)
	if err != nil {
		s.t.Fatalf("%s: %v", p.Command(), err)
	}
	return res
}
