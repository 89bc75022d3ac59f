//go:build unix

package mcp

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agentd/tool"
)

func TestStdioBothRevisions(t *testing.T) {
	for _, mode := range []string{"real", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			c := open(t, newRecorder().options(), self(t, "s", mode))
			want := map[string]string{"real": revisionNewest, "legacy": revisionLegacy}[mode]
			if st := c.Status()[0]; st.Protocol != want || st.State != Ready || st.Name != "test" || st.Tools == 0 {
				t.Fatalf("status %+v", st)
			}
			if out := run(t, c, "mcp__s__echo", `{"a":1}`); string(out.Output) != `{"a":1}` || out.IsError {
				t.Errorf("echo gave %+v", out)
			}
			if out := run(t, c, "mcp__s__fail", `{}`); !out.IsError || string(out.Output) != "disk full" {
				t.Errorf("fail gave %+v", out)
			}
			if _, err := findTool(t, c, "mcp__s__echo").Run(t.Context(), callOf(``)); err != nil {
				t.Errorf("no input: %v", err)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	for _, trust := range []bool{false, true} {
		s := self(t, "s", "real")
		s.TrustHints = trust
		c := open(t, Options{}, s)
		i := findTool(t, c, "mcp__s__readKill").Info()
		if i.IsReadOnly != trust || i.IsConcurrencySafe != trust || i.RuntimeOwner != "mcp_server" || i.InterruptBehavior != "cancel" {
			t.Errorf("trust %v: %+v", trust, i)
		}
	}
}

func TestProgressAndTrace(t *testing.T) {
	for _, mode := range []string{"real", "legacy"} {
		c := open(t, Options{}, self(t, "s", mode))
		h := newHost()
		call := callOf(`{}`)
		call.Host, call.TraceParent = h, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		call.TraceState = "rojo=00f067aa0ba902b7"
		out, err := findTool(t, c, "mcp__s__meta").Run(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, string(out.Output), call.TraceParent)
		wantText(t, string(out.Output), call.TraceState)

		proceed := findTool(t, c, "mcp__s__proceed")
		go func() {
			for range 4 {
				<-h.told
			}
			_, _ = proceed.Run(t.Context(), callOf(`{}`))
		}()
		if _, err := findTool(t, c, "mcp__s__progress").Run(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		got, fractions := slices.Clone(h.progress), slices.Clone(h.fraction)
		h.mu.Unlock()
		if !slices.Equal(got, []string{"step 1", "step 2", "step 3", "step 4"}) || !slices.Equal(fractions, []float64{0.25, 0.5, 0.75, 1}) {
			t.Errorf("%s: progress %q %v", mode, got, fractions)
		}
	}
}

func TestCancellationReachesTheServer(t *testing.T) {
	for _, mode := range []string{"real", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			c := open(t, Options{}, self(t, "s", mode))
			ctx, cancel := context.WithCancel(t.Context())
			h := newHost()
			call := callOf(`{}`)
			call.Host = h
			go func() {
				<-h.told // It waits by now.
				cancel()
			}()
			_, err := findTool(t, c, "mcp__s__wait").Run(ctx, call)
			if e := category(t, err); e.Category != tool.Interrupted {
				t.Errorf("got %v", e)
			}
			eventually(t, "cancellation at the server", func() bool {
				return string(run(t, c, "mcp__s__cancelled", `{}`).Output) == "1"
			})
		})
	}
}

func TestCallTimeout(t *testing.T) {
	// On a busy machine a short time is over before the server began with the call, and
	// then it has nothing to cancel.
	for limit := 200 * time.Millisecond; !timesOut(t, limit); limit *= 4 {
		continue
	}
}

// timesOut has a call end by a limit, and says whether the server was at it by then.
func timesOut(t *testing.T, limit time.Duration) bool {
	t.Helper()
	s := self(t, "s", "real")
	s.Timeout = limit
	c := open(t, Options{}, s)
	h := newHost()
	call := callOf(`{}`)
	call.Host = h
	_, err := findTool(t, c, "mcp__s__wait").Run(t.Context(), call)
	if e := category(t, err); e.Category != tool.Timeout || e.Advice == "" || e.Retryable {
		t.Errorf("got %+v", e)
	}
	if len(h.told) == 0 {
		return false
	}
	eventually(t, "cancellation at the server", func() bool {
		res, err := findTool(t, c, "mcp__s__cancelled").Run(t.Context(), callOf(`{}`))
		return err == nil && string(res.Output) == "1" // on a busy machine this call may time out, too
	})
	return true
}

func TestKilledInMidCall(t *testing.T) {
	s := self(t, "s", "real")
	s.TrustHints = true
	rec := newRecorder()
	c := open(t, rec.options(), s)
	before := string(run(t, c, "mcp__s__pid", `{}`).Output)

	_, err := findTool(t, c, "mcp__s__kill").Run(t.Context(), callOf(`{}`))
	if e := category(t, err); e.Category != tool.Lost || e.Retryable || e.Advice == "" {
		t.Errorf("a tool that may change things: %+v", e)
	}
	// The next call waits for the new process.
	after := string(run(t, c, "mcp__s__pid", `{}`).Output)
	if after == before {
		t.Error("the same process answered")
	}
	_, err = findTool(t, c, "mcp__s__readKill").Run(t.Context(), callOf(`{}`))
	if e := category(t, err); e.Category != tool.Unavailable || !e.Retryable {
		t.Errorf("a tool that only reads: %+v", e)
	}
	rec.until(t, "third process", func() bool { st := c.Status()[0]; return st.State == Ready && st.Connects == 3 })
	wantText(t, strings.Join(rec.all(), "\n"), "signal: killed")
}

func TestServerThatCantStart(t *testing.T) {
	rec := newRecorder()
	hang := self(t, "hang", "hang")
	hang.StartTimeout = 300 * time.Millisecond
	refused := errors.New("the sandbox refuses")
	opts := rec.options()
	opts.Exec = func(_ string, cmd *exec.Cmd) error {
		if slices.Contains(cmd.Args, "refuse") {
			return refused
		}
		return nil
	}
	c := open(t, opts,
		self(t, "exits", "exit"), hang, self(t, "good", "real"), self(t, "refused", "real", "refuse"),
		Server{ID: "missing", Command: []string{"/nonexistent/agentd-test-server"}}, Server{ID: "empty"},
	)
	reasons := map[string][]string{
		"exits": {"exit status 3", "no such database"}, "hang": {"didn't answer within 300ms"}, "refused": {refused.Error()},
		"missing": {"no such file"}, "empty": {"give a command or a URL"},
	}
	for _, st := range c.Status() {
		if want, ok := reasons[st.ID]; ok {
			if st.State == Ready {
				t.Errorf("%s is ready", st.ID)
			}
			wantText(t, st.Reason, want...)
		} else if st.State != Ready {
			t.Errorf("%s: %+v", st.ID, st)
		}
	}
	rec.until(t, "further attempts", func() bool {
		n := 0
		for _, s := range rec.all() {
			if strings.HasPrefix(s, "unavailable") && strings.Contains(s, "exit status 3") {
				n++
			}
		}
		return n >= 3
	})
	run(t, c, "mcp__good__echo", `{}`)
}

func TestUnavailableServerAnswersAtOnce(t *testing.T) {
	rec := newRecorder()
	opts := rec.options()
	opts.pause = func(attempt int) time.Duration {
		if attempt == 0 {
			return 0
		}
		return time.Hour
	}
	c := open(t, opts, self(t, "s", "real"))
	kill := findTool(t, c, "mcp__s__kill")
	_, _ = kill.Run(t.Context(), callOf(`{}`))
	rec.until(t, "loss", func() bool { return c.Status()[0].State == Unavailable })
	if ok, reason := findTool(t, c, "mcp__s__echo").(tool.Availability).Available(); ok || !strings.Contains(reason, "killed") {
		t.Errorf("available %v, %q", ok, reason)
	}
	_, err := findTool(t, c, "mcp__s__echo").Run(t.Context(), callOf(`{}`))
	if e := category(t, err); e.Category != tool.Unavailable || !e.Retryable {
		t.Errorf("got %+v", e)
	}
}

func TestListChange(t *testing.T) {
	for _, mode := range []string{"real", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			rec := newRecorder()
			c := open(t, rec.options(), self(t, "s", mode))
			if slices.Contains(names(c), "mcp__s__grown") {
				t.Fatal("it is there already")
			}
			run(t, c, "mcp__s__grow", `{}`)
			rec.until(t, "new tool", func() bool { return slices.Contains(names(c), "mcp__s__grown") })
			if out := run(t, c, "mcp__s__grown", `{}`); string(out.Output) != "new" {
				t.Errorf("got %s", out.Output)
			}
		})
	}
}

