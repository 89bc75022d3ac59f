package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// commandLines are the commands of the catalogue as they are given at a shell, without
// "agentd". An empty one has no command of its own here: it is given with "agentd call".
// Names of one word, such as usage, are words of the language too and are never replaced.
var commandLines = map[string]string{
	"ack_events": "", "append_task_progress": "", "archive_sessions": "sessions archive", "archive_task": "",
	"cancel_job": "job cancel", "cancel_replay": "", "cancel_task": "", "close_subagent": "", "compact_thread": "",
	"compare_benchmark_runs": "bench compare", "complete_task": "", "connect_channel": "", "create_job": "job run",
	"create_schedule": "schedules create", "create_session": "", "create_task": "tasks create", "create_token": "tokens create",
	"delete_schedule": "schedules delete", "delete_session": "sessions delete", "disconnect_channel": "", "drain_node": "nodes drain",
	"end_benchmark_trial": "", "evaluate_permission": "", "export_benchmark_trial": "bench export", "export_evidence": "export evidence",
	"export_replay": "export replay", "export_review": "export review", "fail_task": "", "find_id": "",
	"forget_node": "nodes forget", "forget_project_rule": "policy forget", "fork_thread": "", "get_configuration": "",
	"get_diff": "diff", "get_execution_environment": "", "get_job": "job show", "get_peer_task": "", "get_peer_work": "",
	"get_policy": "policy show", "get_quotas": "quotas", "get_replay": "", "get_retention": "", "get_session": "", "get_task": "",
	"get_thread_read": "", "get_tool_inventory": "", "interrupt_turn": "interrupt", "interrupt_turns": "interrupt",
	"link_peer_task": "", "link_tasks": "", "list_accounts": "", "list_actions": "actions", "list_artifacts": "",
	"list_channels": "channels", "list_exports": "", "list_jobs": "jobs", "list_models": "", "list_nodes": "nodes",
	"list_peer_pushes": "", "list_peer_tasks": "", "list_processes": "", "list_project_rules": "policy rules",
	"list_schedules": "schedules", "list_sessions": "sessions", "list_subagents": "subagents", "list_tasks": "tasks",
	"list_tokens": "tokens list", "list_trials": "", "list_turns": "turns", "move_session": "nodes move",
	"pause_schedule": "schedules pause", "pause_task": "", "promote_queued_turn": "", "read_audit": "audit",
	"reconnect_channel": "", "record_benchmark_reward": "", "record_review": "", "remove_peer_push": "",
	"remove_queued_turn": "", "report_job_item": "", "report_peer_push": "", "resize_process": "",
	"resolve_permission": "approve", "respond_action": "approve", "respond_actions": "approve", "resume_schedule": "schedules resume",
	"resume_subagent": "", "resume_task": "", "resume_thread": "", "retry_job_item": "job retry", "retry_task": "",
	"revoke_token": "tokens revoke", "rollback_thread": "undo", "rotate_token": "tokens rotate", "run_retention": "",
	"run_schedule": "schedules run", "send_channel_message": "", "send_subagent_input": "", "set_peer_push": "",
	"set_policy": "", "set_quotas": "quotas set", "settle_peer_task": "", "spawn_subagent": "", "start_benchmark_trial": "",
	"start_job": "", "start_replay": "replay", "start_task": "", "submit_turn": "submit", "suggest_policy": "policy suggest", "terminate_process": "",
	"test_policy": "policy test", "test_reviewer": "policy test", "unlink_tasks": "", "update_peer_task": "",
	"update_session": "sessions update", "update_task": "", "update_thread": "", "wait_subagents": "", "write_process_stdin": "",
}

// commandPhrases are commands with parameters that errors name, and what they are at a shell.
var commandPhrases = strings.NewReplacer(
	"drain_node with end", `"agentd nodes undrain"`,
	"interrupt_turn with queue: clear", `"agentd interrupt --clear"`,
	"agentd policy accept, or set_policy with acceptWorkspace", `"agentd policy accept"`,
)

// namedCommand finds commands of the catalogue in a text, and what the text says of the
// command line itself.
var namedCommand = sync.OnceValue(func() *regexp.Regexp {
	names := slices.Sorted(maps.Keys(commandLines))
	slices.Reverse(names) // the longer of two that begin alike
	return regexp.MustCompile(`(agentd call )?\b(` + strings.Join(names, "|") + `)\b(?: \((agentd [a-z ]+)\))?`)
})

// lineOf returns a command of the catalogue as it is given at a shell.
func lineOf(name string) string {
	if line := commandLines[name]; line != "" {
		return "agentd " + line
	}
	return "agentd call " + name
}

// nameCommandLines has a text name the commands of this program in place of those of the
// catalogue, which errors name because most clients are programs. What the user typed stays
// as it is, and so does what is part of a path or is quoted.
func nameCommandLines(text string, typed ...string) string {
	text = commandPhrases.Replace(text)
	var out strings.Builder
	end := 0
	for _, at := range namedCommand().FindAllStringSubmatchIndex(text, -1) {
		name := text[at[4]:at[5]]
		quoted := at[0] > 0 && strings.ContainsRune(`/.-"'`+"`", rune(text[at[0]-1]))
		if at[2] >= 0 || quoted || slices.ContainsFunc(typed, func(arg string) bool { return strings.Contains(arg, name) }) {
			continue
		}
		line := lineOf(name)
		if at[6] >= 0 {
			line = text[at[6]:at[7]]
		}
		out.WriteString(text[end:at[0]] + `"` + line + `"`)
		end = at[1]
	}
	return out.String() + text[end:]
}

// inShellWords is nameCommandLines for what a command of the program failed with. The user of
// "agentd call" gave a command of the catalogue.
func inShellWords(cmd *cobra.Command, text string) string {
	if cmd == nil {
		return nameCommandLines(text)
	}
	if cmd.Name() == "call" {
		return text
	}
	return nameCommandLines(text, cmd.Flags().Args()...)
}
