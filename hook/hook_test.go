package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/event"
	"agentd/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// notes is a recorder that remembers.
type notes struct {
	facts []event.Payload
	// bounds are the boundaries that were told, each at the number of facts before it.
	bounds map[int]*event.SandboxApplied
	kept   map[string]string
	fail   error // of the next report
	lost   error // of the next keep
	// unbound is the error of the next boundary.
	unbound error
}

func (n *notes) Report(_ context.Context, p event.Payload) error {
	if n.fail != nil {
		return n.fail
	}
	if b, ok := p.(*event.SandboxApplied); ok {
		if n.bounds == nil {
			n.bounds = map[int]*event.SandboxApplied{}
		}
		n.bounds[len(n.facts)] = b
		return n.unbound
	}
	n.facts = append(n.facts, p)
	return nil
}

func (n *notes) Keep(_ context.Context, _ string, content []byte) (string, error) {
	if n.lost != nil {
		return "", n.lost
	}
	if n.kept == nil {
		n.kept = map[string]string{}
	}
	ref := fmt.Sprintf("ref_%d", len(n.kept)+1)
	n.kept[ref] = string(content)
	return ref, nil
}

// kinds lists the facts in short.
func (n *notes) kinds() string {
	var out []string
	for _, f := range n.facts {
		switch f := f.(type) {
		case *event.HookStarted:
			out = append(out, "started")
		case *event.HookCompleted:
			out = append(out, "completed:"+f.Decision)
		case *event.HookFailed:
			out = append(out, "failed:"+f.ErrorCategory+":"+f.FailureBehavior)
		}
	}
	return strings.Join(out, " ")
}

// check checks the facts against the catalogue.
func (n *notes) check(t *testing.T) {
	t.Helper()
	for _, f := range n.facts {
		e := event.Event{Payload: f}
		e.SessionID, e.ThreadID, e.TurnID, e.StepID, e.ToolCallID = "sess_1", "thread_1", "turn_1", "step_1", "tool_1"
		switch f.(type) {
		case *event.HookStarted:
			e.Type = event.TypeHookStarted
		case *event.HookCompleted:
			e.Type = event.TypeHookCompleted
		case *event.HookFailed:
			e.Type = event.TypeHookFailed
		}
		if err := event.Check(&e); err != nil {
			t.Errorf("%T: %v", f, err)
		}
	}
}

// script writes a program and returns the command that runs it.
func script(t *testing.T, text string) []string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", p}
}

