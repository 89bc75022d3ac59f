package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestPeerTokensAreReadAgain: a token that was replaced in its file is used after
// SIGHUP, and a file without one changes nothing.
func TestPeerTokensAreReadAgain(t *testing.T) {
	seen := make(chan string, 10_000)
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(peer.Close)
	dir := t.TempDir()
	first, second := "one-"+strings.Repeat("1", 20), "two-"+strings.Repeat("2", 20)
	file := writeFile(t, dir, "peer.token", first+"\n")
	config := writeFile(t, dir, "c.yaml", fmt.Sprintf("peers: [{id: theirs, protocol: a2a, cardURL: %q, tokenFile: %q, allowPrivate: true}]\n", peer.URL, file))
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	give := func() {
		t.Helper()
		if out, errs, code := program(t, "tasks", "create", "--peer", "theirs", "--config", config, "--data", filepath.Join(dir, "data"), "count"); code != 0 {
			t.Fatalf("tasks create: %d %s%s", code, out, errs)
		}
	}
	give()
	if got := <-seen; got != first {
		t.Errorf("the peer was shown %q", got)
	}
	if err := os.WriteFile(file, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.wait("the token of a peer could not be reloaded")
	if err := os.WriteFile(file, []byte(second), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.wait("the token of a peer was replaced")
	p.wait("configuration reloaded")
	give()
	for got := first; got != second; got = <-seen {
		if got != first {
			t.Fatalf("the peer was shown %q", got)
		}
	}
	p.stop(syscall.SIGTERM)
}

// TestAPeerOnThisMachine: one that the configuration names by its loopback address is
// asked; the same address in a command is not.
func TestAPeerOnThisMachine(t *testing.T) {
	var asked atomic.Int64
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(peer.Close)
	dir := t.TempDir()
	config := writeFile(t, dir, "c.yaml", fmt.Sprintf("peers: [{id: theirs, protocol: a2a, cardURL: %q}]\n", peer.URL))
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	c := p.client()
	fails := func(to string) (facts string) {
		t.Helper()
		task, err := client.Call[command.TaskResult](t.Context(), c, &command.CreateTask{Objective: "count", Peer: to, Start: true})
		if err != nil {
			t.Fatal(err)
		}
		found, err := client.Call[struct {
			SessionID string `json:"sessionId"`
		}](t.Context(), c, &command.GetTask{TaskID: task.TaskID})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range c.Follow(t.Context(), found.SessionID, 0, nil) {
			if err != nil {
				t.Fatal(err)
			}
			facts += string(e.Data) + "\n"
			var f event.Event
			if _, err := event.DecodeHeader(e.Data, &f); err != nil {
				t.Fatal(err)
			}
			if f.Type == event.TypeTaskFailed || f.Type == event.TypeTaskBlocked {
				break
			}
		}
		return facts
	}
	if facts := fails(peer.URL); asked.Load() > 0 || !strings.Contains(facts, "peer_address") {
		t.Errorf("an address of a command was asked %d times:\n%s", asked.Load(), facts)
	}
	if facts := fails("theirs"); asked.Load() == 0 || strings.Contains(facts, "peer_address") {
		t.Errorf("the configured one was asked %d times:\n%s", asked.Load(), facts)
	}
	p.stop(syscall.SIGTERM)
}

func TestPeerTokensThatAreNone(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ file, more, want string }{
		"missing": {"", "", "token of theirs"},
		"empty":   {"\n", "", "holds no token"},
		"lines":   {"one\ntwo\n", "", "holds no token"},
		"both":    {"one", ", tokenEnv: X", "both tokenEnv and tokenFile"},
	} {
		file := filepath.Join(dir, name)
		if c.file != "" {
			writeFile(t, dir, name, c.file)
		}
		config := writeFile(t, dir, name+".yaml", fmt.Sprintf("peers: [{id: theirs, protocol: a2a, cardURL: \"http://127.0.0.1:1\", tokenFile: %q%s}]\n", file, c.more))
		if _, errs, code := program(t, "serve", "--listen", "127.0.0.1:0", "--config", config, "--data", filepath.Join(dir, name+"-data")); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
}

// TestChannelLimitsAreConfigured: the silence after which a channel counts as gone.
func TestChannelLimitsAreConfigured(t *testing.T) {
	dir := t.TempDir()
	config := writeFile(t, dir, "c.yaml", "channels: {silence: 20ms, toolGrace: 0s}\n")
	p := start(t, filepath.Join(dir, "data"), "--config", config)
	c := p.client()
	if _, err := client.Call[command.CreateSessionResult](t.Context(), c, &command.CreateSession{SessionID: "sess_c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Call[command.ConnectChannelResult](t.Context(), c, &command.ConnectChannel{
		ChannelID: "chan_c", SessionID: "sess_c", Transport: "sse", PeerRole: "client",
	}); err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Follow(t.Context(), "sess_c", 0, nil) {
		if err != nil {
			t.Fatal(err)
		}
		var f event.Event
		payload, err := event.DecodeHeader(e.Data, &f)
		if err != nil {
			t.Fatal(err)
		}
		if f.Type != event.TypeChannelDisconnected {
			continue
		}
		var gone event.ChannelDisconnected
		if err := json.Unmarshal(payload, &gone); err != nil || gone.Reason != "heartbeat_timeout" || !strings.Contains(gone.Detail, "20ms") || gone.ToolGraceMs != 0 {
			t.Errorf("%+v, %v", gone, err)
		}
		break
	}
	p.stop(syscall.SIGTERM)
}

// TestAForkGoesOnInTheTerminal: the thread of a fork has its parent elsewhere, and is
// the one to go on with.
func TestAForkGoesOnInTheTerminal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	call := func(into any, args ...string) {
		t.Helper()
		out, errs, code := program(t, append(args, "--data", data)...)
		if code != 0 {
			t.Fatalf("%v: %d %s", args, code, errs)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(out), into); err != nil {
				t.Fatalf("%v: %v in %s", args, err, out)
			}
		}
	}
	call(nil, "run", "hello")
	var list struct{ Sessions []command.SessionSummary }
	call(&list, "sessions", "--json")
	var s struct {
		Sequence uint64
		Threads  []struct{ ThreadID string }
	}
	call(&s, "call", "get_session", fmt.Sprintf(`{"sessionId":%q}`, list.Sessions[0].SessionID))
	var fork command.ForkThreadResult
	call(&fork, "call", "fork_thread", fmt.Sprintf(`{"sessionId":%q,"threadId":%q,"atSequence":%d}`, list.Sessions[0].SessionID, s.Threads[0].ThreadID, s.Sequence))
	call(nil, "run", "--session", fork.SessionID, "and on")
	call(&s, "call", "get_session", fmt.Sprintf(`{"sessionId":%q}`, fork.SessionID))
	if len(s.Threads) != 1 || s.Threads[0].ThreadID != fork.ThreadID {
		t.Errorf("the fork has %+v, want its thread %s alone", s.Threads, fork.ThreadID)
	}
}