func TestWhatServersAskFor(t *testing.T) {
	for _, mode := range []string{"real", "legacy"} {
		root := t.TempDir()
		c := open(t, Options{Root: root}, self(t, "s", mode))
		if mode == "legacy" { // The newer revision has no requests of servers.
			wantText(t, string(run(t, c, "mcp__s__elicit", `{}`).Output), "does not support")
			wantText(t, string(run(t, c, "mcp__s__roots", `{}`).Output), "file://"+root)
			continue
		}
		wantText(t, string(run(t, c, "mcp__s__input", `{}`).Output), "file://"+root)
		_, err := findTool(t, c, "mcp__s__inputPerson").Run(t.Context(), callOf(`{}`))
		e := category(t, err)
		if e.Category != tool.Execution {
			t.Errorf("got %+v", e)
		}
		wantText(t, e.Message, "a person's input", "declined")
	}
}

func TestHugeResult(t *testing.T) {
	c := open(t, Options{}, self(t, "s", "real"))
	call := callOf(`{}`)
	call.MaxOutput = 1000
	out, err := findTool(t, c, "mcp__s__big").Run(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Output) > 1100 || out.Dropped < 1<<18-1000 || !utf8.Valid(out.Output) {
		t.Errorf("%d bytes, %d dropped, valid %v", len(out.Output), out.Dropped, utf8.Valid(out.Output))
	}
	wantText(t, string(out.Output), "BEGIN", "END", strconv.FormatInt(out.Dropped, 10)+" bytes left out")
}

