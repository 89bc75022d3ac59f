package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

// eventFlags say which facts "events" shows.
type eventFlags struct {
	follow bool
	types  []string
	after  uint64
	last   uint64
	ids    bool
	// sessions has lines name their session and their day, because they are of many.
	sessions bool
}

func (a *app) eventsCommand() *cobra.Command {
	o := &eventFlags{}
	cmd := &cobra.Command{
		Use:   "events SESSION",
		Short: "Show a session's facts",
		Long: `Shows a session's facts, one a line: time, sequence, type and what matters most.
With --ids a line also has the id of the narrowest thing that it is about, for
"agentd why": a tool call, an action, a turn or a task. With --json each line is
the envelope as it is stored. With -f new facts are shown as they come, until the
command is stopped.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  agentd events sess_01
  agentd events -f --last 20 sess_01
  agentd events --types 'tool.*,action.*' --json sess_01`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := checkTypes(o.types); err != nil {
				return err
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.events(cmd.Context(), f, given[0], o) })
		},
	}
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with new facts as they come")
	cmd.Flags().StringSliceVar(&o.types, "types", nil, "only these types; * stands for anything")
	cmd.Flags().Uint64Var(&o.after, "after", 0, "only facts after this sequence")
	cmd.Flags().BoolVar(&o.ids, "ids", false, "show what each fact is about, for agentd why")
	cmd.Flags().Uint64Var(&o.last, "last", 0, "only this many of the newest facts, and those that follow")
	return a.withDataFlags(cmd)
}

// checkTypes refuses what no type of event could fit: a user who mistypes one would
// wait for it.
func checkTypes(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return usagef("--types: %q is not a pattern such as tool.*", p)
		}
		if !slices.ContainsFunc(event.Catalog(), func(d event.Def) bool { return wanted(string(d.Type), []string{p}) }) {
			return usagef("--types: no event type matches %q; see docs/reference/events.md", p)
		}
	}
	return nil
}

func (a *app) events(ctx context.Context, f facts.Source, sessionID string, o *eventFlags) error {
	after, err := a.showPast(ctx, f, sessionID, o)
	if err != nil || !o.follow {
		return err
	}
	if !f.Live() {
		a.sayf("No server holds the data: there will be no new facts.")
		return nil
	}
	for e, err := range f.Follow(ctx, sessionID, after, followTypes(o.types)) {
		if ctx.Err() != nil {
			return nil // it was stopped, as -f always is
		}
		if err == nil {
			err = a.showEvent(e, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// past shows the facts that are there and returns the last sequence.
func (a *app) showPast(ctx context.Context, f facts.Source, sessionID string, o *eventFlags) (uint64, error) {
	after := o.after
	if o.last > 0 {
		_, last, err := f.Page(ctx, sessionID, after, 1)
		if err != nil {
			return 0, err
		}
		after = max(after, last-min(last, o.last))
	}
	for {
		page, last, err := f.Page(ctx, sessionID, after, facts.PageSize)
		if err != nil {
			return 0, err
		}
		for _, e := range page {
			a.sayGap(after, e.Sequence)
			if err := a.showEvent(e, o); err != nil {
				return 0, err
			}
			after = e.Sequence
		}
		if len(page) == 0 || after >= last {
			return after, nil
		}
	}
}

// sayGap says which facts are not there any more between two that follow each other.
func (a *app) sayGap(after, next uint64) {
	if next > after+1 {
		a.sayf("The facts %d to %d were removed by retention.", after+1, next-1)
	}
}

// event shows one fact if its type is wanted.
func (a *app) showEvent(e facts.Fact, o *eventFlags) error {
	line, err := parseLine(e.Data)
	if err != nil {
		return err
	}
	if !wanted(line.Type, o.types) {
		return nil
	}
	line.withID, line.ofMany = o.ids, o.sessions
	p := a.printer()
	if a.json {
		p.linef("%s", e.Data)
	} else {
		p.linef("%s", line.format(p))
	}
	return p.flush()
}

// wanted reports whether a type fits one of the patterns, in which * also
// crosses dots.
func wanted(typ string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, typ) // the patterns were checked
		return ok
	})
}

// eventLine is what a line shows of an envelope. It is read without the
// catalogue, so that facts of a newer server are shown too.
type eventLine struct {
	Type       string         `json:"type"`
	Timestamp  time.Time      `json:"timestamp"`
	Sequence   uint64         `json:"sequence"`
	TurnID     string         `json:"turnId"`
	TaskID     string         `json:"taskId"`
	ToolCallID string         `json:"toolCallId"`
	ActionID   string         `json:"actionId"`
	Payload    map[string]any `json:"payload"`
	SessionID  string         `json:"sessionId"`
	withID     bool
	ofMany     bool
}

// subjectID is the id of the narrowest thing that the fact is about, of those that
// "agentd why" can explain.
func (l *eventLine) subjectID() string {
	for _, id := range []string{l.ToolCallID, l.ActionID, l.TurnID, l.TaskID} {
		if id != "" && id != event.NotApplicable {
			return id
		}
	}
	return ""
}

func parseLine(data []byte) (*eventLine, error) {
	l := new(eventLine)
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("read a fact: %w", err)
	}
	return l, nil
}

