package main

// plainPaths are the paths that are no commands.
func plainPaths() object {
	return object{
		{"/v1/sessions/{sessionId}/events", object{{"get", sessionEvents()}}},
		{"/v1/events", object{{"get", allEvents()}}},
		{"/v1/feed", object{{"get", feedPath()}}},
		{"/v1/outputs/{ref}", object{{"get", outputs200("getOutput")}, {"head", outputs200("headOutput")}}},
		{"/v1/processes/{processId}/output", object{{"get", processOutput()}}},
		{"/v1/catalog", object{{"get", documentOperation("getCatalog", "The event and command catalogue.", "application/json")}}},
		{"/v1/openapi.json", object{{"get", documentOperation("getOpenAPI", "This document.", "application/json")}}},
		{"/v1/schemas/{name}", object{{"get", schemaDocument()}}},
		{"/v1/status", object{{"get", statusPath()}}},
		{"/v1/rpc", object{{"post", rpcPath()}}},
		{"/v1/ws", object{{"get", webSocket()}}},
		{"/healthz", object{{"get", probe("getHealth", "Whether the server is alive.")}}},
		{"/readyz", object{{"get", probe("getReadiness", "Whether the server takes commands.")}}},
		{"/metrics", object{{"get", metricsPath()}}},
	}
}

func parameterObject(in, name, doc string, required bool, schema object) object {
	return object{{"name", name}, {"in", in}, {"description", doc}, {"required", required}, {"schema", schema}}
}

func streamParameters() []object {
	return []object{
		parameterObject("header", "Last-Event-ID", "The sequence of the last event that the reader has; it wins over lastEventId and after.", false, object{{"type", "string"}}),
		parameterObject("query", "types", "Types to deliver, separated by commas; tool.* stands for a family.", false, object{{"type", "string"}}),
		parameterObject("query", "profile", "standard delivers the types of the standard alone.", false, object{{"type", "string"}, {"enum", []string{"standard"}}}),
		parameterObject("query", "view", "items delivers the derived item.started, item.updated and item.completed; events, the default, the events themselves.", false, object{{"type", "string"}, {"enum", []string{"events", "items"}}}),
	}
}

func sessionEvents() object {
	sequence := object{{"type", "integer"}, {"minimum", 0}}
	parameters := append([]object{
		parameterObject("path", "sessionId", "The session's id.", true, object{{"type", "string"}, {"pattern", idPattern}}),
		parameterObject("query", "after", "Only events after this sequence.", false, sequence),
		parameterObject("query", "lastEventId", "The same, for clients that can't set the header; it wins over after.", false, sequence),
		parameterObject("query", "limit", "The most events of a page; default 200.", false, object{{"type", "integer"}, {"minimum", 1}, {"maximum", 1000}}),
		parameterObject("query", "snapshot", "1 or true sends the session snapshot first, as a frame of the type snapshot; for streams alone.", false, object{{"type", "string"}, {"enum", []string{"0", "1", "false", "true"}}}),
		parameterObject("query", "channelId", "The remote channel that the stream belongs to; without a cursor it begins after what the channel's peer acknowledged. For streams alone.", false, object{{"type", "string"}, {"pattern", idPattern}}),
	}, streamParameters()...)
	return object{
		{"operationId", "getSessionEvents"},
		{"tags", []string{"events"}},
		{"summary", "A session's events: a page, or a stream."},
		{"description", "With Accept: text/event-stream all events after the cursor, then live ones, as server-sent events: id is the sequence, data the envelope. A comment comes at least every 15 seconds. Otherwise a page."},
		{"parameters", parameters},
		{"responses", append(object{{"200", object{
			{"description", "A page, or the stream."},
			{"content", object{
				{"application/json", object{{"schema", object{{"$ref", openAPIRefs + "EventPage"}}}}},
				{"text/event-stream", object{{"schema", object{{"type", "string"}}}}},
			}},
		}}}, problemRefs()...)},
	}
}

func allEvents() object {
	return object{
		{"operationId", "getEvents"},
		{"tags", []string{"events"}},
		{"summary", "The events of all sessions that the caller may see, live."},
		{"description", "Server-sent events; order holds within a session."},
		{"parameters", streamParameters()[1:]},
		{"responses", append(object{{"200", object{
			{"description", "The stream."},
			{"content", object{{"text/event-stream", object{{"schema", object{{"type", "string"}}}}}}},
		}}}, problemRefs()...)},
	}
}

func feedPath() object {
	cursor := object{{"type", "string"}}
	parameters := append([]object{
		parameterObject("header", "Last-Event-ID", "The id of the last frame that the reader has; it wins over lastEventId and after.", false, cursor),
		parameterObject("query", "after", "Only what comes after this cursor, which is the id of a frame; from now on without one.", false, cursor),
		parameterObject("query", "lastEventId", "The same, for clients that can't set the header; it wins over after.", false, cursor),
	}, streamParameters()[1:]...)
	return object{
		{"operationId", "getFeed"},
		{"tags", []string{"events"}},
		{"summary", "The events of all sessions that the caller may see, resumable."},
		{"description", "Server-sent events; id is an opaque cursor, data the envelope. Order holds within a session. Going on from a cursor, nothing is missed and nothing comes twice, also over restarts and on another node. A frame of the type gap names events that retention removed."},
		{"parameters", parameters},
		{"responses", append(object{{"200", object{
			{"description", "The stream."},
			{"content", object{{"text/event-stream", object{{"schema", object{{"type", "string"}}}}}}},
		}}}, problemRefs()...)},
	}
}

