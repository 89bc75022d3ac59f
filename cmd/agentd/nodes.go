package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) nodesCommand() *cobra.Command {
	p := &command.ListNodes{}
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes that share the database",
		Long: `Shows the servers that share the database: their names, where the others reach
them, how long their leases last, how many sessions each owns and how many
threads it works on, with those that wait, and its pool and labels. A node whose
lease has ended is gone, and the others have what it was doing, but for sessions
whose files only that node has. A data directory has one node. With --json the
answer is that of list_nodes.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes\n  agentd nodes --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toLook, p, func(f facts.Source) error {
				return showResult(cmd.Context(), a, f, p, printNodes)
			})
		},
	}
	return a.withDataFlags(cmd)
}

func printNodes(out *printer, res *command.ListNodesResult) {
	rows := [][]string{{"NODE", "STATE", "LEASE", "SESSIONS", "THREADS", "POOL", "LABELS", "ADDRESS"}}
	for _, n := range res.Nodes {
		state, lease := "gone", "-"
		if n.Alive {
			state = "alive"
		}
		if n.Self {
			state += " *"
		}
		if left := time.Until(n.LeaseUntil); n.Alive && !n.LeaseUntil.IsZero() {
			lease = max(left, 0).Round(time.Second).String()
		}
		threads := strconv.FormatInt(n.Running, 10)
		if n.Waiting > 0 {
			threads += "+" + strconv.FormatInt(n.Waiting, 10)
		}
		rows = append(rows, []string{
			terminal.Plain(n.NodeID), state, lease, strconv.FormatInt(n.Sessions, 10), threads,
			orDash(terminal.Plain(n.Pool)), orDash(terminal.Plain(strings.Join(n.Labels, " "))), terminal.Plain(n.Address),
		})
	}
	out.table(rows)
}
