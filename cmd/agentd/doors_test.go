package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
)

// TestEventsFollowsWithFilters: -f shows what comes, and only what is asked for,
// until it is stopped.
func TestEventsFollowsWithFilters(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	first := p.submit("hello")
	p.completed(first)
	watch := func(args ...string) (*exec.Cmd, *bufio.Scanner) {
		t.Helper()
		cmd := self(t, append([]string{"events", "-f", "--data", p.data}, append(args, first.SessionID)...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, bufio.NewScanner(out)
	}
	turns, lines := watch("--types", "turn.*", "--last", "1000")
	tasks, envelopes := watch("--types", "task.completed,turn.submitted", "--json", "--last", "1")
	next := func(s *bufio.Scanner, want string) string {
		t.Helper()
		if !s.Scan() || !strings.Contains(s.Text(), want) {
			t.Fatalf("got %q, want %s", s.Text(), want)
		}
		return s.Text()
	}
	for _, want := range []string{"turn.submitted", "turn.started", "turn.completed"} {
		if line := next(lines, want); strings.Contains(line, "\x1b") {
			t.Errorf("colour in a pipe: %q", line)
		}
	}
	next(envelopes, "task.completed") // the newest fact, so the follower is there
	again := p.submitTo(first.SessionID)
	p.completed(again)
	for _, want := range []string{"turn.submitted", "turn.started", "turn.completed"} {
		next(lines, want)
	}
	for _, want := range []string{"turn.submitted", "task.completed"} {
		var e struct{ Type, TurnID string }
		if err := json.Unmarshal([]byte(next(envelopes, want)), &e); err != nil || e.TurnID != again.TurnID {
			t.Errorf("got %+v, %v, want turn %s", e, err, again.TurnID)
		}
	}
	for _, cmd := range []*exec.Cmd{turns, tasks} {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped with %v", err)
		}
	}
	p.stop(syscall.SIGTERM)
}

// TestEveryProblemHasItsRequest: also where the program itself answers, and not its
// server.
func TestEveryProblemHasItsRequest(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	for _, path := range []string{"/v1/transfer/sess_none", "/v1/trim/sess_none", "/v1/backup", "/agui", "/v1/sessions/sess_none/events"} {
		res := p.getWithToken(path, "X-Request-ID", "req_mine")
		var said struct{ Code, RequestID string }
		err := json.NewDecoder(res.Body).Decode(&said)
		if err != nil || res.StatusCode < 400 || said.Code == "" || said.RequestID != "req_mine" || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %+v, %v", path, res.StatusCode, said, err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	p.stop(syscall.SIGTERM)
}

// submitTo submits a turn to a session.
func (p *process) submitTo(sessionID string) *command.SubmitTurnResult {
	p.t.Helper()
	params := submitParams(p.t, "again")
	params.SessionID = sessionID
	r, err := client.Call[command.SubmitTurnResult](p.t.Context(), p.client(), params)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// TestNoTokenIsInTheLogOfAServer, however it came: as a header, as part of an
// address, as a name, wrong or right.
func TestNoTokenIsInTheLogOfAServer(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"), "--log-level", "debug")
	out, errs, code := program(t, "tokens", "create", "--data", p.data, "laptop")
	made := strings.TrimSpace(out)
	if code != 0 || made == "" {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	wrong := made[:len(made)-4] + "Wron"
	for _, token := range []string{p.token(), made, wrong} {
		for _, path := range []string{"/v1/sessions/none/events?token=" + token, "/v1/commands/" + token, "/v1/ws", "/" + token, "/v1/outputs/" + token, "/metrics"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(`{"sessionId":"`+token+`","x":1}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+token)
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Request-ID", "req_seen")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			}
		}
	}
	program(t, "tokens", "revoke", "--data", p.data, "laptop")
	p.completed(p.submit("hello"))
	p.signal(syscall.SIGTERM)
	logged := p.remainingLog()
	if !strings.Contains(logged, "req_seen") {
		t.Error("the log has no requests: nothing was tested")
	}
	for _, token := range []string{p.token(), made, wrong} {
		_, secret, _ := strings.Cut(strings.TrimPrefix(token, "agentd_"), "_")
		if strings.Contains(logged, secret) {
			t.Errorf("a token is in the log:\n%s", logged)
		}
	}
}

// TestBackupUnderLoad: a backup of a server at work has everything that was
// acknowledged before it began, and fits together.
func TestBackupUnderLoad(t *testing.T) {
	dir := t.TempDir()
	p := start(t, filepath.Join(dir, "data"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acked := make(chan *command.SubmitTurnResult, 10_000)
	var workers sync.WaitGroup
	c := p.client()
	for range 3 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if r, err := client.Call[command.SubmitTurnResult](ctx, c, submitParams(t, "hello")); err == nil {
					acked <- r
				}
			}
		})
	}
	var before []*command.SubmitTurnResult
	for len(before) < 20 {
		before = append(before, <-acked)
	}
	file := filepath.Join(dir, "b.tar")
	if out, errs, code := program(t, "backup", "--data", p.data, file); code != 0 {
		t.Fatalf("backup: %d\n%s%s", code, out, errs)
	}
	<-acked // the server was still at work
	cancel()
	workers.Wait()
	p.stop(syscall.SIGTERM)
	restored := filepath.Join(dir, "restored")
	if out, errs, code := program(t, "restore", "--data", restored, file); code != 0 || !strings.Contains(out, "no problems found") {
		t.Fatalf("restore: %d\n%s%s", code, out, errs)
	}
	p = start(t, restored)
	for _, r := range before {
		p.completed(r) // also what was under way then comes to its end
	}
	p.stop(syscall.SIGTERM)
}

// TestDoctorSeesAPortInUse and says what to do.
func TestDoctorSeesAPortInUse(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"))
	out, _, code := program(t, "doctor", "--json", "--data", filepath.Join(t.TempDir(), "other"), "--listen", strings.TrimPrefix(p.url, "http://"))
	var got struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	for _, f := range got.Findings {
		if f.Check == "address" {
			if f.Status != "fail" || f.Advice == "" || !strings.Contains(f.Detail, "in use") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Errorf("nothing about the address: %s", out)
}

// TestInsecureIsSaidAloud: other machines are let in without TLS only if that was
// asked for, and then the log says so.
func TestInsecureIsSaidAloud(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"), "--listen", "0.0.0.0:0", "--insecure")
	if line := p.wait("WARN"); !strings.Contains(line, "TLS") {
		t.Errorf("the first warning is %s", line)
	}
	p.stop(syscall.SIGTERM)
}

// Whatever an archive is, it is read or refused, and writes nowhere but into its
// folder.
func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, file := range [][2]string{{archiveHead, `{"format":1}`}, {"db/x", "y"}, {archiveManifest, "[]"}} {
		_ = w.WriteHeader(&tar.Header{Name: file[0], Mode: 0o600, Size: int64(len(file[1]))})
		_, _ = w.Write([]byte(file[1]))
	}
	_ = w.Close()
	f.Add(b.Bytes())
	f.Add([]byte("not a backup"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		into := filepath.Join(dir, "into")
		if err := os.Mkdir(into, 0o700); err != nil {
			t.Fatal(err)
		}
		_, _ = readArchive(bytes.NewReader(data), into)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%v beside the folder, %v", entries, err)
		}
	})
}
