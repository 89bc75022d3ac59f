package conformance

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// failed lists the checks that found something.
func failed(r *Report) []string {
	var out []string
	for i := range r.Checks {
		if r.Checks[i].Failed > 0 {
			out = append(out, r.Checks[i].ID)
		}
	}
	return out
}

func findings(r *Report) string {
	var b strings.Builder
	if err := r.WriteText(&b, nil, nil); err != nil {
		return err.Error()
	}
	return b.String()
}

// Profiles and conformance: a profile's runtime publishes fixtures. Each of ours
// conforms, or is caught by the one check that it names; no check is without one.
func TestFixturesAreCaughtByTheCheckTheyName(t *testing.T) {
	caught := map[string]bool{checkBounds: true} // TestInputIsBounded has it: its fixture would be huge
	names := map[string]bool{}
	for _, f := range Fixtures() {
		c := NewChecker(Limits{})
		if err := c.Read(f.Name, bytes.NewReader(f.Data)); err != nil {
			t.Fatal(err)
		}
		var want []string
		if f.Check != "" {
			want, caught[f.Check] = []string{f.Check}, true
		}
		if got := failed(c.Report()); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v\n%s", f.Name, got, want, findings(c.Report()))
		}
		if names[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		names[f.Name] = true
	}
	for _, check := range Checks() {
		if !caught[check.ID] {
			t.Errorf("no fixture is caught by %s", check.ID)
		}
	}
}

// The standard's own fixtures conform, and none is taken for something else.
func TestFixturesOfTheStandardConform(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "spec", "fixtures")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: the standard's own fixtures against our checks (%v)", err)
	}
	c := NewChecker(Limits{})
	if err := c.Path(dir); err != nil {
		t.Fatal(err)
	}
	r := c.Report()
	if got := failed(r); got != nil || r.Sources < 7 || r.Events < 5 {
		t.Errorf("found %v in %d sources with %d events\n%s", got, r.Sources, r.Events, findings(r))
	}
}

func TestFixturesAreWrittenWithTheirManifest(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFixtures(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Publisher string
		Fixtures  []struct{ File, Check string }
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Publisher != "agentd" || len(m.Fixtures) != len(Fixtures()) {
		t.Errorf("the manifest: %v %s", err, raw)
	}
	c := NewChecker(Limits{})
	if err := c.Path(filepath.Join(dir, "valid")); err != nil || !c.Report().Conforms(true) {
		t.Errorf("what is valid: %v %s", err, findings(c.Report()))
	}
	c = NewChecker(Limits{})
	if err := c.Path(filepath.Join(dir, "broken")); err != nil || c.Report().Conforms(false) {
		t.Errorf("what is broken: %v %s", err, findings(c.Report()))
	}
}

// A check is known by its id, and rests on a paragraph.
func TestChecksAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		functions := 0
		for _, set := range []bool{c.event != nil, c.stream != nil, c.document != nil} {
			if set {
				functions++
			}
		}
		if c.ID == "" || seen[c.ID] || c.Paragraph == "" || !strings.HasSuffix(c.Says, ".") || (c.Level != Must && c.Level != Should) || (functions == 1) == (c.Scope == Input || c.Scope == Across) {
			t.Errorf("%+v", c)
		}
		seen[c.ID] = true
	}
}

// A window of a stream may begin in the middle: what was before isn't held against it.
func TestWindowsOfStreamsConform(t *testing.T) {
	events := validStream()
	for i := range events {
		c := NewChecker(Limits{})
		if err := c.Read("window", bytes.NewReader(joinLines(events[i:]))); err != nil || !c.Report().Conforms(true) {
			t.Fatalf("from event %d on: %v %s", i+1, err, findings(c.Report()))
		}
	}
}

