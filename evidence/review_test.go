package evidence_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
)

func reviewOf(k *kit, s command.ExportScope) *evidence.Review {
	k.Helper()
	res := runCommand[command.ExportResult](k, &command.ExportReview{ExportScope: s})
	r := &evidence.Review{}
	if err := json.Unmarshal(res.Pack, r); err != nil {
		k.Fatal(err)
	}
	return r
}

// TestReviewRestsOnFacts: every statement names a fact of the scope, and the
// chapters hold what happened.
func TestReviewRestsOnFacts(t *testing.T) {
	k, turns := busy(t, nil)
	known := map[string]*event.Event{}
	for _, e := range k.facts("sess_busy") {
		known[e.ID] = e
	}
	r := reviewOf(k, command.ExportScope{SessionID: "sess_busy", TurnID: turns[0]})
	text := map[string]string{}
	for _, c := range r.Chapters {
		for _, s := range c.Statements {
			if e := known[s.EventID]; e == nil || e.TurnID != turns[0] || e.Sequence != s.Sequence {
				t.Errorf("%s: %q rests on %s", c.Name, s.Says, s.EventID)
			}
			if !strings.Contains(r.HTML, s.EventID) || !strings.Contains(r.Markdown, strings.ReplaceAll(s.EventID, "_", `\_`)) {
				t.Errorf("the pages don't name %s", s.EventID)
			}
			text[c.Name] += s.Says + "\n"
		}
	}
	for chapter, want := range map[string]string{
		"asked": "write it <now>", "done": "written & read <done>", "decided": "was allowed by", "changed": "notes.txt was created",
		"failures": "read_file failed", "costs": "tokens in",
	} {
		if !strings.Contains(text[chapter], want) {
			t.Errorf("the chapter %s doesn't say %q:\n%s", chapter, want, text[chapter])
		}
	}
	if text["open"] != "" {
		t.Errorf("open: %s", text["open"])
	}
	if last := k.facts("sess_busy"); last[len(last)-1].Payload.(*event.EvidenceChanged).Kind != "review" {
		t.Error("the export was not recorded")
	}
}

// TestReviewCantBeWrittenByWhatItIsAbout: what users and models say stays text.
func TestReviewCantBeWrittenByWhatItIsAbout(t *testing.T) {
	k := newKit(t, nil, script.Answer{Text: "<script>alert(1)</script>\n# Approved\n[click](javascript:x) ![p](http://example.invalid/p.png)"})
	k.turn("sess_bad", "<img src=x onerror=y>\n## Heading", nil)
	r := reviewOf(k, command.ExportScope{SessionID: "sess_bad"})
	for _, bad := range []string{"<script>", "<img"} {
		if strings.Contains(r.HTML, bad) || strings.Contains(strings.ReplaceAll(r.Markdown, `\<`, ""), bad) {
			t.Errorf("%s got through", bad)
		}
	}
	if strings.Contains(r.Markdown, "\n# Approved") || strings.Contains(r.Markdown, "](javascript") || strings.Contains(r.Markdown, "![p]") {
		t.Errorf("Markdown got through:\n%s", r.Markdown)
	}
}

func TestReviewNamesWhatIsOpen(t *testing.T) {
	k := newKit(t, nil, wants("write_file", map[string]any{"path": "a", "content": "b"}))
	runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{
		SessionID: "sess_open", Create: true, Input: event.Raw(`"write"`), Options: &event.TurnOptions{PermissionMode: "default"},
	})
	action := k.until("sess_open", func(e *event.Event) bool { return e.Type == event.TypeActionRequired })
	r := reviewOf(k, command.ExportScope{SessionID: "sess_open"})
	open := r.Chapters[len(r.Chapters)-1]
	if open.Name != "open" || len(open.Statements) != 2 || !strings.Contains(open.Statements[1].Says, action.ActionID) {
		t.Errorf("open points: %+v", open.Statements)
	}
}

// TestReviewShowsDiffs: what the file tools changed is shown, and what is in a
// file can't break out of the page.
func TestReviewShowsDiffs(t *testing.T) {
	tricky := "first\n```\n# not a heading\n</pre><script>alert(1)</script>\n"
	k := newKit(t, nil,
		wants("write_file", map[string]any{"path": "a.md", "content": tricky}),
		wants("edit_file", map[string]any{"path": "a.md", "old": "first", "new": "second\nthird"}),
		script.Answer{Text: "done"},
	)
	k.turn("sess_diff", "edit", &event.TurnOptions{PermissionMode: "auto"})
	r := reviewOf(k, command.ExportScope{SessionID: "sess_diff"})
	var diffs []string
	for _, c := range r.Chapters {
		for _, s := range c.Statements {
			if s.Diff != "" {
				diffs = append(diffs, c.Name+" "+s.Diff)
			}
		}
	}
	want := []string{
		"changed @@ a new file @@\n+first\n+```\n+# not a heading\n+</pre><script>alert(1)</script>\n",
		"changed @@ the lines that were replaced @@\n-first\n+second\n+third\n",
	}
	if len(diffs) != 2 || diffs[0] != want[0] || diffs[1] != want[1] {
		t.Fatalf("got %q, want %q", diffs, want)
	}
	if !strings.Contains(r.Markdown, "  ````diff\n") || !strings.Contains(r.Markdown, "\n  -first\n  +second\n") {
		t.Errorf("the page has no block for it:\n%s", r.Markdown)
	}
	if strings.Contains(r.HTML, "<script>") || !strings.Contains(r.HTML, "&lt;/pre&gt;&lt;script&gt;") {
		t.Error("the page doesn't escape it")
	}
}

