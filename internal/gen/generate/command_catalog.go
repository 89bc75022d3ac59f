package main

import (
	"encoding/json"

	"agentd/event"
)

// catalogDocument writes what GET /v1/catalog answers: all events and commands.
func catalogDocument(c *commandModel, out files) error {
	var events, commands []object
	for i := range c.events {
		d := &c.events[i]
		needs := d.Needs.Names()
		if needs == nil {
			needs = []string{}
		}
		events = append(events, object{
			{"type", d.Type},
			{"family", d.Family},
			{"schemaVersion", d.Type.SchemaVersion()},
			{"needs", needs},
			{"payload", d.PayloadName()},
			{"emittedBy", d.By.String()},
			{"since", d.Since},
			{"means", d.Means},
			{"schema", "event." + string(d.Family) + schemaEnd},
		})
	}
	for _, x := range [][2]string{
		{"item.started", "Something that a client shows began."},
		{"item.updated", "There is more of it."},
		{"item.completed", "It is whole."},
	} {
		events = append(events, object{
			{"type", x[0]},
			{"family", "item"},
			{"schemaVersion", event.SchemaExtension},
			{"needs", []string{}},
			{"payload", "Item"},
			{"emittedBy", "none: view=items derives it from the event with the same sequence"},
			{"since", "0.1"},
			{"means", x[1]},
			{"schema", itemFile},
			{"derived", true},
		})
	}
	for i := range c.defs {
		d := &c.defs[i]
		commands = append(commands, object{
			{"name", d.Name},
			{"noun", d.Noun},
			{"mutates", d.Mutates},
			{"role", d.Scope},
			{"available", d.Available},
			{"since", d.Since},
			{"means", d.Means},
			{"doc", d.Doc},
			{"example", json.RawMessage(d.Example)},
			{"paramsSchema", "command." + string(d.Name) + ".params" + schemaEnd},
			{"resultSchema", "command." + string(d.Name) + ".result" + schemaEnd},
		})
	}
	return out.addDocument("internal/gen/catalog.json", object{{"events", events}, {"commands", commands}})
}

// schemaEnd ends the name of every schema.
const schemaEnd = ".schema.json"