func TestServersThatMisbehave(t *testing.T) {
	text := func(mode string) *tool.Result {
		t.Helper()
		c := open(t, Options{}, self(t, "s", mode))
		return run(t, c, "mcp__s__t", `{}`)
	}
	if out := text("greets"); string(out.Output) != "hello" {
		t.Errorf("a server that greets: %s", out.Output)
	}
	out := text("odd-content")
	wantText(t, string(out.Output), `{"type":"hologram","beam":7}`, `"data":"%%%"`, "fine")
	if out := text("bad-utf8"); string(out.Output) != "a\uFFFD"+"b" && string(out.Output) != "a\uFFFD\uFFFDb" {
		t.Errorf("bad UTF-8: %q", out.Output)
	}
	if out := text("no-content"); len(out.Output) != 0 || out.IsError {
		t.Errorf("no content: %+v", out)
	}
	out = text("lies")
	if out.IsError || string(out.Structured) != `{"n":"many"}` {
		t.Errorf("a server that lies: %+v", out)
	}
	wantText(t, string(out.Output), "n is many", "contradicts the tool's own output schema")
}

func TestOldServersAndTheNewHandshake(t *testing.T) {
	rec := newRecorder()
	run(t, open(t, rec.options(), self(t, "s", "dies-on-discover")), "mcp__s__t", `{}`)
	if len(rec.all()) < 2 {
		t.Errorf("one that dies: states %q", rec.all())
	}
	// One that only ignores the request needs no second process. A third of its time
	// is waited in vain; the rest may be too short on a busy machine.
	for limit := 3 * time.Second; ; limit *= 4 {
		s := self(t, "s", "ignores-discover")
		s.StartTimeout = limit
		rec := newRecorder()
		c := open(t, rec.options(), s)
		if states := rec.all(); limit < time.Minute && len(states) > 0 && strings.Contains(states[0], "didn't answer within") {
			continue
		}
		run(t, c, "mcp__s__t", `{}`)
		if states := rec.all(); len(states) != 1 {
			t.Errorf("one that ignores: states %q", states)
		}
		return
	}
}

