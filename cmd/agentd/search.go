package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

func (a *app) searchCommand() *cobra.Command {
	p := &command.Search{}
	cmd := &cobra.Command{
		Use:   "search WORD...",
		Short: "Find where something was said or done",
		Long: `Finds the events that have all of the words: in inputs, answers, arguments and
outputs of tools, and names of files. A word that ends with * stands for all that
begin like it. The best come first. Each hit is shown with its session and
sequence, so that "agentd events SESSION" shows what is around it. The words stand
between ** and **, or in colour on a terminal. With --json the answer is that of
search.

Exit codes: 0 done, also if nothing was found, 1 failed, 2 usage.`,
		Example: "  agentd search timeout\n  agentd search \"release notes\" --type model.completed\n  agentd search 'retr*' --from 24h --json",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, words []string) error {
			p.Query = strings.Join(words, " ")
			return a.withValid(cmd, toLook, p, func(f facts.Source) error { return a.showHits(cmd, f, p) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.SessionID, "session", "", "only in this session")
	f.StringArrayVar(&p.Types, "type", nil, "only in events of this type, such as tool.* or turn.submitted; may be repeated")
	addTimeFlags(cmd, &p.From, &p.To)
	f.IntVar(&p.Limit, "limit", 20, "maximum number of hits")
	f.StringVar(&p.Cursor, "cursor", "", "continue where an answer with nextCursor ended")
	return a.withDataFlags(cmd)
}

// textWidth is how wide lines of text are.
const textWidth = 78

func (a *app) showHits(cmd *cobra.Command, f facts.Source, p *command.Search) error {
	return showResult(cmd.Context(), a, f, p, func(out *printer, res *command.SearchResult) {
		for i := range res.Hits {
			h := &res.Hits[i]
			out.linef("%s", out.Paint(terminal.Cyan, fmt.Sprintf("%s %d", h.SessionID, h.Sequence))+" "+h.Type+" "+out.Paint(terminal.Dim, ago(h.Time)))
			for _, line := range terminal.Wrap(terminal.Plain(h.Snippet), textWidth-2) {
				out.linef("  %s", paintMarks(out, line))
			}
		}
		if len(res.Hits) == 0 {
			a.sayf("nothing found")
		}
		if res.Truncated {
			a.sayf("these words are in very many events: only the newest were ranked")
		}
		a.sayMore(res.NextCursor)
	})
}

// paintMarks shows the words between ** and ** in colour, where there is colour.
func paintMarks(out *printer, line string) string {
	if !out.HasColour() {
		return line
	}
	parts := strings.Split(line, "**")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = out.Paint(terminal.Yellow, parts[i])
	}
	return strings.Join(parts, "")
}
