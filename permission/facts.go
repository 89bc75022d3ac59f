package permission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

// kind says how a tool's calls are judged.
type kind int

const (
	kindOther kind = iota
	kindShell
	kindFileRead
	kindFileWrite
	// kindTalk is update_plan and request_input: they touch nothing.
	kindTalk
	// kindHandOver is present_plan: it changes nothing but the mode, and only with an
	// approval.
	kindHandOver
	// kindAgent starts an agent, whose own calls are judged one by one.
	kindAgent
)

// kindOf says how calls of a tool are judged. A tool that runs elsewhere is judged by
// its input, whatever it is called.
func kindOf(info *event.ToolInfo) kind {
	if info.RuntimeOwner != "" && info.RuntimeOwner != "local" && info.RuntimeOwner != "subagent" {
		return kindOther
	}
	switch toolkind.Of(info.ToolName) {
	case toolkind.Shell:
		return kindShell
	case toolkind.ReadFile, toolkind.ListFiles, toolkind.SearchFiles:
		return kindFileRead
	case toolkind.WriteFile, toolkind.EditFile:
		return kindFileWrite
	case toolkind.UpdatePlan, toolkind.RequestInput:
		return kindTalk
	case toolkind.PresentPlan:
		return kindHandOver
	case toolkind.SpawnAgent:
		return kindAgent
	case toolkind.Other:
	}
	return kindOther
}

// facts are what can be said about a call before it is judged.
type facts struct {
	kind kind
	// reads says that the call changes nothing; inside, that it reads within the
	// workspace alone.
	reads, inside bool
	// shows says that a call which writes a file also tells what is in it.
	shows bool
	// leaves says that the call is known to need more than the sandbox gives; leaving what
	// that is, for a command.
	leaves  bool
	leaving string
	// bound is what the call would change of what bounds the agent.
	bound string
	// onlyOnce says that an approval can't be for the session.
	onlyOnce bool
	// unclear says why the call can't be judged; empty if it can.
	unclear string

	line   *Line  // of a shell call
	cwd    string // that it starts in
	place  *place // of a file tool
	writes []place
	text   string // the input in one form, for other tools
	key    string

	destructive      bool
	impact, rollback string
}

// gatherFacts finds the facts of a call.
func gatherFacts(q *Question) *facts {
	f := &facts{kind: kindOf(&q.Tool), destructive: q.Tool.IsDestructive}
	in, err := readInput(q.Input, "command", "cwd", "path", "background", "peer")
	if err != nil {
		f.unclear = "its input can't be read: " + err.Error()
		f.key = grantKey("raw", q.Tool.ToolName, strconv.FormatBool(q.Outside), string(q.Input))
		return f
	}
	if _, away := in["peer"]; away && f.kind == kindAgent {
		f.kind = kindOther // what another agent does with its input can't be judged here
	}
	switch f.kind {
	case kindShell:
		f.lookShell(q, in)
	case kindFileRead, kindFileWrite:
		// What edit_file doesn't find it shows, so rules about reading count for it.
		f.shows = toolkind.Of(q.Tool.ToolName) == toolkind.EditFile
		f.lookFile(q, in)
	case kindOther, kindTalk, kindHandOver, kindAgent:
		f.lookOther(q, in)
	}
	return f
}

// readInput reads an object. A name that is there twice, or that differs from one
// of the names that matter by case alone, may mean one thing here and another to
// the tool: that is an error.
func readInput(raw event.Raw, matter ...string) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object")
	}
	in := map[string]any{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object")
		}
		name, _ := t.(string)
		if _, twice := in[name]; twice {
			return nil, fmt.Errorf("%q appears twice", name)
		}
		for _, m := range matter {
			if name != m && strings.EqualFold(name, m) {
				return nil, fmt.Errorf("%q is not %q", name, m)
			}
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("not a JSON object")
		}
		in[name] = v
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, fmt.Errorf("not one JSON object")
	}
	return in, nil
}

