package event_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/event"
	"agentd/event/eventtest"
)

// standardTypes reads the closed list of types in the standard's strict profile.
func standardTypes(t *testing.T) []event.Type {
	t.Helper()
	dir, ok := eventtest.SharedDir(t, "spec", "schemas")
	if !ok {
		t.Skip("not checked that the catalogue lists the standard's types: ../shared/spec/schemas is absent")
	}
	data, err := os.ReadFile(filepath.Join(dir, "agentruntime-lime-profile-event.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		AllOf []struct {
			Properties struct {
				Type struct {
					Enum []event.Type `json:"enum"`
				} `json:"type"`
			} `json:"properties"`
		} `json:"allOf"`
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	for _, part := range schema.AllOf {
		if len(part.Properties.Type.Enum) > 0 {
			return part.Properties.Type.Enum
		}
	}
	t.Fatal("the standard's schema has no list of types")
	return nil
}

func TestCatalogListsTheStandard(t *testing.T) {
	want := standardTypes(t)
	var have []event.Type
	for _, d := range event.Catalog() {
		if !d.Extension {
			have = append(have, d.Type)
		}
	}
	if len(want) != 120 {
		t.Errorf("the standard lists %d types, expected 120", len(want))
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("standard types, the standard's (-), the catalogue's (+):\n%s", diff)
	}
}

func TestCatalogExtensions(t *testing.T) {
	want := []event.Type{
		event.TypeTurnInterruptRequested, event.TypeTurnSteered, event.TypeSubagentOutput,
		event.TypeJobHeld, event.TypeScheduleCreated, event.TypeScheduleFired, event.TypeScheduleMissed,
		event.TypeScheduleQueued, event.TypeSchedulePaused, event.TypeScheduleResumed, event.TypeScheduleDeleted,
		event.TypeChannelPeerTaskLinked, event.TypeChannelPeerTaskUpdated,
		event.TypeChannelPeerPushConfigured, event.TypeChannelPeerPushRemoved, event.TypeChannelPeerPushReported,
		event.TypeSessionDeleted, event.TypeRuntimeChanged, event.TypePermissionReviewed,
	}
	var have []event.Type
	for _, d := range event.Catalog() {
		if d.Extension {
			have = append(have, d.Type)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("extensions, expected (-), the catalogue's (+):\n%s", diff)
	}
}

// familyExceptions are the types whose first word is not their family.
var familyExceptions = map[string]event.Family{
	"cost":       event.FamilyLimit,
	"rate_limit": event.FamilyLimit,
	"quota":      event.FamilyLimit,
}

func TestCatalogEntries(t *testing.T) {
	seen := map[event.Type]bool{}
	for _, d := range event.Catalog() {
		if seen[d.Type] {
			t.Errorf("%s is listed twice", d.Type)
		}
		seen[d.Type] = true
		checkFamily(t, d)
		switch {
		case d.By == 0:
			t.Errorf("%s: nobody may emit it", d.Type)
		case d.Since == "":
			t.Errorf("%s: no release", d.Type)
		case !strings.HasSuffix(d.Means, ".") || strings.ContainsAny(d.Means, "\n"):
			t.Errorf("%s: means %q, which is not one sentence", d.Type, d.Means)
		case d.Needs&event.Turn != 0 && d.Needs&event.Thread == 0:
			t.Errorf("%s needs a turn but no thread", d.Type)
		case d.Needs&event.JobItem != 0 && d.Needs&event.Job == 0:
			t.Errorf("%s needs a job's item but no job", d.Type)
		}
		got, ok := event.Lookup(d.Type)
		if !ok || got.Type != d.Type {
			t.Errorf("Lookup(%q) = %v, %v", d.Type, got, ok)
		}
	}
	if _, ok := event.Lookup("turn.unheard_of"); ok {
		t.Error("Lookup finds a type that nobody declared")
	}
}

func checkFamily(t *testing.T, d event.Def) {
	t.Helper()
	first, _, _ := strings.Cut(string(d.Type), ".")
	want := event.Family(first)
	if other, ok := familyExceptions[first]; ok {
		want = other
	}
	// What repairs a snapshot and what profiles a task's model belong elsewhere.
	switch d.Type {
	case event.TypeSnapshotRepaired:
		want = event.FamilyHistory
	case event.TypeTaskProfileResolved:
		want = event.FamilyRouting
	}
	if d.Family != want {
		t.Errorf("%s is in family %s, its name says %s", d.Type, d.Family, want)
	}
}

func TestNeedsNames(t *testing.T) {
	const all = event.RewardInfo<<1 - 1
	names := all.Names()
	want := []string{
		"threadId", "turnId", "taskId", "runId", "attemptId", "stepId", "toolCallId", "actionId", "subagentId",
		"artifactId", "evidenceId", "processId", "channelId", "jobId", "jobItemId", "modelRequestId",
		"refs", "benchmark", "comparison", "reward",
	}
	if !slices.Equal(names, want) {
		t.Errorf("names of all needs: %v", names)
	}
	if got := (event.Turn | event.Refs).String(); got != "turnId, refs" {
		t.Errorf("String() = %q", got)
	}
}

func TestSchemaVersion(t *testing.T) {
	if got := event.TypeTurnSubmitted.SchemaVersion(); got != event.SchemaStandard {
		t.Errorf("turn.submitted has schema version %q", got)
	}
	if got := event.TypeTurnSteered.SchemaVersion(); got != event.SchemaExtension {
		t.Errorf("turn.steered has schema version %q", got)
	}
}

// TestEndsTask: the types that end a task are in the catalogue, and no others end one.
func TestEndsTask(t *testing.T) {
	ends := []event.Type{event.TypeTaskCompleted, event.TypeTaskFailed, event.TypeTaskCancelled, event.TypeTaskTimedOut, event.TypeTaskLost}
	for _, d := range event.Catalog() {
		if d.Type.EndsTask() != slices.Contains(ends, d.Type) {
			t.Errorf("%s ends a task: %v", d.Type, d.Type.EndsTask())
		}
	}
}
