package trial_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/command"
	"agentd/internal/runtimetest"
)

// qcRules are what the Agent QC standard asks of a benchmark, as a schema.
const qcRules = `{
	"type": "object",
	"required": ["schema_version", "id", "target_project", "purpose", "dataset", "configurations", "tasks", "trials", "metrics", "decision_policy"],
	"properties": {
		"schema_version": {"const": "0.5.0"},
		"id": {"$ref": "#/$defs/text"}, "target_project": {"$ref": "#/$defs/text"}, "purpose": {"$ref": "#/$defs/text"}, "decision_policy": {"$ref": "#/$defs/text"},
		"dataset": {"required": ["id", "version", "source", "selection_policy"], "additionalProperties": {"$ref": "#/$defs/text"}},
		"configurations": {"type": "array", "minItems": 2, "items": {"required": ["id", "role"], "properties": {"id": {"$ref": "#/$defs/text"}, "role": {"enum": ["baseline", "candidate", "control"]}}}},
		"tasks": {"type": "array", "minItems": 1, "items": {
			"required": ["id", "instruction_ref", "verifier", "required_gates", "required_evidence"],
			"properties": {
				"id": {"$ref": "#/$defs/text"}, "instruction_ref": {"$ref": "#/$defs/text"}, "verifier": {"$ref": "#/$defs/text"},
				"required_gates": {"$ref": "#/$defs/texts"}, "required_evidence": {"$ref": "#/$defs/texts"}}}},
		"trials": {"type": "array", "minItems": 1, "items": {
			"required": ["trial_id", "task_id", "configuration_id", "status", "evidence_refs"],
			"properties": {
				"trial_id": {"$ref": "#/$defs/text"}, "task_id": {"$ref": "#/$defs/text"}, "configuration_id": {"$ref": "#/$defs/text"},
				"status": {"enum": ["passed", "failed", "blocked", "exhausted", "needs-review", "skipped"]},
				"reward": {"type": "number"}, "duration_ms": {"type": "integer", "minimum": 0}, "evidence_refs": {"$ref": "#/$defs/texts"},
				"attempt": {"type": "integer", "minimum": 1}, "runtime_correlation": {"additionalProperties": {"type": "string"}},
				"cost": {"properties": {"tokens": {"type": "integer", "minimum": 0}, "cost_usd": {"type": "number", "minimum": 0}}}}}},
		"metrics": {"required": ["primary"], "properties": {"primary": {"$ref": "#/$defs/text"}}},
		"decision": {"properties": {
			"outcome": {"enum": ["promote", "promote-with-monitoring", "hold", "revert", "blocked", "needs-review"]},
			"remaining_risks": {"type": "array", "items": {"type": "string"}}, "p0_qc_gate_regression_count": {"type": "integer", "minimum": 0}}}
	},
	"$defs": {"text": {"type": "string", "minLength": 1}, "texts": {"type": "array", "minItems": 1, "items": {"type": "string"}}}
}`

// TestComparisonIsABenchmarkOfAgentQC: the stored comparison has that standard's
// shape, and says what the trials came to without judging them.
func TestComparisonIsABenchmarkOfAgentQC(t *testing.T) {
	rules, err := jsonschema.UnmarshalJSON(strings.NewReader(qcRules))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("qc.json", rules); err != nil {
		t.Fatal(err)
	}
	schema := c.MustCompile("qc.json")
	k := endless(runtimetest.New(t))
	tasks := []string{"a", "b", "c"}
	for decision, outcome := range map[string]string{"revert": "revert", "": "needs-review", "looks fine": "needs-review", "promote": "promote"} {
		rec := runtimetest.Do[command.CompareBenchmarkRunsResult](k, &command.CompareBenchmarkRuns{
			Baseline: scored(k, "base", nil, tasks, 0, 0.5, 1), Candidate: scored(k, "cand", nil, tasks, 1, 0.25, 1), P0QcGateRegressionCount: new(int64(1)), Decision: decision,
		}).Comparison
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(k.ReadOutput(rec.ComparisonRef)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%q: %v", decision, err)
		}
		m := doc.(map[string]any)
		if got := m["decision"].(map[string]any)["outcome"]; got != outcome {
			t.Errorf("%q: the outcome is %v, want %s", decision, got, outcome)
		}
		var statuses []string
		for _, x := range m["trials"].([]any) {
			statuses = append(statuses, x.(map[string]any)["status"].(string))
		}
		if want := []string{"failed", "needs-review", "passed", "passed", "needs-review", "passed"}; !slices.Equal(statuses, want) {
			t.Errorf("the trials are %v, want %v", statuses, want)
		}
		delete(m, "trials")
		if schema.Validate(m) == nil {
			t.Error("the rules take a benchmark without trials")
		}
	}
}
