package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"agentd/permission"
)

// ProjectFileName is the name of a project's own configuration, in its root.
const ProjectFileName = ".agentd.yaml"

// Project is what the file of a project asks for. It comes with whatever was checked
// out, so it may only choose among what the user has allowed: a configured model, and a
// permission mode that isn't wider than the user's.
type Project struct {
	// File is where it was read from; empty if there is none.
	File string
	// Model and Mode are for turns that name none; empty if the file doesn't say.
	Model, Mode string
	// Ignored says what of the file has no effect, and why.
	Ignored []string
}

// modeRanks order the modes by what runs without a question.
var modeRanks = map[string]int{
	permission.ModePlan: 0, permission.ModeUntrusted: 1, permission.ModeDefault: 2, permission.ModeNever: 3,
	"on_request": 3, "on_failure": 3, permission.ModeAuto: 3, permission.ModeBypass: 4,
}

// addProject reads a project's file, if it is there.
func (l *Loaded) addProject(path string) error {
	if path == "" || path == l.Config.File {
		return nil
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := readFile(path)
	if err != nil {
		return err
	}
	var errs []error
	for name := range file.values {
		if s := findSetting(name); s == nil || !s.Project {
			errs = append(errs, file.errorAt(strings.TrimSuffix(name, "[]"), "a project can't set this; it belongs in your own configuration. A project may set "+strings.Join(projectSettings(), " and ")))
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		return errors.Join(errs...)
	}
	l.Project.File = path
	if text, ok := file.values["routing.default"].(string); ok {
		l.Project.Model = text
		l.setFromProject("routing.default", text, file)
	}
	if text, ok := file.values["permissions.mode"].(string); ok {
		if mine := l.Config.Permissions.Mode; modeRanks[text] > modeRanks[mine] {
			l.Project.Ignored = append(l.Project.Ignored, fmt.Sprintf("permissions.mode %s of %s is wider than your %s; use --mode to choose it yourself", text, path, mine))
		} else {
			l.Project.Mode = text
			l.setFromProject("permissions.mode", text, file)
		}
	}
	return nil
}

// setFromProject shows a value of the project's file where it holds.
func (l *Loaded) setFromProject(name, value string, file *fileValues) {
	for i := range l.Values {
		if v := &l.Values[i]; v.Name == name {
			p := file.places[name]
			v.Value, v.Layer, v.Where = value, FromProject, fmt.Sprintf("%s:%d:%d", file.name, p.line, p.column)
		}
	}
}

// projectSettings are the names of what a project may set.
func projectSettings() []string {
	var out []string
	for _, s := range Table() {
		if s.Project {
			out = append(out, s.Name)
		}
	}
	return out
}
