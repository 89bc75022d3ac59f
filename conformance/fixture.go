package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// manifestName is the file that says what the fixtures of a directory are.
const manifestName = "manifest.json"

// Fixture is a document that a checker can be tried with. Fixtures are agentd's own;
// the standard has others.
type Fixture struct {
	// Name of the file.
	Name string `json:"file"`
	// Check is the one check that finds something; empty for a document that conforms.
	Check string `json:"check,omitempty"`
	Data  []byte `json:"-"`
}

// WriteFixtures writes all fixtures into a directory, with a manifest that says which
// check finds which.
func WriteFixtures(dir string) error {
	all := Fixtures()
	manifest := struct {
		Publisher string    `json:"publisher"`
		About     string    `json:"about"`
		Profile   string    `json:"profile"`
		Fixtures  []Fixture `json:"fixtures"`
	}{
		Publisher: "agentd", Profile: strictVersion, Fixtures: all,
		About: "agentd's own fixtures, not those of the standard. Without a check a document conforms; each other one is broken in one way, and that check alone finds it.",
	}
	index, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	for _, f := range append(all, Fixture{Name: manifestName, Data: append(index, '\n')}) {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // fixtures are for everyone to read
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// Fixtures returns all fixtures: those that conform first.
func Fixtures() []Fixture {
	out := []Fixture{{Name: "valid/session.jsonl", Data: joinLines(validStream())}}
	for _, name := range []string{"snapshot", "thread", "task", "pack", "trial"} {
		out = append(out, Fixture{Name: "valid/" + name + ".json", Data: pretty(parse(validDocuments[name]))})
	}
	out = append(out, Fixture{Name: "valid/redelivered.jsonl", Data: joinLines(redelivered())}, Fixture{Name: "valid/bundle.json", Data: pretty(bundle("action_1"))},
		Fixture{Name: "valid/repaired.jsonl", Data: joinLines(repaired())}, Fixture{Name: "valid/interleaved.jsonl", Data: joinLines(interleaved())})
	for _, b := range brokenStreams() {
		events := validStream()
		out = append(out, Fixture{Name: "broken/" + b.name() + ".jsonl", Check: b.check, Data: joinLines(b.change(events))})
	}
	for _, b := range brokenDocuments {
		o := parse(validDocuments[b.of])
		b.change(o)
		out = append(out, Fixture{Name: "broken/" + b.check + ".json", Check: b.check, Data: pretty(o)})
	}
	return append(out,
		Fixture{Name: "broken/" + checkErased + ".json", Check: checkErased, Data: pretty(bundle("action_other"))},
		Fixture{Name: "broken/input.json.jsonl", Check: checkJSON, Data: append(joinLines(validStream()), []byte("{\"type\":\n")...)},
		Fixture{Name: "broken/input.empty.jsonl", Check: checkEmpty, Data: []byte("\n\n")},
		Fixture{Name: "broken/input.empty.page.json", Check: checkEmpty, Data: []byte("{\"events\": [], \"lastSequence\": 7}\n")},
		Fixture{Name: "broken/input.kind.json", Check: checkKind, Data: []byte("{\"hello\": \"world\"}\n")})
}

// redelivered is a stream in which a client that came back got the last events again.
func redelivered() []object {
	events := validStream()
	n := len(events)
	return append(events, events[n-3:]...)
}

// bundle is the beginning of the valid stream, up to an action, with a snapshot that
// has an action pending.
func bundle(pending string) object {
	events := validStream()
	events = events[:indexOfType(events, "action.required")+1]
	s := parse(validDocuments["snapshot"])
	s["sequence"] = events[len(events)-1]["sequence"]
	t := list(s, "threads")[0]
	t["status"], t["pendingRequests"] = "blocked", []any{object{"actionId": pending, "turnId": "turn_1", "status": "pending"}}
	return object{"events": events, "snapshot": s}
}

// brokenStream is one way in which a stream can be wrong.
type brokenStream struct {
	check, how string
	change     func([]object) []object
}

func (b *brokenStream) name() string {
	if b.how == "" {
		return b.check
	}
	return b.check + "." + b.how
}

// brokenStreams are the ways in which the valid stream is broken.
func brokenStreams() []brokenStream {
	out := []brokenStream{
		{"event.identity", "", edit("model.delta", func(o object) { delete(o, "eventId") })},
		{"event.timestamp", "", edit("model.delta", func(o object) { o["timestamp"] = "yesterday" })},
		{"event.sequence", "", edit("model.delta", func(o object) { o["sequence"] = -1 })},
		{"event.ids", "", edit("model.delta", func(o object) { o["threadId"] = "" })},
		{"event.members", "", edit("model.delta", func(o object) { o["refs"] = []any{} })},
		{"event.profile", "", edit("model.delta", func(o object) { delete(o, "runtimeId") })},
		{"event.type", "", edit("model.delta", func(o object) { o["type"] = "model.dreamt" })},
		{"event.scope", "", edit("tool.progress", func(o object) { delete(o, "stepId") })},
		{"event.benchmark", "", edit("benchmark.dataset.resolved", func(o object) { delete(o, "benchmark") })},
		{"event.benchmark", "role", edit("benchmark.dataset.resolved", func(o object) { member(o, "benchmark")["role"] = "hero" })},
		{"event.versioned", "", edit("model.delta", func(o object) { delete(o, "schemaVersion") })},
		{"event.size", "", edit("model.delta", func(o object) { member(o, "payload")["text"] = strings.Repeat("long ", 60<<10) })},
		{"stream.order", "", edit("model.delta", func(o object) { o["sequence"] = 2 })},
		{"stream.event_ids", "", edit("model.delta", func(o object) { o["eventId"] = "evt_001" })},
		{"stream.gate", "", without("action.resolved")},
		{checkGap, "", leaveOut(1)},
		{checkGap, "many", leaveOut(3)},
		{checkSparse, "", ofVendor(leaveOut(1))},
		{"stream.tool_call", "unbegun", without("tool.started")},
		{"stream.turn", "unbegun", without("turn.submitted")},
		{"join.threadId.sessionId", "", edit("model.delta", func(o object) { o["sessionId"] = "sess_other" })},
		{"join.turnId.threadId", "", edit("model.delta", func(o object) { o["threadId"] = "thread_other" })},
		{"join.runId.taskId", "", edit("turn.completed", func(o object) { o["taskId"] = "task_other" })},
		{"join.toolCallId.turnId", "", edit("tool.progress", func(o object) { o["turnId"] = "turn_other" })},
		{"join.toolCallId.stepId", "", edit("tool.progress", func(o object) { o["stepId"] = "step_other" })},
		{"join.actionId.turnId", "", edit("action.resolved", func(o object) { o["turnId"] = "turn_other"; delete(o, "toolCallId") })},
	}
	for _, again := range [][2]string{
		{"turn", "turn.completed"},
		{"model_request", "model.completed"},
		{"tool_call", "tool.result"},
		{"action", "action.resolved"},
		{"process", "process.completed"},
		{"task", "task.completed"},
		{"attempt", "task.attempt.completed"},
		{"job", "job.completed"},
		{"compaction", "context.compaction.completed"},
		{"rollback", "history.rollback.completed"},
	} {
		out = append(out, brokenStream{"stream." + again[0], "ended_twice", repeat(again[1])})
	}
	for _, r := range payloadRules {
		out = append(out, brokenStream{"payload." + r.typ, "", edit(r.typ, func(o object) {
			for name := range strings.SplitSeq(r.needs[len(r.needs)-1], "|") {
				delete(member(o, "payload"), name)
			}
		})})
	}
	return out
}

// edit changes the first event of a type.
func edit(typ string, change func(object)) func([]object) []object {
	return func(events []object) []object {
		change(events[indexOfType(events, typ)])
		return events
	}
}

// without takes out the first event of a type, as if it had never been written.
func without(typ string) func([]object) []object {
	return func(events []object) []object {
		i := indexOfType(events, typ)
		return renumbered(slices.Delete(events, i, i+1))
	}
}

// renumbered gives events sequences without a gap.
func renumbered(events []object) []object {
	for i, o := range events {
		o["sequence"] = i + 1
	}
	return events
}

// leaveOut takes out events that no other check misses, beginning with the model's first
// piece of an answer.
func leaveOut(n int) func([]object) []object {
	return func(events []object) []object {
		i := indexOfType(events, "model.delta")
		events = slices.Insert(events, i, parse(string(compact(events[i]))), parse(string(compact(events[i]))))
		for k := range 3 {
			events[i+k]["eventId"] = fmt.Sprintf("evt_delta_%d", k)
		}
		return slices.Delete(renumbered(events), i, i+n)
	}
}

// ofVendor makes events those of a runtime outside of the strict profile.
func ofVendor(change func([]object) []object) func([]object) []object {
	return func(events []object) []object {
		for _, o := range events {
			o["schemaVersion"] = "vendor-1"
		}
		return change(events)
	}
}

// repaired is a stream whose runtime couldn't replay all of it and says so: retention
// removed what is missing.
func repaired() []object {
	events := validStream()
	i := indexOfType(events, "snapshot.repaired")
	for k, o := range events[i:] {
		o["sequence"] = i + 100 + k
	}
	return events
}

// interleaved is a stream of two sessions, each with sequences of its own.
func interleaved() []object {
	var out []object
	for i, o := range validStream() {
		other := parse(string(compact(o)))
		for _, name := range []string{"threadId", "turnId", "taskId", "runId", "toolCallId", "actionId", "processId", "jobId", "channelId", "evidenceId", "modelRequestId"} {
			if id, ok := other[name].(string); ok && id != "not_applicable" {
				other[name] = id + "_b"
			}
		}
		other["sessionId"], other["eventId"] = "sess_2", fmt.Sprintf("evt_b_%03d", i)
		out = append(out, o, other)
	}
	return out
}

// repeat adds the first event of a type at the end, as another event.
func repeat(typ string) func([]object) []object {
	return func(events []object) []object {
		o := parse(string(compact(events[indexOfType(events, typ)])))
		o["eventId"], o["sequence"] = "evt_again", len(events)+1
		return append(events, o)
	}
}

func indexOfType(events []object, typ string) int {
	i := slices.IndexFunc(events, func(o object) bool { return o["type"] == typ })
	if i < 0 {
		panic("conformance: the valid stream has no " + typ)
	}
	return i
}

// parse reads a fixture that is part of this package.
func parse(text string) object {
	o, err := decodeObject([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("conformance: fixture %s: %v", text, err))
	}
	return o
}

func compact(o object) []byte {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // what was read can be written
	}
	return b
}

func pretty(o object) []byte {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		panic(err) // as above
	}
	return append(b, '\n')
}

func joinLines(events []object) []byte {
	var b bytes.Buffer
	for _, o := range events {
		b.Write(compact(o))
		b.WriteByte('\n')
	}
	return b.Bytes()
}