func runner(t *testing.T, hooks ...Hook) *Runner {
	t.Helper()
	n := 0
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := New(Options{Hooks: hooks, Exec: direct, HTTP: client, NewID: func() string { n++; return fmt.Sprintf("hook_%d", n) }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func toolInput(t *testing.T) Input {
	t.Helper()
	return Input{
		SessionID: "sess_1", ThreadID: "thread_1", TurnID: "turn_1", ToolCallID: "tool_1", Cwd: t.TempDir(), Workspace: t.TempDir(), PermissionMode: "auto",
		Sandbox: &event.SandboxApplied{Mode: "workspace_write", Network: "deny"}, ToolName: "shell", Input: event.Raw(`{"command":"ls"}`),
	}
}

func TestCommandAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, script, failure, decision, facts, reason string
	}{
		{"silence", `exit 0`, "", Continue, "started completed:continue", ""},
		{"blanks", `echo; echo " "`, "", Continue, "started completed:continue", ""},
		{"empty object", `echo '{}'`, "", Continue, "started completed:continue", ""},
		{"allow", `echo '{"decision":"allow","reason":"fine"}'`, "", Allow, "started completed:allow", "fine"},
		{"deny", `echo '{"decision":"deny","reason":"no"}'`, "", Deny, "started completed:deny", "no"},
		{"ask", `echo '{"decision":"ask"}'`, "", Ask, "started completed:ask", ""},
		{"block", `echo '{"decision":"block","reason":"stop"}'`, "", Block, "started completed:block", "stop"},
		{"exit 2", `echo '{"decision":"allow"}'; echo bad >&2; exit 2`, "", Block, "started completed:block", "bad"},
		{"exit 2 without a word", `exit 2`, "", Block, "started completed:block", "no reason"},
		{"null is nothing", `echo '{"decision":null,"updatedInput":null}'`, "", Continue, "started completed:continue", ""},
		{"reads no input", `exec <&-; echo '{"decision":"ask"}'`, "", Ask, "started completed:ask", ""},

		{"exit 1, open", `echo oops >&2; exit 1`, FailOpen, Continue, "started failed:exit:open", ""},
		{"exit 1, closed", `echo oops >&2; exit 1`, FailClosed, Block, "started failed:exit:closed", "exit status 1: oops"},
		{"exit 1 says allow", `echo '{"decision":"allow"}'; exit 1`, FailClosed, Block, "started failed:exit:closed", "exit status 1"},
		{"crash", `kill -SEGV $$`, FailClosed, Block, "started failed:exit:closed", "exit status 139"},
		{"garbage", `echo hello`, FailClosed, Block, "started failed:malformed:closed", "not a JSON object"},
		{"garbage, open", `echo hello`, FailOpen, Continue, "started failed:malformed:open", ""},
		{"an array", `echo '[]'`, FailClosed, Block, "started failed:malformed:closed", "not a JSON object"},
		{"half an object", `echo '{"decision":"allow"'`, FailClosed, Block, "started failed:malformed:closed", "malformed"},
		{"two objects", `echo '{}{}'`, FailClosed, Block, "started failed:malformed:closed", "more text after"},
		{"unknown field", `echo '{"decison":"allow"}'`, FailClosed, Block, "started failed:malformed:closed", `"decison" is not a field`},
		{"wrong case", `echo '{"Decision":"allow"}'`, FailClosed, Block, "started failed:malformed:closed", `"Decision" is not a field`},
		{"twice", `echo '{"decision":"deny","decision":"allow"}'`, FailClosed, Block, "started failed:malformed:closed", "twice"},
		{"unknown decision", `echo '{"decision":"yes"}'`, FailClosed, Block, "started failed:malformed:closed", `decision "yes"`},
		{"wrong type", `echo '{"suppressOutput":"yes"}'`, FailClosed, Block, "started failed:malformed:closed", "wrong type"},
		{"no text", `printf '{"reason":"\377"}'`, FailClosed, Block, "started failed:malformed:closed", "UTF-8"},
		{"input is no object", `echo '{"updatedInput":"ls"}'`, FailClosed, Block, "started failed:malformed:closed", "must be an object"},
		{"output before the tool ran", `echo '{"updatedOutput":"x"}'`, FailClosed, Block, "started failed:malformed:closed", "no meaning"},
		{"flood", `yes '{"a":"b"}' | head -c 3000000`, FailClosed, Block, "started failed:malformed:closed", "longer than 65536"},
		{"flood of errors", `yes x | head -c 3000000 >&2; exit 1`, FailClosed, Block, "started failed:exit:closed", "exit status 1: x"},
		{"default is closed before a tool", `exit 7`, "", Block, "started failed:exit:closed", "exit status 7"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := &notes{}
			r := runner(t, Hook{Point: PreToolUse, Command: script(t, tc.script), Failure: tc.failure})
			out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
			if err != nil {
				t.Fatal(err)
			}
			if out.Decision != tc.decision || !strings.Contains(out.Reason, tc.reason) || (tc.reason == "" && out.Reason != "") {
				t.Errorf("%s (%s), want %s (%s)", out.Decision, out.Reason, tc.decision, tc.reason)
			}
			if got := n.kinds(); got != tc.facts {
				t.Errorf("facts %q, want %q", got, tc.facts)
			}
			if want := strings.Contains(tc.facts, "closed"); out.Failed != want {
				t.Errorf("failed is %v", out.Failed)
			}
			if len(out.Reason) > maxReason+200 {
				t.Errorf("the reason has %d bytes", len(out.Reason))
			}
			n.check(t)
		})
	}
}

