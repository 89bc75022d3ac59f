package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

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

// addProject reads a project's file, if it is there.
func (l *Loaded) addProject(path string) error {
	if path == "" || path == l.Config.File {
		return nil
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := readProjectFile(path)
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
		if mine := l.Config.Permissions.Mode; permission.IsWider(text, mine) {
			l.Project.Ignored = append(l.Project.Ignored, fmt.Sprintf("permissions.mode %s of %s is wider than your %s; use --mode to choose it yourself", text, path, mine))
		} else {
			l.Project.Mode = text
			l.setFromProject("permissions.mode", text, file)
		}
	}
	return nil
}

// maxProjectFile bounds the file of a project.
const maxProjectFile = 64 << 10

// readProjectFile reads what came with a checkout: it may be a link to what the user may
// read and others may not, a device without an end, or a pipe that nobody writes to.
func readProjectFile(path string) (*fileValues, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{File: path, Problem: "the file of a project must be a regular file, no link; replace or remove it"}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return nil, &Error{File: path, Problem: "the file was replaced while it was being read; try again"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxProjectFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if len(data) > maxProjectFile {
		return nil, &Error{File: path, Problem: "the file of a project may have 64 KiB"}
	}
	return parseFile(path, data)
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
