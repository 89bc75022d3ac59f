package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/event"
	"agentd/permission"
)

// completions say how each shell is given its script.
var completions = map[string]struct{ needs, example string }{
	"bash":       {"It needs the package bash-completion.", "  source <(agentd completion bash)\n  agentd completion bash > /etc/bash_completion.d/agentd"},
	"zsh":        {"New shells load it if compinit is enabled.", "  agentd completion zsh > \"${fpath[1]}/_agentd\""},
	"fish":       {"New shells load it.", "  agentd completion fish | source\n  agentd completion fish > ~/.config/fish/completions/agentd.fish"},
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
		c.Short = "Write a shell completion script"
		c.Long = "Writes the script that completes commands, flags and their values in a shell.\n\nExit codes: those of its commands."
		c.Example = "  source <(agentd completion bash)\n  agentd completion zsh > \"${fpath[1]}/_agentd\""
		c.Args, c.RunE = noSuchCommand, needsCommand
		for _, shell := range c.Commands() {
			about := completions[shell.Name()]
			shell.Short = "Write the script for " + shell.Name()
			shell.Long = "Writes the script that completes agentd's commands in " + shell.Name() + ".\n" + about.needs + "\n\nExit codes: 0 done, 1 failed, 2 usage."
			shell.Example = about.example
			shell.Args = args(cobra.NoArgs)
			write := shell.RunE
			shell.RunE = func(cmd *cobra.Command, given []string) error {
				if asked, err := cmd.Flags().GetBool("json"); err != nil || asked {
					return usagef("--json: the script for a shell can't be JSON; leave it out")
				}
				return write(cmd, given)
			}
		}
	}
}

// choices are the values of flags that take only some: by the flag's name, or by
// those of command and flag where the name alone doesn't tell.
func choices(table []config.Setting) map[string][]string {
	all := map[string][]string{
		"mode":         permission.Modes(),
		"role":         {string(command.RoleAdmin), string(command.RoleClient), string(command.RoleObserver)},
		"scope":        event.EnumValues("@approvalScope"),
		"queue-policy": event.EnumValues("@queuePolicy"),
		"missed":       event.EnumValues("@missedRuns"),
		"overlap":      event.EnumValues("@overlappingRuns"),
		"files":        event.EnumValues("@rollbackFiles"),
		"signal":       {"traces", "metrics"},
		"atif-version": {"1.8", "1.4"},
		"order":        event.EnumValues("@sortOrder"),
		"bucket":       {"hour", "day", "month"},

		"agentd export format":            {"agentd", sibling},
		"agentd export evidence format":   {"agentd", sibling},
		"agentd export replay format":     {"agentd", sibling},
		"agentd sessions export format":   {"session", "cloudevents"},
		"agentd telemetry export format":  {"otlp-json", "otlp"},
		"agentd conformance check format": {"text", "json", "junit"},
		"agentd login store":              storeChoices,
		"agentd init store":               storeChoices,
	}
	for _, s := range table {
		if s.Flag != "" && len(s.Values) > 0 {
			all[s.Flag] = s.Values
		}
	}
	return all
}

// choicesOf returns the values that a flag of a command takes; nil if it takes others,
// too.
func choicesOf(cmd *cobra.Command, f *pflag.Flag, all map[string][]string) []string {
	if f.Value.Type() != "string" {
		return nil
	}
	if values, ok := all[cmd.CommandPath()+" "+f.Name]; ok {
		return values
	}
	return all[f.Name]
}

// completeValues tells shells the values of the flags of a command and of those
// below it.
func completeValues(cmd *cobra.Command, all map[string][]string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := choicesOf(cmd, f, all)
		if values == nil {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // it has one already: a mistake in the program
		}
	})
	for _, c := range cmd.Commands() {
		completeValues(c, all)
	}
}

// completeModels tells shells the configured models, wherever one is chosen for a turn.
func (a *app) completeModels(cmd *cobra.Command) {
	if f := cmd.Flags().Lookup("model"); f != nil && f.Usage == modelUsage {
		if err := cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if loaded, err := a.loadOnly(cmd); err == nil {
				for _, p := range a.providersOf(loaded.Config) {
					for _, m := range modelsOf(p, "") {
						names = append(names, m.ID())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		}); err != nil {
			panic(err) // it has one already: a mistake in the program
		}
	}
	for _, c := range cmd.Commands() {
		a.completeModels(c)
	}
}

// commandNames completes the name of a command of the catalogue.
func commandNames(_ *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(given) == 0 {
		for _, d := range command.Catalog() {
			if strings.HasPrefix(string(d.Name), begun) {
				names = append(names, string(d.Name)+"\t"+d.Means)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
