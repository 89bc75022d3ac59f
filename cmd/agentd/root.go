package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
)

// root returns the tree of all commands.
func (a *app) root() *cobra.Command {
	a.table = config.Table()
	root := &cobra.Command{
		Use:   "agentd",
		Short: "Run AI agents and keep account of what they do",
		Long: `agentd is an Agent Runtime: every turn, model call, tool call, approval and
retry is a durable fact. "agentd chat" talks to an agent at the terminal, as
"agentd" alone does there; in a pipe it shows this help. "agentd run" runs one
turn, "agentd serve" the server, and the other commands look at the facts or act
on them from a shell.

An id can be given as its beginning, with or without the prefix that says what it
names, as long as only one id begins like that. "last" is the newest of its kind
(of sessions, the one used last), "last~1" the one before it. Shells complete ids;
see "agentd completion".

Tables fit the terminal; in a pipe they are 80 characters wide, or COLUMNS. With
--json nothing is shortened.

Exit codes: 0 done, 1 failed, 2 the command line or the configuration can't be
used, 3 (run) the turn waits for an action that can't be answered here. With
--json an error is one JSON object on standard error.`,
		Example: `  agentd chat
  agentd run "what does this repository do?"
  git diff | agentd run "review this"
  agentd undo
  agentd serve --data ./.agentd
  agentd sessions
  agentd events -f last`,
		Version:           a.version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              noSuchCommand,
		RunE:              a.openChat,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("agentd {{.Version}}\n")
	root.SetFlagErrorFunc(flagMistake)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "write JSON to standard output, and nothing else")
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "facts", Title: "Look and act:"}, &cobra.Group{ID: "host", Title: "Operate:"})
	a.addGroup(root, "run", a.initCommand(), a.chatCommand(), a.runCommand(), a.serveCommand(), a.consoleCommand(), a.stdioCommand(), a.acpCommand(), a.mcpCommand())
	a.addGroup(root, "facts", a.sessionsCommand(), a.turnsCommand(), a.searchCommand(), a.eventsCommand(), a.auditCommand(), a.actionsCommand(), a.approveCommand(), a.denyCommand(), a.interruptCommand(), a.submitCommand(), a.tasksCommand(), a.subagentsCommand(), a.jobsCommand(), a.jobCommand(), a.channelsCommand(), a.schedulesCommand(), a.quotasCommand(), a.nodesCommand(), a.usageCommand(), a.undoCommand(), a.diffCommand(), a.whyCommand(), a.exportCommand(), a.evidenceCommand(), a.telemetryCommand(), a.replayCommand(), a.conformanceCommand(), a.benchCommand(), a.policyCommand(), a.callCommand())
	a.addGroup(root, "host", a.statusCommand(), a.daemonCommand(), a.loginCommand(), a.logoutCommand(), a.importCommand(), a.verifyCommand(), a.configCommand(), a.tokensCommand(), a.doctorCommand(), a.dataCommand(), a.backupCommand(), a.restoreCommand(), a.versionCommand(), a.manCommand())
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID("host")
	root.SetCompletionCommandGroupID("host")
	values := choices(a.table)
	root.SetOut(a.out) // completions keep where they write
	addCompletion(root)
	if a.completing {
		completeValues(root, values)
		a.completeModels(root)
	}
	a.takeShortIDs(root, idKinds())
	checkValues(root, values)
	return root
}

// openChat is the program without a command: the chat at a terminal, else the help.
func (a *app) openChat(cmd *cobra.Command, _ []string) error {
	if a.json || !terminal.IsTerminal(a.in) || !terminal.IsTerminal(a.out) {
		return cmd.Help()
	}
	chat, _, err := cmd.Find([]string{"chat"})
	if err != nil {
		return err
	}
	chat.SetContext(cmd.Context())
	return chat.RunE(chat, nil)
}

// addGroup puts commands into a group of the help.
func (a *app) addGroup(root *cobra.Command, group string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// noSuchCommand refuses the arguments of a command that has only subcommands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", cmd.CommandPath()+" "+args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", text)
}

// parent returns a command that only holds others.
func parent(use, short, long, example string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, SuggestionsMinimumDistance: 2, Args: noSuchCommand, RunE: needsCommand}
	c.AddCommand(children...)
	return c
}

