package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/cmd/agentd/internal/transcript"
)

func (a *app) exportTranscriptCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "transcript SESSION",
		Short: "Write down the conversation of a session",
		Long: `Writes down what was said, called, asked and answered, turn by turn, as /export
in the chat does. Turns that were taken back are left out, and so are secrets,
which no session keeps. Without --out it goes to standard output as Markdown,
with --json as JSON. --out takes FILE.md or FILE.json. Nothing is recorded in
the session.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd export transcript sess_01\n  agentd export transcript last --out conversation.md",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			form := filepath.Ext(out)
			if out != "" && form != ".md" && form != ".json" {
				return usagef("export to %s: a transcript is a file that ends with .md or .json", out)
			}
			return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.exportTranscript(cmd.Context(), f, given[0], out) })
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "output: FILE.md or FILE.json (default standard output)")
	return a.withDataFlags(cmd)
}

func (a *app) exportTranscript(ctx context.Context, f facts.Source, sessionID, out string) error {
	if out == "" {
		form := transcript.Markdown
		if a.json {
			form = transcript.Line
		}
		_, err := transcript.Write(ctx, f, sessionID, form, a.out)
		return err
	}
	turns := 0
	write := func(w io.Writer) (err error) {
		turns, err = transcript.Write(ctx, f, sessionID, transcript.Form(filepath.Ext(out)), w)
		return err
	}
	if err := intoFile(out, write); err != nil {
		return fmt.Errorf("export to %s: %w", out, err)
	}
	return a.print(map[string]string{"sessionId": sessionID, "out": out}, func(p *printer) {
		p.linef("%s is in %s", terminal.Plural(turns, "turn"), terminal.Plain(out))
	})
}
