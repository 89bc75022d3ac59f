package main

// sharedSchemas are those of the paths that are no commands.
func sharedSchemas() object {
	return object{
		{"Event", eventSchema()},
		{"ItemEvent", itemEventSchema(openAPIRefs)},
		{"Item", itemSchema()},
		{"EventPage", eventPageSchema()},
		{"Gap", gapSchema()},
		{"ServerStatus", serverStatusSchema()},
		{"ProbeAnswer", structure("What a probe answers.", object{{"status", wordSchema("ok or ready.")}}, "status")},
		{"RPCMessage", rpcMessageSchema()},
	}
}

// structure is the schema of an object that may have more members than listed.
func structure(doc string, properties object, required ...string) object {
	return object{{"description", doc}, {"type", "object"}, {"required", required}, {"properties", properties}}
}

// wordSchema is the schema of a text; if there are values, one of them.
func wordSchema(doc string, values ...string) object {
	o := documented(doc, object{{"type", "string"}})
	if len(values) > 0 {
		o = append(o, member{"enum", values})
	}
	return o
}

// numberSchema is the schema of an integer of at least least.
func numberSchema(doc string, least int) object {
	return documented(doc, object{{"type", "integer"}, {"minimum", least}})
}

func timeSchema(doc string) object {
	return documented(doc, object{{"type", "string"}, {"format", "date-time"}})
}

func eventSchema() object {
	return openObject(structure("An event. /v1/schemas/event.schema.json says what each type has.", object{
		{"type", wordSchema("")},
		{"eventId", wordSchema("")},
		{"schemaVersion", wordSchema("")},
		{"timestamp", timeSchema("")},
		{"runtimeId", wordSchema("")},
		{"sessionId", wordSchema("")},
		{"sequence", numberSchema("", 1)},
		{"payload", object{{"type", "object"}}},
	}, envelopeRequired...))
}

// openObject says that an object has members that are described elsewhere.
func openObject(o object) object { return append(o, member{"additionalProperties", true}) }

// envelopeRequired are the members that every event has.
var envelopeRequired = []string{"type", "eventId", "schemaVersion", "timestamp", "runtimeId", "sessionId", "sequence", "payload"}

// itemFile is the name of the schema of what view=items delivers.
const itemFile = "event.item" + schemaEnd

// derivedSchemas writes the schemas of what is delivered and never stored.
func derivedSchemas(_ *commandModel, out files) error {
	const refs = "#/$defs/"
	return out.addSchema(itemFile, append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", schemaBase + itemFile},
		{"title", "agentd item events"},
		{"$defs", object{{"Item", itemSchema()}}},
	}, itemEventSchema(refs)...))
}

// itemEventSchema and itemSchema say what the server derives for view=items.
func itemEventSchema(refs string) object {
	return structure("One step in the life of an item, as view=items delivers it. Several may come from one event.", object{
		{"type", wordSchema("", "item.started", "item.updated", "item.completed")},
		{"schemaVersion", wordSchema("", "agentd-1")},
		{"runtimeId", wordSchema("")},
		{"sequence", numberSchema("The sequence of the event that it is derived from.", 1)},
		{"timestamp", timeSchema("")},
		{"sessionId", wordSchema("")},
		{"threadId", wordSchema("")},
		{"turnId", wordSchema("")},
		{"taskId", wordSchema("")},
		{"runId", wordSchema("")},
		{"stepId", wordSchema("")},
		{"toolCallId", wordSchema("")},
		{"actionId", wordSchema("")},
		{"processId", wordSchema("")},
		{"subagentId", wordSchema("Set on the items of a child.")},
		{"eventId", wordSchema("The event that it is derived from.")},
		{"eventType", wordSchema("That event's type.")},
		{"payload", object{{"$ref", refs + "Item"}}},
	}, "type", "schemaVersion", "runtimeId", "sequence", "timestamp", "sessionId", "eventId", "eventType", "payload")
}

func itemSchema() object {
	return structure("Something that a client shows. It begins with item.started, or, where an event says all at once, is there with item.completed alone.", object{
		{"itemId", wordSchema("The same in all steps of an item.")},
		{"kind", wordSchema("", "user_message", "agent_message", "reasoning", "tool_call", "plan", "command", "file_change", "action", "subagent", "compaction", "error")},
		{"status", wordSchema("", "in_progress", "completed", "failed", "cancelled")},
		{"title", wordSchema("For people: a tool's name, a path.")},
		{"text", wordSchema("The whole of a completed item's text.")},
		{"delta", wordSchema("What an update adds to the text.")},
		{"data", object{{"description", "The payload of the event, or, for a file change, that change."}, {"type", "object"}}},
	}, "itemId", "kind", "status")
}

