package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/rundir"
	"agentd/cmd/agentd/internal/terminal"
)

func (a *app) daemonCommand() *cobra.Command {
	return parent("daemon", "Look at your own server, start and stop it",
		`Your own server carries out what commands without --data, --server and
AGENTD_DATA ask for. They start it in the background when it doesn't run, and it
ends when it has had neither clients nor work for some time (daemon.idle). All
your terminals, editors and scripts share it.

A command that would start it with another program, configuration or key
replaces it: running steps reach their next durable fact, and sessions go on in
the new one. What was replaced doesn't come back by itself while others use the
server: "agentd daemon restart" switches it.

Exit codes: those of its commands.`,
		"  agentd daemon status\n  agentd daemon logs --follow\n  agentd daemon restart",
		a.daemonStatus(), a.daemonStart(), a.daemonStop(), a.daemonRestart(), a.daemonLogs(), a.daemonUnit(), a.daemonRun())
}

// daemonInfo is the answer of "daemon status", "start", "stop" and "restart".
type daemonInfo struct {
	Running bool   `json:"running"`
	Data    string `json:"data"`
	// Background says that commands may replace it, and that it ends when it is idle.
	Background bool      `json:"background"`
	PID        int       `json:"pid,omitempty"`
	URL        string    `json:"url,omitempty"`
	Socket     string    `json:"socket,omitempty"`
	Version    string    `json:"version,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	// Connections and Streams are open now, the ones that asked left out.
	Connections int64 `json:"connections"`
	Streams     int64 `json:"streams"`
	// Outdated says what the next turn replaces it for; empty if it doesn't.
	Outdated string `json:"outdated,omitempty"`
	// Changed says whether the command did something.
	Changed bool `json:"changed"`
	// idle says what holds if it doesn't run; empty for what "daemon status" says.
	idle string
}

// ownConfig loads the configuration of a command about the user's own server.
func (a *app) ownConfig(cmd *cobra.Command) (*config.Config, error) {
	loaded, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	switch c := loaded.Config; {
	case !rundir.Supported:
		return nil, usagef("servers in the background are not supported on this system; use \"agentd serve\"")
	case c.DataChosen():
		return nil, usagef("your own server keeps its data in your own directory, and another one is named with AGENTD_DATA or in the configuration: %v; use \"agentd status\" and \"agentd serve\" for that one", redacted(c.Data))
	default:
		return c, nil
	}
}

// daemonInfoOf asks the server of a note about itself; nil is none.
func (a *app) daemonInfoOf(ctx context.Context, c *config.Config, n *serverNote) (*daemonInfo, error) {
	info := &daemonInfo{Data: dataName(c)}
	if n == nil {
		return info, nil
	}
	r, err := newOwnRemote(a, c, n, "", "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := r.status(ctx)
	if err != nil {
		return nil, err
	}
	var said struct {
		Version     string        `json:"version"`
		Connections int64         `json:"connections"`
		Streams     int64         `json:"streams"`
		Runtime     runtimeStatus `json:"runtime"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	info.Running, info.Background, info.PID, info.URL, info.Socket = true, n.Background, said.Runtime.PID, n.URL, n.Socket
	info.Version, info.StartedAt, info.Connections, info.Streams = said.Version, n.StartedAt, max(0, said.Connections-1), said.Streams
	info.Outdated = a.outdated(c, n)
	return info, nil
}

func (a *app) printDaemon(info *daemonInfo) error {
	return a.print(info, func(p *printer) {
		if !info.Running {
			p.linef("%s", cmp.Or(info.idle, p.Paint(terminal.Yellow, "not running")+"; the next command starts it"))
			p.linef("data: %s", info.Data)
			return
		}
		kind := "in the background"
		if !info.Background {
			kind = "started with agentd serve"
		}
		p.linef("%s: agentd %s, process %d, %s since %s", p.Paint(terminal.Green, "running"), terminal.Plain(info.Version), info.PID, kind, ago(info.StartedAt))
		p.linef("data: %s", info.Data)
		p.linef("at: %s", terminal.Plain(info.URL))
		p.linef("%s, %s", terminal.Plural(info.Connections, "connection"), terminal.Plural(info.Streams, "stream"))
		if info.Outdated != "" {
			p.linef("%s it was started with %s; the next turn from here replaces it", p.Paint(terminal.Yellow, "outdated:"), info.Outdated)
		}
	})
}

// daemonVerb returns a command about the server that does something and prints what
// holds then.
func (a *app) daemonVerb(use, short, long, example string, do func(context.Context, *config.Config) (*daemonInfo, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.ownConfig(cmd)
			if err != nil {
				return err
			}
			info, err := do(cmd.Context(), c)
			if err != nil {
				return err
			}
			if err := a.printDaemon(info); err != nil || use != "status" || info.Running {
				return err
			}
			return silent(exitFailed)
		},
	}
	return a.settings(cmd)
}

func (a *app) daemonStatus() *cobra.Command {
	return a.daemonVerb("status", "Show whether your server runs",
		"Shows whether your server runs, where, since when and for how many. It starts\nnothing.\n\nExit codes: 0 it runs, 1 it doesn't, 2 usage.",
		"  agentd daemon status\n  agentd daemon status --json",
		func(ctx context.Context, c *config.Config) (*daemonInfo, error) {
			n, err := a.liveNote(ctx, c)
			if err != nil {
				return nil, err
			}
			return a.daemonInfoOf(ctx, c, n)
		})
}

