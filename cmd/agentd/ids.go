package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/shortid"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

// idArguments says what the arguments name that are ids, by the word in the line of
// usage.
var idArguments = map[string]string{
	"SESSION": "session", "TURN": "turn", "ACTION": "action", "JOB": "job", "ITEM": "item",
	"SCHEDULE": "schedule", "TRIAL": "trial", "TASK": "task", "ID": "thing",
}

// idFlags says the same of flags: by the flag's name, or by those of command and flag
// where the name alone doesn't tell.
var idFlags = map[string]string{
	"session": "session", "turn": "turn", "thread": "thread", "parent": "task", "task": "task",
	"agentd schedules create task":   "", // an objective
	"agentd tasks create after":      "task",
	"agentd replay all":              "session",
	"agentd bench compare baseline":  "trial",
	"agentd bench compare candidate": "trial",
}

// idUse is a place on a command line where an id is expected.
type idUse struct {
	kind *idKind
	// name is how the user knows the place: --session or SESSION.
	name string
	// flag is the flag's name, empty for an argument.
	flag string
	// arg is the place of the argument, and rest says that all that follow are alike.
	arg  int
	rest bool
}

// idUses returns the places of a command's line where ids are expected, those first that
// narrow the others.
func idUses(cmd *cobra.Command, kinds map[string]*idKind) []idUse {
	var uses []idUse
	for i, word := range argumentsOf(cmd.Use) {
		name := strings.Trim(word, "[].")
		if kind := kinds[idArguments[name]]; kind != nil {
			uses = append(uses, idUse{kind: kind, name: name, arg: i, rest: strings.Contains(word, "...")})
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		noun, ok := idFlags[cmd.CommandPath()+" "+f.Name]
		if t := f.Value.Type(); !ok && t == "string" {
			noun = idFlags[f.Name]
		}
		if kind := kinds[noun]; kind != nil {
			uses = append(uses, idUse{kind: kind, name: "--" + f.Name, flag: f.Name})
		}
	})
	slices.SortStableFunc(uses, func(x, y idUse) int { return x.kind.rank - y.kind.rank })
	return uses
}

// takeShortIDs lets a command and those below it take ids as people write them, and
// shells complete them.
func (a *app) takeShortIDs(cmd *cobra.Command, kinds map[string]*idKind) {
	for _, c := range cmd.Commands() {
		a.takeShortIDs(c, kinds)
	}
	uses := idUses(cmd, kinds)
	if cmd.RunE == nil || len(uses) == 0 {
		return
	}
	if a.completing {
		a.completeIDs(cmd, uses)
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		given = slices.Clone(given)
		if cmd.Name() == "verify" && !slices.ContainsFunc(given, isPlace) {
			return run(cmd, given) // it believes no list, and compares the ids itself
		}
		if err := a.fillIDs(cmd, uses, given); err != nil {
			return err
		}
		return run(cmd, given)
	}
}

// values returns the ids that were given at a place.
func (u *idUse) values(cmd *cobra.Command, given []string) []string {
	switch {
	case u.flag == "" && u.arg >= len(given):
		return nil
	case u.flag == "" && u.rest:
		return given[u.arg:]
	case u.flag == "":
		return given[u.arg : u.arg+1]
	}
	f := cmd.Flags().Lookup(u.flag)
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	if !f.Changed {
		return nil
	}
	if config, trials, ok := strings.Cut(f.Value.String(), "="); ok && config != "" { // CONFIG=ID,ID...
		return strings.Split(trials, ",")
	}
	return []string{f.Value.String()}
}

// set puts whole ids where others were given.
func (u *idUse) set(cmd *cobra.Command, given, ids []string) error {
	if u.flag == "" {
		copy(given[u.arg:], ids)
		return nil
	}
	f := cmd.Flags().Lookup(u.flag)
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(ids)
	}
	text := ids[0]
	if config, _, ok := strings.Cut(f.Value.String(), "="); ok {
		text = config + "=" + strings.Join(ids, ",")
	}
	return f.Value.Set(text)
}

// isPlace reports whether an id is written as last or last~1.
func isPlace(id string) bool {
	_, ok := shortid.Place(id)
	return ok
}

// isWhole reports whether an id needs no look at what there is: it is whole, or can't be
// one, which the command itself says.
func isWhole(id string) bool {
	return !isPlace(id) && (shortid.Made(id) || !event.ValidID(id))
}

