package loop

import (
	"strings"

	"agentd/event"
	"agentd/permission"
	"agentd/process"
	"agentd/sandbox"
	"agentd/session"
)

// violation is the boundary that a command hit: what the process knows, or else what
// follows from the paths and hosts that its line names. Alone says that it is why the
// command failed; of a line with several commands that can't be known by its words.
func (x *running) violation(exit process.Exit) (v *sandbox.Violation, alone bool) {
	if exit.Violation != nil {
		return exit.Violation, true
	}
	printed := exit.Stdout.Last(process.ClassifyBytes)
	if exit.TimedOut || exit.Terminated || exit.Code == 0 && !x.namesHidden() && !sandbox.MayTellRefusal(printed) {
		return nil, false
	}
	line := permission.Analyse(x.line)
	named := sandbox.Named{Paths: append([]string(nil), line.Inputs...), Hosts: line.Hosts}
	for _, w := range line.Writes {
		if w.Known {
			named.Writes = append(named.Writes, w.Path)
		}
	}
	commands := 0
	for i := range line.Commands {
		if !line.Commands[i].Wrapper {
			commands++
		}
		for _, word := range line.Commands[i].Words[min(1, len(line.Commands[i].Words)):] {
			_, value, _ := strings.Cut(word, "=") // of --file=/data/x
			named.Paths = append(named.Paths, word, value)
		}
	}
	return x.plan.Withheld(exit.Exit, named, printed), commands <= 1
}

// namesHidden says that the line may name a hidden path, before it is looked at closely.
func (x *running) namesHidden() bool {
	for _, path := range x.plan.Hidden {
		if strings.Contains(x.line, path) {
			return true
		}
	}
	return false
}

// emitViolation records a boundary that was hit by a command which has a result, or runs in
// the background.
func (x *running) emitViolation(tx *session.Tx, v *sandbox.Violation) {
	tx.Emit(event.Event{Type: event.TypeSandboxViolation, Scope: x.scope, Payload: &event.SandboxViolation{
		Boundary: v.Boundary, Path: v.Path, Host: v.Host, Detail: x.l.redactText(v.Detail), ToolName: x.host.r.request.ToolName,
	}})
}