func TestInputIsOneObjectWithoutSecrets(t *testing.T) {
	t.Setenv("AGENTD_HOOK_TEST_VALUE", "must-not-be-seen")
	dir := t.TempDir()
	in := toolInput(t)
	in.Input = event.Raw(`{"command":"echo <b> & c"}`)
	n := &notes{}
	r := runner(t, Hook{Point: PreToolUse, Command: script(t, `cat > "$OUT/in"; env > "$OUT/env"; pwd > "$OUT/cwd"`), Env: []string{"OUT=" + dir}})
	if _, err := r.Run(t.Context(), PreToolUse, in, n); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(read("in")), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"hookRunId": "hook_1", "point": "pre_tool_use", "sessionId": "sess_1", "threadId": "thread_1", "turnId": "turn_1", "toolCallId": "tool_1",
		"cwd": in.Cwd, "workspace": in.Workspace, "permissionMode": "auto", "toolName": "shell",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %s", name, got[name], want)
		}
	}
	if input, _ := got["input"].(map[string]any); input["command"] != "echo <b> & c" {
		t.Errorf("input %v", got["input"])
	}
	if box, _ := got["sandbox"].(map[string]any); box["mode"] != "workspace_write" {
		t.Errorf("sandbox %v", got["sandbox"])
	}
	if strings.Count(read("in"), "\n") != 1 {
		t.Errorf("more than one line: %q", read("in"))
	}
	if strings.Contains(read("env"), "must-not-be-seen") || !strings.Contains(read("env"), "OUT=") {
		t.Errorf("environment: %s", read("env"))
	}
	if dir, err := filepath.EvalSymlinks(in.Workspace); err != nil || strings.TrimSpace(read("cwd")) != dir {
		t.Errorf("it runs in %s", read("cwd"))
	}
}

func TestChain(t *testing.T) {
	n := &notes{}
	r := runner(t,
		Hook{Name: "first", Point: PreToolUse, Command: script(t, `cat >/dev/null; echo '{"decision":"allow","reason":"ok","updatedInput":{"command":"ls -l"},"additionalContext":"one","auditRefs":["a"]}'`)},
		Hook{Name: "elsewhere", Point: PostToolUse, Command: script(t, `exit 2`)},
		Hook{Name: "other tool", Point: PreToolUse, Match: Match{Tool: "mcp_*"}, Command: script(t, `exit 2`)},
		Hook{Name: "second", Point: PreToolUse, Match: Match{Tool: "sh*"}, Command: script(t, `grep -q 'ls -l' || exit 9; echo '{"decision":"ask","reason":"unsure","updatedInput":{"command":"ls -la"},"additionalContext":["two","three"],"suppressOutput":true,"auditRefs":["b"]}'`)},
		Hook{Name: "third", Point: PreToolUse, Command: script(t, `grep -q 'ls -la' || exit 9; echo '{"decision":"allow","reason":"too late"}'`)},
	)
	in := toolInput(t)
	out, err := r.Run(t.Context(), PreToolUse, in, n)
	if err != nil {
		t.Fatal(err)
	}
	if out.Decision != Ask || out.Reason != "unsure" || out.HandlerRef != "second" || out.Runs != 3 {
		t.Errorf("%+v", out)
	}
	if string(out.Before) != `{"command":"ls"}` || string(out.Input) != `{"command":"ls -la"}` || !out.Rewritten || n.kept[out.InputRef] != `{"command":"ls -la"}` {
		t.Errorf("before %s, after %s, kept %q", out.Before, out.Input, n.kept[out.InputRef])
	}
	if !slices.Equal(out.Context, []string{"one", "two", "three"}) || len(out.ContextRefs) != 3 || n.kept[out.ContextRefs[2]] != "three" || !slices.Equal(out.AuditRefs, []string{"a", "b"}) || !out.SuppressOutput {
		t.Errorf("%+v", out)
	}
	second, ok := n.facts[3].(*event.HookCompleted)
	if !ok || n.kept[second.OriginalInputRef] != `{"command":"ls -l"}` || n.kept[second.UpdatedInputRef] != `{"command":"ls -la"}` {
		t.Errorf("the second run: %+v", n.facts[3])
	}
	n.check(t)
}

