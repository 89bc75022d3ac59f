package main

import (
	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) nodesForget() *cobra.Command {
	p := &command.ForgetNode{}
	cmd := &cobra.Command{
		Use:   "forget NODE",
		Short: "Take a node that is gone for good off the list",
		Long: `Takes a node that never comes back off the list of nodes, and shows the
sessions whose files only that node has. They stay blocked: "nodes move" gives
them another place. A node that is alive is refused; --preview only shows the
sessions, of such a node too. A node that comes back under its name is on the
list again. Needs an admin.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes forget --preview node-a\n  agentd nodes forget node-a",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.NodeID = given[0]
			return a.withValid(cmd, toAct, p, func(f facts.Source) error {
				var res command.ForgetNodeResult
				if err := f.Do(cmd.Context(), p, &res); err != nil {
					return err
				}
				return a.print(&res, func(out *printer) { printForgotten(out, &res) })
			})
		},
	}
	cmd.Flags().BoolVar(&p.Preview, "preview", false, "change nothing, only show the sessions")
	return a.withDataFlags(cmd)
}

// printForgotten says what was on a node, and what to do about it.
func printForgotten(out *printer, res *command.ForgetNodeResult) {
	name := terminal.Plain(res.NodeID)
	switch {
	case res.Forgotten:
		out.linef("node %s is forgotten", name)
	case res.Alive:
		out.linef("node %s is alive", name)
	case res.Listed:
		out.linef("node %s is gone", name)
	default:
		out.linef("node %s is not on the list", name)
	}
	if res.Placed == 0 {
		out.linef("no session has its files only there")
		return
	}
	out.linef("%s with files only there:", terminal.Plural(res.Placed, "session"))
	for _, id := range res.SessionIDs {
		out.linef("  %s", terminal.Plain(id))
	}
	if more := res.Placed - int64(len(res.SessionIDs)); more > 0 {
		out.linef("  and %d more", more)
	}
	out.linef("agentd nodes move SESSION --to NODE gives one another place")
}

func (a *app) nodesMove() *cobra.Command {
	p := &command.MoveSession{}
	cmd := &cobra.Command{
		Use:   "move SESSION",
		Short: "Give a session another place to work in",
		Long: `Gives a session whose files are on a node that is gone or drained another
place: --to names the node, or else it is the one that answers, and --root the
folder there, or else it is the folder of the same path. No file is copied:
bring what matters along first. The session goes on there by itself. What its
earlier turns changed can be undone only as far as the very same files are in
the new place. With --root alone a session moves to another folder of its node,
while nothing of it runs. Needs an admin.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd nodes move sess_a --to node-b\n  agentd nodes move sess_a --to node-b --root /srv/project",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			p.SessionID = given[0]
			return a.withValid(cmd, toAct, p, func(f facts.Source) error {
				var res command.MoveSessionResult
				if err := f.Do(cmd.Context(), p, &res); err != nil {
					return err
				}
				return a.print(&res, func(out *printer) {
					out.linef("session %s: from %s on node %s to %s on node %s", terminal.Plain(res.SessionID),
						terminal.Plain(res.From.Root), terminal.Plain(res.From.NodeID), terminal.Plain(res.To.Root), terminal.Plain(res.To.NodeID))
				})
			})
		},
	}
	cmd.Flags().StringVar(&p.NodeID, "to", "", "the node that the session goes on at")
	cmd.Flags().StringVar(&p.Root, "root", "", "the folder there")
	return a.withDataFlags(cmd)
}
