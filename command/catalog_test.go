package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentd/event"
	"agentd/fault"
)

// shared is where the wire contract lies beside a checkout.
var shared = filepath.Join("..", "..", "shared")

func TestEveryEntryIsComplete(t *testing.T) {
	seen := map[Name]bool{}
	for _, d := range Catalog() {
		if seen[d.Name] {
			t.Errorf("%s has two entries", d.Name)
		}
		seen[d.Name] = true
		if d.New().Command() != d.Name {
			t.Errorf("%s: its parameters say that they are of %s", d.Name, d.New().Command())
		}
		if d.Noun == "" || d.Since == "" || d.Doc == "" || d.Example == "" || d.Scope == "" || d.Result == nil {
			t.Errorf("%s: the entry is incomplete: %+v", d.Name, d)
		}
		if !strings.HasSuffix(d.Means, ".") || strings.Contains(d.Means, "\n") {
			t.Errorf("%s: what it means is not one sentence: %q", d.Name, d.Means)
		}
		if _, mutating := d.New().(Mutating); mutating != d.Mutates {
			t.Errorf("%s: Mutates is %v, an idempotency key: %v", d.Name, d.Mutates, mutating)
		}
		// A replay writes nothing, but takes the server's time: observers can't start one.
		timed := d.Noun == "replay" && d.Scope == RoleClient
		if reader := timed || d.Scope == RoleObserver || (d.Scope == RoleAdmin && !d.Mutates); reader == d.Mutates {
			t.Errorf("%s: mutates is %v and the role is %s", d.Name, d.Mutates, d.Scope)
		}
		if r := reflect.TypeOf(d.Result); r.Kind() != reflect.Pointer || r.Elem().Kind() != reflect.Struct {
			t.Errorf("%s: the result is a %s", d.Name, r)
		}
	}
}

func TestAvailableCommandsAreThoseThatAreCarriedOut(t *testing.T) {
	var have []string
	for _, d := range Catalog() {
		if d.Available {
			have = append(have, string(d.Name))
		}
	}
	slices.Sort(have)
	want := strings.Fields(`ack_events append_task_progress archive_sessions archive_task cancel_job cancel_replay cancel_task close_subagent
		compact_thread compare_benchmark_runs complete_task connect_channel create_job create_schedule create_session create_task
		create_token delete_schedule delete_session disconnect_channel drain_node end_benchmark_trial evaluate_permission explain
		export_benchmark_trial export_evidence export_replay export_review fail_task find_id forget_node forget_project_rule fork_thread get_configuration get_diff
		get_execution_environment get_job get_peer_task get_peer_work get_policy get_quotas get_replay get_retention get_session
		get_task get_thread_read get_tool_inventory interrupt_turn interrupt_turns link_peer_task link_tasks list_accounts
		list_actions list_artifacts list_channels list_exports list_jobs list_models list_nodes list_peer_pushes list_peer_tasks
		list_processes list_project_rules list_schedules list_sessions list_subagents list_tasks list_tokens list_trials list_turns move_session pause_schedule
		pause_task promote_queued_turn read_audit reconnect_channel record_benchmark_reward record_review remove_peer_push
		remove_queued_turn report_job_item report_peer_push resize_process resolve_permission respond_action respond_actions
		resume_schedule resume_subagent resume_task resume_thread retry_job_item retry_task revoke_token rollback_thread
		rotate_token run_retention run_schedule search send_channel_message send_subagent_input set_peer_push set_policy set_quotas
		settle_peer_task spawn_subagent start_benchmark_trial start_job start_replay start_task submit_turn suggest_policy terminate_process
		test_policy test_reviewer unlink_tasks update_peer_task update_session update_task update_thread usage wait_subagents
		write_process_stdin`)
	if !slices.Equal(have, want) {
		t.Errorf("available: %v\nwant: %v", have, want)
	}
}

func TestExamplesFitAndRoundTrip(t *testing.T) {
	for _, d := range Catalog() {
		p, err := Decode(d.Name, []byte(d.Example))
		if err != nil {
			t.Errorf("%s: the example doesn't decode: %v", d.Name, err)
			continue
		}
		encoded, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(d.Name, encoded)
		if err != nil {
			t.Errorf("%s: what the example encodes to doesn't decode: %v\n%s", d.Name, err, encoded)
			continue
		}
		if !reflect.DeepEqual(p, again) {
			t.Errorf("%s: the example changed on its way:\n%+v\n%+v", d.Name, p, again)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: the example doesn't fit: %v", d.Name, err)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: what Validate brought into its normal form doesn't fit: %v", d.Name, err)
		}
	}
}

