package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/internal/wire"
)

// commandOutputs writes all that follows from the command catalogue.
func commandOutputs(m *model) (files, error) {
	c, err := loadCommands(m)
	if err != nil {
		return nil, err
	}
	out := files{}
	for _, output := range []func(*commandModel, files) error{
		commandSchemas, modelSchemas, derivedSchemas, openAPI, commandTypeScript, commandReference, modelReference, errorReference, catalogDocument,
	} {
		if err := output(c, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// commandModel is the command catalogue as the outputs need it.
type commandModel struct {
	defs   []command.Def
	events []event.Def
	// structs are those of parameters and results, each after its first use.
	structs []*commandStruct
	byType  map[reflect.Type]*commandStruct
	// byKey finds a struct by its package's path and its name.
	byKey   map[string]*commandStruct
	problem *commandStruct
	// docs are the comments of each package's structs.
	docs map[string]docs
	// sources declare the read models.
	sources *sources
	// failed is why a read model could not be read.
	failed error
	// held is what objects found.
	held []*commandStruct
}

// commandStruct is a struct that parameters or results are made of.
type commandStruct struct {
	name string
	doc  string
	// whole is true for a read model of which package command has only a part.
	whole bool
	// input is true for what callers send: nothing unknown is taken then.
	input  bool
	fields []commandField
}

// commandField is one field, with what its tags say of it.
type commandField struct {
	wire string
	doc  string
	// source is where the field is declared, such as "agentd/state.Task.Title".
	source string
	typ    reflect.Type
	// of is the struct that the field, or each of its elements, holds.
	of *commandStruct
	// tagged fields have neither omitempty nor omitzero.
	tagged   bool
	enum     []string
	check    []string
	min, max string
	// as names what is behind raw JSON, also a short form.
	as, also string
}

func loadCommands(m *model) (*commandModel, error) {
	c := &commandModel{
		defs: command.Catalog(), events: m.defs, byType: map[reflect.Type]*commandStruct{}, byKey: map[string]*commandStruct{}, docs: map[string]docs{},
	}
	var err error
	if c.sources, err = parseSources(m.root, sourcePackages()...); err != nil {
		return nil, err
	}
	for _, pkg := range []string{"command", "event", "internal/wire"} {
		comments, err := parseDocs(filepath.Join(m.root, pkg))
		if err != nil {
			return nil, err
		}
		c.docs["agentd/"+pkg] = comments
	}
	for _, d := range c.defs {
		if err := c.markInput(c.addStruct(reflect.TypeOf(d.New()).Elem())); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if err := c.markInput(c.addStruct(partType)); err != nil {
		return nil, err
	}
	for _, d := range c.defs {
		c.addStruct(reflect.TypeOf(d.Result).Elem())
	}
	c.problem = c.addStruct(reflect.TypeFor[wire.Problem]())
	return c, errors.Join(c.failed, c.uniqueNames(), c.undocumented())
}

var (
	partType        = reflect.TypeFor[command.Part]()
	timeType        = reflect.TypeFor[time.Time]()
	rawType         = reflect.TypeFor[json.RawMessage]()
	numberType      = reflect.TypeFor[json.Number]()
	optionalIntType = reflect.TypeFor[event.OptionalInt]()
	paramsType      = reflect.TypeFor[command.Params]()
)

func (c *commandModel) params(d *command.Def) *commandStruct {
	return c.byType[reflect.TypeOf(d.New()).Elem()]
}

func (c *commandModel) result(d *command.Def) *commandStruct {
	return c.byType[reflect.TypeOf(d.Result).Elem()]
}

// uniqueNames refuses two structs of the same name: they share a document.
func (c *commandModel) uniqueNames() error {
	seen := map[string]bool{}
	var err error
	for _, s := range c.structs {
		if seen[s.name] {
			err = errors.Join(err, fmt.Errorf("two structs are called %s", s.name))
		}
		seen[s.name] = true
	}
	return err
}

// addStruct enters a struct and what it holds, once.
func (c *commandModel) addStruct(t reflect.Type) *commandStruct {
	if s, ok := c.byType[t]; ok {
		return s
	}
	key := t.PkgPath() + "." + t.Name()
	if s, ok := c.byKey[key]; ok {
		c.byType[t] = s
		return s
	}
	if _, ok := wholeModels[key]; ok {
		s := c.partOf(key)
		c.byType[t] = s
		return s
	}
	s := &commandStruct{name: t.Name(), doc: structDoc(t.Name(), c.docs[t.PkgPath()].of(t.Name()))}
	if reflect.PointerTo(t).Implements(paramsType) {
		s.name += "Params"
	}
	c.byType[t], c.byKey[key] = s, s
	c.structs = append(c.structs, s)
	s.fields = c.fields(t)
	return s
}

// fields lists a struct's fields, embedded ones in their place.
func (c *commandModel) fields(t reflect.Type) []commandField {
	var list []commandField
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.Anonymous && name == "" {
			list = append(list, c.fields(sf.Type)...)
			continue
		}
		f := commandField{
			wire: name, source: t.PkgPath() + "." + t.Name() + "." + sf.Name, doc: fieldDoc(sf.Name, name, c.docs[t.PkgPath()].of(t.Name()+"."+sf.Name)), typ: sf.Type, tagged: options == "",
			enum: event.EnumValues(sf.Tag.Get("enum")), check: strings.Fields(sf.Tag.Get("check")),
			min: sf.Tag.Get("min"), max: sf.Tag.Get("max"), as: sf.Tag.Get("as"), also: sf.Tag.Get("also"),
		}
		if s := structOf(sf.Type); s != nil {
			f.of = c.addStruct(s)
		} else if key, ok := rawModels[f.as]; ok {
			f.of = c.addModel(key)
		}
		list = append(list, f)
	}
	return list
}

// structDoc turns a comment in the style of Go, which begins with the name, into
// a sentence for people who don't know the name.
func structDoc(name, comment string) string {
	comment = withoutLinks(comment)
	rest, ok := strings.CutPrefix(comment, name+" ")
	if !ok {
		return comment
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// goLink is a link of Go's documentation, which is nothing to readers of others.
var goLink = regexp.MustCompile(`\[([A-Za-z][\w.]*)\]`)

func withoutLinks(comment string) string { return goLink.ReplaceAllString(comment, "$1") }

// fieldDoc does the same for a field, whose name on the wire stands beside it.
func fieldDoc(goName, wireName, comment string) string {
	comment = withoutLinks(comment)
	rest, ok := strings.CutPrefix(comment, goName+" ")
	if !ok {
		return comment
	}
	for _, verb := range []string{"is ", "are "} {
		if what, ok := strings.CutPrefix(rest, verb); ok {
			return strings.ToUpper(what[:1]) + what[1:]
		}
	}
	if strings.ToLower(goName[1:]) == goName[1:] {
		return comment
	}
	return wireName + " " + rest
}

// structOf returns the struct that a type is, points to or lists, or nil.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || (t.Kind() == reflect.Slice && t != rawType) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == timeType || t == optionalIntType {
		return nil
	}
	return t
}

// markInput says of a struct and what it holds that callers send it.
func (c *commandModel) markInput(s *commandStruct) error {
	s.input = true
	for i := range s.fields {
		f := &s.fields[i]
		if f.wire == "" {
			return fmt.Errorf("%s has a field without a name", s.name)
		}
		if f.of != nil && !f.of.input {
			if err := c.markInput(f.of); err != nil {
				return err
			}
		}
	}
	return nil
}

// base is the field's type without pointers.
func (f *commandField) base() reflect.Type {
	t := f.typ
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// list reports whether the field is a list, and of what.
func (f *commandField) list() (reflect.Type, bool) {
	t := f.base()
	if t.Kind() != reflect.Slice || t == rawType {
		return t, false
	}
	if t = t.Elem(); t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, true
}

// nullable reports whether the field of an answer may be null: nothing is known of it.
func (s *commandStruct) nullable(f *commandField) bool {
	return !s.input && f.tagged && f.typ.Kind() == reflect.Pointer && !f.checks("nonnil") || f.base() == optionalIntType
}

func (f *commandField) checks(rule string) bool { return slices.Contains(f.check, rule) }

// required reports whether the field must be there. A caller may leave out a
// false or a zero, unless zero is out of bounds; an answer never does.
func (s *commandStruct) required(f *commandField) bool {
	if !f.tagged || !s.input {
		return f.tagged
	}
	switch f.typ.Kind() {
	case reflect.Bool:
		return false
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return f.min != ""
	default:
		return true
	}
}

// closure gathers the structs that s holds, s first.
func (c *commandModel) closure(s *commandStruct) []*commandStruct {
	list := []*commandStruct{s}
	for i := 0; i < len(list); i++ {
		for j := range list[i].fields {
			for _, held := range c.holds(&list[i].fields[j]) {
				if !slices.Contains(list, held) {
					list = append(list, held)
				}
			}
		}
	}
	return list
}

// holds returns the structs that a field refers to.
func (c *commandModel) holds(f *commandField) []*commandStruct {
	switch {
	case f.of != nil:
		return []*commandStruct{f.of}
	case f.as == "input":
		return []*commandStruct{c.byType[partType]}
	default:
		return nil
	}
}
