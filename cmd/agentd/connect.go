package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd"
	"agentd/client"
	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/command"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
)

// need says what a command wants of a data directory that no server holds.
type need int

const (
	// toLook reads, or writes facts that a later server acts on.
	toLook need = iota
	// toRun carries out turns in this process, and makes the store if there is none.
	toRun
	// toAct needs the loop as toRun does, but facts that are there already.
	toAct
	// toServe carries out turns as toRun does, and takes up what others left as a
	// server does.
	toServe
)

// connect finds the facts that a command line means: the server of --server; with
// data that was named, the server that holds it or the data itself; else the user's own
// server.
func (a *app) connect(cmd *cobra.Command, n need) (facts.Source, error) {
	loaded, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	ctx, c := cmd.Context(), loaded.Config
	if a.ownServer(c) {
		return a.attach(cmd, c, n)
	}
	remote, err := a.remote(ctx, c)
	if err != nil {
		return nil, err
	}
	if remote != nil {
		return remote, nil
	}
	return a.openLocal(ctx, c, n, a.quiet(c, cmd.Flags().Changed("log-level")))
}

// remote returns the server to talk to, or nil if there is none.
func (a *app) remote(ctx context.Context, c *config.Config) (*remoteFacts, error) {
	if a.server != "" {
		return dialServer(a.server, a.token(c))
	}
	if err := a.checkData(c); err != nil {
		return nil, err
	}
	note, err := trustedNote(c.Local())
	if err != nil || note == nil || note.Data != dataName(c) {
		return nil, err
	}
	r, err := dialNote(c.Local(), note)
	if err != nil {
		return nil, err
	}
	probe, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if _, err := r.status(probe); err != nil {
		// The note is of a server that is gone; whether the data is free says the
		// store's lock.
		return nil, errors.Join(r.Close(), ctx.Err())
	}
	return r, nil
}

// answerWithin is how long a server of this machine may take to answer. If it is gone, the
// kernel refuses at once; one that is only slow still has the data.
const answerWithin = 30 * time.Second

// token returns the token for a server that was named: the environment's, else
// the one that a first start left in the directory of this machine.
func (a *app) token(c *config.Config) string {
	if t := a.env["AGENTD_TOKEN"]; t != "" {
		return t
	}
	kept, err := os.ReadFile(filepath.Join(c.Local(), adminTokenFile))
	if err != nil || !a.trustsData(c) {
		return ""
	}
	return strings.TrimSpace(string(kept))
}

// settleTime is how long the start of a server, or a turn of this process, waits for
// MCP servers.
var settleTime = 10 * time.Second

// localFacts is a data directory that this process opened.
type localFacts struct {
	store   store.Store
	manager *session.Manager // if this process carries out no turns
	reads   *agentd.ReadSide // beside the manager
	runtime *agentd.Runtime  // if this process does
	wired   *wiring
	caller  command.Caller
	// commands are those that the manager carries out.
	commands *command.Table
	// node reaches one of the nodes that share the database.
	node func(address string) (*remoteFacts, error)
}

func (a *app) openLocal(ctx context.Context, c *config.Config, n need, log *slog.Logger) (*localFacts, error) {
	var s store.Store
	var err error
	if n == toRun || n == toServe {
		s, err = a.openStore(ctx, c, node{}, log)
	} else {
		s, err = openExisting(ctx, c, a.env, log)
	}
	if err != nil {
		return nil, err
	}
	l := &localFacts{store: s, caller: command.Local(), node: func(address string) (*remoteFacts, error) {
		return dialServer(address, a.token(c))
	}}
	if err := l.start(ctx, a, c, n, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return l, nil
}

func (l *localFacts) start(ctx context.Context, a *app, c *config.Config, n need, log *slog.Logger) error {
	if n != toLook {
		var err error
		if l.wired, err = a.wire(ctx, c, l.store, log); err != nil {
			return err
		}
		if n != toServe {
			l.wired.options.Recovery = "none" // only a server takes up what others left
		}
		if n == toRun || n == toServe { // a turn can't wait for tools that come later
			wait, cancel := context.WithTimeout(ctx, settleTime)
			l.wired.settle(wait)
			cancel()
		}
		if l.runtime, err = agentd.Open(ctx, l.wired.options); err == nil {
			l.wired.opened(ctx, l.runtime)
		}
		return err
	}
	id, err := runtimeID(ctx, c, l.store)
	if err != nil {
		return err
	}
	l.manager = session.New(session.Options{
		Store: l.store, RuntimeID: id, Logger: log, InlineBytes: int(c.Outputs.InlineBytes), Quotas: c.Quotas.Policy(), CheckAnswer: agentd.CheckDocument,
	})
	redactor := a.redactor(c)
	l.commands = command.NewTable(command.TableOptions{
		Repeats: l.manager, Redact: func(p command.Params) (command.Params, error) { return agentd.RedactParams(redactor, p) },
	})
	l.manager.Register(l.commands)
	l.reads = agentd.NewReadSide(agentd.ReadSideOptions{Store: l.store, Sessions: func() *session.Manager { return l.manager }, Logger: log})
	l.reads.Register(l.commands)
	l.reads.Start(ctx)
	return nil
}

func (l *localFacts) Live() bool { return l.runtime != nil }

func (*localFacts) Remote() bool { return false }

func (l *localFacts) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	open := l.manager.Output
	if l.runtime != nil {
		open = l.runtime.Output
	}
	b, _, err := open(ctx, l.caller, ref)
	return b, err
}