// lookShell finds out what a command line runs.
func (f *facts) lookShell(q *Question, in map[string]any) {
	line, _ := in["command"].(string)
	cwd, _ := in["cwd"].(string)
	here := q.placeOf(cmp.Or(cwd, "."))
	key := []string{string(toolkind.Shell), line, here.abs, here.real, fmt.Sprint(in["background"]), strconv.FormatBool(q.Outside)}
	f.key = grantKey(key...)
	if strings.TrimSpace(line) == "" {
		f.unclear = "it has no command"
		f.line = &Line{}
		f.onlyOnce = q.Outside
		return
	}
	f.line = Analyse(line)
	f.cwd = here.abs
	at := q.from(here.abs)
	f.unclear = strings.Join(f.line.Hidden, "; ")
	f.reads = f.line.readOnly()
	f.inside = f.reads && here.inside && f.line.readsWithin(at)
	f.lookWrites(q, at)
	if cwd != "" && !here.inside && !q.Sandbox.lifted() {
		f.reads, f.inside = false, false
		f.leave("it runs in " + here.abs)
	}
	if q.Outside || f.leaves {
		f.key = grantKey(append(key, f.line.namedFiles(at)...)...)
		f.onlyOnce = !f.line.repeatable(at)
	}
	f.lookHarm(q)
}

// lookWrites finds out which files the line is known to write: those of its redirections,
// and those that its commands name.
func (f *facts) lookWrites(q, at *Question) {
	look := func(w Write) (pl place, outside bool) {
		pl = at.placeOf(w.Path)
		// Commands have a /tmp of their own.
		return pl, !q.writable(pl) && !pathWithin(pl.abs, "/tmp") && !pathWithin(pl.abs, "/var/tmp")
	}
	for _, w := range f.line.Writes {
		if w.harmless() || !w.Known {
			continue
		}
		pl, outside := look(w)
		f.writes = append(f.writes, pl)
		if f.bound == "" {
			f.bound = q.bounded(pl)
		}
		if outside || f.bound != "" {
			f.leave("it writes to " + w.Path)
		}
	}
	for _, w := range f.line.commandWrites() {
		// What bounds the agent is kept from commands by the sandbox, or Unheld says so:
		// their operands are often folders that have some of it below.
		if pl, outside := look(w); outside {
			f.writes = append(f.writes, pl)
			f.leave("it writes to " + w.Path)
		}
	}
}

// leave says that a command needs more than the sandbox gives, and what.
func (f *facts) leave(what string) {
	f.leaves = true
	if f.leaving == "" {
		f.leaving = what
	}
}

// wordInside says that a word of the line, if it is a path, is one inside the workspace.
func (f *facts) wordInside(q *Question, w string) bool {
	return wordInside(q.from(f.cwd), w, f.line.moved)
}

// lookHarm gathers what the commands would destroy.
func (f *facts) lookHarm(q *Question) {
	var impact, advice []string
	// The tool could destroy anything; what this line does is in its commands, as
	// far as they are known.
	f.destructive = f.unclear != ""
	for i := range f.line.Commands {
		c := &f.line.Commands[i]
		if c.Harm == nil {
			continue
		}
		f.destructive = f.destructive || !c.Harm.overwrites || !f.undoes(q, c)
		impact = append(impact, c.Harm.Impact)
		advice = append(advice, c.Harm.Advice)
	}
	for _, w := range f.line.Writes {
		if w.harmless() || w.Append {
			continue
		}
		f.destructive = f.destructive || !q.Undo || !w.Known || !q.from(f.cwd).placeOf(w.Path).inside
		impact = append(impact, "replaces the content of "+visibleText(w.Path))
		advice = append(advice, adviceFiles)
	}
	f.impact, f.rollback = sentence(impact), sentence(advice)
}

// undoes says that what a command overwrites can be brought back: it is all inside the
// workspace, as far as its words tell.
func (f *facts) undoes(q *Question, c *Command) bool {
	if !q.Undo {
		return false
	}
	words := c.Words[1:]
	if name := path.Base(c.Words[0]); name == "sed" || name == "gsed" {
		// The first operand is the script, which may look like a path.
		if i := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") }); i >= 0 {
			words = words[i+1:]
		}
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !f.wordInside(q, w) })
}

