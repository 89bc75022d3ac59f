package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

// taskFlags say which tasks "tasks" shows, and how.
type taskFlags struct {
	list   command.ListTasks
	tree   bool
	follow bool
	turns  bool
}

func (a *app) tasksCommand() *cobra.Command {
	o := &taskFlags{}
	cmd := &cobra.Command{
		Use:   "tasks",
		Short: "List tasks with their progress",
		Long: `Lists tasks with their progress. With --tree each is shown below its parent
task, with the tasks it waits for. With -f changes in a session are shown as
they come, until the command is stopped: on a terminal the list is redrawn, in a
pipe each change is a line. With --json the answer is that of list_tasks, and
with -f each line is a fact about a task.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd tasks\n  agentd tasks --tree --session sess_01\n  agentd tasks -f --session sess_01\n  agentd tasks --status blocked --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.list.Validate(); err != nil {
				return &exitError{exitUsage, err}
			}
			if o.turns && o.list.SessionID == "" {
				return usagef("--turns lists the tasks of one session's turns; name it with --session (agentd turns lists the turns of all sessions)")
			}
			if o.follow && o.list.SessionID == "" {
				return usagef("-f follows one session; name it with --session")
			}
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.tasks(cmd.Context(), f, o) })
		},
	}
	cmd.Flags().BoolVar(&o.tree, "tree", false, "show parts below their parent task")
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "show changes as they come")
	cmd.Flags().BoolVar(&o.turns, "turns", false, "include the implicit tasks of the turns of --session")
	cmd.Flags().StringVar(&o.list.SessionID, "session", "", "only those of this session")
	cmd.Flags().StringVar(&o.list.Status, "status", "", "only those with this status")
	cmd.Flags().StringVar(&o.list.ParentTaskID, "parent", "", "only the parts of this task")
	addNarrowFlags(cmd, &o.list.Narrowing, &o.list.Sort, "id, created, updated, title or cost")
	addPageFlags(cmd, &o.list.Page)
	cmd.AddCommand(a.createTaskCommand())
	return a.withDataFlags(cmd)
}

// taskPage is an answer of list_tasks: whole for --json, and what is shown of it.
type taskPage struct {
	Tasks      []json.RawMessage `json:"tasks"`
	Total      int64             `json:"total"`
	NextCursor string            `json:"nextCursor,omitempty"`
}

func (a *app) tasks(ctx context.Context, f facts.Source, o *taskFlags) error {
	if !o.follow {
		return a.showTasks(ctx, f, o)
	}
	return a.watch(ctx, f, watched{
		sessionID: o.list.SessionID, types: []string{"task.*"},
		show: func(ctx context.Context) error { return a.showTasks(ctx, f, o) },
	})
}

// showTasks shows the tasks as they are now.
func (a *app) showTasks(ctx context.Context, f facts.Source, o *taskFlags) error {
	var page taskPage
	if err := f.Do(ctx, &o.list, &page); err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, page)
	}
	list, err := readTasks(page.Tasks, o.turns)
	if err != nil {
		return err
	}
	return a.print(page, func(out *printer) {
		rows := [][]string{{"TASK", "STATUS", "PROGRESS", "ATTEMPTS", "UPDATED", "WHAT"}}
		for _, t := range inOrder(list, o.tree) {
			rows = append(rows, t.row())
		}
		out.table(rows, "ATTEMPTS", "UPDATED")
		a.sayMore(page.NextCursor)
	})
}

func readTasks(raw []json.RawMessage, turns bool) ([]*shownTask, error) {
	var out []*shownTask
	for _, r := range raw {
		t := &shownTask{}
		if err := json.Unmarshal(r, t); err != nil {
			return nil, fmt.Errorf("a task can't be read: %w", err)
		}
		if t.TaskKind != "turn" || turns {
			out = append(out, t)
		}
	}
	return out, nil
}

// shownTask is what the program shows of a task's record.
type shownTask struct {
	command.TaskRecord
	// indent says how deep the task stands in the tree.
	indent string
}

func (t *shownTask) row() []string {
	what := t.Title
	if what == "" {
		what = t.Objective
	}
	what = terminal.Plain(what)
	switch {
	case t.Status == "completed" || t.Status == "running":
	case len(t.Blockers) > 0:
		what += "  ← " + strings.Join(t.Blockers, ", ")
	case t.StatusReason != "":
		what += "  (" + terminal.Plain(t.StatusReason) + ")"
	}
	return []string{t.indent + t.TaskID, t.Status, t.progress(), strconv.Itoa(len(t.Attempts)), ago(t.UpdatedAt), what}
}

// progress draws how far a task is, where it says so.
func (t *shownTask) progress() string {
	if t.Progress == nil {
		return "-"
	}
	out := ""
	if p := t.Progress.Percent; p != nil {
		full := int(min(max(*p, 0), 100) / 10)
		out = fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat(".", 10-full), *p)
	}
	if t.Progress.Phase != "" {
		out = strings.TrimSpace(out + " " + terminal.Clip(terminal.Plain(t.Progress.Phase), 12))
	}
	if out == "" {
		return "-"
	}
	return out
}

// inOrder returns the tasks as they are shown: in the order of the answer, or each
// below the task that it is a part of.
func inOrder(list []*shownTask, tree bool) []*shownTask {
	if !tree {
		return list
	}
	parts := map[string][]*shownTask{}
	there := map[string]bool{}
	for _, t := range list {
		there[t.TaskID] = true
	}
	for _, t := range list {
		parent := t.ParentTaskID
		if !there[parent] {
			parent = ""
		}
		parts[parent] = append(parts[parent], t)
	}
	var out []*shownTask
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		for i, t := range parts[parent] {
			branch, below := "├─ ", "│  "
			if i == len(parts[parent])-1 {
				branch, below = "└─ ", "   "
			}
			if parent == "" {
				branch, below = "", ""
			}
			t.indent = indent + branch
			out = append(out, t)
			walk(t.TaskID, indent+below)
		}
	}
	walk("", "")
	return out
}
