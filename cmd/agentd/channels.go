package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) channelsCommand() *cobra.Command {
	p := &command.ListChannels{}
	cmd := &cobra.Command{
		Use:   "channels",
		Short: "List remote channels",
		Long: `Lists the remote channels: the peer, whether it is connected, and how far it has
read. The status "unknown" means that the facts say connected, but no running
server could confirm it. With --json the answer is that of list_channels.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd channels\n  agentd channels --session sess_01 --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withValid(cmd, toAct, p, func(f facts.Source) error { return a.listChannels(cmd, f, p) })
		},
	}
	cmd.Flags().StringVar(&p.SessionID, "session", "", "only those that follow this session")
	addPageFlags(cmd, &p.Page)
	return a.withDataFlags(cmd)
}

func (a *app) listChannels(cmd *cobra.Command, f facts.Source, p *command.ListChannels) error {
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.ListChannelsResult) {
		rows := [][]string{{"CHANNEL", "STATUS", "PEER", "TRANSPORT", "ACKED", "SEEN", "TOOLS", "SESSIONS"}}
		for _, c := range res.Channels {
			peer := c.PeerRole
			if c.NativeProtocol != "" {
				peer += " (" + terminal.Plain(c.NativeProtocol) + ")"
			}
			rows = append(rows, []string{
				c.ChannelID, c.Status, peer, c.Transport, strconv.FormatUint(c.LastAcknowledged, 10), ago(c.LastSeenAt),
				strconv.Itoa(len(c.Tools)), strings.Join(c.Sessions, " "),
			})
		}
		out.table(rows, "TOOLS", "ACKED")
		a.sayMore(res.NextCursor)
	})
}