func TestBlockEndsTheRow(t *testing.T) {
	for _, word := range []string{Deny, Block} {
		n := &notes{}
		r := runner(t,
			Hook{Point: PreToolUse, Command: script(t, `echo '{"decision":"`+word+`","reason":"no"}'`)},
			Hook{Point: PreToolUse, Command: script(t, `echo '{"decision":"allow"}'`)},
		)
		out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
		if err != nil || out.Decision != word || out.Runs != 1 {
			t.Errorf("%s: %+v %v", word, out, err)
		}
	}
}

func TestFailOpenGoesOn(t *testing.T) {
	n := &notes{}
	r := runner(t,
		Hook{Point: PreToolUse, Command: script(t, `exit 1`), Failure: FailOpen},
		Hook{Point: PreToolUse, Command: script(t, `echo '{"decision":"deny"}'`)},
	)
	out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
	if err != nil || out.Decision != Deny || n.kinds() != "started failed:exit:open started completed:deny" {
		t.Errorf("%+v %v %s", out, err, n.kinds())
	}
}

func TestSpawnFailure(t *testing.T) {
	n := &notes{}
	r := runner(t, Hook{Point: PreToolUse, Command: []string{"/nowhere/at/all"}})
	out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
	if err != nil || out.Decision != Block || n.kinds() != "started failed:spawn:closed" {
		t.Errorf("%+v %v %s", out, err, n.kinds())
	}
}

func TestTimeoutKillsEverything(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	// On a busy machine a short time is over before the child began.
	for timeout := 300 * time.Millisecond; ; timeout *= 4 {
		n := &notes{}
		// The child keeps stdout open and outlives its parent, if it is let.
		r := runner(t, Hook{Point: PreToolUse, Command: script(t, `sh -c 'echo $$ > "$PID"; exec sleep 600' & wait`), Env: []string{"PID=" + pidFile}, Timeout: timeout})
		out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
		if err != nil || out.Decision != Block || n.kinds() != "started failed:timeout:closed" || !strings.Contains(out.Reason, timeout.String()) {
			t.Fatalf("%+v %v %s", out, err, n.kinds())
		}
		if f, ok := n.facts[1].(*event.HookFailed); !ok || !f.Retryable {
			t.Errorf("%+v", n.facts[1])
		}
		pid, err := os.ReadFile(pidFile)
		if err != nil || len(pid) == 0 {
			continue
		}
		for alive(strings.TrimSpace(string(pid))) {
			time.Sleep(5 * time.Millisecond) // it was killed; the kernel takes a moment
		}
		return
	}
}

