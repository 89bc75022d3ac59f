package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) subagentsCommand() *cobra.Command {
	p := &command.ListSubagents{Descendants: true}
	var direct, follow bool
	cmd := &cobra.Command{
		Use:   "subagents SESSION",
		Short: "List the subagents of a session as a tree",
		Long: `Lists the subagents of a session's threads with their own subagents below them,
including those that ended. With -f changes are shown as they come, until the
command is stopped: on a terminal the tree is redrawn, in a pipe each change is
a line. With --json the answer is that of list_subagents, and with -f each line
is a fact about a subagent.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd subagents sess_01\n  agentd subagents -f sess_01\n  agentd subagents --direct --json sess_01",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.SessionID, p.Descendants = given[0], !direct
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.subagents(cmd.Context(), f, p, follow) })
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show changes as they come")
	cmd.Flags().StringVar(&p.ParentThreadID, "thread", "", "only those below this thread")
	cmd.Flags().BoolVar(&direct, "direct", false, "only direct subagents")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

func (a *app) subagents(ctx context.Context, f facts.Source, p *command.ListSubagents, follow bool) error {
	if !follow {
		return a.listSubagents(ctx, f, p)
	}
	return a.watch(ctx, f, watched{
		sessionID: p.SessionID, types: []string{"subagent.*"},
		show: func(ctx context.Context) error { return a.listSubagents(ctx, f, p) },
	})
}

func (a *app) listSubagents(ctx context.Context, f facts.Source, p *command.ListSubagents) error {
	return showResult(ctx, a, f, p, func(out *printer, res *command.ListSubagentsResult) {
		rows := [][]string{{"SUBAGENT", "STATUS", "ROLE", "THREAD", "SINCE", "LAST WORD"}}
		out.table(append(rows, childRows(res.Subagents)...), "THREAD")
		a.sayMore(res.NextCursor)
	})
}

// childRows orders children below their parents, each generation further in.
func childRows(list []command.SubagentRecord) [][]string {
	below := map[string][]command.SubagentRecord{}
	threads := map[string]bool{}
	for _, x := range list {
		threads[x.ThreadID] = true
	}
	for _, x := range list {
		at := x.ParentThreadID
		if !threads[at] {
			at = ""
		}
		below[at] = append(below[at], x)
	}
	var rows [][]string
	var walk func(thread string, depth int)
	walk = func(thread string, depth int) {
		for _, x := range below[thread] {
			word := x.LastMessage
			if x.Error != nil {
				word = x.Error.Message
			}
			name := x.Role
			if x.Nickname != "" {
				name = strings.TrimSpace(x.Nickname + " " + x.Role)
			}
			rows = append(rows, []string{
				strings.Repeat("  ", depth) + x.SubagentID, x.Status, terminal.Plain(name), x.ThreadID, ago(x.SpawnedAt), terminal.Plain(word),
			})
			walk(x.ThreadID, depth+1)
		}
	}
	walk("", 0)
	return rows
}
