package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) nodesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the nodes that share the database",
		Long: `Shows the servers that share the database: their names, where the others reach
them, how long their leases last, how many sessions each owns and how many
threads it works on, with those that wait, and its pool and labels. A node whose
lease has ended is gone, and the others have what it was doing, but for sessions
whose files only that node has: if it never comes back, "nodes forget" says
which these are, and "nodes move" gives them another place. Commands that have
the database open are listed too, without an address: nothing is passed on to
them. A data directory has one node. With --json the answer is that of
list_nodes.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes\n  agentd nodes --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toLook, &command.ListNodes{}, func(f facts.Source) error {
				all, err := allNodes(cmd.Context(), f)
				if err != nil {
					return err
				}
				return a.print(all, func(out *printer) { printNodes(out, all) })
			})
		},
	}
	cmd.AddCommand(a.nodesDrain(), a.nodesUndrain(), a.nodesForget(), a.nodesMove())
	return a.withDataFlags(cmd)
}

func (a *app) nodesDrain() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Have a node hand over what it does, before it is stopped",
		Long: `Has a node take no new work and hand over what it has to the other nodes, each
session when the step that it is in has ended, and waits until nothing is left;
standard error shows how far it is. If the node is restarted or undrained
meanwhile, it takes work again, and the command fails. The node answers on:
commands that reach it go to the others. Stop it then, or let it take work again
with "nodes undrain". Sessions whose files only that node has stay there and go
on when it takes work again. Needs an admin.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes drain node-a\n  agentd nodes drain --wait=false node-a",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p := &command.DrainNode{NodeID: given[0]}
			return a.withValid(cmd, toAct, p, func(f facts.Source) error {
				return a.drainAndWait(cmd.Context(), f, p, wait)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", true, "return when nothing is left")
	return a.withDataFlags(cmd)
}

func (a *app) nodesUndrain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "undrain NODE",
		Short: "Let a node take work again",
		Long: `Lets a node take work again that was drained. A restart does the same. Needs an
admin.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes undrain node-a",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p := &command.DrainNode{NodeID: given[0], End: true}
			return a.withValid(cmd, toAct, p, func(f facts.Source) error {
				return a.drainAndWait(cmd.Context(), f, p, false)
			})
		},
	}
	return a.withDataFlags(cmd)
}

// drainAndWait begins or ends a drain, waits if that is asked for, and shows the node.
func (a *app) drainAndWait(ctx context.Context, f facts.Source, p *command.DrainNode, wait bool) error {
	var res command.DrainNodeResult
	if err := f.Do(ctx, p, &res); err != nil {
		return err
	}
	node, last, begun := res.Node, int64(-1), false
	for wait && node.State != "drained" {
		if node.State == "open" && begun {
			return fmt.Errorf("node %s takes work again: it was restarted or undrained meanwhile", node.NodeID)
		}
		begun = begun || node.State == "draining"
		if node.Sessions != last {
			last = node.Sessions
			if _, err := fmt.Fprintf(a.err, "%s is %s: %s, %s\n", terminal.Plain(node.NodeID), node.State, terminal.Plural(node.Sessions, "session"), terminal.Plural(node.Running, "thread")); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(drainLook):
		}
		list, err := allNodes(ctx, f)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list.Nodes, func(n command.NodeRecord) bool { return n.NodeID == node.NodeID })
		if i < 0 || !list.Nodes[i].Alive {
			return fmt.Errorf("node %s is gone; the others have what it did", node.NodeID)
		}
		node = list.Nodes[i]
	}
	out := &command.ListNodesResult{Nodes: []command.NodeRecord{node}, Total: 1}
	return a.print(out, func(p *printer) { printNodes(p, out) })
}

// allNodes returns the nodes of all pages.
func allNodes(ctx context.Context, f facts.Source) (*command.ListNodesResult, error) {
	all := &command.ListNodesResult{Nodes: []command.NodeRecord{}}
	p := &command.ListNodes{}
	err := command.EachPage(p, func() (string, error) {
		var page command.ListNodesResult
		err := f.Do(ctx, p, &page)
		all.Nodes, all.Total = append(all.Nodes, page.Nodes...), page.Total
		return page.NextCursor, err
	})
	return all, err
}

// drainLook is how often a node that is being drained is looked at.
const drainLook = 200 * time.Millisecond

func printNodes(out *printer, res *command.ListNodesResult) {
	rows := [][]string{{"NODE", "STATE", "LEASE", "SESSIONS", "THREADS", "POOL", "LABELS", "ADDRESS"}}
	for _, n := range res.Nodes {
		state, lease := "gone", "-"
		if n.Alive {
			state = "alive"
			if n.State != "open" {
				state = n.State
			}
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
			orDash(terminal.Plain(n.Pool)), orDash(terminal.Plain(strings.Join(n.Labels, " "))), orDash(terminal.Plain(n.Address)),
		})
	}
	if !out.seen {
		out.cols = 0 // an operator's script reads all of it
	}
	out.table(rows, "LABELS", "POOL", "LEASE", "ADDRESS")
}
