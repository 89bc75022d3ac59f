package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
)

func (a *app) createTaskCommand() *cobra.Command {
	p := &command.CreateTask{}
	var wait bool
	cmd := &cobra.Command{
		Use:   "create OBJECTIVE",
		Short: "Create a task and start it, here or at another agent",
		Long: `Creates a task and starts it. agentd works on it in a thread of its own, or, with
--peer, another agent does: one that the configuration names, or the address of an
agent card. "-" reads the objective from standard input. With --json the answer is
that of create_task.

It returns when the task is durable; "agentd tasks -f" follows it. A server
carries it out; if none holds the data, the next one does when it starts. Work for
another agent needs a server that runs.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  agentd tasks create "write the report"
  agentd tasks create --peer translator "translate the report"
  agentd tasks create --later --session sess_01 "tidy up"`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			text, err := a.textOrInput(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			p.Objective, p.Start = text, !wait
			if p.Start && p.Peer == "" {
				if err := a.canWork(cmd); err != nil {
					return err
				}
			}
			return a.withValid(cmd, toAct, p, func(f facts.Source) error { return a.createTask(cmd, f, p) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Peer, "peer", "", "the other agent that works on it: its name, or its card's address")
	f.StringVar(&p.SessionID, "session", "", "the session that it belongs to; default a new one")
	f.StringVar(&p.Title, "title", "", "a short name")
	f.StringVar(&p.ParentTaskID, "parent", "", "the task that it is a part of")
	f.StringArrayVar(&p.DependsOn, "after", nil, "a task that must be completed first")
	f.BoolVar(&wait, "later", false, "don't start it yet")
	return a.withDataFlags(cmd)
}

func (a *app) createTask(cmd *cobra.Command, f facts.Source, p *command.CreateTask) error {
	var raw json.RawMessage
	if err := f.Do(cmd.Context(), p, &raw); err != nil {
		return err
	}
	var res command.TaskResult
	if err := json.Unmarshal(raw, &res); err != nil {
		return fmt.Errorf("result of create_task: %w", err)
	}
	if _, local := f.(*localFacts); local && p.Start {
		a.sayf("No server holds the data: the task starts when \"agentd serve\" does.")
	}
	return a.print(raw, func(out *printer) {
		out.linef("%s: task %s", res.Status, res.TaskID)
	})
}
