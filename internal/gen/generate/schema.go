package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"agentd/event"
)

// schemaBase is where the schemas' names live; nothing is served there. The
// references between schemas are relative, so they work from any place.
const schemaBase = "https://agentd.example/schemas/"

// idPattern is what event.ValidID accepts.
const idPattern = "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"

// object is a JSON object that keeps its order, so that schemas read as they
// were meant.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements [json.Marshaler].
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := marshalPlain(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// marshalPlain is json.Marshal without the escaping of HTML.
func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

func documented(doc string, o object) object {
	if doc == "" {
		return o
	}
	return append(object{{"description", doc}}, o...)
}

// eventSchemas writes one schema a family, complete in itself, and one that
// joins them.
// ownSchema labels the schemas of events: what agentd emits is a part of what the
// standard's profile allows.
const ownSchema = "agentd's own schema, not the standard's: what agentd emits of these types. The standard's profile requires less, so events of other runtimes need not fit it; check those with agentd conformance check."

func eventSchemas(m *model) (files, error) {
	out := files{}
	var branches []any
	for _, family := range m.families() {
		name := fmt.Sprintf("event.%s.schema.json", family)
		defs := m.inFamily(family)
		if err := out.addSchema(name, m.familySchema(name, family, defs)); err != nil {
			return nil, err
		}
		branches = append(branches, typeBranch(typeIn(defs), name))
	}
	all := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaBase + "event.schema.json"},
		{"title", "agentd event"},
		{"description", "Any event that agentd emits: standard types and extensions. " + ownSchema},
		{"type", "object"},
		{"required", []string{"type"}},
		{"properties", object{{"type", typeIn(m.defs)}}},
		{"allOf", branches},
	}
	return out, out.addSchema("event.schema.json", all)
}

func (out files) addSchema(name string, schema object) error {
	compact, err := marshalPlain(schema)
	if err != nil {
		return fmt.Errorf("schema %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", " "); err != nil {
		return fmt.Errorf("schema %s: %w", name, err)
	}
	b.WriteByte('\n')
	out["internal/gen/schemas/"+name] = b.Bytes()
	return nil
}

// families returns the families in the catalogue's order.
func (m *model) families() []event.Family {
	var list []event.Family
	for i := range m.defs {
		if !slices.Contains(list, m.defs[i].Family) {
			list = append(list, m.defs[i].Family)
		}
	}
	return list
}

func (m *model) inFamily(family event.Family) []event.Def {
	var list []event.Def
	for i := range m.defs {
		if m.defs[i].Family == family {
			list = append(list, m.defs[i])
		}
	}
	return list
}

func typeIn(defs []event.Def) object {
	var names []event.Type
	for i := range defs {
		names = append(names, defs[i].Type)
	}
	return object{{"enum", names}}
}

// typeBranch applies the schema at ref to events whose type fits.
func typeBranch(typ object, ref string) object {
	return object{
		{"if", object{{"properties", object{{"type", typ}}}, {"required", []string{"type"}}}},
		{"then", object{{"$ref", ref}}},
	}
}

func (m *model) familySchema(name string, family event.Family, defs []event.Def) object {
	var branches []any
	types, structs := object{}, &closure{}
	for i := range defs {
		d := &defs[i]
		branches = append(branches, typeBranch(object{{"const", d.Type}}, "#/$defs/"+string(d.Type)))
		types = append(types, member{string(d.Type), typeSchema(d)})
		structs.add(m.payload(d))
	}
	types = append(types, member{"envelope", m.envelopeSchema(structs)})
	for _, s := range structs.list {
		types = append(types, member{s.name, structSchema(s)})
	}
	return object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaBase + name},
		{"title", fmt.Sprintf("agentd %s events", family)},
		{"description", ownSchema},
		{"type", "object"},
		{"required", []string{"type"}},
		{"properties", object{{"type", typeIn(defs)}}},
		{"allOf", branches},
		{"$defs", types},
	}
}

// closure gathers structs and what they hold, each once.
type closure struct{ list []*structInfo }

