package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/terminal"
)

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a directory",
		Long:    "Writes one man page per command into DIR, which is created if it doesn't exist.\n\nExit codes: 0 done, 1 failed, 2 usage.",
		Example: "  agentd man /usr/local/share/man/man1",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := os.MkdirAll(given[0], 0o755); err != nil { //nolint:gosec // man pages are for everyone
				return fmt.Errorf("man: %w", err)
			}
			n := 0
			for _, c := range commandTree(cmd.Root()) {
				file := filepath.Join(given[0], strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
				if err := os.WriteFile(file, []byte(manPage(c, a.version)), 0o644); err != nil { //nolint:gosec // the same
					return fmt.Errorf("man: %w", err)
				}
				n++
			}
			return a.print(map[string]any{"dir": given[0], "pages": n}, func(p *printer) { p.linef("%s: %s", given[0], terminal.Plural(n, "page")) })
		},
	}
}

// commandTree returns a command and all below it that are for users.
func commandTree(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			list = append(list, commandTree(child)...)
		}
	}
	return list
}

// manPage returns the page of a command in the language of man.
func manPage(c *cobra.Command, version string) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"agentd\"\n", strings.ToUpper(name), "agentd "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	text := c.Long
	if text == "" {
		text = c.Short
	}
	b.WriteString(".SH DESCRIPTION\n")
	for para := range strings.SplitSeq(text, "\n\n") {
		fmt.Fprintf(&b, ".PP\n%s\n", roff(para))
	}
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var also []string
	if c.HasParent() {
		also = append(also, strings.ReplaceAll(c.Parent().CommandPath(), " ", "-"))
	}
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			also = append(also, strings.ReplaceAll(child.CommandPath(), " ", "-"))
		}
	}
	if len(also) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", roff(strings.Join(also, "(1), ")+"(1)"))
	}
	return b.String()
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(flagName(f)), roff(f.Usage))
		}
	})
}

// flagName returns a flag as it is written on a command line.
func flagName(f *pflag.Flag) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if f.Value.Type() != "bool" {
		name += " " + strings.ToUpper(f.Value.Type())
	}
	return name
}

// roff protects what man would take for its own.
func roff(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
