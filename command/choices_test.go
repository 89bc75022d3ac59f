package command

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// freeChoices are parameters that are called like a choice and take any text.
var freeChoices = map[string]string{
	"list_tasks.type":                             "kinds of tasks are the callers' own",
	"list_artifacts.type":                         "kinds of artifacts are their producers' own",
	"spawn_subagent.role":                         "roles are the callers' own",
	"compare_benchmark_runs.decision":             "the words of who decided, such as promote or revert",
	"create_task.taskProfile.kind":                "kinds of work are the callers' own",
	"update_task.taskProfile.kind":                "kinds of work are the callers' own",
	"record_review.verificationOutcomes[].status": "the words of who verified",
	"record_benchmark_reward.verifier.status":     "the words of the verifier",
}

// TestChoicesAreEnumerated: a parameter that chooses among a fixed set of words says which,
// so that a word that isn't one of them is refused and not taken for a filter that nothing
// passes.
func TestChoicesAreEnumerated(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Catalog() {
		forEachParameter(reflect.TypeOf(d.New()).Elem(), string(d.Name), func(path string, f *reflect.StructField) {
			text := f.Type.Kind() == reflect.String || f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.String
			name := path[strings.LastIndexByte(path, '.')+1:]
			if !text || !slices.Contains([]string{"type", "actionType", "status", "kind", "mode", "role", "transport", "bucket", "sort", "order", "decision", "signal", "scope", "worker", "visibility"}, strings.TrimSuffix(name, "[]")) {
				return
			}
			_, free := freeChoices[path]
			seen[path] = free
			if (f.Tag.Get("enum") == "") != free {
				t.Errorf("%s: has the enumeration %q; one that takes any text stands in freeChoices", path, f.Tag.Get("enum"))
			}
		})
	}
	for path := range freeChoices {
		if !seen[path] {
			t.Errorf("%s isn't there", path)
		}
	}
}

// TestTimesAreBounded: no parameter takes a time that can't be told: added to another, it
// would come before it.
func TestTimesAreBounded(t *testing.T) {
	found := 0
	for _, d := range Catalog() {
		forEachParameter(reflect.TypeOf(d.New()).Elem(), string(d.Name), func(path string, f *reflect.StructField) {
			if !strings.HasSuffix(path, "Ms") {
				return
			}
			found++
			r := ruleOf(*f)
			if r.max == nil || *r.max > math.MaxInt64/2/1e6 {
				t.Errorf("%s has no bound", path)
			}
		})
	}
	if found < 20 {
		t.Errorf("%d times found", found)
	}
	for body, want := range map[string]string{
		`{"input":"x","options":{"timeoutMs":10000000000000}}`: "options.timeoutMs: 10000000000000 is more than the maximum, 3153600000000",
		`{"input":"x","idempotencyKey":""}`:                    "idempotencyKey: is empty",
	} {
		p := &SubmitTurn{}
		err := json.Unmarshal([]byte(body), p)
		if err == nil {
			if err = checkEmpty(p, []byte(body)); err == nil {
				err = p.Validate()
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// forEachParameter visits the fields of parameters, however deep.
func forEachParameter(t reflect.Type, path string, visit func(path string, f *reflect.StructField)) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path
		if !f.Anonymous || name != "" {
			at += "." + name
		}
		if f.Type.Kind() == reflect.Slice && f.Type != rawType {
			at += "[]"
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		visit(at, &f)
		if s := structIn(f.Type); s != nil {
			forEachParameter(s, at, visit)
		}
	}
}
