package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"agentd/event"
)

// model is the catalogue as the outputs need it.
type model struct {
	// root of the repository.
	root string
	// defs are the event types in the catalogue's order.
	defs []event.Def
	// structs are the payloads and what is nested in them, each after its first
	// use, payloads in the catalogue's order.
	structs []*structInfo
	byType  map[reflect.Type]*structInfo
	// scope are the envelope's ids in the order of the wire.
	scope []field
	// envelope are the structs that an event may carry beside its payload.
	envelope []*structInfo
	docs     docs
}

// structInfo is one struct of package event.
type structInfo struct {
	name   string
	doc    string
	fields []field
	// payload is true for a struct that the catalogue names.
	payload bool
}

// kind says how a field is written.
type kind int

const (
	kindString kind = iota
	kindBool
	kindInt
	kindUint
	kindFloat
	kindTime
	kindRaw
	kindOptionalInt
	kindStruct
	kindStrings
	kindStructs
	kindStringMap
	kindIntMap
)

// field is one field of a struct.
type field struct {
	goName  string
	wire    string
	doc     string
	kind    kind
	pointer bool
	// of is the struct of kindStruct and kindStructs.
	of *structInfo
	// required fields are always written.
	required bool
	// enum is the closed set of a string's values.
	enum []string
	// nonEmpty strings must have a character.
	nonEmpty bool
	// nonNil pointers must be set.
	nonNil bool
	// nonNegative integers must not be less than zero.
	nonNegative bool
}

// nullable reports whether a field that is written may be null.
func (f *field) nullable() bool {
	return f.pointer && f.required && !f.nonNil || f.kind == kindOptionalInt
}

// loadModel reads the catalogue by reflection and its comments from the sources in dir.
func loadModel(dir string) (*model, error) {
	comments, err := parseDocs(dir)
	if err != nil {
		return nil, err
	}
	m := &model{defs: event.Catalog(), byType: map[reflect.Type]*structInfo{}, docs: comments}
	for i := range m.defs {
		info, err := m.addStruct(reflect.TypeOf(m.defs[i].Payload).Elem())
		if err != nil {
			return nil, err
		}
		info.payload = true
	}
	for _, t := range []reflect.Type{reflect.TypeFor[event.Benchmark](), reflect.TypeFor[event.Reward](), reflect.TypeFor[event.Comparison]()} {
		info, err := m.addStruct(t)
		if err != nil {
			return nil, err
		}
		m.envelope = append(m.envelope, info)
	}
	m.scope = scopeFields(comments)
	return m, m.undocumented()
}

// undocumented names what has no comment: a reference whose fields have to be guessed is
// none.
func (m *model) undocumented() error {
	var missing []string
	for _, s := range append([]*structInfo{{name: "Scope", doc: "ids", fields: m.scope}}, m.structs...) {
		if s.doc == "" {
			missing = append(missing, s.name)
		}
		for i := range s.fields {
			if s.fields[i].doc == "" {
				missing = append(missing, s.name+"."+s.fields[i].goName)
			}
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("these have no comment in package event:\n  %s", strings.Join(missing, "\n  "))
}

// payload returns the struct of a type's payload.
func (m *model) payload(d *event.Def) *structInfo {
	return m.byType[reflect.TypeOf(d.Payload).Elem()]
}

// payloads returns the structs that the catalogue names, in its order.
func (m *model) payloads() []*structInfo {
	var list []*structInfo
	for _, s := range m.structs {
		if s.payload {
			list = append(list, s)
		}
	}
	return list
}

// scopeFields returns the ids of the envelope: "ThreadID" is "threadId".
func scopeFields(comments docs) []field {
	var list []field
	for f := range reflect.TypeFor[event.Scope]().Fields() {
		wire := strings.ToLower(f.Name[:1]) + strings.TrimSuffix(f.Name[1:], "ID") + "Id"
		list = append(list, field{goName: f.Name, wire: wire, doc: fieldDoc(f.Name, wire, comments.of("Scope."+f.Name))})
	}
	return list
}

// maxFields is how many fields a generated decoder can tell apart.
const maxFields = 64

// addStruct enters a struct and what is nested in it, once.
func (m *model) addStruct(t reflect.Type) (*structInfo, error) {
	if info, ok := m.byType[t]; ok {
		return info, nil
	}
	info := &structInfo{name: t.Name(), doc: structDoc(t.Name(), m.docs.of(t.Name()))}
	m.byType[t] = info
	m.structs = append(m.structs, info)
	for sf := range t.Fields() {
		f, err := m.field(t, sf)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t.Name(), sf.Name, err)
		}
		info.fields = append(info.fields, f)
	}
	if len(info.fields) > maxFields {
		return nil, fmt.Errorf("%s has more than %d fields", t.Name(), maxFields)
	}
	return info, nil
}

