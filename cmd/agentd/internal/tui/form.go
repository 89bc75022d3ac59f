package tui

import (
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/turntext"
	"agentd/command"
	"agentd/event"
)

// form asks for a value that a schema describes: one field for a plain value, a field
// for each property of an object.
type form struct {
	fields []*field
	at     int
	// isObject says that the value has the fields as properties; it is that of the only
	// field otherwise.
	isObject bool
}

// field is one line of a form.
type field struct {
	turntext.Field
	// chosen is the place in its choices, -1 for none.
	chosen int
	// sought are the letters that were typed to choose a value, since the last other key.
	sought string
	typed  editor
	wrong  string
}

func newForm(q *turntext.Question) *form {
	fields, isObject := q.Fields()
	out := &form{isObject: isObject}
	for _, f := range fields {
		x := &field{Field: f}
		if x.chosen = x.Chosen(f.DefaultText()); len(f.Choices) == 0 {
			x.typed.set(f.DefaultText())
		}
		out.fields = append(out.fields, x)
	}
	return out
}

// press takes a key, and reports whether the form is filled in.
func (f *form) press(k tea.Key) bool {
	x := f.fields[f.at]
	name := k.Keystroke()
	if len(x.Choices) > 0 && x.seek(k, name) {
		return false
	}
	switch name {
	case "enter":
		if f.at < len(f.fields)-1 {
			f.at++
			return false
		}
		return true
	case "tab":
		f.at = (f.at + 1) % len(f.fields)
	case "shift+tab":
		f.at = (f.at + len(f.fields) - 1) % len(f.fields)
	case "up", "down":
		f.move(x, map[string]int{"up": -1, "down": 1}[name])
	case "left", "right", "space":
		if len(x.Choices) == 0 {
			x.typed.press(k)
			break
		}
		x.choose(map[string]int{"left": -1, "right": 1, "space": 1}[name])
	default:
		x.wrong = ""
		if len(x.Choices) == 0 {
			x.typed.press(k)
		}
	}
	return false
}

// seek takes the letters that choose a value, and reports whether the key was one. What was
// typed chooses as long as a value begins with it, or it is the number of one. Other words
// choose nothing, and Enter doesn't go on behind them.
func (x *field) seek(k tea.Key, name string) bool {
	switch {
	case name == "backspace" && x.sought != "":
		r := []rune(x.sought)
		x.sought = string(r[:len(r)-1])
	case name == "enter" && x.sought != "" && x.wrong != "":
		return true
	case k.Text != "" && (name != "space" || x.sought != ""):
		x.sought += k.Text
	default:
		x.sought, x.wrong = "", ""
		return false
	}
	x.wrong = ""
	if i := x.find(x.sought); i >= 0 {
		x.chosen = i
	} else if x.sought != "" {
		x.wrong = "has no value " + x.sought
	}
	return true
}

// find is the place of the value that is called by its text, its number or the beginning of
// its text; -1 if there is none.
func (x *field) find(text string) int {
	if i := x.Chosen(text); i >= 0 || text == "" {
		return i
	}
	for i, v := range x.Choices {
		if strings.HasPrefix(strings.ToLower(turntext.ChoiceText(v)), strings.ToLower(text)) {
			return i
		}
	}
	return -1
}

// move goes to another field; in a form with one list it goes through the list.
func (f *form) move(x *field, by int) {
	if len(f.fields) == 1 && len(x.Choices) > 0 {
		x.choose(by)
		return
	}
	f.at = min(max(f.at+by, 0), len(f.fields)-1)
}

func (x *field) choose(by int) {
	if x.chosen < 0 && by < 0 {
		x.chosen = 0
	}
	x.chosen = (x.chosen + by + len(x.Choices)) % len(x.Choices)
	x.wrong = ""
}

func (f *form) paste(text string) {
	if x := f.fields[f.at]; len(x.Choices) == 0 {
		x.typed.insert(text)
	}
}

// value is what the field says, as JSON; nothing if it is left out.
func (x *field) value() (v event.Raw, wrong string) {
	if len(x.Choices) > 0 && x.chosen >= 0 {
		return turntext.MarshalValue(x.Choices[x.chosen]), ""
	}
	return x.Value(x.typed.value())
}

// answer is the filled-in form, or what is wrong with it.
func (f *form) answer(q *turntext.Question) (*command.RespondAction, string) {
	r := &command.RespondAction{ActionID: q.ID, Decision: "submit"}
	var fields []turntext.Field
	var values []event.Raw
	for i, x := range f.fields {
		v, wrong := x.value()
		if x.wrong = wrong; wrong != "" {
			f.at = i
			return nil, strings.TrimSpace(x.Name + " " + wrong)
		}
		fields, values = append(fields, x.Field), append(values, v)
		r.Payload = v
	}
	if f.isObject {
		r.Payload = turntext.ObjectValue(fields, values)
	}
	return r, ""
}

func (f *form) draw(k terminal.Ink, cols int) (lines []string, row, col int) {
	row = -1
	wide := 0
	for _, x := range f.fields {
		wide = max(wide, len([]rune(terminal.Plain(x.Name))))
	}
	wide = min(wide, cols/3)
	for i, x := range f.fields {
		lead := "› "
		if wide > 0 {
			mark := "  "
			if i == f.at {
				mark = "▸ "
			}
			need := " "
			if x.Required {
				need = "*"
			}
			lead = mark + fmt.Sprintf("%-*s", wide, terminal.Clip(terminal.Plain(x.Name), wide)) + need + " "
		}
		if len(x.Choices) > 0 {
			if i == f.at {
				row, col = len(lines), ansi.StringWidth(lead)
			}
			lines = append(lines, lead+x.drawChoices(k))
			if x.wrong != "" && x.sought != "" {
				lines = append(lines, k.Paint(terminal.Yellow, "    "+terminal.Plain(x.wrong)))
			}
		} else {
			typed, r, at := x.typed.seen(lead, cols)
			if i == f.at {
				row, col = len(lines)+r, at
			}
			lines = append(lines, typed...)
		}
		if i == f.at && x.Help != "" {
			lines = append(lines, k.Paint(terminal.Dim, "    "+terminal.Clip(terminal.Plain(x.Help), max(cols-6, 10))))
		}
	}
	return lines, row, col
}

func (x *field) drawChoices(k terminal.Ink) string {
	var parts []string
	for i, v := range x.Choices {
		text := strconv.Itoa(i+1) + " " + terminal.Plain(turntext.ChoiceText(v))
		if i == x.chosen {
			parts = append(parts, k.Paint(terminal.Bold, "["+text+"]"))
		} else {
			parts = append(parts, " "+text+" ")
		}
	}
	return strings.Join(parts, " ")
}
