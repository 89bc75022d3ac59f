package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// leaf is one value that a command was given.
type leaf struct {
	path string
	want []byte
}

// filling makes parameters with a value in every field, each its own where the field's
// type allows that.
type filling struct {
	given  map[string]any
	leaves []leaf
	n      int
}

// object returns the JSON object of a struct with all fields set.
func (f *filling) object(t reflect.Type, path string) map[string]any {
	out := map[string]any{}
	for sf := range t.Fields() {
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" && sf.Anonymous {
			maps.Copy(out, f.object(sf.Type, path))
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		v, special := f.given[at]
		switch {
		case special && v == nil:
			continue
		case special:
			f.notes(at, v)
		default:
			v = f.value(sf.Type, sf.Tag, at)
		}
		out[name] = v
	}
	return out
}

// notes keeps the leaves of a value that the test chose itself.
func (f *filling) notes(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			f.notes(path+"."+k, x)
		}
	case []any:
		for _, x := range v {
			f.notes(path, x)
		}
	default:
		f.leaf(path, v)
	}
}

func (f *filling) leaf(path string, v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if _, isFlag := v.(bool); !isFlag {
		f.leaves = append(f.leaves, leaf{path, raw})
	}
	return v
}

func (f *filling) value(t reflect.Type, tag reflect.StructTag, path string) any {
	f.n++
	switch {
	case t == reflect.TypeFor[event.Raw]():
		return map[string]any{"kept": f.leaf(path, "the "+path)}
	case t.Kind() == reflect.Pointer:
		return f.value(t.Elem(), tag, path)
	case t.Kind() == reflect.Struct:
		return f.object(t, path)
	case t.Kind() == reflect.Slice:
		return []any{f.value(t.Elem(), tag, path)}
	case t.Kind() == reflect.Map:
		return map[string]any{"counter " + path: f.leaf(path, 7000+f.n)}
	case t.Kind() == reflect.Bool:
		return true
	case t.Kind() == reflect.String:
		if words := event.EnumValues(tag.Get("enum")); len(words) > 0 {
			return f.leaf(path, words[len(words)-1])
		}
		if strings.Contains(tag.Get("check"), "id") {
			return f.leaf(path, strings.ReplaceAll("id_"+path, "[]", ""))
		}
		return f.leaf(path, "the "+path)
	default:
		return f.leaf(path, 5000+f.n)
	}
}

// taskScene is what has to be there before a command about a task, and the values that
// can't be made up.
type taskScene struct {
	before func(k *crew, id string) (runID string)
	given  map[string]any
	// factOnly are fields that stand in the command's facts and not in the task.
	factOnly []string
}

func hired(k *crew, id string) string {
	k.create(command.CreateTask{TaskID: id, SessionID: "sess_a", Worker: "external", TaskFields: command.TaskFields{Acceptance: []command.Criterion{{ID: "c1", Description: "it holds"}}}})
	return k.start(id).RunID
}

func defined(k *crew, id string) string {
	k.create(command.CreateTask{TaskID: id, SessionID: "sess_a"})
	return ""
}

// constraints are those that a turn could run with.
var fittingConstraints = map[string]any{
	"constraints.tools": []any{"list_files"}, "constraints.permissionMode": "plan", "constraints.model": "script/test",
	"constraints.cwd": "./kept", "constraints.outputSchema": map[string]any{"title": "the constraints.outputSchema"},
}

func mergeFields(more ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range append([]map[string]any{fittingConstraints}, more...) {
		maps.Copy(out, m)
	}
	return out
}

