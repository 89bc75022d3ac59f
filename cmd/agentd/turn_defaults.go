package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
		t.mode = loaded.Project.Mode
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
