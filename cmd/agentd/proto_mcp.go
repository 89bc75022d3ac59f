package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"agentd/channel/mcpserver"
	"agentd/client"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/gen"
	"agentd/server"
)

// mcpPath is where a server speaks the Model Context Protocol.
const mcpPath = "/mcp"

// mcpMount offers the runtime to MCP clients that bring a token.
func (s *serving) mcpMount(rt command.Runtime) server.Mount {
	var built atomic.Pointer[mcpserver.Server]
	// Made for the first who asks: reading the schemas of all commands takes longer
	// than the rest of the start.
	open := sync.OnceValues(func() (*mcpserver.Server, http.Handler) {
		m := s.mcpServer(rt)
		built.Store(m)
		return m, m.Handler()
	})
	s.closers = append(s.closers, func() error {
		if m := built.Load(); m != nil {
			return m.Close()
		}
		return nil
	})
	return server.Mount{
		Prefix: mcpPath,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, handler := open()
			handler.ServeHTTP(w, r)
		}),
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			m, _ := open()
			m.Refuse(w, r, err)
		},
	}
}

func (s *serving) mcpServer(rt command.Runtime) *mcpserver.Server {
	o := mcpserver.Options{
		Runtime: rt, Schema: gen.Schema, Version: s.version, Logger: s.log,
		Identify: func(r *http.Request) (mcpserver.Identity, bool) {
			caller, known := server.CallerFrom(r.Context())
			role, ok := server.RoleFrom(r.Context())
			return mcpserver.Identity{Caller: caller, Role: role, Elsewhere: elsewhere(r.Context())}, known && ok
		},
	}
	if s.others != nil {
		o.Node, o.PassOn = nodeMark(s.nodeName), s.passToNode
	}
	s.fixtures.addToMCP(&o)
	m, err := mcpserver.New(o)
	if err != nil {
		panic(err) // the schemas are part of the program
	}
	return m
}

// elsewhere has the node that owns a session carry out commands of a request.
func elsewhere(request context.Context) func(context.Context, command.Params, error, func() (any, error)) (any, error) {
	return func(ctx context.Context, p command.Params, err error, again func() (any, error)) (any, error) {
		return server.Elsewhere(ctx, request, p, err, again)
	}
}

func (a *app) mcpCommand() *cobra.Command {
	var tools string
	var fixtures fixtureFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Run as an MCP server over standard input and output",
		Long: `Speaks the Model Context Protocol over standard input and output: agentd's
commands as tools, run_turn and wait_turn for whole turns, sessions and outputs
as resources. Standard output carries only the protocol; the log goes to
standard error.

It talks to your own server, which is started if it doesn't run, or to the one
that --server names; turns then go on when the client disconnects. With --data
and no server that holds it, it opens the data itself, for as long as the client
runs it, and continues what an earlier one left unfinished. A server offers the
same over HTTP at /mcp.

--tools limits the tools that the client sees: names or patterns such as
"list_*", separated by commas.

Exit codes: 0 the client ended it, 1 failed, 2 usage.`,
		Example: `  agentd mcp
  agentd mcp --tools run_turn,wait_turn,respond_action
  agentd mcp --server http://127.0.0.1:8700`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			globs, err := mcpserver.SplitTools(tools)
			if err != nil {
				return usagef("--tools: %w", err)
			}
			return a.withFacts(cmd, toServe, func(f facts.Source) error { return a.mcp(cmd, f, globs, &fixtures) })
		},
	}
	cmd.Flags().StringVar(&tools, "tools", "", "show only these tools, such as run_turn,list_*")
	fixtures.addFlag(cmd)
	return a.withDataFlags(cmd)
}

// mcp serves one client.
func (a *app) mcp(cmd *cobra.Command, f facts.Source, tools []string, fixtures *fixtureFlags) error {
	loaded, err := a.load(cmd)
	if err != nil {
		return err
	}
	opt := mcpserver.Options{Schema: gen.Schema, Version: a.version, Logger: a.quiet(loaded.Config, cmd.Flags().Changed("log-level"))}
	fixtures.addToMCP(&opt)
	id := mcpserver.Identity{Caller: command.Local(), Role: command.RoleAdmin, Tools: tools}
	id.Caller.Actor = event.Actor{Kind: "channel", ID: "mcp"}
	if r, remote := f.(*remoteFacts); remote {
		opt.Runtime = &remoteOutputs{remoteRuntime{r}}
	} else {
		l := f.(*localFacts)
		opt.Runtime = &backend{Port: l.runtime.Port(), store: l.store}
	}
	m, err := mcpserver.New(opt)
	if err != nil {
		return err
	}
	return errors.Join(m.ServeStdio(cmd.Context(), a.in, a.out, id), m.Close())
}

// remoteOutputs is a server whose outputs can be read, too.
type remoteOutputs struct{ remoteRuntime }

// maxRemoteOutput bounds what is held in memory of an output.
const maxRemoteOutput = 64 << 20

// Output implements [command.Runtime].
func (m *remoteOutputs) Output(ctx context.Context, _ command.Caller, ref string) (*command.Output, error) {
	out, err := m.r.client.Output(ctx, ref, client.Range{})
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(out.Body, maxRemoteOutput+1))
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, fmt.Errorf("output: %w", err)
	}
	if len(data) > maxRemoteOutput {
		return nil, fault.New(fault.PayloadTooLarge, "the output is larger than %d MiB; read it over HTTP", maxRemoteOutput>>20)
	}
	return &command.Output{Content: nopSeeker{bytes.NewReader(data)}, MediaType: out.MediaType, Size: int64(len(data)), ETag: out.ETag}, nil
}

// nopSeeker closes what needs no closing.
type nopSeeker struct{ io.ReadSeeker }

// Close implements [io.Closer].
func (nopSeeker) Close() error { return nil }
