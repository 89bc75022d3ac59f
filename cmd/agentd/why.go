package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

func (a *app) whyCommand() *cobra.Command {
	var session string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Explain why something was allowed, blocked, routed or failed",
		Long: `Explains a tool call, an action, a turn, a task, a subagent, a job, an item of a
job or a single fact, from the facts alone: the chain that led to it, each with
its sequence and id ("agentd events" shows it whole); a narrow terminal shows the
sequence alone. "last" is the newest turn. A fact is explained by what
it belongs to: a hook's answer by its tool call, a policy by who changed it.
Without --session the newest sessions are searched. With --json the answer is
that of explain.

Exit codes: 0 answered, 1 failed, 2 usage.`,
		Example: "  agentd why tool_01\n  agentd why action_01\n  agentd why --session sess_01 --json turn_01",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if !event.ValidID(given[0]) {
				return usagef("%q is not an id", given[0])
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.why(cmd.Context(), f, session, given[0]) })
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the session that it belongs to")
	return a.withDataFlags(cmd)
}

func (a *app) why(ctx context.Context, f facts.Source, session, id string) error {
	sessions := []string{session}
	if session == "" {
		var err error
		if sessions, err = sessionIDs(ctx, f); err != nil {
			return err
		}
	}
	for _, s := range sessions {
		raw, err := explanation(ctx, f, s, id)
		if fault.KindOf(err) == fault.NotFound && err != nil {
			continue
		}
		if err != nil {
			return err
		}
		return a.printWhy(raw)
	}
	return fmt.Errorf("there is nothing called %s in %s", id, terminal.Plural(int64(len(sessions)), "session"))
}

// explanation asks about an id; where its prefix doesn't say what it names, all
// kinds are tried.
func explanation(ctx context.Context, f facts.Source, session, id string) (json.RawMessage, error) {
	kinds := []struct {
		prefix event.Prefix
		ask    command.Explain
	}{
		{event.PrefixToolCall, command.Explain{SessionID: session, ToolCallID: id}},
		{event.PrefixTurn, command.Explain{SessionID: session, TurnID: id}},
		{event.PrefixAction, command.Explain{SessionID: session, ActionID: id}},
		{event.PrefixTask, command.Explain{SessionID: session, TaskID: id}},
		{event.PrefixSubagent, command.Explain{SessionID: session, SubagentID: id}},
		{event.PrefixJob, command.Explain{SessionID: session, JobID: id}},
		{event.PrefixJobItem, command.Explain{SessionID: session, ItemID: id}},
		{event.PrefixEvent, command.Explain{SessionID: session, EventID: id}},
	}
	for _, k := range kinds {
		if strings.HasPrefix(id, string(k.prefix)) {
			var raw json.RawMessage
			return raw, f.Do(ctx, &k.ask, &raw)
		}
	}
	var err error
	for _, k := range kinds {
		var raw json.RawMessage
		if err = f.Do(ctx, &k.ask, &raw); err == nil || fault.KindOf(err) != fault.NotFound {
			return raw, err
		}
	}
	return nil, err
}

// wideTerminal is how wide a terminal is that has space for the ids of facts.
const wideTerminal = 120

func (a *app) printWhy(raw json.RawMessage) error {
	var res command.ExplainResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return fmt.Errorf("result of explain: %w", err)
	}
	return a.print(raw, func(out *printer) {
		out.linef("%s", terminal.PlainBlock(res.Answer))
		if len(res.Facts) == 0 {
			return
		}
		out.linef("")
		rows := [][]string{{"SEQUENCE", "FACT", "EVENT", "SAYS"}}
		for _, f := range res.Facts {
			rows = append(rows, []string{strconv.FormatUint(f.Sequence, 10), f.Type, f.EventID, terminal.Clip(terminal.Plain(f.Says), 300)})
		}
		if out.seen && out.cols < wideTerminal { // the sequence is name enough, and words need the space
			for i, r := range rows {
				rows[i] = slices.Delete(r, 2, 3)
			}
		}
		out.wrapped(rows)
	})
}

// sessionIDs returns the newest sessions, newest first.
func sessionIDs(ctx context.Context, f facts.Source) ([]string, error) {
	var res command.ListSessionsResult
	if err := f.Do(ctx, &command.ListSessions{}, &res); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range res.Sessions {
		out = append(out, s.SessionID)
	}
	return out, nil
}