// TestExamplesUseEveryRequiredParameter takes each member away from each
// example: a required one must then be named.
func TestExamplesUseEveryRequiredParameter(t *testing.T) {
	for _, d := range Catalog() {
		for _, name := range requiredOf(reflect.TypeOf(d.New()).Elem()) {
			var fields map[string]json.RawMessage
			if err := json.Unmarshal([]byte(d.Example), &fields); err != nil {
				t.Fatal(err)
			}
			if _, ok := fields[name]; !ok {
				t.Errorf("%s: the example lacks %s", d.Name, name)
				continue
			}
			delete(fields, name)
			body, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			wantFault(t, d.Name, string(body), name)
		}
	}
}

// requiredOf lists the required parameters at the top of a struct.
func requiredOf(t reflect.Type) []string {
	var names []string
	for sf := range t.Fields() {
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		switch {
		case sf.Anonymous:
			names = append(names, requiredOf(sf.Type)...)
		case options == "":
			names = append(names, name)
		}
	}
	return names
}

// wantFault decodes and validates a body and wants an error that names param.
func wantFault(t *testing.T, name Name, body, param string) {
	t.Helper()
	p, err := Decode(name, []byte(body))
	if err == nil {
		err = p.Validate()
	}
	if err == nil {
		t.Errorf("%s %.200s: accepted", name, body)
		return
	}
	var f *fault.Error
	if fault.KindOf(err) != fault.InvalidParams || !asFault(err, &f) {
		t.Errorf("%s %.200s: %v is not a fault of the parameters", name, body, err)
		return
	}
	if f.Param != param {
		t.Errorf("%s %.200s: names %q, want %q (%v)", name, body, f.Param, param, err)
	}
	if f.Detail == "" || len(f.Detail) > 1000 || !strings.Contains(f.Detail, param) {
		t.Errorf("%s %.200s: detail %q", name, body, f.Detail)
	}
}

func asFault(err error, into **fault.Error) bool {
	return errors.As(err, into)
}

// TestEveryListComesInPages: whatever is called list_ takes limit and cursor and answers
// with a list, the next cursor and a total.
func TestEveryListComesInPages(t *testing.T) {
	for _, d := range Catalog() {
		if !strings.HasPrefix(string(d.Name), "list_") {
			continue
		}
		if _, ok := d.Form.New().(Paged); !ok {
			t.Errorf("%s takes no limit and cursor: embed Page", d.Name)
		}
		result := reflect.TypeOf(d.Form.Result).Elem()
		if rows := result.Field(0).Type; rows.Kind() != reflect.Slice {
			t.Errorf("%s: its result begins with %s, not with a list", d.Name, rows)
		}
		for name, json := range map[string]string{"NextCursor": "nextCursor,omitempty", "Total": "total"} {
			f, ok := result.FieldByName(name)
			if !ok || f.Tag.Get("json") != json {
				t.Errorf("%s: its result has no %s", d.Name, json)
			}
		}
	}
}

func TestUnknownCommandIsNotFound(t *testing.T) {
	for _, name := range []Name{"", "no_such", "Create_Session", "create_session ", Name(strings.Repeat("x", 10_000))} {
		if _, err := Decode(name, nil); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%.40q: %v", name, err)
		}
	}
}

// contractRow matches a row of the contract's table of commands.
var contractRow = regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|")

// beyond are the commands that agentd offers beyond the contract.
var beyond = []string{
	"create_schedule", "list_schedules", "run_schedule", "pause_schedule", "resume_schedule", "delete_schedule",
	"get_peer_task", "list_peer_tasks", "settle_peer_task", "set_peer_push", "remove_peer_push", "report_peer_push", "list_peer_pushes",
	"get_peer_work", "link_peer_task", "update_peer_task", "end_benchmark_trial", "get_quotas", "report_job_item", "record_review",
	"send_channel_message", "update_thread", "interrupt_turns", "respond_actions", "archive_sessions", "list_artifacts", "list_exports", "list_models", "list_trials", "list_tokens", "create_token", "rotate_token", "revoke_token", "list_accounts", "set_quotas", "get_configuration", "get_retention", "run_retention", "list_nodes", "read_audit", "drain_node", "forget_node", "move_session", "start_replay", "get_replay", "cancel_replay",
	"list_project_rules", "forget_project_rule", "suggest_policy", "test_reviewer", "find_id",
}