func outputs200(id string) object {
	content := object{{"*/*", object{{"schema", object{{"description", "The bytes, in their own media type."}}}}}}
	return object{
		{"operationId", id},
		{"tags", []string{"events"}},
		{"summary", "The bytes behind a reference that agentd made."},
		{"parameters", []object{
			parameterObject("path", "ref", "The reference, escaped for a URL.", true, object{{"type", "string"}}),
			parameterObject("header", "Range", "The part that is asked for.", false, object{{"type", "string"}}),
		}},
		{"responses", append(object{
			{"200", object{{"description", "All of it."}, {"content", content}}},
			{"206", object{{"description", "The part that was asked for."}, {"content", content}}},
			{"304", object{{"description", "The caller has it already."}}},
		}, problemRefs()...)},
	}
}

func processOutput() object {
	return object{
		{"operationId", "getProcessOutput"},
		{"tags", []string{"events"}},
		{"summary", "What a process prints, from an offset on, until it ends."},
		{"description", "The bytes as they are recorded, after redaction, in one stream. With Accept: text/event-stream as server-sent events: id is the offset after the piece, data has the offset, the stream and the text (base64 where it isn't text), and a last frame of the type end says how the process ended."},
		{"parameters", []object{
			parameterObject("path", "processId", "The process's id.", true, object{{"type", "string"}, {"pattern", idPattern}}),
			parameterObject("query", "offset", "How many bytes the reader has already.", false, object{{"type", "integer"}, {"minimum", 0}}),
			parameterObject("query", "follow", "0 or false ends with what there is now; the default follows the process to its end.", false, object{{"type", "string"}, {"enum", []string{"0", "1", "false", "true"}}}),
			parameterObject("header", "Last-Event-ID", "The same as offset; it wins.", false, object{{"type", "string"}}),
		}},
		{"responses", append(object{{"200", object{
			{"description", "The bytes, or the stream."},
			{"content", object{
				{"application/octet-stream", object{{"schema", object{{"description", "The bytes."}}}}},
				{"text/event-stream", object{{"schema", object{{"type", "string"}}}}},
			}},
		}}}, problemRefs()...)},
	}
}

func documentOperation(id, summary, mediaType string) object {
	return object{
		{"operationId", id},
		{"tags", []string{"documents"}},
		{"summary", summary},
		{"responses", append(object{
			{"200", object{{"description", summary}, {"content", object{{mediaType, object{{"schema", object{{"type", "object"}}}}}}}}},
			{"304", object{{"description", "The caller has it already."}}},
		}, problemRefs()...)},
	}
}

func schemaDocument() object {
	o := documentOperation("getSchema", "A JSON Schema (2020-12) of an event, a parameter or a result.", "application/schema+json")
	return append(o, member{"parameters", []object{
		parameterObject("path", "name", "The schema's name, such as event.schema.json or command.submit_turn.params.", true, object{{"type", "string"}}),
	}})
}

func rpcPath() object {
	message := object{{"$ref", openAPIRefs + "RPCMessage"}}
	either := jsonContent(object{{"anyOf", []object{message, {{"type", "array"}, {"items", message}}}}})
	return object{
		{"operationId", "callRPC"},
		{"tags", []string{"operations"}},
		{"summary", "JSON-RPC 2.0 over the same commands, batches included."},
		{"requestBody", object{{"required", true}, {"content", either}}},
		{"responses", append(object{
			{"200", object{{"description", "The answers."}, {"content", either}}},
			{"204", object{{"description", "There were notifications only."}}},
		}, problemRefs()...)},
	}
}

func webSocket() object {
	return object{
		{"operationId", "openWebSocket"},
		{"tags", []string{"operations"}},
		{"summary", "JSON-RPC 2.0 over a WebSocket, with subscriptions."},
		{"description", "The commands, and subscribe {sessionId, after}, which sends each event as the notification event whose params is the envelope."},
		{"responses", append(object{{"101", object{{"description", "The connection is a WebSocket now."}}}}, problemRefs()...)},
	}
}

func probe(id, summary string) object {
	return object{
		{"operationId", id},
		{"tags", []string{"operations"}},
		{"summary", summary},
		{"security", []object{}},
		{"responses", append(object{{"200", object{
			{"description", summary},
			{"content", jsonContent(object{{"$ref", openAPIRefs + "ProbeAnswer"}})},
		}}}, problemRefs()...)},
	}
}

func statusPath() object {
	return object{
		{"operationId", "getStatus"},
		{"tags", []string{"operations"}},
		{"summary", "The server's state, for operators."},
		{"responses", append(object{{"200", object{
			{"description", "The state."},
			{"content", jsonContent(object{{"$ref", openAPIRefs + "ServerStatus"}})},
		}}}, problemRefs()...)},
	}
}

func metricsPath() object {
	return object{
		{"operationId", "getMetrics"},
		{"tags", []string{"operations"}},
		{"summary", "Metrics in the text format of Prometheus."},
		{"responses", append(object{{"200", object{
			{"description", "The metrics."},
			{"content", object{{"text/plain", object{{"schema", object{{"type", "string"}}}}}}},
		}}}, problemRefs()...)},
	}
}
