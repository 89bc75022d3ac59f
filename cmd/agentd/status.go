package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/fault"
)

// statusInfo is the answer of "agentd status".
type statusInfo struct {
	// Running says that a server answers; Server is what it says of itself.
	Running bool            `json:"running"`
	Data    string          `json:"data"`
	Server  json.RawMessage `json:"server,omitempty"`
	// Problem says why the state is unknown, if it is.
	Problem        string `json:"problem,omitempty"`
	PendingActions int    `json:"pendingActions"`
}

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show whether a server runs, and its state",
		Long:    "Shows whether a server holds the data, its state, and how many actions wait for an\nanswer.\n\nExit codes: 0 a server runs and is ready, 1 it doesn't, 2 usage.",
		Example: "  agentd status\n  agentd status --json\n  agentd status --server http://127.0.0.1:8700",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.load(cmd)
			if err != nil {
				return err
			}
			info, err := a.status(cmd.Context(), loaded.Config)
			if err != nil {
				return err
			}
			if err := a.print(info, func(p *printer) { info.print(p) }); err != nil {
				return err
			}
			if !info.Running || info.Problem != "" {
				return silent(exitFailed)
			}
			return nil
		},
	}
	return a.withDataFlags(cmd)
}

func (a *app) status(ctx context.Context, c *config.Config) (*statusInfo, error) {
	info := &statusInfo{Data: dataName(c)}
	r, err := a.remote(ctx, c)
	if err != nil {
		return nil, err
	}
	if r == nil {
		info.Problem = "no server holds the data"
		return info, nil
	}
	defer r.Close()
	if a.server != "" {
		info.Data = ""
	}
	if info.Server, err = r.status(ctx); err != nil {
		kind := fault.KindOf(err)
		info.Running = kind == fault.Unauthenticated || kind == fault.Forbidden // it answers, though not to us
		info.Problem = describe(err)
		return info, nil
	}
	info.Running = true
	var said struct {
		Runtime runtimeStatus `json:"runtime"`
	}
	if err := json.Unmarshal(info.Server, &said); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	info.Problem = said.Runtime.Problem
	if said.Runtime.Data != "" {
		info.Data = said.Runtime.Data
	}
	var pending command.ListActionsResult
	err = r.Do(ctx, &command.ListActions{Status: "pending", Page: command.Page{Limit: 1}}, &pending)
	info.PendingActions = int(pending.Total)
	return info, errors.Join(err)
}

func (s *statusInfo) print(p *printer) {
	if len(s.Server) == 0 {
		state := "not running"
		if s.Running {
			state = "running"
		}
		p.linef("%s: %s", p.Paint(terminal.Yellow, state), s.Problem)
		if s.Data != "" {
			p.linef("data: %s", s.Data)
		}
		return
	}
	var said struct {
		Version       string        `json:"version"`
		UptimeSeconds int64         `json:"uptimeSeconds"`
		Connections   int64         `json:"connections"`
		Streams       int64         `json:"streams"`
		Runtime       runtimeStatus `json:"runtime"`
	}
	_ = json.Unmarshal(s.Server, &said) // status has read it once already
	state := p.Paint(terminal.Green, "ready")
	if s.Problem != "" {
		state = p.Paint(terminal.Red, "not ready: "+s.Problem)
	}
	up := (time.Duration(said.UptimeSeconds) * time.Second).String()
	if said.Runtime.PID == 0 { // the token isn't an admin's
		p.linef("%s: agentd %s, up %s", state, said.Version, up)
	} else {
		p.linef("%s: agentd %s on %s, process %d, up %s", state, said.Version, said.Runtime.Listen, said.Runtime.PID, up)
		p.linef("data: %s (%s, version %d)", s.Data, said.Runtime.Engine, said.Runtime.Format)
	}
	wait := terminal.Plural(int64(s.PendingActions), "action") + " wait"
	if s.PendingActions == 1 {
		wait += "s"
	}
	p.linef("%s, %s, %s for an answer", terminal.Plural(said.Connections, "connection"), terminal.Plural(said.Streams, "stream"), wait)
	if key := said.Runtime.EvidenceKeyID; key != "" {
		p.linef("signs with the key %s", terminal.Plain(key))
	}
	if r := &said.Runtime; r.Retention != "" || r.RemovedEvents > 0 {
		kept := "for ever"
		if r.Retention != "" {
			kept = "for " + terminal.Plain(r.Retention)
		}
		p.linef("events of idle sessions are kept %s; removed since the start: %s of %s", kept, terminal.Plural(r.RemovedEvents, "event"), terminal.Plural(r.RemovedFrom, "session"))
	}
	for _, r := range said.Runtime.Recovery {
		p.linef("%s %s", p.Paint(terminal.Yellow, "at the start:"), terminal.Plain(r))
	}
}
