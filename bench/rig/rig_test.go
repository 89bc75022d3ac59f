package rig

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func ask(t *testing.T, url, body string) string {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, b)
	}
	return string(b)
}

func TestTheModelCallsAToolAndThenAnswers(t *testing.T) {
	m := NewModel(t, map[string]Scenario{"read": {Tool: "read_file", Arguments: `{"path":"a"}`}, "text": {}})
	const (
		user = `{"messages":[{"role":"user","content":"go"}]}`
		tool = `{"messages":[{"role":"user","content":"go"},{"role":"assistant"},{"role":"tool","content":"a"}]}`
		next = `{"messages":[{"role":"user","content":"go"},{"role":"tool","content":"a"},{"role":"user","content":"on"}]}`
		item = `{"input":[{"role":"user"},{"type":"function_call_output"}]}`
	)
	for _, c := range []struct{ url, body, want, not string }{
		{m.URL("read") + "/chat/completions", user, `"name":"read_file"`, `"stop"`},
		{m.URL("read") + "/chat/completions", tool, `"stop"`, "read_file"},
		{m.URL("read") + "/chat/completions", next, `"name":"read_file"`, `"stop"`},
		{m.URL("read") + "/responses", user, `"type":"function_call"`, "output_text"},
		{m.URL("read") + "/responses", item, "output_text", "function_call"},
		{m.URL("text") + "/chat/completions", user, `"stop"`, "read_file"},
	} {
		got := ask(t, c.url, c.body)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s %s: want %s and no %s, got\n%s", c.url, c.body, c.want, c.not, got)
		}
	}
	if m.Calls() != 6 {
		t.Errorf("counted %d calls, want 6", m.Calls())
	}
}

func TestALongConversationIsReadFromItsEnd(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for body, want := range map[string]bool{
		`{"role":"user"}` + long + `{"role":"tool"}`:       true,
		`{"role":"user"}{"role":"tool","content":"` + long: true,
		`{"role":"tool"}` + long + `{"role":"user"}`:       false,
		`{"role":"tool"}{"role":"user","content":"` + long: false,
		`{"role":"user"}{"role":"tool"}{"role":"user"}`:    false,
	} {
		if got := returned([]byte(body)); got != want {
			t.Errorf("%.40s…: %v, want %v", body, got, want)
		}
	}
}

func TestStreamedTokensTellWhenTheyWereDue(t *testing.T) {
	const every = time.Millisecond
	m := NewModel(t, map[string]Scenario{"s": {Tokens: 20, Every: every}})
	began := time.Now()
	answer := ask(t, m.URL("s")+"/chat/completions", `{"role":"user"}`)
	due := NewDue(every)
	var times []time.Time
	for line := range strings.Lines(answer) {
		_, rest, _ := strings.Cut(line, `"content":"`)
		text, _, _ := strings.Cut(rest, `"`)
		if err := due.Add(text, func(at time.Time) { times = append(times, at) }); err != nil {
			t.Fatal(err)
		}
	}
	if due.Tokens() != 20 || len(times) != 20 {
		t.Fatalf("%d tokens, want 20", due.Tokens())
	}
	if got := times[19].Sub(times[0]); got != 19*every {
		t.Errorf("the last token was due %v after the first, want %v", got, 19*every)
	}
	if times[0].Before(began.Truncate(time.Microsecond)) || times[0].After(time.Now()) {
		t.Errorf("the first token was due at %v, and the request was made at %v", times[0], began)
	}
	if len(m.Late()) != 20 {
		t.Errorf("the provider tells of %d tokens", len(m.Late()))
	}
}

func TestMissingTokensAreNoticed(t *testing.T) {
	due := NewDue(time.Millisecond)
	if err := due.Add(token(0, time.Now())+token(1, time.Time{})+token(3, time.Time{}), func(time.Time) {}); err == nil {
		t.Error("token 2 is missing, and nobody noticed")
	}
}

func TestPercentiles(t *testing.T) {
	times := make(Times, 0, 100)
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0: 1, 50: 51, 99: 100, 100: 100} {
		if got := times.Percentile(p); got != want {
			t.Errorf("p%v is %d, want %d", p, got, want)
		}
	}
	if got := Times(nil).Percentile(50); got != 0 {
		t.Errorf("without times p50 is %d", got)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("skipped: reading the usage of a process needs /proc")
	}
	before, err := ReadUsage(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if before.RSS < 1<<20 {
		t.Errorf("resident memory is %d bytes", before.RSS)
	}
	for {
		after, err := ReadUsage(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after.Sub(before).CPU > 0 {
			break // asking takes time itself
		}
	}
	if _, err := ReadUsage(-1); err == nil {
		t.Error("a process that isn't there has a usage")
	}
}