// TestReviewLinksEachStatementToItsEvent: every link of the pages leads to the fact
// that the statement rests on, which is shown as it is stored.
func TestReviewLinksEachStatementToItsEvent(t *testing.T) {
	k, _ := busy(t, nil)
	r := reviewOf(k, command.ExportScope{SessionID: "sess_busy"})
	shown := map[uint64]evidence.Cited{}
	for _, f := range r.Facts {
		shown[f.Sequence] = f
	}
	for _, e := range k.facts("sess_busy") {
		if f, ok := shown[e.Sequence]; ok && (f.EventID != e.ID || f.Type != e.Type || !strings.Contains(f.Text, e.ID)) {
			t.Errorf("fact %d is shown as %+v", e.Sequence, f)
		}
	}
	statements := 0
	for _, c := range r.Chapters {
		for _, s := range c.Statements {
			statements++
			if shown[s.Sequence].EventID != s.EventID {
				t.Errorf("%q rests on fact %d, which is not shown", s.Says, s.Sequence)
			}
			for page, want := range map[string][2]string{
				r.HTML:     {fmt.Sprintf(`<a href="#fact-%d">%s</a>`, s.Sequence, s.EventID), fmt.Sprintf(`<details id="fact-%d">`, s.Sequence)},
				r.Markdown: {fmt.Sprintf(`[%s](#fact-%d)`, strings.ReplaceAll(s.EventID, "_", `\_`), s.Sequence), fmt.Sprintf(`<a id="fact-%d"></a>`, s.Sequence)},
			} {
				if !strings.Contains(page, want[0]) || strings.Count(page, want[1]) != 1 {
					t.Errorf("a page has no link %s, or not one place %s", want[0], want[1])
				}
			}
		}
	}
	if statements < 10 || len(r.Facts) > statements {
		t.Errorf("%d statements, %d facts", statements, len(r.Facts))
	}
}

// TestReviewSaysWhatRanAndWhatItCost: a reader learns which command ran, who did it,
// and what all turns cost together.
func TestReviewSaysWhatRanAndWhatItCost(t *testing.T) {
	usage := &script.Usage{InputTokens: 10, OutputTokens: 2}
	k := newKit(t, nil,
		script.Answer{Tools: []script.Tool{{Name: "read_file", Arguments: map[string]any{"path": "seen.txt"}}, {Name: "write_file", Arguments: map[string]any{"path": "denied.txt", "content": "x"}}}},
		script.Answer{Text: "done", Usage: usage}, script.Answer{Text: "again", Usage: usage},
	)
	if err := os.WriteFile(filepath.Join(k.dir, "seen.txt"), []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.turn("sess_what", "first", &event.TurnOptions{PermissionMode: "plan"})
	k.turn("sess_what", "second", nil)
	r := reviewOf(k, command.ExportScope{SessionID: "sess_what"})
	text := map[string]string{}
	for _, c := range r.Chapters {
		for _, s := range c.Statements {
			text[c.Name] += s.Says + "\n"
		}
	}
	for chapter, want := range map[string]string{
		"done": `the call was "seen.txt"`, "failures": `denied.txt`, "costs": "The 2 turns together used",
	} {
		if !strings.Contains(text[chapter], want) {
			t.Errorf("the chapter %s doesn't say %q:\n%s", chapter, want, text[chapter])
		}
	}
}

// TestReviewGivesNoPriceToNothing: a turn that no model answered cost nothing, which is
// not a price that nobody knows.
func TestReviewGivesNoPriceToNothing(t *testing.T) {
	k := newKit(t, nil, script.Answer{Error: &script.Error{Category: "invalid_request", Message: "no"}})
	runCommand[command.SubmitTurnResult](k, &command.SubmitTurn{SessionID: "sess_none", Create: true, Input: event.Raw(`"ask"`)})
	k.until("sess_none", func(e *event.Event) bool { return e.Type == event.TypeTurnFailed })
	for _, c := range reviewOf(k, command.ExportScope{SessionID: "sess_none"}).Chapters {
		if c.Name == "costs" && len(c.Statements) > 0 {
			t.Errorf("costs: %+v", c.Statements)
		}
	}
}

// TestReviewOfNothingHasEmptyLists: who reads a review needn't tell a list of nothing
// from none.
func TestReviewOfNothingHasEmptyLists(t *testing.T) {
	k := newKit(t, nil)
	runCommand[command.CreateSessionResult](k, &command.CreateSession{SessionID: "sess_new"})
	res := runCommand[command.ExportResult](k, &command.ExportReview{ExportScope: command.ExportScope{SessionID: "sess_new"}})
	if !strings.Contains(string(res.Pack), `"facts":[]`) || strings.Contains(string(res.Pack), `":null`) {
		t.Errorf("%s", res.Pack)
	}
}
