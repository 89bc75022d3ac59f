package tui

import (
	"encoding/json"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// questions are the kinds of questions that are answered by choosing.
func questions() map[string]*turntext.Question {
	ask := func(r *event.ActionRequired) *turntext.Question {
		return &turntext.Question{ID: "act_1", Required: r}
	}
	tool := func(once bool, keep ...event.PolicyRule) *turntext.Question {
		return ask(&event.ActionRequired{ActionType: "tool_permission", ToolName: "shell", Decisions: []string{"allow", "deny"}, OnceOnly: once, KeepRules: keep, KeepFor: "/w"})
	}
	return map[string]*turntext.Question{
		"approval": tool(false, event.PolicyRule{Decision: "allow", Tool: "shell", Match: "make *"}),
		"session":  tool(false),
		"once":     tool(true),
		"choice": ask(&event.ActionRequired{
			ActionType: "structured_input", Prompt: "Which?", Decisions: []string{"submit"},
			Schema: event.Raw(`{"enum":["pay","papaya","a","light blue","no"]}`),
		}),
	}
}

// typeLine types a line as keys and Enter, and returns what is answered: nil if the line was
// words, with what went to the input.
func typeLine(q *turntext.Question, line string) (answer *command.RespondAction, input string) {
	x := &chooser{answers: q.Answers()}
	for i, r := range line {
		k := tea.Key{Code: r, Text: string(r)}
		switch x.press(k) {
		case nothingYet, answered:
		case words, wordsSent:
			return nil, x.takeWords() + line[i+len(string(r)):]
		}
	}
	if x.press(tea.Key{Code: tea.KeyEnter}) == answered {
		return x.answers[x.at].Respond(x.reasonText()), ""
	}
	return nil, x.takeWords()
}

// checkLine compares keys with the client that reads lines: the same words answer in both, or
// in neither, and words that don't are in the input, whole.
func checkLine(t interface{ Fatalf(string, ...any) }, name string, q *turntext.Question, line string) {
	got, input := typeLine(q, line)
	if strings.TrimSpace(line) == "" { // Enter alone gives the answer that is marked
		return
	}
	want, wrong := q.Parse(line)
	switch {
	case wrong != "" && got != nil:
		t.Fatalf("%s: %q answers %+v", name, line, got)
	case wrong != "" && strings.TrimSpace(input) != strings.TrimSpace(line):
		t.Fatalf("%s: of %q the input has %q", name, line, input)
	case wrong == "" && got == nil:
		t.Fatalf("%s: %q is no answer", name, line)
	case wrong == "" && (got.Decision != want.Decision || got.Scope != want.Scope || got.Reason != want.Reason || !sameJSON(got.Payload, want.Payload)):
		t.Fatalf("%s: %q answers %+v, want %+v", name, line, got, want)
	}
}

func sameJSON(a, b event.Raw) bool {
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y) // nothing is nil
	return x == y
}

// TestWordsAnswerNothing types every line of up to four letters that answers begin with, and
// words of all kinds: only a key or a whole answer answers.
func TestWordsAnswerNothing(t *testing.T) {
	for name, q := range questions() {
		var each func(line string)
		each = func(line string) {
			checkLine(t, name, q, line)
			if len(line) < 4 {
				for _, r := range "yapnoes " {
					each(line + string(r))
				}
			}
		}
		each("")
		for _, line := range []string{
			"pay", "yap", "papa", "papaya", "away", "always", "Always", "alway", "project", "proj", "yes", "YES", "ye", "yes please", "Y", "n", "no", "No",
			"no, not now", "n because", "never mind", "nothing", "not yet", "nope", "no.", "a plan", "1", "2", "12", "light blue", "light", "light blue please", "a", "p",
		} {
			checkLine(t, name, q, line)
		}
	}
}

func TestWordsOfAnyKind(t *testing.T) {
	all := questions()
	word := rapid.OneOf(rapid.StringMatching(`[yapnYAPN]{1,6}`), rapid.StringMatching(`(yes|no|always|project|y|a|p|n)[a-z ,.!]{0,6}`), rapid.StringMatching(`[a-zA-Z0-9é你]{1,8}`))
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "words"), " ")
		name := rapid.SampledFrom([]string{"approval", "session", "once", "choice"}).Draw(t, "question")
		checkLine(t, name, all[name], line)
	})
}

// TestPastesAnswerNothing pastes whole answers and words: they are text for the input, also
// behind letters that were typed, or a reason that is being typed.
func TestPastesAnswerNothing(t *testing.T) {
	for name, q := range questions() {
		for _, text := range []string{"y", "yes", "a", "p", "n", "no", "1", "pay", "yes\n", "y\ny\n", "always", "/quit"} {
			for _, before := range []string{"", "y", "p", "n", "ye", "1"} {
				x := &chooser{answers: q.Answers()}
				gone := false
				for _, r := range before {
					gone = gone || x.press(tea.Key{Code: r, Text: string(r)}) != nothingYet
				}
				if gone {
					continue
				}
				if x.paste(text) != words || x.takeWords() != before+text {
					t.Errorf("%s: %q pasted behind %q isn't words", name, text, before)
				}
			}
		}
		x := &chooser{answers: q.Answers()}
		for range x.answers {
			x.press(keyOf("down"))
		}
		if !x.takesReason() {
			continue
		}
		if x.paste("yes, always") != nothingYet || x.reasonText() != "yes, always" {
			t.Errorf("%s: the reason is %q", name, x.reasonText())
		}
	}
}

// TestFormWordsChooseNothing types words at a field with values: they choose one if it begins
// with all of them, and Enter doesn't go on behind others.
func TestFormWordsChooseNothing(t *testing.T) {
	schema := `{"type":"object","required":["size"],"properties":{"size":{"enum":["small","large","extra large"]}}}`
	q := &turntext.Question{ID: "act_1", Required: &event.ActionRequired{ActionType: "structured_input", Decisions: []string{"submit"}, Schema: event.Raw(schema)}}
	for line, want := range map[string]int{
		"s": 0, "l": 1, "small": 0, "2": 1, "extra large": 2, "ex": 2, "so be it": -1, "let us see": -1, "smaller": -1, "22": -1, "4": -1, "pay l": -1, "LARGE": 1,
	} {
		f := newForm(q)
		for _, r := range line {
			f.press(tea.Key{Code: r, Text: string(r)})
		}
		done := f.press(keyOf("enter"))
		if want < 0 {
			if done {
				t.Errorf("%q is an answer", line)
			}
			continue
		}
		if got := f.fields[0].chosen; !done || got != want {
			t.Errorf("%q chooses %d, %v, want %d", line, got, done, want)
		}
	}
}