// sentence joins what is said, each thing once and not more than a person reads.
func sentence(parts []string) string {
	var out []string
	for i, p := range parts {
		if len(out) == maxReasons {
			out = append(out, fmt.Sprintf("… and up to %d more", len(parts)-i))
			break
		}
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return strings.Join(out, "; ")
}

// lookFile finds out which file is meant.
func (f *facts) lookFile(q *Question, in map[string]any) {
	name, isText := in["path"].(string)
	if _, given := in["path"]; given && !isText {
		f.unclear = "its path is not a text"
	}
	pl := q.placeOf(cmp.Or(name, "."))
	pl.tree = toolkind.Of(q.Tool.ToolName).Access() == toolkind.ReadsTree
	f.place = &pl
	f.key = grantKey("file", q.Tool.ToolName, pl.abs, pl.real, strconv.FormatBool(q.Outside))
	f.reads = f.kind == kindFileRead
	f.inside = pl.inside
	if f.kind == kindFileRead {
		return
	}
	f.leaves = !q.writable(pl)
	if f.bound = q.bounded(pl); f.bound != "" {
		// What is written to such a file matters as much as which one it is.
		f.key = grantKey("bound", q.Tool.ToolName, pl.abs, pl.real, strconv.FormatBool(q.Outside), inOneForm(in))
	}
	if toolkind.Of(q.Tool.ToolName) == toolkind.WriteFile {
		f.impact = "writes the whole content of " + pl.abs
	} else {
		f.impact = "changes a part of " + pl.abs
	}
	if q.Undo {
		f.destructive = f.leaves
	}
	f.rollback = adviceFiles
}

// inOneForm writes an input with its names in order, no blanks, and characters as they
// are.
func inOneForm(in map[string]any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(in); err != nil {
		return fmt.Sprint(in) // it was read as JSON, so it can be written as JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// lookOther brings the input of another tool into one form.
func (f *facts) lookOther(q *Question, in map[string]any) {
	f.text = inOneForm(in)
	f.key = grantKey("input", q.Tool.ToolName, f.text, strconv.FormatBool(q.Outside))
	f.reads = q.Tool.IsReadOnly
	f.inside = f.reads && (f.kind == kindTalk || f.kind == kindHandOver)
	if f.destructive {
		f.impact = "the tool says of itself that it destroys"
		f.rollback = "none is known: ask the operator of the tool"
	}
}

// scope says what the decision is about.
func (f *facts) scope(q *Question) event.Raw {
	s := struct {
		Tool     string   `json:"tool"`
		Commands []string `json:"commands,omitempty"`
		Paths    []string `json:"paths,omitempty"`
		Hosts    []string `json:"hosts,omitempty"`
		Outside  bool     `json:"outside,omitempty"`
		Grant    string   `json:"grant"`
	}{Tool: q.Tool.ToolName, Commands: f.subcommands(), Outside: q.Outside || f.leaves, Grant: f.key}
	if f.place != nil {
		s.Paths = []string{f.place.abs}
		if f.place.real != f.place.abs {
			s.Paths = append(s.Paths, f.place.real)
		}
	}
	for _, w := range f.writes {
		s.Paths = append(s.Paths, w.abs)
	}
	if f.line != nil {
		s.Hosts = f.line.Hosts
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return event.Raw("{}") // strings and a bool: it can't fail
	}
	return raw
}

// subcommands are the simple commands of the line, bounded.
func (f *facts) subcommands() []string {
	if f.line == nil {
		return nil
	}
	const most, longest = 64, 512
	var out []string
	for i := range f.line.Commands {
		if i == most {
			return append(out, fmt.Sprintf("… and %d more", len(f.line.Commands)-most))
		}
		out = append(out, clip.Text(f.line.Commands[i].Text(), longest))
	}
	return out
}

// visibleText shows a text for people: a hole becomes an ellipsis.
func visibleText(s string) string { return strings.ReplaceAll(s, string(hole), "…") }
