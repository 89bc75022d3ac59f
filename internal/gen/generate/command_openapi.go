package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/fault"
)

const openAPIRefs = "#/components/schemas/"

// openAPI writes the OpenAPI 3.1 document of the HTTP interface.
func openAPI(c *commandModel, out files) error {
	paths := object{}
	for i := range c.defs {
		d := &c.defs[i]
		paths = append(paths, member{"/v1/commands/" + string(d.Name), object{{"post", c.operation(d)}}})
	}
	schemas := object{}
	for _, s := range c.structs {
		schemas = append(schemas, member{s.name, c.structSchema(s, openAPIRefs)})
	}
	schemas = append(schemas, sharedSchemas()...)
	doc := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "agentd"},
			{"version", "1"},
			{"summary", "The HTTP interface of an Agent Runtime."},
			{"description", "State changes only through commands; what happened is learnt only through events, snapshots and outputs. An answer may have more members than are listed here: pass over what you don't know. Errors are problem documents (RFC 9457) with a stable code."},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}, {"description", "The server that hands out this document."}}}},
		{"security", []object{{{"bearer", []string{}}}}},
		{"tags", openAPITags(c)},
		{"paths", append(paths, plainPaths()...)},
		{"components", object{
			{"securitySchemes", object{{"bearer", object{
				{"type", "http"},
				{"scheme", "bearer"},
				{"description", "A token of the server: the admin token, or one made with \"agentd tokens\". Its role is admin, client or observer."},
			}}}},
			{"responses", problemResponses()},
			{"schemas", schemas},
		}},
	}
	return out.addDocument("internal/gen/openapi.json", doc)
}

// addDocument adds a JSON document, indented.
func (out files) addDocument(path string, doc object) error {
	compact, err := marshalPlain(doc)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", " "); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	b.WriteByte('\n')
	out[path] = b.Bytes()
	return nil
}

func openAPITags(c *commandModel) []object {
	var tags []object
	for _, noun := range c.nouns() {
		tags = append(tags, object{{"name", noun}, {"description", nounTitle(noun) + "."}})
	}
	return append(tags,
		object{{"name", "events"}, {"description", "The stream of facts, and the bytes behind references."}},
		object{{"name", "documents"}, {"description", "What describes this server."}},
		object{{"name", "operations"}, {"description", "JSON-RPC, and what operators watch."}})
}

// operation describes one command.
func (c *commandModel) operation(d *command.Def) object {
	body := object{
		{"required", len(requiredNames(c.params(d))) > 0},
		{"content", object{{"application/json", object{
			{"schema", object{{"$ref", openAPIRefs + c.params(d).name}}},
			{"examples", object{{"example", object{{"value", json.RawMessage(d.Example)}}}}},
		}}}},
	}
	o := object{
		{"operationId", string(d.Name)},
		{"tags", []string{d.Noun}},
		{"summary", d.Means},
		{"description", commandDescription(d)},
		{"requestBody", body},
		{"responses", append(object{{"200", object{
			{"description", "The command's result. Its facts are durable."},
			{"content", jsonContent(object{{"$ref", openAPIRefs + c.result(d).name}})},
		}}}, problemRefs()...)},
	}
	return append(o,
		member{"x-agentd-role", string(d.Scope)},
		member{"x-agentd-mutates", d.Mutates},
		member{"x-agentd-available", d.Available})
}

func commandDescription(d *command.Def) string {
	parts := []string{d.Doc, "The least role is " + string(d.Scope) + "."}
	if !d.Available {
		parts = append(parts, "This release doesn't carry it out yet: it checks the parameters and answers 503 unavailable.")
	}
	return strings.Join(parts, " ")
}

func requiredNames(s *commandStruct) []string {
	var names []string
	for i := range s.fields {
		if s.required(&s.fields[i]) {
			names = append(names, s.fields[i].wire)
		}
	}
	return names
}

func jsonContent(schema object) object {
	return object{{"application/json", object{{"schema", schema}}}}
}

// problemRefs refers to the answer for each HTTP status of the fault table.
func problemRefs() object {
	o := object{}
	for _, status := range faultStatuses() {
		o = append(o, member{strconv.Itoa(status), object{{"$ref", fmt.Sprintf("#/components/responses/problem%d", status)}}})
	}
	return o
}

func faultStatuses() []int {
	var list []int
	for _, d := range fault.Table() {
		if len(list) == 0 || list[len(list)-1] != d.HTTP {
			list = append(list, d.HTTP)
		}
	}
	return list
}

func problemResponses() object {
	o := object{}
	for _, status := range faultStatuses() {
		var means []string
		for _, d := range fault.Table() {
			if d.HTTP == status {
				means = append(means, fmt.Sprintf("%s: %s", d.Kind, d.Means))
			}
		}
		o = append(o, member{fmt.Sprintf("problem%d", status), object{
			{"description", strings.Join(means, " ")},
			{"content", object{{"application/problem+json", object{{"schema", object{{"$ref", openAPIRefs + "Problem"}}}}}}},
		}})
	}
	return o
}
