package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpCommand is "agentd help". Unlike cobra's own it fails on a command that
// isn't there.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		Long:    "Shows the help of a command, as its flag --help does.\n\nExit codes: 0 done, 2 there is no such command.",
		Example: "  agentd help run\n  agentd help tokens create",
		RunE: func(cmd *cobra.Command, given []string) error {
			about, rest, err := cmd.Root().Find(given)
			if err != nil || len(rest) > 0 {
				if about == nil {
					about = cmd.Root()
				}
				if len(rest) == 0 {
					rest = given
				}
				return noSuchCommand(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
			about, _, err := cmd.Root().Find(given)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range about.Commands() {
				if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), begun) {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}
