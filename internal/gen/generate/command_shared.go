package main

// sharedSchemas are those of the paths that are no commands.
func sharedSchemas() object {
	return object{
		{"Event", eventSchema()},
		{"ItemEvent", itemEventSchema()},
		{"Item", itemSchema()},
		{"EventPage", eventPageSchema()},
		{"Gap", gapSchema()},
		{"ServerStatus", serverStatusSchema()},
		{"ProbeAnswer", structure("What a probe answers.", object{{"status", word("ok or ready.")}}, "status")},
		{"RPCMessage", rpcMessageSchema()},
	}
}

// structure is the schema of an object that may have more members than listed.
func structure(doc string, properties object, required ...string) object {
	return object{{"description", doc}, {"type", "object"}, {"required", required}, {"properties", properties}}
}

// word is the schema of a text; if there are values, one of them.
func word(doc string, values ...string) object {
	o := with(doc, object{{"type", "string"}})
	if len(values) > 0 {
		o = append(o, member{"enum", values})
	}
	return o
}

// number is the schema of an integer of at least least.
func number(doc string, least int) object {
	return with(doc, object{{"type", "integer"}, {"minimum", least}})
}

func moment(doc string) object {
	return with(doc, object{{"type", "string"}, {"format", "date-time"}})
}

func eventSchema() object {
	return structure("An event. /v1/schemas/event.schema.json says what each type has.", object{
		{"type", word("")},
		{"eventId", word("")},
		{"schemaVersion", word("")},
		{"timestamp", moment("")},
		{"runtimeId", word("")},
		{"sessionId", word("")},
		{"sequence", number("", 1)},
		{"payload", object{{"type", "object"}}},
	}, "type", "eventId", "schemaVersion", "timestamp", "runtimeId", "sessionId", "sequence", "payload")
}

// itemEventSchema and itemSchema say what the server derives for view=items.
func itemEventSchema() object {
	return structure("One step in the life of an item, as view=items delivers it. Several may come from one event.", object{
		{"type", word("", "item.started", "item.updated", "item.completed")},
		{"schemaVersion", word("", "agentd-1")},
		{"runtimeId", word("")},
		{"sequence", number("The sequence of the event that it is derived from.", 1)},
		{"timestamp", moment("")},
		{"sessionId", word("")},
		{"threadId", word("")},
		{"turnId", word("")},
		{"taskId", word("")},
		{"runId", word("")},
		{"stepId", word("")},
		{"toolCallId", word("")},
		{"actionId", word("")},
		{"processId", word("")},
		{"subagentId", word("Set on the items of a child.")},
		{"eventId", word("The event that it is derived from.")},
		{"eventType", word("That event's type.")},
		{"payload", object{{"$ref", openAPIRefs + "Item"}}},
		{"item", object{{"description", "The same as payload."}, {"$ref", openAPIRefs + "Item"}}},
	}, "type", "schemaVersion", "runtimeId", "sequence", "timestamp", "sessionId", "eventId", "eventType", "payload", "item")
}

func itemSchema() object {
	return structure("Something that a client shows. It begins with item.started, or, where an event says all at once, is there with item.completed alone.", object{
		{"itemId", word("The same in all steps of an item.")},
		{"kind", word("", "user_message", "agent_message", "reasoning", "tool_call", "plan", "command", "file_change", "action", "subagent", "compaction", "error")},
		{"status", word("", "in_progress", "completed", "failed", "cancelled")},
		{"title", word("For people: a tool's name, a path.")},
		{"text", word("The whole of a completed item's text.")},
		{"delta", word("What an update adds to the text.")},
		{"data", object{{"description", "The payload of the event, or, for a file change, that change."}, {"type", "object"}}},
	}, "itemId", "kind", "status")
}

func eventPageSchema() object {
	element := object{{"anyOf", []object{{{"$ref", openAPIRefs + "Event"}}, {{"$ref", openAPIRefs + "ItemEvent"}}}}}
	return structure("A page of a session's events.", object{
		{"events", object{{"description", "Events, or, with view=items, item events."}, {"type", "array"}, {"items", element}}},
		{"lastSequence", number("The session's last sequence.", 0)},
		{"nextAfter", number("What to pass as after for the next page.", 0)},
		{"gap", object{{"$ref", openAPIRefs + "Gap"}}},
	}, "events", "lastSequence", "nextAfter")
}

func gapSchema() object {
	return structure("Events that the cursor asks for and that can't be replayed. The session's snapshot stands for them.", object{
		{"sessionId", word("")},
		{"recoveryMode", word("", "snapshot_repair")},
		{"reason", word("Why: they were removed, or the cursor lies past the session's end.", "retention", "cursor_past_end")},
		{"status", word("What becomes of them: they are gone, or the cursor is not this store's.", "unavailable", "stale")},
		{"gapFrom", number("The first sequence that is missing.", 1)},
		{"gapTo", number("The last sequence that is missing.", 1)},
		{"continuesAfter", number("The sequence after which the events go on.", 0)},
	}, "sessionId", "recoveryMode", "reason", "gapFrom", "gapTo", "continuesAfter")
}

func serverStatusSchema() object {
	runtime := structure("What the runtime says of itself.", object{
		{"runtimeId", word("")},
		{"pid", number("The server's process.", 1)},
		{"listen", word("The address that the server listens on.")},
		{"engine", word("The store's engine.")},
		{"data", word("Where the store's data is.")},
		{"dataVersion", number("The version of the data's format.", 0)},
		{"recovered", object{{"description", "What was repaired when the store was opened."}, {"type", "array"}, {"items", object{{"type", "string"}}}}},
		{"ready", object{{"description", "Whether commands can be carried out."}, {"type", "boolean"}}},
		{"problem", word("Why they can't.")},
		{"retention", word("How long the events of a session at rest are kept; absent is for ever.")},
		{"removedEvents", number("Events that were removed since the start.", 0)},
		{"removedFromSessions", number("Sessions that they were removed from.", 0)},
		{"evidenceKeyId", word("The id of the key that exports are signed with.")},
	}, "runtimeId")
	return structure("The server's state, for operators.", object{
		{"version", word("The build's version.")},
		{"startedAt", moment("")},
		{"uptimeSeconds", number("", 0)},
		{"connections", number("Open connections.", 0)},
		{"streams", number("Open streams and subscriptions.", 0)},
		{"runtime", runtime},
	}, "version", "startedAt", "uptimeSeconds", "connections", "streams", "runtime")
}

func rpcMessageSchema() object {
	return structure("A JSON-RPC 2.0 message; its method is the name of a command.", object{
		{"jsonrpc", object{{"const", "2.0"}}},
		{"id", object{{"type", []string{"string", "number", "null"}}}},
		{"method", word("")},
		{"params", object{{"type", "object"}}},
		{"result", object{{"description", "The command's result."}}},
		{"error", object{
			{"type", "object"},
			{"required", []string{"code", "message"}},
			{"properties", object{
				{"code", object{{"type", "integer"}}},
				{"message", word("")},
				{"data", object{{"$ref", openAPIRefs + "Problem"}}},
			}},
		}},
	}, "jsonrpc")
}