func (l *eventLine) format(p *printer) string {
	kind := l.Type
	if pad := 28 - len(kind); pad > 0 {
		kind += strings.Repeat(" ", pad)
	}
	seq := strconv.FormatUint(l.Sequence, 10)
	if pad := 5 - len(seq); pad > 0 {
		seq = strings.Repeat(" ", pad) + seq
	}
	begin := l.Timestamp.Local().Format("15:04:05.000") + " "
	if l.ofMany {
		begin = l.Timestamp.Local().Format(time.DateTime) + " " + terminal.Plain(l.SessionID) + " "
	}
	line := p.Paint(terminal.Dim, begin) + seq + " " + p.Paint(l.colour(), kind) + " "
	if l.withID {
		line += p.Paint(terminal.Dim, fmt.Sprintf("%-32s", terminal.Plain(l.subjectID()))) + " "
	}
	line += l.summary()
	line = strings.TrimRight(line, " ")
	if p.seen {
		return ansi.Truncate(line, p.cols, "…")
	}
	return line
}

// colour tells apart what went wrong, what waits and what matters.
func (l *eventLine) colour() string {
	family, rest, _ := strings.Cut(l.Type, ".")
	switch {
	case strings.HasSuffix(rest, "failed"), strings.HasSuffix(rest, "lost"), strings.HasSuffix(rest, "violation"), strings.HasSuffix(rest, "error"):
		return terminal.Red
	case l.Type == "action.required", strings.HasSuffix(rest, "warning"), strings.HasSuffix(rest, "blocked"):
		return terminal.Yellow
	case family == "turn", family == "session":
		return terminal.Bold
	case strings.HasSuffix(rest, "delta"):
		return terminal.Dim
	}
	return terminal.Cyan
}

// telling are the payload fields that say most, in this order.
var telling = []string{
	"status", "failureCategory", "errorCategory", "toolName", "selectedModel", "model", "decision", "reason",
	"title", "prompt", "preview", "message", "text", "error", "summary", "input",
}

// summary returns the fields of the payload that say most.
func (l *eventLine) summary() string {
	var parts []string
	for _, key := range telling {
		if text := brief(l.Payload[key]); text != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	return terminal.Clip(strings.Join(parts, "  "), 120)
}

// brief returns a value as a short text.
func brief(v any) string {
	switch v := v.(type) {
	case string:
		return terminal.Plain(v)
	case map[string]any:
		for _, key := range []string{"message", "text"} {
			if s, ok := v[key].(string); ok {
				return terminal.Plain(s)
			}
		}
	case []any:
		if len(v) > 0 {
			return brief(v[0])
		}
	}
	return ""
}
