package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/shortid"
)

// maxCompletions bounds what a shell is offered.
const maxCompletions = 50

// completeWithin bounds how long a shell waits.
var completeWithin = 2 * time.Second

// completeIDs lets shells complete the ids of a command's arguments and flags.
func (a *app) completeIDs(cmd *cobra.Command, uses []idUse) {
	for i := range uses {
		u := &uses[i]
		if u.flag == "" {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(u.flag, func(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
			return a.offerIDs(cmd, uses, u, given, begun), cobra.ShellCompDirectiveNoFileComp
		}); err != nil {
			panic(err) // it has one already: a mistake in the program
		}
	}
	if cmd.ValidArgsFunction != nil {
		return
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		for i := range uses {
			if u := &uses[i]; u.flag == "" && (u.arg == len(given) || u.rest && u.arg < len(given)) {
				return a.offerIDs(cmd, uses, u, given, begun), cobra.ShellCompDirectiveNoFileComp
			}
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// offerIDs returns the ids that a shell offers at a place, each with what it names. A
// shell that gets none, for whatever reason, offers nothing: there is no place to say
// why.
func (a *app) offerIDs(cmd *cobra.Command, uses []idUse, u *idUse, given []string, begun string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	a.err = io.Discard
	cmd.SetContext(ctx)
	want := toLook
	if u.kind.loop {
		want = toAct
	}
	f, err := a.connect(cmd, want)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	lead, scope := "", idScope{pending: cmd.Name() == "approve" || cmd.Name() == "deny"}
	if strings.HasPrefix(u.name, "--") && u.kind.noun == "trial" { // CONFIG=ID,ID...
		at := strings.LastIndexAny(begun, "=,") + 1
		lead, begun = begun[:at], begun[at:]
	}
	for i := range uses {
		if other := &uses[i]; other.kind.rank < u.kind.rank {
			scope.narrow(ctx, a, f, other, other.values(cmd, given))
		}
	}
	out := []string{}
	for e, err := range u.kind.list(ctx, f, begun, scope) {
		if err != nil || len(out) == maxCompletions {
			break
		}
		if strings.HasPrefix(e.id, begun) {
			out = append(out, lead+e.id+"\t"+e.describeIn(50))
		} else if shortid.Begins(e.id, begun) { // without its prefix a shell would drop it
			out = append(out, lead+begun+strings.TrimPrefix(e.id[strings.IndexByte(e.id, '_')+1:], begun)+"\t"+e.describeIn(50))
		}
	}
	return out
}

// narrow limits what is listed to what another place of the command line names.
func (s *idScope) narrow(ctx context.Context, a *app, f facts.Source, u *idUse, values []string) {
	if len(values) != 1 {
		return
	}
	found, err := a.findID(ctx, f, u, values[0], *s)
	if err != nil {
		return
	}
	switch u.kind.noun {
	case "session":
		s.session = found.id
	case "job":
		s.job = found.id
	}
}