// fillIDs replaces the ids on a command line that are written short.
func (a *app) fillIDs(cmd *cobra.Command, uses []idUse, given []string) error {
	want, placed, look := toLook, false, false
	homeless := needsHome(cmd)
	for i := range uses {
		for _, id := range uses[i].values(cmd, given) {
			if !isPlace(id) && !event.ValidID(id) && (id != "" || uses[i].flag == "") {
				return usagef("%s: %q is not an id: 1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or a digit", uses[i].name, id)
			}
			if isWhole(id) && (!homeless || uses[i].kind.noun != "turn") {
				continue
			}
			look = true
			placed = placed || isPlace(id)
			if uses[i].kind.loop {
				want = toAct
			}
		}
	}
	if !look {
		return nil
	}
	f, err := a.connect(cmd, want)
	if err != nil {
		if placed {
			return err
		}
		return nil // the command says the same, or something else that is wrong
	}
	return errors.Join(a.findAll(cmd, f, uses, given), f.Close())
}

// needsHome reports whether a command takes a thing of a session that the line doesn't
// name, and would look for it in the last one.
func needsHome(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("session")
	return f != nil && !f.Changed
}

func (a *app) findAll(cmd *cobra.Command, f facts.Source, uses []idUse, given []string) error {
	scope := idScope{pending: cmd.Name() == "approve" || cmd.Name() == "deny"}
	for i := range uses {
		u := &uses[i]
		ids := slices.Clone(u.values(cmd, given))
		for j, text := range ids {
			found, err := a.findID(cmd.Context(), f, u, text, scope)
			if err != nil {
				return err
			}
			ids[j] = found.id
			switch u.kind.noun {
			case "session":
				scope.session = found.id
			case "job":
				scope.job = found.id
			case "turn", "thing":
				if u.flag == "" && found.sessionID != "" && needsHome(cmd) {
					if err := cmd.Flags().Set("session", found.sessionID); err != nil {
						return err
					}
				}
			}
		}
		if len(ids) > 0 {
			if err := u.set(cmd, given, ids); err != nil {
				return err
			}
		}
	}
	return nil
}

// findID returns what a text means that was given as an id. What is not there is left
// to the command, which says so.
func (a *app) findID(ctx context.Context, f facts.Source, u *idUse, text string, scope idScope) (idEntry, error) {
	newer, placed := shortid.Place(text)
	if isWhole(text) && u.kind.noun != "turn" || !placed && !event.ValidID(text) {
		return idEntry{id: text}, nil
	}
	if placed {
		return nthEntry(ctx, f, u, newer, scope)
	}
	scope.pending = false // an id may be given whatever became of it
	var found []idEntry
	for e, err := range u.kind.list(ctx, f, text, scope) {
		if err != nil {
			return idEntry{}, err
		}
		if e.id == text {
			return e, nil
		}
		if shortid.Begins(e.id, text) && !slices.ContainsFunc(found, func(x idEntry) bool { return x.id == e.id }) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return idEntry{id: text}, nil
	case 1:
		return found[0], nil
	}
	return idEntry{}, ambiguous(u, text, found)
}

// nthEntry returns the entry of a list that has so many newer ones before it.
func nthEntry(ctx context.Context, f facts.Source, u *idUse, newer int, scope idScope) (idEntry, error) {
	seen := 0
	for e, err := range u.kind.list(ctx, f, "", scope) {
		if err != nil {
			return idEntry{}, err
		}
		if seen++; seen > newer {
			return e, nil
		}
	}
	noun := cmp.Or(u.kind.newest, u.kind.noun)
	if scope.pending {
		noun = "pending " + noun
	}
	switch {
	case seen == 0 && u.kind.none != "":
		return idEntry{}, fmt.Errorf("there is no %s yet; %s", noun, u.kind.none)
	case seen == 0:
		return idEntry{}, fmt.Errorf("there is no %s", noun)
	}
	return idEntry{}, usagef("%s: there is no last~%d, there are only %s", u.name, newer, terminal.Plural(int64(seen), noun))
}

// maxCandidates bounds the ids that are shown of those that a text may mean.
const maxCandidates = 10

// ambiguous says what a text may mean.
func ambiguous(u *idUse, text string, found []idEntry) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %q is the beginning of %s; give more of the id:", u.name, text, terminal.Plural(int64(len(found)), u.kind.noun))
	for i, e := range found {
		if i == maxCandidates {
			fmt.Fprintf(&b, "\n  … and %d more", len(found)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s", strings.TrimRight(e.id+"  "+e.describeIn(40), " "))
	}
	return usagef("%s", b.String())
}
