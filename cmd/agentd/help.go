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

// completions say how each shell is given its script.
var completions = map[string]struct{ needs, example string }{
	"bash":       {"It needs the package bash-completion.", "  source <(agentd completion bash)\n  agentd completion bash > /etc/bash_completion.d/agentd"},
	"zsh":        {"A new shell knows it, if compinit is loaded.", "  agentd completion zsh > \"${fpath[1]}/_agentd\""},
	"fish":       {"A new shell knows it.", "  agentd completion fish | source\n  agentd completion fish > ~/.config/fish/completions/agentd.fish"},
	"powershell": {"Put the line into the profile to have it in every shell.", "  agentd completion powershell | Out-String | Invoke-Expression"},
}

// addCompletion adds cobra's command for completion, with help like that of the
// others.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Write the script that completes commands in a shell"
		c.Long = "Writes the script that completes commands, flags and their values in a shell.\n\nExit codes: those of its commands."
		c.Example = "  source <(agentd completion bash)\n  agentd completion zsh > \"${fpath[1]}/_agentd\""
		c.Args, c.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help() // as for every command that only holds others
			return silent(exitUsage)
		}
		for _, shell := range c.Commands() {
			about := completions[shell.Name()]
			shell.Short = "Write the script for " + shell.Name()
			shell.Long = "Writes the script that completes agentd's commands in " + shell.Name() + ".\n" + about.needs + "\n\nExit codes: 0 done, 1 failed, 2 usage."
			shell.Example = about.example
			shell.Args = args(cobra.NoArgs)
		}
	}
}