func (a *app) daemonStart() *cobra.Command {
	return a.daemonVerb("start", "Start your server in the background",
		"Starts your server in the background unless it runs, and returns when it is ready.\nOther commands do the same by themselves.\n\nExit codes: 0 it runs, 1 it can't be started, 2 usage.",
		"  agentd daemon start",
		func(ctx context.Context, c *config.Config) (*daemonInfo, error) {
			before, err := a.liveNote(ctx, c)
			if err != nil {
				return nil, err
			}
			return a.startedInfo(ctx, c, before)
		})
}

// startedInfo starts the server if it doesn't run, or runs with something else, and says
// what holds then.
func (a *app) startedInfo(ctx context.Context, c *config.Config, before *serverNote) (*daemonInfo, error) {
	n, err := a.ensureServer(ctx, c, true)
	if err != nil {
		return nil, err
	}
	info, err := a.daemonInfoOf(ctx, c, n)
	if err == nil {
		info.Changed = before == nil || before.Token != n.Token
	}
	return info, err
}

func (a *app) daemonStop() *cobra.Command {
	return a.daemonVerb("stop", "Stop your server",
		"Asks your server to end and waits for it: running steps reach their next durable\nfact, at most 10 s, and the next server continues them. Clients that are open\nstart it again when they need it.\n\nExit codes: 0 it doesn't run any more, 1 failed, 2 usage.",
		"  agentd daemon stop", a.stopOwn)
}

func (a *app) stopOwn(ctx context.Context, c *config.Config) (*daemonInfo, error) {
	n, err := a.liveNote(ctx, c)
	if err != nil || n == nil {
		return &daemonInfo{Data: dataName(c), idle: "not running, so there is nothing to stop; the next command starts it"}, err
	}
	if !n.Background {
		return nil, fmt.Errorf("the server that holds your data was started with \"agentd serve\" (process %d); stop it where it was started", n.PID)
	}
	if err := stopNoted(ctx, n); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// A server that ends takes its note away as the last but one thing; the next one
		// has a token of its own.
		if kept, err := readNote(c.Local()); err != nil || kept == nil || kept.Token != n.Token {
			return &daemonInfo{Data: dataName(c), Changed: true, idle: "stopped; not running until the next command starts it"}, err
		}
		select {
		case <-wait.Done():
			return nil, fmt.Errorf("process %d was asked to end and still runs", n.PID)
		case <-tick.C:
		}
	}
}

func (a *app) daemonRestart() *cobra.Command {
	return a.daemonVerb("restart", "Stop your server and start it again",
		"Stops your server as \"agentd daemon stop\" does and starts it again with the\nconfiguration and the environment of this command. Sessions go on.\n\nExit codes: 0 it runs, 1 failed, 2 usage.",
		"  agentd daemon restart",
		func(ctx context.Context, c *config.Config) (*daemonInfo, error) {
			if err := a.checkStart(c); err != nil {
				return nil, err
			}
			if _, err := a.stopOwn(ctx, c); err != nil {
				return nil, err
			}
			return a.startedInfo(ctx, c, nil)
		})
}

func (a *app) daemonRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Be your server, in the foreground",
		Long: `Is your server, in this process: what commands start in the background, and what
a unit of the service manager runs. It listens on the socket that the service
manager hands over (LISTEN_FDS), or else on one of its own, and ends when it is
idle.

Exit codes: 0 stopped as asked or idle, 1 failed, 2 usage or configuration.`,
		Example: "  agentd daemon run",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ready := a.readyPipe()
			s, err := a.ownServing(cmd)
			if err == nil {
				s.ready = ready
				err = s.run(cmd.Context())
			}
			ready.tellOutcome(err) // unless it was told already
			return err
		},
	}
	return a.settings(cmd)
}

// ownServing is the user's server, ready to be run.
func (a *app) ownServing(cmd *cobra.Command) (*serving, error) {
	asked, err := a.ownConfig(cmd)
	if err != nil {
		return nil, err
	}
	loaded, err := a.loadOnly(cmd)
	if err != nil {
		return nil, err
	}
	c := loaded.Config
	if c.Socket, err = rundir.Socket(a.getenv, dataName(c)); err != nil {
		return nil, err
	}
	a.background = true
	c.TLS.Cert, c.TLS.Key = "", "" // a socket of this machine
	if !c.WorkspaceChosen() {
		// Clients say where their sessions work; MCP servers, and sessions of others, are
		// in a folder that is no one's project.
		if c.Workspace.Root = config.ScratchHome(a.getenv); c.Workspace.Root == "" {
			return nil, errNoHome
		}
		if err := os.MkdirAll(c.Workspace.Root, 0o700); err != nil {
			return nil, fmt.Errorf("workspace: %w", err)
		}
	}
	s := &serving{app: a, loaded: loaded, sources: a.sources(cmd), background: true, asked: asked}
	s.log, s.level = a.logger(c)
	return s, nil
}
