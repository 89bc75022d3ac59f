package main

import (
	"agentd/channel/agui"
	"agentd/command"
	"agentd/server"
)

// aguiMount is the address of runs for front ends that speak AG-UI.
func (s *serving) aguiMount(rt command.Runtime) server.Mount {
	return server.Mount{Prefix: "/agui", Handler: agui.New(agui.Options{
		Runtime: &permitted{rt}, Caller: callerOf, PassOn: server.PassOn, Logger: s.log,
	})}
}
