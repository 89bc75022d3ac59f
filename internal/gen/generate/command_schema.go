package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Bounds that package command holds where a field's tags give none.
const (
	defaultText = 64 << 10
	defaultList = 1000
	defaultMs   = 3_153_600_000_000
)

// commandSchemas writes two schemas a command, each complete in itself, and that
// of the problem document. Of events they have what all of them have; the rest is in
// the schemas of events.
func commandSchemas(c *commandModel, out files) error {
	for i := range c.defs {
		d := &c.defs[i]
		for kind, s := range map[string]*commandStruct{"params": c.params(d), "result": c.result(d)} {
			name := fmt.Sprintf("command.%s.%s.schema.json", d.Name, kind)
			if err := out.addSchema(name, c.document(name, fmt.Sprintf("agentd command %s: %s", d.Name, kind), s)); err != nil {
				return err
			}
		}
	}
	const problem = "problem.schema.json"
	return out.addSchema(problem, c.document(problem, "agentd problem", c.problem))
}

// document is the schema of one struct as a document of its own.
func (c *commandModel) document(name, title string, s *commandStruct) object {
	o := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaBase + name},
		{"title", title},
	}
	o = append(o, c.structSchema(s, "#/$defs/")...)
	defs := object{}
	for _, held := range c.closure(s)[1:] {
		defs = append(defs, member{held.name, c.structSchema(held, "#/$defs/")})
	}
	if len(defs) > 0 {
		o = append(o, member{"$defs", defs})
	}
	return o
}

// structSchema is the schema of a struct; refs is where those of others are.
func (c *commandModel) structSchema(s *commandStruct, refs string) object {
	properties, required := object{}, []string{}
	for i := range s.fields {
		f := &s.fields[i]
		properties = append(properties, member{f.wire, documented(f.doc, c.fieldSchema(s, f, refs))})
		if s.required(f) {
			required = append(required, f.wire)
		}
	}
	o := object{{"type", "object"}}
	if s.input {
		o = append(o, member{"additionalProperties", false})
	}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	return documented(s.doc, append(o, member{"properties", properties}))
}

func (c *commandModel) fieldSchema(s *commandStruct, f *commandField, refs string) object {
	if s.nullable(f) {
		plain := *f
		plain.typ = f.base()
		return orNull(c.valueSchema(s, &plain, plain.typ, refs))
	}
	element, isList := f.list()
	if !isList {
		return alsoSchema(f, c.valueSchema(s, f, element, refs))
	}
	inner := *f
	inner.min, inner.max, inner.tagged = "", "", true
	o := object{{"type", "array"}, {"items", alsoSchema(f, c.valueSchema(s, &inner, element, refs))}}
	if s.input {
		o = append(o, member{"maxItems", boundOf(f.max, defaultList)})
		if s.required(f) {
			o = append(o, member{"minItems", 1})
		}
	}
	return o
}

// orNull is the schema of a value that may be null.
func orNull(o object) object {
	if len(o) > 0 && o[0].key == "type" {
		if t, ok := o[0].value.(string); ok {
			return append(object{{"type", []string{t, "null"}}}, o[1:]...)
		}
	}
	return object{{"anyOf", []object{o, {{"type", "null"}}}}}
}

// alsoSchema adds the short form that a value may have.
func alsoSchema(f *commandField, o object) object {
	switch f.also {
	case "string":
		return object{{"anyOf", []object{{{"type", "string"}, {"minLength", 1}}, o}}}
	case "number", "boolean":
		return object{{"anyOf", []object{{{"type", f.also}}, o}}}
	default:
		return o
	}
}

// valueSchema is the schema of one value of type t.
func (c *commandModel) valueSchema(s *commandStruct, f *commandField, t reflect.Type, refs string) object {
	switch t {
	case rawType:
		return c.rawSchema(f, refs)
	case timeType:
		return object{{"type", "string"}, {"format", "date-time"}}
	case numberType:
		return object{{"type", []string{"string", "integer"}}}
	case optionalIntType:
		return object{{"type", "integer"}}
	}
	switch t.Kind() {
	case reflect.Struct:
		return object{{"$ref", refs + f.of.name}}
	case reflect.String:
		return textSchema(s, f)
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return boundedSchema(s, f, "integer")
	case reflect.Float64:
		return boundedSchema(s, f, "number")
	case reflect.Map:
		return object{{"type", "object"}, {"additionalProperties", c.valueSchema(s, &commandField{typ: t.Elem(), of: f.of}, t.Elem(), refs)}}
	default:
		panic(fmt.Sprintf("%s: type %s is not supported", f.wire, t))
	}
}

func (c *commandModel) rawSchema(f *commandField, refs string) object {
	switch {
	case f.as == "input":
		part := object{{"$ref", refs + c.byType[partType].name}}
		return object{{"anyOf", []object{
			{{"type", "string"}, {"minLength", 1}},
			{{"type", "array"}, {"items", part}, {"minItems", 1}, {"maxItems", defaultList}},
		}}}
	case f.of != nil:
		return object{{"$ref", refs + f.of.name}}
	case f.as == "event" && refs == openAPIRefs:
		return object{{"$ref", refs + "Event"}}
	case f.as == "event":
		return object{{"type", "object"}, {"required", envelopeRequired}}
	case f.as != "" || f.checks("object"):
		return object{{"type", "object"}}
	default:
		return object{}
	}
}

func textSchema(s *commandStruct, f *commandField) object {
	o := object{{"type", "string"}}
	if len(f.enum) > 0 {
		return append(o, member{"enum", f.enum})
	}
	if !s.input {
		return o
	}
	if f.checks("id") {
		return append(o, member{"pattern", idPattern})
	}
	if f.tagged {
		o = append(o, member{"minLength", 1})
	}
	return append(o, member{"maxLength", boundOf(f.max, defaultText)})
}

func boundedSchema(s *commandStruct, f *commandField, typ string) object {
	o := object{{"type", typ}}
	switch {
	case f.min != "":
		o = append(o, member{"minimum", boundOf(f.min, 0)})
	case s.input && !f.checks("signed"), f.base().Kind() == reflect.Uint64:
		o = append(o, member{"minimum", 0})
	}
	switch {
	case f.max != "":
		o = append(o, member{"maximum", boundOf(f.max, 0)})
	case s.input && strings.HasSuffix(f.wire, "Ms"):
		o = append(o, member{"maximum", defaultMs})
	}
	return o
}

// boundOf is the number in a tag, which package command has parsed before.
func boundOf(tag string, fallback int64) int64 {
	if tag == "" {
		return fallback
	}
	n, err := strconv.ParseInt(tag, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("bound %q: %v", tag, err))
	}
	return n
}