func (l *localFacts) TakeUp(ctx context.Context, sessionID string) error {
	if l.runtime == nil {
		return nil
	}
	if err := l.runtime.TakeUp(ctx, sessionID); err != nil {
		return fmt.Errorf("session %s could not be continued: %w", sessionID, err)
	}
	return nil
}

func (l *localFacts) Do(ctx context.Context, p command.Params, result any) error {
	do := l.commands.Do
	if l.runtime != nil {
		do = l.runtime.Do
	}
	res, err := do(ctx, l.caller, p)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Elsewhere != "" && l.node != nil {
		return l.throughNode(ctx, f, p, result)
	}
	if err != nil || result == nil {
		return err
	}
	data, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("result of %s: %w", p.Command(), err)
	}
	return json.Unmarshal(data, result)
}

// throughNode has the node carry out a command that has its session.
func (l *localFacts) throughNode(ctx context.Context, why *fault.Error, p command.Params, result any) error {
	r, err := l.node(why.Elsewhere)
	if err != nil {
		return errors.Join(why, err)
	}
	defer func() { _ = r.Close() }() // it only gives connections up
	err = r.Do(ctx, p, result)
	if fault.KindOf(err) == fault.Unauthenticated {
		return fault.Wrap(fault.Unauthenticated, err, "%s, which doesn't know the token of this folder; set AGENTD_TOKEN", why.Detail)
	}
	return err
}

func (l *localFacts) Page(ctx context.Context, sessionID string, after uint64, limit int) ([]facts.Fact, uint64, error) {
	read := l.manager.Events
	if l.runtime != nil {
		read = l.runtime.Events
	}
	records, last, err := read(ctx, l.caller, sessionID, after, limit)
	if removed, ok := errors.AsType[*store.TrimmedError](err); ok {
		records, last, err = read(ctx, l.caller, sessionID, removed.Through, limit)
	}
	return factsOf(records), last, err
}

func factsOf(records []store.Record) []facts.Fact {
	out := make([]facts.Fact, len(records))
	for i, r := range records {
		out[i] = facts.Fact{Sequence: r.Sequence, Data: r.Data}
	}
	return out
}

func (l *localFacts) Follow(ctx context.Context, sessionID string, after uint64, _ *client.FollowOptions) iter.Seq2[facts.Fact, error] {
	return func(yield func(facts.Fact, error) bool) {
		sub, err := l.runtime.Subscribe(ctx, l.caller, sessionID, after)
		if err != nil {
			yield(facts.Fact{}, err)
			return
		}
		defer sub.Close()
		for {
			records, err := sub.Next(ctx)
			if err != nil {
				yield(facts.Fact{}, err)
				return
			}
			for _, f := range factsOf(records) {
				if !yield(f, nil) {
					return
				}
			}
		}
	}
}

func (l *localFacts) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var err error
	if l.runtime != nil {
		err = l.runtime.Close(ctx)
	}
	if l.manager != nil {
		l.reads.Close()
		err = l.manager.Close(ctx)
	}
	if l.wired != nil {
		err = errors.Join(err, l.wired.close())
	}
	return errors.Join(err, l.store.Close())
}