// taskScenes has one for each command that changes a task.
var taskScenes = map[command.Name]taskScene{
	"create_task": {given: mergeFields(map[string]any{
		"sessionId": "sess_a", "parentTaskId": "task_parent", "dependsOn": []any{"task_before"}, "worker": "external",
		"peer": nil, "start": nil, "draft": nil, // other workers and other statuses
	})},
	"update_task": {before: defined, given: mergeFields(map[string]any{
		"artifacts.artifactId": "artifact_kept", "parentTaskId": "task_parent", "dependsOn": []any{"task_before"}, "worker": "external",
	}), factOnly: []string{"reason"}},
	"start_task": {before: defined, given: map[string]any{"worker": "external"}},
	"retry_task": {before: func(k *crew, id string) string {
		run := hired(k, id)
		ask[command.TaskResult](k, &command.FailTask{TaskID: id, Error: &event.Failure{Message: "no"}})
		return run
	}, given: map[string]any{"worker": "external"}},
	"append_task_progress": {before: hired, given: map[string]any{"progress.percent": 42.5}},
	"pause_task":           {before: hired},
	"resume_task": {before: func(k *crew, id string) string {
		run := hired(k, id)
		ask[command.TaskResult](k, &command.PauseTask{TaskID: id})
		return run
	}},
	"cancel_task":   {before: hired},
	"complete_task": {before: hired, given: map[string]any{"deliveryState.status": "delivered", "acceptance.id": "c1", "artifacts.artifactId": "artifact_kept"}},
	"fail_task":     {before: hired, given: map[string]any{"error.retryable": false}},
	"archive_task": {before: func(k *crew, id string) string {
		run := hired(k, id)
		ask[command.TaskResult](k, &command.CancelTask{TaskID: id})
		return run
	}},
	"link_tasks": {before: defined, given: map[string]any{"kind": "source_task", "targetId": "task_before"}},
	"unlink_tasks": {before: func(k *crew, id string) string {
		defined(k, id)
		ask[command.RelationshipsResult](k, &command.LinkTasks{TaskID: id, Kind: "source_task", TargetID: "task_before"})
		return ""
	}, given: map[string]any{"kind": "source_task", "targetId": "task_before"}, factOnly: []string{"kind", "targetId", "reason"}}, // the edge is gone
}

// TestWhatATaskCommandTakesIsKept gives every command that changes a task a value in
// every field that it has. Commands, "Tasks": task commands must write runtime facts;
// Agent task, "Task record": the fields that a task has. What a command accepts stands
// in the facts that it wrote and in the task that get_task returns.
func TestWhatATaskCommandTakesIsKept(t *testing.T) {
	for _, d := range command.Catalog() {
		if d.Noun != "task" || !d.Mutates {
			continue
		}
		t.Run(string(d.Name), func(t *testing.T) {
			scene, ok := taskScenes[d.Name]
			if !ok {
				t.Fatal("there is no scene for it: say what has to be there before it")
			}
			synctest.Test(t, func(t *testing.T) { playTaskScene(t, d, scene) })
		})
	}
}

func playTaskScene(t *testing.T, d command.Def, scene taskScene) {
	t.Helper()
	k := newCrew(t)
	k.session("sess_a")
	k.create(command.CreateTask{TaskID: "task_parent", SessionID: "sess_a"})
	k.create(command.CreateTask{TaskID: "task_before", SessionID: "sess_a"})
	f := &filling{given: map[string]any{"taskId": "task_it", "idempotencyKey": nil}}
	maps.Copy(f.given, scene.given)
	if scene.before != nil {
		if run := scene.before(k, "task_it"); run != "" {
			f.given["runId"] = run
		}
	}
	before := len(k.facts("sess_a"))
	raw, err := json.Marshal(f.object(reflect.TypeOf(d.New()).Elem(), ""))
	if err != nil {
		t.Fatal(err)
	}
	p, err := command.Decode(d.Name, raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if _, err := k.runCommand(context.Background(), command.Local(), p); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	var facts bytes.Buffer
	for _, e := range k.facts("sess_a")[before:] {
		facts.Write(event.AppendJSON(nil, e))
		facts.WriteByte('\n')
	}
	record, err := json.Marshal(ask[state.Task](k, &command.GetTask{TaskID: "task_it"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.leaves) < 2 {
		t.Fatalf("only %d values were given: %s", len(f.leaves), raw)
	}
	for _, l := range f.leaves {
		if !bytes.Contains(facts.Bytes(), inner(l.want)) {
			t.Errorf("%s: %s stands in no fact", l.path, l.want)
		}
		if fact := fmt.Sprint(scene.factOnly); !bytes.Contains(record, inner(l.want)) && !strings.Contains(fact, l.path) {
			t.Errorf("%s: %s is not in the task", l.path, l.want)
		}
	}
	if t.Failed() {
		t.Logf("given %s\nfacts %s\ntask %s", raw, facts.Bytes(), record)
	}
}

// inner is a JSON value without its quotes: a reason may stand with others in one text.
func inner(raw []byte) []byte { return bytes.Trim(raw, `"`) }
