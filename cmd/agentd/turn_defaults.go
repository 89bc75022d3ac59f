package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/fault"
	"agentd/permission"
)

// useProject fills in what no flag says from the file of the project, and refuses a turn
// that no model here can answer.
func (t *turnFlags) useProject(a *app, cmd *cobra.Command) error {
	if a.server != "" {
		return nil // whatever that server has
	}
	loaded, err := a.loadForTurns(cmd)
	if err != nil {
		return err
	}
	for _, ignored := range loaded.Project.Ignored {
		if t.mode == "" {
			a.sayf("agentd: warning: %s", ignored)
		}
	}
	if t.mode == "" {
		t.mode, t.projectMode = loaded.Project.Mode, loaded.Project.Mode
	}
	c := loaded.Config
	if t.model == "" && loaded.Project.Model != "" {
		if known := a.modelIDs(c); !slices.Contains(known, loaded.Project.Model) {
			return usagef("%s: routing.default: %q is none of your models; use --model to choose one of %s", loaded.Project.File, loaded.Project.Model, strings.Join(known, ", "))
		}
		t.model = loaded.Project.Model
	}
	return a.modelMissing(c, t.model)
}

// canWork refuses to begin work, other than a turn whose model is chosen, that no model here
// can do.
func (a *app) canWork(cmd *cobra.Command) error {
	if a.server != "" {
		return nil // whatever that server has
	}
	loaded, err := a.loadOnly(cmd)
	if err != nil {
		return err
	}
	if err = a.modelMissing(loaded.Config, ""); errors.Is(err, errNoModel) {
		return usagef(`%s"agentd init --provider script" sets up the built-in one`, noModel)
	}
	return err
}

// keepMode gives up the mode of the project's file where it is wider than the one that
// holds: that of the session, which someone chose, or the host's, which isn't always the
// configuration's.
func (t *turnFlags) keepMode(ctx context.Context, f facts.Source, sessionID string) error {
	if t.projectMode == "" {
		return nil
	}
	var holds command.PolicyResult
	err := f.Do(ctx, &command.GetPolicy{SessionID: sessionID}, &holds)
	if fault.KindOf(err) == fault.NotFound { // the turn itself is answered with what that means
		err = f.Do(ctx, &command.GetPolicy{}, &holds)
	}
	if err != nil {
		return err
	}
	if permission.IsWider(t.projectMode, holds.Mode) {
		t.mode, t.projectMode = "", ""
	}
	return nil
}