func (c *closure) add(s *structInfo) {
	if slices.Contains(c.list, s) {
		return
	}
	c.list = append(c.list, s)
	for i := range s.fields {
		if of := s.fields[i].of; of != nil {
			c.add(of)
		}
	}
}

// typeSchema is the schema of one type: the envelope, narrowed.
func typeSchema(d *event.Def) object {
	o := object{
		{"$ref", "#/$defs/envelope"},
		{"properties", object{
			{"type", object{{"const", d.Type}}},
			{"schemaVersion", object{{"const", d.Type.SchemaVersion()}}},
			{"payload", object{{"$ref", "#/$defs/" + d.PayloadName()}}},
		}},
	}
	if needs := d.Needs.Names(); len(needs) > 0 {
		o = append(o, member{"required", needs})
	}
	return documented(d.Means, append(o, member{"unevaluatedProperties", false}))
}

// envelopeSchema is what all types have in common.
func (m *model) envelopeSchema(structs *closure) object {
	id := object{{"type", "string"}, {"pattern", idPattern}}
	properties := object{
		{"type", object{{"type", "string"}}},
		{"eventId", id},
		{"schemaVersion", object{{"type", "string"}}},
		{"timestamp", object{{"type", "string"}, {"format", "date-time"}}},
		{"runtimeId", id},
		{"sessionId", id},
		{"sequence", object{{"type", "integer"}, {"minimum", 1}}},
	}
	for _, f := range m.scope {
		properties = append(properties, member{f.wire, documented(f.doc, id)})
	}
	properties = append(properties, member{"refs", object{{"type", "object"}, {"additionalProperties", object{{"type", "string"}}}}})
	for _, s := range m.envelope {
		structs.add(s)
		properties = append(properties, member{lowerFirst(s.name), object{{"$ref", "#/$defs/" + s.name}}})
	}
	properties = append(properties, member{"payload", object{{"type", "object"}}})
	return object{
		{"type", "object"},
		{"required", envelopeRequired},
		{"properties", properties},
	}
}

func structSchema(s *structInfo) object {
	properties, required := object{}, []string{}
	for i := range s.fields {
		f := &s.fields[i]
		properties = append(properties, member{f.wire, documented(f.doc, fieldSchema(f))})
		if f.required {
			required = append(required, f.wire)
		}
	}
	o := object{{"type", "object"}, {"additionalProperties", false}}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	return documented(s.doc, append(o, member{"properties", properties}))
}

func fieldSchema(f *field) object {
	switch f.kind {
	case kindString:
		return stringSchema(f)
	case kindBool:
		return typed("boolean", f)
	case kindInt:
		o := typed("integer", f)
		if f.nonNegative {
			o = append(o, member{"minimum", 0})
		}
		return o
	case kindUint:
		return append(typed("integer", f), member{"minimum", 0})
	case kindFloat:
		return typed("number", f)
	case kindTime:
		return append(typed("string", f), member{"format", "date-time"})
	case kindRaw:
		return object{}
	case kindOptionalInt:
		return typed("integer", f)
	case kindStruct:
		return structRef(f)
	case kindStrings:
		return object{{"type", "array"}, {"items", object{{"type", "string"}}}}
	case kindStructs:
		return object{{"type", "array"}, {"items", object{{"$ref", "#/$defs/" + f.of.name}}}}
	case kindStringMap:
		return object{{"type", "object"}, {"additionalProperties", object{{"type", "string"}}}}
	case kindIntMap:
		return object{{"type", "object"}, {"additionalProperties", object{{"type", "integer"}}}}
	}
	panic("unknown kind")
}

func typed(name string, f *field) object {
	if f.nullable() {
		return object{{"type", []string{name, "null"}}}
	}
	return object{{"type", name}}
}

func stringSchema(f *field) object {
	o := typed("string", f)
	if len(f.enum) > 0 {
		o = append(o, member{"enum", f.enum})
	}
	if f.nonEmpty {
		o = append(o, member{"minLength", 1})
	}
	return o
}

func structRef(f *field) object {
	ref := object{{"$ref", "#/$defs/" + f.of.name}}
	if f.nullable() {
		return object{{"anyOf", []object{ref, {{"type", "null"}}}}}
	}
	return ref
}
