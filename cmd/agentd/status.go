package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
)

// statusInfo is the answer of "agentd status".
type statusInfo struct {
	// Running says that a server answers; Server is what it says of itself.
	Running bool            `json:"running"`
	Data    string          `json:"data"`
	Server  json.RawMessage `json:"server,omitempty"`
	// Problem says why the server isn't ready, or why its state is unknown.
	Problem string `json:"problem,omitempty"`
	// PendingActions is absent if it can't be known.
	PendingActions *int64 `json:"pendingActions,omitempty"`
}

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show whether a server runs, and its state",
		Long:    "Shows whether a server holds the data, its state, and how many actions wait for an\nanswer.\n\nExit codes: 0 a server runs and is ready, 1 it doesn't, or starts, is drained or\ncan't write, 2 usage.",
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
	ctx = context.WithValue(ctx, asItIs{}, true)
	if a.server != "" {
		info.Data = ""
	}
	if info.Server, err = r.status(ctx); err != nil {
		_, silent := errors.AsType[*url.Error](err)
		info.Running = !silent // it answers, though it starts, or not to us
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
	if info.Problem = said.Runtime.Problem; info.Problem == "" && !said.Runtime.Ready {
		info.Problem = "it can't carry out commands now; an admin's token is told why"
	}
	if said.Runtime.Data != "" {
		info.Data = said.Runtime.Data
	}
	if info.Problem != "" { // then it may not answer this
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, statusWithin)
		defer cancel()
	}
	var pending command.ListActionsResult
	switch err = r.Do(ctx, &command.ListActions{Status: "pending", Page: command.Page{Limit: 1}}, &pending); {
	case err == nil:
		info.PendingActions = &pending.Total
	case info.Problem == "":
		return info, err
	}
	return info, nil
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
		state = p.Paint(terminal.Red, "not ready: "+terminal.Plain(s.Problem))
	}
	up := (time.Duration(said.UptimeSeconds) * time.Second).String()
	if said.Runtime.PID == 0 { // the token isn't an admin's
		p.linef("%s: agentd %s, up %s", state, said.Version, up)
	} else {
		p.linef("%s: agentd %s on %s, process %d, up %s", state, said.Version, said.Runtime.Listen, said.Runtime.PID, up)
		p.linef("data: %s (%s, version %d)", s.Data, said.Runtime.Engine, said.Runtime.Format)
		if n := &said.Runtime; n.NodeID != "" && n.NodeID != n.RuntimeID { // not of a data directory, nor of earlier versions
			p.linef("node: %s, %s", terminal.Plain(n.NodeID), terminal.Plain(n.NodeState))
		}
	}
	wait := "it isn't known how many actions wait"
	if n := s.PendingActions; n != nil {
		wait = terminal.Plural(*n, "action") + " wait"
		if *n == 1 {
			wait += "s"
		}
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
	if b := said.Runtime.Blobs; b != nil {
		p.linef("blobs: %s moved to %s", terminal.Plural(b.Moved, "content"), terminal.Plain(b.Location))
		if b.Problem != "" {
			p.linef("%s %s", p.Paint(terminal.Yellow, "blobs there can't be reached:"), terminal.Plain(b.Problem))
		}
	}
	for _, r := range said.Runtime.Recovery {
		p.linef("%s %s", p.Paint(terminal.Yellow, "at the start:"), terminal.Plain(r))
	}
}