// Remote channels, Recovery: a gap is marked. A stream that loses one event, whichever it
// is, is not taken for whole, and one that is declared partial is judged by the rest.
func TestEveryLostEventIsMissed(t *testing.T) {
	whole := validStream()
	for i := 1; i < len(whole)-1; i++ {
		if whole[i+1]["type"] == "snapshot.repaired" {
			continue // it says that something is missing
		}
		read := func(c *Checker) *Report {
			if err := c.Read("stream", bytes.NewReader(joinLines(slices.Delete(validStream(), i, i+1)))); err != nil {
				t.Fatal(err)
			}
			return c.Report()
		}
		if r := read(NewChecker(Limits{})); !slices.Contains(failed(r), checkGap) || r.Conforms(false) {
			t.Errorf("without event %d: %v", i+1, failed(r))
		}
		partial := NewChecker(Limits{})
		partial.Partial()
		if r := read(partial); slices.Contains(failed(r), checkGap) || len(r.Notes) != 1 {
			t.Errorf("declared partial, without event %d: %v, notes %q", i+1, failed(r), r.Notes)
		}
	}
}

// Where nothing was checked, nothing is proved: neither good nor bad.
func TestNothingIsNoProof(t *testing.T) {
	good := string(joinLines(validStream()))
	for _, c := range []struct {
		sources      []string
		empty, fails bool
	}{
		{[]string{""}, true, true},
		{[]string{"\n \n\t\n"}, true, true},
		{[]string{`{"events":[]}`}, true, true},
		{[]string{"{\n\"events\": []\n}\n"}, true, true},
		{[]string{good, ""}, true, true},
		{[]string{"", "[]"}, false, true},
		{[]string{"no JSON"}, false, true},
		{[]string{good}, false, false},
		{[]string{validDocuments["pack"]}, false, false},
	} {
		x := NewChecker(Limits{})
		for _, in := range c.sources {
			if err := x.Read("source", strings.NewReader(in)); err != nil {
				t.Fatal(err)
			}
		}
		if r := x.Report(); r.Empty() != c.empty || r.Conforms(false) == c.fails {
			t.Errorf("%.60q: empty %v, conforms %v\n%s", c.sources, r.Empty(), r.Conforms(false), findings(r))
		}
	}
	x := NewChecker(Limits{})
	if err := x.Events("session", func(func([]byte, error) bool) {}); err != nil || !x.Report().Empty() {
		t.Errorf("no events: %v %s", err, findings(x.Report()))
	}
}

