package main

import (
	"fmt"
	"sync"
	"testing"

	"agentd/client"
	"agentd/command"
	"agentd/event"
)

// TestTwoNodesMakeTheSameAtOnce: callers who give the same id to something new at two nodes at the
// same time get what they would get one after the other, with every command that takes such an id.
// The one that is too late leaves no session behind.
func TestTwoNodesMakeTheSameAtOnce(t *testing.T) {
	a, b := nodes(t)
	made := call[command.CreateSessionResult](a, &command.CreateSession{})
	makers := map[string]func(id string) command.Params{
		"session": func(id string) command.Params { return &command.CreateSession{SessionID: id} },
		"channel": func(id string) command.Params {
			return &command.ConnectChannel{ChannelID: id, Transport: "sse", PeerRole: "client"}
		},
		"turn": func(id string) command.Params {
			return &command.SubmitTurn{SessionID: made.SessionID, TurnID: id, Input: event.Raw(`"hello"`)}
		},
		"first": func(id string) command.Params {
			return &command.SubmitTurn{SessionID: "sess_" + id, Create: true, TurnID: id, Input: event.Raw(`"hello"`)}
		},
		"task": func(id string) command.Params {
			return &command.CreateTask{TaskID: id, Objective: "wait", Worker: "external"}
		},
		"schedule": func(id string) command.Params {
			return &command.CreateSchedule{ScheduleID: id, Title: "hourly", EveryMs: 3_600_000, Task: event.Raw(`{"objective":"wait","worker":"external"}`)}
		},
		"job": func(id string) command.Params {
			return &command.CreateJob{JobID: id, Instruction: "wait", Items: []command.JobItemInput{{Input: event.Raw(`1`)}}, Start: new(bool)}
		},
	}
	for kind, params := range makers {
		t.Run(kind, func(t *testing.T) {
			const rounds = 10
			before := call[command.ListSessionsResult](a, &command.ListSessions{}).Total
			for round := range rounds {
				p := params(fmt.Sprintf("%s_%d", kind, round))
				var said [2]string
				var both sync.WaitGroup
				for i, node := range []*process{a, b} {
					both.Go(func() { said[i] = saidTo(node, p) })
				}
				both.Wait()
				again := saidTo(a, p)
				for i, s := range said {
					if s != "done" && s != again {
						t.Errorf("round %d: node %d says %q, and %q to the same later", round, i, s, again)
					}
				}
				if said[0] != "done" && said[1] != "done" {
					t.Errorf("round %d: nothing was made: %q", round, said)
				}
			}
			if n := call[command.ListSessionsResult](a, &command.ListSessions{}).Total - before; n > rounds {
				t.Errorf("%d new sessions for %d ids", n, rounds)
			}
		})
	}
}

// saidTo is what a node answers to a command, but for what it made.
func saidTo(p *process, params command.Params) string {
	if _, err := client.Call[map[string]any](p.t.Context(), p.client(), params); err != nil {
		return err.Error()
	}
	return "done"
}