func eventPageSchema() object {
	element := object{{"anyOf", []object{{{"$ref", openAPIRefs + "Event"}}, {{"$ref", openAPIRefs + "ItemEvent"}}}}}
	return structure("A page of a session's events.", object{
		{"events", object{{"description", "Events, or, with view=items, item events."}, {"type", "array"}, {"items", element}}},
		{"lastSequence", numberSchema("The session's last sequence.", 0)},
		{"nextAfter", numberSchema("What to pass as after for the next page.", 0)},
		{"gap", object{{"$ref", openAPIRefs + "Gap"}}},
	}, "events", "lastSequence", "nextAfter")
}

func gapSchema() object {
	return structure("Events that the cursor asks for and that can't be replayed. The session's snapshot stands for them.", object{
		{"sessionId", wordSchema("")},
		{"recoveryMode", wordSchema("", "snapshot_repair")},
		{"reason", wordSchema("Why: they were removed, or the cursor lies past the session's end.", "retention", "cursor_past_end")},
		{"status", wordSchema("What becomes of them: they are gone, or the cursor is not this store's.", "unavailable", "stale")},
		{"gapFrom", numberSchema("The first sequence that is missing.", 1)},
		{"gapTo", numberSchema("The last sequence that is missing.", 1)},
		{"continuesAfter", numberSchema("The sequence after which the events go on.", 0)},
	}, "sessionId", "recoveryMode", "reason", "gapFrom", "gapTo", "continuesAfter")
}

func serverStatusSchema() object {
	runtime := structure("What the runtime says of itself.", object{
		{"runtimeId", wordSchema("")},
		{"nodeId", wordSchema("The name of the node that answers.")},
		{"nodeState", wordSchema("Whether it takes work, as list_nodes says.", "open", "draining", "drained")},
		{"pid", numberSchema("The server's process. This, nodeId, nodeState, listen, engine, data, dataVersion, recovered, problem, blobs, mcpServers and what was removed are for admins alone.", 1)},
		{"listen", wordSchema("The address that the server listens on.")},
		{"engine", wordSchema("The store's engine.")},
		{"data", wordSchema("Where the store's data is.")},
		{"dataVersion", numberSchema("The version of the data's format.", 0)},
		{"recovered", object{{"description", "What was repaired when the store was opened."}, {"type", "array"}, {"items", object{{"type", "string"}}}}},
		{"ready", object{{"description", "Whether commands can be carried out."}, {"type", "boolean"}}},
		{"problem", wordSchema("Why they can't.")},
		{"retention", wordSchema("How long the events of a session at rest are kept; absent is for ever.")},
		{"removedEvents", numberSchema("Events that were removed since the start.", 0)},
		{"removedFromSessions", numberSchema("Sessions that they were removed from.", 0)},
		{"evidenceKeyId", wordSchema("The id of the key that exports are signed with.")},
		{"blobs", structure("How the object storage for large contents stands; absent without one.", object{
			{"location", wordSchema("Where it is.")},
			{"moved", numberSchema("How many contents this node moved there since its start.", 0)},
			{"problem", wordSchema("Why contents can't be moved there.")},
		}, "location", "moved")},
		{"mcpServers", object{{"description", "The MCP servers of the configuration."}, {"type", "array"}, {"items", structure("How an MCP server stands.", object{
			{"id", wordSchema("Its name in the configuration.")},
			{"state", wordSchema("", "starting", "ready", "unavailable", "closed")},
			{"reason", wordSchema("Why it can't be used.")},
			{"tools", numberSchema("How many tools it offers.", 0)},
			{"skipped", object{{"description", "Tools that were left out, each with why."}, {"type", "array"}, {"items", object{{"type", "string"}}}}},
		}, "id", "state", "tools")}}},
	}, "runtimeId")
	return structure("The server's state, for operators.", object{
		{"version", wordSchema("The build's version.")},
		{"startedAt", timeSchema("")},
		{"uptimeSeconds", numberSchema("", 0)},
		{"connections", numberSchema("Open connections.", 0)},
		{"streams", numberSchema("Open streams and subscriptions.", 0)},
		{"caller", structure("Who asks.", object{
			{"name", wordSchema("The name of the caller's token.")},
			{"role", object{{"description", "What the caller may do."}, {"enum", []string{"admin", "client", "observer"}}}},
			{"account", wordSchema("The account that owns what the caller creates.")},
			{"expiresAt", timeSchema("When the token ends; absent if it doesn't.")},
		}, "name", "role")},
		{"runtime", runtime},
	}, "version", "startedAt", "uptimeSeconds", "connections", "streams", "caller", "runtime")
}

func rpcMessageSchema() object {
	return structure("A JSON-RPC 2.0 message; its method is the name of a command.", object{
		{"jsonrpc", object{{"const", "2.0"}}},
		{"id", object{{"type", []string{"string", "number", "null"}}}},
		{"method", wordSchema("")},
		{"params", object{{"type", "object"}}},
		{"result", object{{"description", "The command's result."}}},
		{"error", object{
			{"type", "object"},
			{"required", []string{"code", "message"}},
			{"properties", object{
				{"code", object{{"type", "integer"}}},
				{"message", wordSchema("")},
				{"data", object{{"$ref", openAPIRefs + "Problem"}}},
			}},
		}},
	}, "jsonrpc")
}