func TestInputIsBounded(t *testing.T) {
	long := `{"type":"x","eventId":"e","timestamp":"2026-05-11T10:00:00Z","payload":"` + strings.Repeat("x", 200<<10) + `"}` + "\n"
	small := strings.ReplaceAll(long, strings.Repeat("x", 200<<10), "y")
	for name, in := range map[string]string{"in a stream": small + long + small, "first": long + small, "alone": long} {
		c := NewChecker(Limits{Line: 100 << 10, Document: 150 << 10})
		if err := c.Read(name, strings.NewReader(in)); err != nil || !slices.Contains(failed(c.Report()), checkBounds) {
			t.Errorf("%s: %v %v", name, err, failed(c.Report()))
		}
	}
	huge := strings.Repeat("i", 90<<10)
	c := NewChecker(Limits{})
	for _, e := range []string{`"turn.started"`, `"turn.completed"`, `"turn.completed"`} {
		in := fmt.Sprintf(`{"type":%s,"eventId":%q,"timestamp":"2026-05-11T10:00:00Z","schemaVersion":"x","sessionId":%q,"threadId":%q,"turnId":%q}`, e, huge, huge, huge, huge)
		if err := c.Read("ids", strings.NewReader(strings.Repeat(in+"\n", 2))); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := json.Marshal(c.Report()); err != nil || len(kept) > 64<<10 {
		t.Errorf("the report of huge ids has %d bytes: %v", len(kept), err)
	}
	c = NewChecker(Limits{Shown: 2})
	if err := c.Read("bad", strings.NewReader(small+strings.Repeat("[]\n", 50))); err != nil {
		t.Fatal(err)
	}
	r := c.Report().Checks[c.at[checkJSON]]
	if r.Failed != 50 || len(r.Findings) != 2 {
		t.Errorf("%d findings of %d are kept", len(r.Findings), r.Failed)
	}
}

// endless is a stream of n events that is made while it is read.
type endless struct {
	n, made int
	rest    []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.made == e.n {
			return 0, io.EOF
		}
		e.made++
		e.rest = fmt.Appendf(nil, `{"type":"tool.started","eventId":"evt_%d","timestamp":"2026-05-11T10:00:00Z","schemaVersion":"x","sessionId":"sess_%d","sequence":%d,"threadId":"t","toolCallId":"tool_%d","turnId":"turn_%d","payload":{"toolName":"x","safeArgs":{}}}`+"\n",
			e.made, e.made%1000, e.made, e.made, e.made)
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// Memory doesn't grow with a stream, and the report says what was forgotten.
func TestStreamsAreReadInBoundedMemory(t *testing.T) {
	held := func(n int) uint64 {
		c := NewChecker(Limits{Remembered: 500})
		if err := c.Read("endless", &endless{n: n}); err != nil {
			t.Fatal(err)
		}
		if c.Report().Events != n || len(c.Report().Notes) == 0 {
			t.Errorf("%d events, notes %v", c.Report().Events, c.Report().Notes)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		runtime.KeepAlive(c)
		return m.HeapAlloc
	}
	short, long := held(2_000), held(20_000)
	if long > short+4<<20 {
		t.Errorf("ten times the events hold %d bytes instead of %d", long, short)
	}
}

func TestReportsHaveEveryCheck(t *testing.T) {
	c := NewChecker(Limits{})
	if err := c.Read("session.jsonl", bytes.NewReader(joinLines(repeat("tool.result")(validStream())))); err != nil {
		t.Fatal(err)
	}
	r := c.Report()
	var doc struct {
		Conforms bool
		Checks   []struct{ ID, Paragraph, Level string }
	}
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil || json.Unmarshal(b.Bytes(), &doc) != nil || doc.Conforms || len(doc.Checks) != len(Checks()) {
		t.Errorf("JSON: %v %s", err, b.Bytes())
	}
	b.Reset()
	var suite junitSuite
	if err := r.WriteJUnit(&b, false); err != nil || xml.Unmarshal(b.Bytes(), &suite) != nil || suite.Failures != 1 || len(suite.Cases) != len(Checks()) || suite.Skipped == 0 {
		t.Errorf("JUnit: %v %s", err, b.Bytes())
	}
	for i, c := range suite.Cases {
		if want := r.Checks[i].Paragraph; len(c.Properties) != 2 || c.Properties[0] != (junitProperty{"paragraph", want}) || want == "" {
			t.Errorf("JUnit: %s has %v, want the paragraph %q", c.Name, c.Properties, want)
		}
	}
	loud := func(s string) string { return "<" + s + ">" }
	b.Reset()
	if err := r.WriteText(&b, &Paint{Bad: loud, Dim: loud}, nil); err != nil || !strings.Contains(b.String(), "<FAIL> stream.tool_call") ||
		!strings.Contains(b.String(), "<Specification, Standard event classes (tool)>") || !strings.Contains(b.String(), "<does not conform>") {
		t.Errorf("text: %v %s", err, b.String())
	}
}

// FuzzRead holds whatever is read against all checks: it is judged or refused, and
// never more is kept than allowed.
func FuzzRead(f *testing.F) {
	for _, x := range Fixtures() {
		if len(x.Data) < 64<<10 {
			f.Add(x.Data)
		}
	}
	f.Add([]byte("null\n[]\n1\n"))
	f.Add([]byte(`{"threads":[null,1,{"turns":[[]]}],"tasks":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewChecker(Limits{Line: 1 << 16, Document: 1 << 18, Remembered: 16, Shown: 3})
		if err := c.Read("fuzz", bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		for i := range c.Report().Checks {
			if len(c.Report().Checks[i].Findings) > 3 {
				t.Fatal("too many findings are kept")
			}
		}
		if err := c.Report().WriteJUnit(io.Discard, true); err != nil {
			t.Fatal(err)
		}
	})
}