func (m *model) field(owner reflect.Type, sf reflect.StructField) (field, error) {
	f := field{goName: sf.Name}
	if err := f.readTags(sf); err != nil {
		return f, err
	}
	f.doc = fieldDoc(sf.Name, f.wire, m.docs.of(owner.Name()+"."+sf.Name))
	if err := m.readType(&f, sf.Type); err != nil {
		return f, err
	}
	return f, f.consistent(sf)
}

func (f *field) readTags(sf reflect.StructField) error {
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "" || name == "-" {
		return fmt.Errorf("needs a json name")
	}
	f.wire = name
	switch options {
	case "":
		f.required = true
	case "omitempty", "omitzero":
	default:
		return fmt.Errorf("json option %q is not supported", options)
	}
	f.enum = event.EnumValues(sf.Tag.Get("enum"))
	for rule := range strings.FieldsSeq(sf.Tag.Get("check")) {
		switch rule {
		case "nonempty":
			f.nonEmpty = true
		case "nonnil":
			f.nonNil = true
		case "nonnegative":
			f.nonNegative = true
		default:
			return fmt.Errorf("check %q is not supported", rule)
		}
	}
	return nil
}

// readType sets the kind of f, and the struct that it holds.
func (m *model) readType(f *field, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		f.pointer = true
		t = t.Elem()
	}
	if k, ok := leafKinds[t]; ok {
		f.kind = k
		return nil
	}
	var err error
	switch {
	case t.Kind() == reflect.Struct:
		f.kind = kindStruct
		f.of, err = m.addStruct(t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !f.pointer:
		f.kind = kindStructs
		f.of, err = m.addStruct(t.Elem())
	default:
		err = fmt.Errorf("type %s is not supported", t)
	}
	return err
}

// leafKinds are the types without fields of their own.
var leafKinds = map[reflect.Type]kind{
	reflect.TypeFor[string]():            kindString,
	reflect.TypeFor[bool]():              kindBool,
	reflect.TypeFor[int64]():             kindInt,
	reflect.TypeFor[uint64]():            kindUint,
	reflect.TypeFor[float64]():           kindFloat,
	reflect.TypeFor[time.Time]():         kindTime,
	reflect.TypeFor[json.RawMessage]():   kindRaw,
	reflect.TypeFor[event.OptionalInt](): kindOptionalInt,
	reflect.TypeFor[[]string]():          kindStrings,
	reflect.TypeFor[map[string]string](): kindStringMap,
	reflect.TypeFor[map[string]int64]():  kindIntMap,
}

// consistent rejects tags that say nothing about the field's type: they are
// mistakes that would otherwise be silent.
func (f *field) consistent(sf reflect.StructField) error {
	omitzero := strings.HasSuffix(sf.Tag.Get("json"), ",omitzero")
	byZero := !f.pointer && (f.kind == kindTime || f.kind == kindOptionalInt)
	plainString := f.kind == kindString && !f.pointer
	switch {
	case byZero != omitzero && !f.required:
		return fmt.Errorf("omitzero is for times and optional integers, and they need it")
	case f.kind == kindOptionalInt && f.required:
		return fmt.Errorf("an optional integer can't be required")
	case f.kind == kindStruct && !f.pointer && !f.required:
		return fmt.Errorf("a struct that may be absent must be a pointer")
	case len(f.enum) > 0 && !plainString:
		return fmt.Errorf("enum is for strings")
	case f.nonEmpty && (!plainString || !f.required):
		return fmt.Errorf("nonempty is for strings that are required")
	case f.nonNil && (!f.pointer || !f.required):
		return fmt.Errorf("nonnil is for pointers that are required")
	case f.nonNegative && f.kind != kindInt:
		return fmt.Errorf("nonnegative is for signed integers")
	case f.pointer && (f.kind == kindRaw || f.kind == kindTime || f.kind >= kindStrings):
		return fmt.Errorf("a pointer to %s is not supported", sf.Type.Elem())
	}
	return nil
}
