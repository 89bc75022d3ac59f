package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"agentd/channel/acp"
	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

func (a *app) acpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Run as an editor's agent over standard input and output",
		Long: `Speaks the Agent Client Protocol, version 1, over standard input and output,
so that an editor that knows the protocol can use agentd as its agent.
Standard output carries only the protocol; the log goes to standard error.

It talks to your own server, which is started if it doesn't run, or to the one
that --server names. The editor may then disconnect at any time: turns go on, and
open questions stay open. With --data and no server that holds it, it opens the
data itself, for as long as the editor runs it; unfinished work continues when
the editor opens the session again.

Exit codes: 0 the editor ended it, 1 failed, 2 usage.`,
		Example: `  agentd acp
  agentd acp --server http://127.0.0.1:8700
  agentd acp --config agentd.yaml`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFacts(cmd, toRun, func(f facts.Source) error { return a.acp(cmd, f) })
		},
	}
	return a.withDataFlags(cmd)
}

// acp serves one editor.
func (a *app) acp(cmd *cobra.Command, f facts.Source) error {
	loaded, err := a.load(cmd)
	if err != nil {
		return err
	}
	c := loaded.Config
	opt := acp.Options{Version: a.version, Logger: a.quiet(c, cmd.Flags().Changed("log-level"))}
	if r, remote := f.(*remoteFacts); remote {
		opt.Runtime, opt.Models = &remoteRuntime{r}, r.models
	} else {
		l := f.(*localFacts)
		opt.Runtime, opt.Caller, opt.Root, opt.TakeUp = &backend{Port: l.runtime.Port(), store: l.store}, l.caller, c.Workspace.Root, l.runtime.TakeUp
		opt.Models = func(context.Context) ([]acp.Model, error) { return a.acpModels(c), nil }
	}
	opt.Caller.Actor = event.Actor{Kind: "channel", ID: "acp"}
	return acp.New(opt).Serve(cmd.Context(), a.in, a.out)
}

// acpModels are the models of the configuration.
func (a *app) acpModels(c *config.Config) []acp.Model {
	var out []acp.Model
	for _, id := range a.modelIDs(c) {
		out = append(out, acp.Model{ID: id, Default: len(out) == 0})
	}
	return out
}

// modelIDs lists the configured models as "provider/model", the default first.
func (a *app) modelIDs(c *config.Config) []string {
	var out []string
	for _, p := range a.providersOf(c) {
		for _, m := range modelsOf(p, "") {
			out = append(out, m.ID())
		}
	}
	for i, id := range out {
		if id == c.Routing.Default {
			copy(out[1:i+1], out[:i])
			out[0] = id
		}
	}
	return out
}

// models asks a server for its models; the first is the default.
func (r *remoteFacts) models(ctx context.Context) ([]acp.Model, error) {
	res, err := r.send(ctx, http.MethodGet, "/v1/models", nil)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil // a server that doesn't tell offers no choice
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&list); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	var out []acp.Model
	for _, m := range list.Data {
		if m.ID != agentModel {
			out = append(out, acp.Model{ID: m.ID, Default: len(out) == 0})
		}
	}
	return out, nil
}

// agentModel is the name under which a server offers its agent as a model.
const agentModel = "agentd"

// remoteRuntime is a server as a [command.Runtime], for adapters that run beside
// it. The server knows the caller by its token.
type remoteRuntime struct{ r *remoteFacts }

var _ command.Runtime = (*remoteRuntime)(nil)

// Do implements [command.Runtime]. The result is what the server sent.
func (m *remoteRuntime) Do(ctx context.Context, _ command.Caller, p command.Params) (any, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var result json.RawMessage
	if err := m.r.Do(ctx, p, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// Events implements [command.Runtime].
func (m *remoteRuntime) Events(ctx context.Context, _ command.Caller, sessionID string, after uint64, limit int) ([]command.Delivered, uint64, error) {
	page, last, err := m.r.Page(ctx, sessionID, after, limit)
	out := make([]command.Delivered, len(page))
	for i, f := range page {
		out[i] = command.Delivered{SessionID: sessionID, Sequence: f.Sequence, Data: f.Data}
	}
	return out, last, err
}

// Oldest implements [command.Runtime].
func (m *remoteRuntime) Oldest(ctx context.Context, c command.Caller, sessionID string) (uint64, error) {
	page, _, err := m.Events(ctx, c, sessionID, 0, 1)
	if err != nil || len(page) == 0 {
		return 1, err
	}
	return page[0].Sequence, nil
}

// Subscribe implements [command.Runtime].
func (m *remoteRuntime) Subscribe(ctx context.Context, _ command.Caller, sessionID string, after uint64) (command.Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &remoteStream{facts: make(chan facts.News, 64), stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for f, err := range m.r.Follow(ctx, sessionID, after, nil) {
			select {
			case s.facts <- facts.News{Fact: f, Err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	s.id = sessionID
	return s, nil
}

// errNotRemote says that an adapter asked for what it can't have beside a server.
var errNotRemote = errors.New("not offered beside a server")

// SubscribeAll implements [command.Runtime]; no adapter beside a server needs it.
func (m *remoteRuntime) SubscribeAll(context.Context, command.Caller, string) (command.Stream, error) {
	return nil, errNotRemote
}

// Output implements [command.Runtime]; no adapter beside a server needs it.
func (m *remoteRuntime) Output(context.Context, command.Caller, string) (*command.Output, error) {
	return nil, errNotRemote
}

// remoteStream is a stream of a server.
type remoteStream struct {
	id    string
	facts chan facts.News
	stop  context.CancelFunc
	done  chan struct{}
	ended error
}

// Next implements [command.Stream].
func (s *remoteStream) Next(ctx context.Context) ([]command.Delivered, error) {
	if s.ended != nil {
		return nil, s.ended
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case t := <-s.facts:
		if t.Err != nil {
			s.ended = t.Err
			return nil, t.Err
		}
		return []command.Delivered{{SessionID: s.id, Sequence: t.Fact.Sequence, Data: t.Fact.Data}}, nil
	}
}

// Close implements [command.Stream].
func (s *remoteStream) Close() {
	s.stop()
	<-s.done
}