// alive says whether a process runs; one that nobody has waited for doesn't.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestInterruptedRunIsRecorded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("the turn was interrupted")
	n := &notes{}
	r, err := New(Options{
		Hooks: []Hook{{Point: PreToolUse, Command: []string{"x"}, Failure: FailOpen}, {Point: PreToolUse, Command: []string{"y"}}}, NewID: func() string { return "hook_1" },
		Exec: func(ctx context.Context, _ Command) (Exit, error) {
			cancel(stop)
			<-ctx.Done()
			return Exit{Code: 137}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(ctx, PreToolUse, toolInput(t), n); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	if n.kinds() != "started failed:lost:open" {
		t.Errorf("facts %s", n.kinds())
	}
}

func TestFactThatCantBeRecordedStops(t *testing.T) {
	full := errors.New("disk full")
	ran := false
	r, err := New(Options{
		Hooks: []Hook{{Point: PreToolUse, Command: []string{"x"}}}, NewID: func() string { return "hook_1" },
		Exec: func(context.Context, Command) (Exit, error) {
			ran = true
			return Exit{Stdout: []byte(`{"additionalContext":"x"}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), PreToolUse, toolInput(t), &notes{fail: full}); !errors.Is(err, full) || ran {
		t.Errorf("error %v, ran %v", err, ran)
	}
	if out, err := r.Run(t.Context(), PreToolUse, toolInput(t), &notes{lost: full}); !errors.Is(err, full) || !ran || len(out.Context) != 0 {
		t.Errorf("error %v, ran %v, %+v", err, ran, out)
	}
}

func TestHTTP(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	release := make(chan struct{})
	handler := http.NewServeMux()
	reply := func(path string, status int, body string) {
		handler.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			var in struct{ Point string }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Point != "pre_tool_use" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %v %+v", path, err, in)
			}
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, body)
		})
	}
	reply("/deny", 200, `{"decision":"deny","reason":"no"}`)
	reply("/empty", 204, "")
	reply("/error", 500, `{"decision":"allow"}`)
	reply("/html", 200, `<html>`)
	reply("/flood", 200, strings.Repeat(" ", 1<<20)+`{}`)
	handler.Handle("/same", http.RedirectHandler("/deny", http.StatusTemporaryRedirect))
	handler.Handle("/get", http.RedirectHandler("/deny", http.StatusFound))
	handler.Handle("/away", http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	handler.Handle("/loop", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
	handler.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-release:
		}
	})
	handler.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	server := httptest.NewServer(handler)
	defer server.Close()
	defer close(release)
	closed := httptest.NewServer(handler)
	closed.Close()
	for _, tc := range []struct {
		url, decision, facts, reason string
	}{
		{server.URL + "/deny", Deny, "started completed:deny", "no"},
		{server.URL + "/empty", Continue, "started completed:continue", ""},
		{server.URL + "/same", Deny, "started completed:deny", "no"},
		{server.URL + "/error", Block, "started failed:network:closed", "500"},
		{server.URL + "/html", Block, "started failed:malformed:closed", "not a JSON object"},
		{server.URL + "/flood", Block, "started failed:malformed:closed", "longer than"},
		{server.URL + "/get", Block, "started failed:network:closed", "drops the request's body"},
		{server.URL + "/away", Block, "started failed:network:closed", "another origin"},
		{server.URL + "/loop", Block, "started failed:network:closed", "more than 3 redirects"},
		{server.URL + "/slow", Block, "started failed:timeout:closed", "200ms"},
		{server.URL + "/cut", Block, "started failed:network:closed", "EOF"},
		{closed.URL + "/deny", Block, "started failed:network:closed", "refused"},
	} {
		n := &notes{}
		timeout := time.Minute
		if strings.HasSuffix(tc.url, "/slow") {
			timeout = 200 * time.Millisecond
		}
		r := runner(t, Hook{Point: PreToolUse, URL: tc.url, Timeout: timeout})
		out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n)
		if err != nil || out.Decision != tc.decision || n.kinds() != tc.facts || !strings.Contains(out.Reason, tc.reason) {
			t.Errorf("%s: %s (%s) %s %v", tc.url, out.Decision, out.Reason, n.kinds(), err)
		}
		n.check(t)
	}
	n := &notes{}
	token := strings.Repeat("t", 8)
	r := runner(t, Hook{Point: PreToolUse, URL: closed.URL + "/deny?token=" + token})
	if out, err := r.Run(t.Context(), PreToolUse, toolInput(t), n); err != nil || strings.Contains(out.Reason, token) {
		t.Errorf("the address is told: %s %v", out.Reason, err)
	}
}

func TestPointsAndTheirAnswers(t *testing.T) {
	for _, p := range Points() {
		for field, fits := range map[string]bool{
			`"updatedInput":{"a":1}`: p == UserPromptSubmit || p == PreToolUse || p == PermissionRequest,
			`"updatedOutput":"x"`:    p == PostToolUse || p == PostToolFailure,
			`"additionalContext":""`: true,
			`"decision":"block"`:     true,
		} {
			n := &notes{}
			r, err := New(Options{
				Hooks: []Hook{{Point: p, Command: []string{"x"}, Failure: FailOpen}}, NewID: func() string { return "hook_1" },
				Exec: func(context.Context, Command) (Exit, error) { return Exit{Stdout: []byte("{" + field + "}")}, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Run(t.Context(), p, Input{}, n); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(n.kinds(), "completed"); got != fits {
				t.Errorf("%s at %s: %s", field, p, n.kinds())
			}
			n.check(t)
		}
	}
}

func TestOutputChain(t *testing.T) {
	seen := []string{}
	r, err := New(Options{
		Hooks: []Hook{{Point: PostToolUse, Command: []string{"a"}}, {Point: PostToolUse, Command: []string{"b"}}}, NewID: func() string { return "hook_1" },
		Exec: func(_ context.Context, c Command) (Exit, error) {
			var in struct{ Output string }
			if err := json.Unmarshal(c.Stdin, &in); err != nil {
				t.Error(err)
			}
			seen = append(seen, in.Output)
			return Exit{Stdout: []byte(`{"updatedOutput":"` + in.Output + c.Argv[0] + `"}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{}
	out, err := r.Run(t.Context(), PostToolUse, Input{Output: event.Raw(`"x"`)}, n)
	if err != nil || string(out.Output) != `"xab"` || !slices.Equal(seen, []string{"x", "xa"}) || n.kept[out.OutputRef] != `"xab"` {
		t.Errorf("%s %v %v", out.Output, seen, err)
	}
}

func TestNew(t *testing.T) {
	id := func() string { return "hook_1" }
	for want, h := range map[string]Hook{
		`hook 1: point "later" is not one of`:          {Point: "later", Command: []string{"x"}},
		`hook 1: command or url is missing`:            {Point: Stop},
		`hook 1: give either command or url, not both`: {Point: Stop, Command: []string{"x"}, URL: "http://127.0.0.1/"},
		`hook 1: command is empty`:                     {Point: Stop, Command: []string{""}},
		`hook 1: timeout -1s is not between`:           {Point: Stop, Command: []string{"x"}, Timeout: -time.Second},
		`hook 1: timeout 1h0m0s is not between`:        {Point: Stop, Command: []string{"x"}, Timeout: time.Hour},
		`hook 1: failure "maybe" is not one of`:        {Point: Stop, Command: []string{"x"}, Failure: "maybe"},
		`hook 1: url "file:///x" is not an http`:       {Point: Stop, URL: "file:///x"},
		`hook 1: match.tool "[" is not a valid glob`:   {Point: Stop, Command: []string{"x"}, Match: Match{Tool: "["}},
	} {
		if _, err := New(Options{Hooks: []Hook{h}, Exec: direct, NewID: id}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", h, err, want)
		}
	}
	if _, err := New(Options{Hooks: []Hook{{Point: Stop, Command: []string{"x"}}}, NewID: id}); err == nil || !strings.Contains(err.Error(), "can't be run") {
		t.Errorf("without Exec: %v", err)
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "NewID") {
		t.Errorf("without NewID: %v", err)
	}
}

func TestHasAndNames(t *testing.T) {
	password := strings.Repeat("p", 8)
	r, err := New(Options{
		Hooks: []Hook{
			{Point: PreToolUse, Match: Match{Tool: "sh*"}, Command: []string{"./check.sh", "--token=" + password}},
			{Point: Stop, URL: "http://user:" + password + "@127.0.0.1:1/a?token=" + password},
		},
		Exec: direct, NewID: func() string { return "hook_1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		point Point
		tool  string
		want  bool
	}{{PreToolUse, "shell", true}, {PreToolUse, "read_file", false}, {PreToolUse, "", false}, {Stop, "", true}, {Stop, "shell", true}, {PostToolUse, "shell", false}} {
		if got := r.Has(tc.point, tc.tool); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	if r.hooks[0].Name != "command:./check.sh" || r.hooks[1].Name != "url:http://127.0.0.1:1/a" {
		t.Errorf("names %q %q", r.hooks[0].Name, r.hooks[1].Name)
	}
	if r.hooks[0].Failure != FailClosed || r.hooks[1].Failure != FailOpen {
		t.Errorf("failures %q %q", r.hooks[0].Failure, r.hooks[1].Failure)
	}
	if out, err := r.Run(t.Context(), PostToolUse, Input{}, &notes{}); err != nil || out.Decision != Continue || out.Runs != 0 {
		t.Errorf("no hook: %+v %v", out, err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"decision":"allow","updatedInput":{"a":1},"additionalContext":["x"]}`))
	f.Add([]byte(`{"reason":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseAnswer(data)
		if err == nil && (rank(a.decision) < 0 || len(a.reason) > maxReason+4) {
			t.Fatalf("%q: %+v", data, a)
		}
	})
}