// needsCommand answers a command that only holds others: with its help or, for a
// program, with a mistake like every other.
func needsCommand(cmd *cobra.Command, _ []string) error {
	if asked, err := cmd.Flags().GetBool("json"); err != nil || !asked {
		_ = cmd.Help() // it goes to standard output, like every answer
		return silent(exitUsage)
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usagef("%s needs one of its commands: %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// args makes a mistake in the number of arguments a usage error that says which
// ones are expected. An empty argument is a mistake too: nothing is called so, and a
// variable of the shell that isn't set looks like that.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		want := argumentsOf(cmd.Use)
		if check(cmd, given) == nil {
			return checkEmpty(cmd, want, given)
		}
		switch {
		case len(want) == 0:
			return usagef("unexpected argument %q: %s takes none", given[0], cmd.CommandPath())
		case len(given) < len(want):
			return usagef("%s is missing: %s %s", strings.Trim(want[len(given)], "[]."), cmd.CommandPath(), strings.Join(want, " "))
		}
		return usagef("there are %d arguments, but %s takes %s", len(given), cmd.CommandPath(), strings.Join(want, " "))
	}
}

// checkEmpty refuses arguments without a character.
func checkEmpty(cmd *cobra.Command, want, given []string) error {
	for i, text := range given {
		if strings.TrimSpace(text) == "" && len(want) > 0 {
			name := strings.Trim(want[min(i, len(want)-1)], "[].")
			return usagef("%s is empty, given as %q: %s %s", name, text, cmd.CommandPath(), strings.Join(want, " "))
		}
	}
	return nil
}

// argumentsOf returns the names of the arguments in a line of usage, up to another
// form of it.
func argumentsOf(use string) []string {
	var names []string
	words := strings.Fields(use)
	for i := 1; i < len(words) && words[i] != "|"; i++ {
		if strings.HasPrefix(words[i], "--") {
			i++ // a flag and its value
			continue
		}
		names = append(names, words[i])
	}
	return names
}

// withDataFlags adds the flags that say which facts a command is about.
func (a *app) withDataFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.server, "server", "", "address of a server, such as http://127.0.0.1:8700; default: your own, which is started if it doesn't run, or the one that holds --data")
	return a.settings(cmd, "data", "stateDir")
}

// settings adds --config and the flags of the named settings.
func (a *app) settings(cmd *cobra.Command, names ...string) *cobra.Command {
	cmd.Flags().String("config", "", "configuration file (AGENTD_CONFIG)")
	for _, s := range a.table {
		if s.Flag != "" && (slices.Contains(names, s.Name) || strings.HasPrefix(s.Name, "log.")) {
			addSetting(cmd.Flags(), s)
		}
	}
	return cmd
}

func addSetting(flags *pflag.FlagSet, s config.Setting) {
	text := strings.TrimSuffix(lowerFirst(s.Means), ".")
	if s.Env != "" {
		text += " (" + s.Env + ")"
	}
	if len(s.Values) > 0 {
		text += ": " + strings.Join(s.Values, ", ")
	}
	if s.Default != "" && s.Type != config.Boolean {
		text += fmt.Sprintf(" (default %s)", s.Default)
	}
	if s.Type == config.Boolean {
		flags.Bool(s.Flag, false, text)
		return
	}
	flags.String(s.Flag, "", text)
}

func lowerFirst(s string) string {
	if len(s) < 2 || strings.ToUpper(s[1:2]) == s[1:2] && s[1] != ' ' {
		return s // an abbreviation
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// getenv looks up a variable of the program's environment.
func (a *app) getenv(name string) string { return a.env[name] }

// load reads the configuration of a command.
func (a *app) load(cmd *cobra.Command) (*config.Loaded, error) {
	loaded, err := a.loadOnly(cmd)
	if err != nil || a.server != "" { // another machine's data
		return loaded, err
	}
	return loaded, a.checkData(loaded.Config)
}

// loadForTurns is loadOnly with what the project that the command is in asks for.
func (a *app) loadForTurns(cmd *cobra.Command) (*config.Loaded, error) {
	src := a.sources(cmd)
	if root, _, err := a.project(); err == nil {
		src.ProjectFile = filepath.Join(root, config.ProjectFileName)
	}
	loaded, err := config.Load(src)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return loaded, nil
}

// loadOnly reads the configuration without a look at the data, for commands that
// believe nothing in it.
func (a *app) loadOnly(cmd *cobra.Command) (*config.Loaded, error) {
	loaded, err := config.Load(a.sources(cmd))
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return loaded, nil
}

// sources says where a command's configuration comes from.
func (a *app) sources(cmd *cobra.Command) config.Sources {
	src := config.Sources{Env: a.getenv, UserFile: config.UserFile(a.getenv), DataHome: config.DataHome(a.getenv), Flags: map[string]string{}}
	cmd.Flags().Visit(func(f *pflag.Flag) { src.Flags[f.Name] = f.Value.String() })
	if src.File = src.Flags["config"]; src.File == "" {
		src.File = a.env["AGENTD_CONFIG"]
	}
	return src
}
