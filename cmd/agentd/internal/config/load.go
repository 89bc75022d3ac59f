package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Layer is where a value comes from.
type Layer string

// The layers; a later one wins.
const (
	FromDefault     Layer = "default"
	FromFile        Layer = "file"
	FromProject     Layer = "project"
	FromEnvironment Layer = "environment"
	FromFlag        Layer = "flag"
)

// Value is what holds for one setting.
type Value struct {
	Setting
	// Value is a string, int64, float64, bool or a list of them; nil if nothing
	// was given and there is no default.
	Value any
	Layer Layer
	// Where is the place in that layer: file:line:column, a variable or a flag.
	Where string
}

// Sources say where values come from.
type Sources struct {
	// File is the configuration file; empty for none.
	File string
	// UserFile is read if there is no File, and needn't exist.
	UserFile string
	// ProjectFile is the file of the project, which needn't exist; see [Project].
	ProjectFile string
	// DataHome is where the facts are if nothing says otherwise.
	DataHome string
	// Env looks an environment variable up; nil for none.
	Env func(name string) string
	// Flags are the values of flags that were given, by the flag's name.
	Flags map[string]string
}

// Loaded is a configuration with the origin of each value.
type Loaded struct {
	Config *Config
	// Values of all settings that aren't part of a list, in the table's order.
	Values []Value
	// Project is what the project's file asks for. It isn't part of Config: it goes with
	// the turns that are started in the project.
	Project Project
}

// Load lays the sources over one another. The error joins everything that is
// wrong; each part is an [*Error] if it can be given a place.
func Load(src Sources) (*Loaded, error) {
	file := &fileValues{}
	name := src.File
	if name == "" && src.UserFile != "" {
		if _, err := os.Stat(src.UserFile); !errors.Is(err, fs.ErrNotExist) {
			name = src.UserFile
		}
	}
	if name != "" {
		var err error
		if file, err = readFile(name); err != nil {
			return nil, err
		}
	}
	var errs []error
	out := &Loaded{}
	for _, s := range Table() {
		if strings.Contains(strings.TrimSuffix(s.Name, "[]"), "[]") {
			continue
		}
		v, err := src.resolve(s, file)
		if err != nil {
			errs = append(errs, err)
		}
		out.Values = append(out.Values, v)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var err error
	if out.Config, err = decode(out.Values); err != nil {
		return nil, err
	}
	out.Config.File = name
	out.Config.dataChosen, out.Config.modeChosen = out.given("data"), out.given("permissions.mode")
	out.Config.workspaceChosen = out.given("workspace.root")
	if err := out.addProject(src.ProjectFile); err != nil {
		errs = append(errs, err)
	}
	for _, p := range out.Config.problems() {
		errs = append(errs, file.errorAt(p[0], p[1]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// given reports whether a setting has a value that isn't its default.
func (l *Loaded) given(name string) bool {
	return slices.ContainsFunc(l.Values, func(v Value) bool { return v.Name == name && v.Layer != FromDefault })
}

// errorAt returns an error with the place of the nearest key that the file has.
func (f *fileValues) errorAt(path, problem string) error {
	e := &Error{File: f.name, Key: path, Problem: problem}
	for at := path; at != ""; {
		if p, ok := f.places[at]; ok {
			e.Line, e.Column = p.line, p.column
			break
		}
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
	return e
}

// resolve returns the value of the topmost layer that has one.
func (src *Sources) resolve(s Setting, file *fileValues) (Value, error) {
	if text, ok := src.Flags[s.Flag]; ok && s.Flag != "" {
		return given(s, text, FromFlag, "--"+s.Flag)
	}
	if s.Env != "" && src.Env != nil {
		if text := src.Env(s.Env); text != "" {
			return given(s, text, FromEnvironment, s.Env)
		}
	}
	if v, ok := file.values[s.Name]; ok {
		p := file.places[strings.TrimSuffix(s.Name, "[]")]
		return Value{Setting: s, Value: v, Layer: FromFile, Where: fmt.Sprintf("%s:%d:%d", file.name, p.line, p.column)}, nil
	}
	if s.Name == "data" && src.DataHome != "" {
		return Value{Setting: s, Value: src.DataHome, Layer: FromDefault}, nil
	}
	if s.Default == "" {
		return Value{Setting: s, Layer: FromDefault}, nil
	}
	return given(s, s.Default, FromDefault, "")
}

func given(s Setting, text string, layer Layer, where string) (Value, error) {
	v, err := s.parse(text)
	if err == nil && text == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return Value{}, &Error{Key: where, Problem: err.Error()}
	}
	return Value{Setting: s, Value: v, Layer: layer, Where: where}, nil
}

// Change is a setting whose value differs between two configurations.
type Change struct {
	Name   string
	Reload bool
}

// Changes returns what differs, in the table's order.
func Changes(from, to *Loaded) []Change {
	var out []Change
	for i, v := range to.Values {
		if fmt.Sprint(from.Values[i].Value) != fmt.Sprint(v.Value) {
			out = append(out, Change{Name: strings.TrimSuffix(v.Name, "[]"), Reload: v.Reload})
		}
	}
	return out
}

// TakeOver makes the reloadable values of another configuration hold here too.
// The others stay as they are, so that the next comparison reports them again.
func (l *Loaded) TakeOver(next *Loaded) {
	for i, v := range next.Values {
		if v.Reload {
			l.Values[i] = v
		}
	}
	l.Config.Log.Level = next.Config.Log.Level
	l.Config.Quotas = next.Config.Quotas
	l.Config.Permissions, l.Config.modeChosen = next.Config.Permissions, next.Config.modeChosen
}