func TestNoiseEndsTheConnection(t *testing.T) {
	c := open(t, newRecorder().options(), self(t, "s", "noise"))
	wantText(t, c.Status()[0].Stderr, "this is not the protocol")
	if st := c.Status()[0]; st.State == Ready || len(st.Stderr) > 2*tailBytes {
		t.Errorf("%+v", st)
	}
}

func TestMessageTooLarge(t *testing.T) {
	rec := newRecorder()
	c := open(t, rec.options(), self(t, "s", "floods-once"))
	_, err := findTool(t, c, "mcp__s__t").Run(t.Context(), callOf(`{}`))
	if e := category(t, err); e.Category != tool.Lost {
		t.Errorf("got %+v", e)
	}
	rec.until(t, "new process", func() bool { return c.Status()[0].Connects == 2 })
	wantText(t, strings.Join(rec.all(), "\n"), "more than 16 MiB")
}

// The SDK says with this error that it sent nothing. A server that sends it may
// have done everything, so the call is not made again.
func TestServerThatSaysItIsClosing(t *testing.T) {
	c := open(t, newRecorder().options(), self(t, "s", "says-closing"))
	res, err := findTool(t, c, "mcp__s__t").Run(t.Context(), callOf(`{}`))
	if err == nil {
		t.Fatalf("the call was made twice: %s", res.Output)
	}
	if e := category(t, err); e.Category != tool.Lost || e.Retryable {
		t.Errorf("got %+v", e)
	}
}

func TestStderrFlood(t *testing.T) {
	c := open(t, Options{}, self(t, "s", "flood"))
	run(t, c, "mcp__s__echo", `{}`)
	// It comes over another pipe than the answer.
	eventually(t, "the last line", func() bool { return strings.HasSuffix(c.Status()[0].Stderr, "the last line") })
	st := c.Status()[0]
	if len(st.Stderr) > tailBytes+3 {
		t.Errorf("%d bytes kept, ending in %q", len(st.Stderr), st.Stderr[max(0, len(st.Stderr)-50):])
	}
}

// A server that doesn't read must not hold a caller, however much it is sent.
func TestServerThatStopsReading(t *testing.T) {
	c := open(t, Options{}, self(t, "s", "stops-reading"))
	tl := findTool(t, c, "mcp__s__t")
	input := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for range 2 { // The second one finds the pipe full.
		_, err := tl.Run(ctx, callOf(input))
		if e := category(t, err); e.Category != tool.Timeout {
			t.Errorf("got %+v", e)
		}
	}
}

func TestSchemas(t *testing.T) {
	c := open(t, Options{}, self(t, "s", "schemas"))
	want := []string{"mcp__s__good", "mcp__s__none", "mcp__s__untyped"}
	if got := names(c); !slices.Equal(got, want) {
		t.Errorf("tools %q, want %q", got, want)
	}
	skipped := strings.Join(c.Status()[0].Skipped, "\n")
	wantText(t, skipped, "tool remote: ", "nothing is loaded", "tool file: ", "tool broken: ", "tool array: ", "tool text: ", "without a name")
}

func TestEnvironmentStaysHome(t *testing.T) {
	secret := strings.Join([]string{"not", "for", "servers"}, "-")
	t.Setenv("AGENTD_TEST_PROVIDER_KEY", secret)
	s := self(t, "s", "real")
	s.Env = append(s.Env, "ASKED_FOR=1")
	c := open(t, Options{}, s)
	env := string(run(t, c, "mcp__s__env", `{}`).Output)
	wantText(t, env, "ASKED_FOR=1", "PATH=")
	if strings.Contains(env, secret) {
		t.Error("the server sees the runtime's environment")
	}
}
