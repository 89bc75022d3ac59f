package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
)

// chooser lets the user choose one of some answers. What answers is deliberate: an arrow,
// the key of an answer alone, or its whole word, and then Enter. Whatever else is typed or
// pasted are words, which are meant for the input.
type chooser struct {
	answers []turntext.Answer
	at      int
	// typed are the letters since the last other key.
	typed string
	// reason is what the answer is given with; saying is set while it is typed.
	reason editor
	saying bool
}

// chosen is what a key made of a choice.
type chosen int

// What a key can make of a choice.
const (
	// nothingYet: more keys belong to it.
	nothingYet chosen = iota
	// answered: the answer is given.
	answered
	// words: what was typed is no answer, and taken out of the chooser by takeWords.
	words
	// wordsSent: the same, and Enter was pressed behind it.
	wordsSent
)

func (x *chooser) press(k tea.Key) chosen {
	switch name := k.Keystroke(); {
	case name == "enter":
		if x.typed != "" && !x.isWhole() {
			return wordsSent
		}
		return answered
	case name == "up", name == "ctrl+p":
		x.move(-1)
	case name == "tab" && x.takesReason() && !x.saying:
		x.beginReason()
	case name == "down", name == "ctrl+n", name == "tab":
		x.move(1)
	case x.saying:
		x.reason.press(k)
	case name == "backspace":
		if r := []rune(x.typed); len(r) > 0 {
			x.typed = string(r[:len(r)-1])
			x.choose()
		}
	case k.Text != "":
		return x.typeText(k.Text)
	}
	return nothingYet
}

// move goes to another answer, and shows where a reason is typed if it takes one.
func (x *chooser) move(by int) {
	x.at, x.typed = min(max(x.at+by, 0), len(x.answers)-1), ""
	x.saying = x.takesReason()
}

func (x *chooser) takesReason() bool { return x.answers[x.at].TakesReason }

func (x *chooser) beginReason() { x.saying, x.typed = true, "" }

// typeText takes what is typed in front of a reason.
func (x *chooser) typeText(text string) chosen {
	ends := strings.ContainsAny(text, turntext.AfterAnswer) && x.isWhole()
	if ends && x.takesReason() {
		x.beginReason()
		return nothingYet
	}
	x.typed = strings.TrimLeft(x.typed+text, " ")
	if x.typed == "" || x.choose() {
		return nothingYet
	}
	return words
}

// choose chooses the answer that was typed whole, and reports whether what was typed can
// still become one.
func (x *chooser) choose() bool {
	for _, of := range []func(*turntext.Answer) string{wordOf, keyOfAnswer} {
		if i := slices.IndexFunc(x.answers, func(a turntext.Answer) bool { return of(&a) == x.low() }); i >= 0 {
			x.at = i
			return true
		}
	}
	return slices.ContainsFunc(x.answers, func(a turntext.Answer) bool {
		return strings.HasPrefix(a.Word, x.low()) || strings.HasPrefix(a.Key, x.low())
	})
}

func wordOf(a *turntext.Answer) string      { return a.Word }
func keyOfAnswer(a *turntext.Answer) string { return a.Key }

// low is what was typed, as answers are compared.
func (x *chooser) low() string { return strings.TrimRight(strings.ToLower(x.typed), " ") }

// isWhole reports whether what was typed is the chosen answer's key or word.
func (x *chooser) isWhole() bool {
	a := &x.answers[x.at]
	return x.low() != "" && (x.low() == a.Key || x.low() == a.Word)
}

// paste takes pasted text, which only is a reason or words.
func (x *chooser) paste(text string) chosen {
	if x.saying {
		x.reason.insert(text)
		return nothingYet
	}
	x.typed += text
	return words
}

// takeWords empties what was typed.
func (x *chooser) takeWords() string {
	text := x.typed
	x.at, x.typed = 0, ""
	return text
}

// reasonText is the reason that goes with the answer.
func (x *chooser) reasonText() string {
	return strings.TrimSpace(strings.TrimLeft(x.reason.value(), turntext.AfterAnswer))
}

func (x *chooser) draw(k terminal.Ink, cols int) (lines []string, row, col int) {
	row = -1
	for i := range x.answers {
		a := &x.answers[i]
		mark, text := "  ", terminal.Plain(a.Text)
		if i == x.at {
			row, col = len(lines), 2
			mark, text = k.Paint(terminal.Cyan, "▸ "), k.Paint(terminal.Bold, text)
		}
		lines = append(lines, fmt.Sprintf("%s%s %s", mark, k.Paint(terminal.Cyan, a.Key), text))
		switch {
		case i != x.at || !a.TakesReason:
		case x.saying:
			typed, r, at := x.reason.seen("    why: ", cols)
			row, col = len(lines)+r, at
			lines = append(lines, typed...)
		default:
			lines = append(lines, k.Paint(terminal.Dim, "    Space says why"))
		}
	}
	if x.typed != "" && !x.isWhole() {
		lines = append(lines, "  › "+terminal.Plain(x.typed))
		row, col = len(lines)-1, 4+len([]rune(x.typed))
	}
	return lines, row, col
}