func TestCatalogueIsTheContracts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(shared, "CONTRACT.md"))
	if err != nil {
		t.Skipf("skipped: the comparison of the catalogue with the wire contract (%v)", err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Commands\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var want []string
	for _, row := range contractRow.FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			want = append(want, strings.Trim(name, "`"))
		}
	}
	if len(want) < 50 {
		t.Fatalf("only %d commands were found in the contract: %v", len(want), want)
	}
	want = append(want, beyond...)
	var have []string
	for _, d := range Catalog() {
		have = append(have, string(d.Name))
	}
	slices.Sort(want)
	want = slices.Compact(want) // a row may say more of a command
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("catalogue: %v\ncontract:  %v", have, want)
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		have, need Role
		want       bool
	}{
		{RoleAdmin, RoleAdmin, true},
		{RoleAdmin, RoleObserver, true},
		{RoleClient, RoleAdmin, false},
		{RoleClient, RoleClient, true},
		{RoleObserver, RoleClient, false},
		{RoleObserver, RoleObserver, true},
		{"", RoleObserver, false},
		{"root", RoleObserver, false},
	} {
		if got := c.have.Allows(c.need); got != c.want {
			t.Errorf("%q.Allows(%q) = %v", c.have, c.need, got)
		}
	}
	for p, want := range map[Params]Role{
		&SetPolicy{}: RoleAdmin,
		&SetPolicy{SessionID: event.RuntimeSession}: RoleAdmin,
		&SetPolicy{SessionID: "sess_1"}:             RoleClient,
		&EvaluatePermission{}:                       RoleAdmin,
		&EvaluatePermission{SessionID: "sess_1"}:    RoleClient,
		&SubmitTurn{}:                               RoleClient,
		&GetSession{}:                               RoleObserver,
		unlisted{}:                                  RoleAdmin,
	} {
		if got := Need(p); got != want {
			t.Errorf("Need(%+v) = %s, want %s", p, got, want)
		}
	}
}

// unlisted is a command that the catalogue doesn't know.
type unlisted struct{}

func (unlisted) Command() Name   { return "unlisted" }
func (unlisted) Validate() error { return nil }

func TestDigestIsThatOfTheParametersAlone(t *testing.T) {
	digest := func(body string) [32]byte {
		t.Helper()
		p, err := Decode("submit_turn", []byte(body))
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			t.Fatal(err)
		}
		sum, err := Digest(p)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	base := digest(`{"sessionId":"s","input":"hi","metadata":{"a":1},"idempotencyKey":"one"}`)
	if base != digest(` { "input" : "hi", "metadata" : { "a" : 1 } , "idempotencyKey" : "two", "sessionId":"s"}`) {
		t.Error("white space, order and the key changed the digest")
	}
	if base == digest(`{"sessionId":"s","input":"ho","metadata":{"a":1}}`) {
		t.Error("another input has the same digest")
	}
	a, _ := Digest(&StartTask{TaskID: "t"})
	b, _ := Digest(&RetryTask{TaskID: "t"})
	if a == b {
		t.Error("two commands with the same parameters have the same digest")
	}
	empty, _ := Digest(&SetPolicy{SessionID: "s", Rules: []event.PolicyRule{}})
	none, _ := Digest(&SetPolicy{SessionID: "s"})
	if empty == none {
		t.Error("clearing the rules and leaving them have the same digest")
	}
}

func TestRawKeepsTheCallersJSONCompacted(t *testing.T) {
	p, err := Decode("create_session", []byte(`{"metadata": { "n" : 1.50 , "big": 123456789012345678901234567890, "s": "a  b\u00e9" } }`))
	if err != nil {
		t.Fatal(err)
	}
	want := []byte(`{"n":1.50,"big":123456789012345678901234567890,"s":"a  b\u00e9"}`)
	if got := p.(*CreateSession).Metadata; !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
