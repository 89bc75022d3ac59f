package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/event"
	"agentd/store"
	"agentd/store/pebble"
	"agentd/store/postgres"
)

// openStore opens the facts that the configuration names, and makes the store if
// there is none.
func (a *app) openStore(ctx context.Context, c *config.Config, self node, log *slog.Logger) (store.Store, error) {
	if err := a.claimData(c); err != nil {
		return nil, err
	}
	if err := checkDatabaseMark(c); err != nil {
		return nil, err
	}
	return openData(ctx, c, a.env, self, log)
}

// node is what this process is among the nodes of a database. The zero value has a name of
// its own and can't be reached.
type node struct {
	name string
	// listen begins to listen and returns the address.
	listen func(context.Context) (address string, err error)
	// reads says that this process only reads: it is no node then, and changes nothing.
	reads bool
}

func openData(ctx context.Context, c *config.Config, env map[string]string, self node, log *slog.Logger) (store.Store, error) {
	objects, err := openBucket(c, env)
	if err != nil {
		return nil, err
	}
	if c.Database() {
		s, err := postgres.Open(ctx, c.Data, &postgres.Options{
			NodeID: self.name, Listen: self.listen, Pool: c.Node.Pool, Labels: c.Node.Labels, LeaseTTL: time.Duration(c.Node.Lease), Logger: log,
			MaxConns: max(c.Node.Connections-postgres.BesidePool, 0),
			Replica:  c.Replica, ReadOnly: self.reads,
			Objects: objects, ObjectsFrom: c.Blobs.S3.From, ObjectsKept: time.Duration(c.Blobs.S3.Keep),
		})
		if err != nil {
			return nil, explain(err)
		}
		return s, nil
	}
	s, err := pebble.Open(c.Data, &pebble.Options{Logger: log})
	if err != nil {
		return nil, explain(err)
	}
	if !self.reads {
		keepFromGit(c.Data)
	}
	return s, nil
}

// checkDatabaseMark marks the directory of a server over a database, and refuses to make a
// store of its own in one: the facts of that folder are elsewhere.
func checkDatabaseMark(c *config.Config) error {
	path := filepath.Join(c.Local(), databaseFile)
	if c.Database() {
		if err := os.WriteFile(path, []byte(dataName(c)), 0o600); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		return nil
	}
	if text, err := os.ReadFile(path); err == nil && !hasStore(c.Data) {
		return usagef("%s is the directory of a server whose facts are in %s; name that database with --data, or another directory", c.Data, text)
	}
	return nil
}

// keepFromGit leaves a file in the data directory that hides it from git: by
// default it is in the folder that the agent works in, and one careless "git add"
// would publish every conversation.
func keepFromGit(dir string) {
	f, err := os.OpenFile(filepath.Join(dir, ".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return // it is there, or can't be: nothing depends on it
	}
	_, _ = f.WriteString("*\n")
	_ = f.Close()
}

// openExisting opens facts that must be there already, so that a wrong path on
// the command line doesn't make an empty store.
func openExisting(ctx context.Context, c *config.Config, env map[string]string, log *slog.Logger) (store.Store, error) {
	return openExistingAs(ctx, c, env, node{}, log)
}

func openExistingAs(ctx context.Context, c *config.Config, env map[string]string, self node, log *slog.Logger) (store.Store, error) {
	if !c.Database() && !hasStore(c.Data) {
		return nil, fmt.Errorf("there is no store in %s; \"agentd serve\" and \"agentd run\" create one, and --data names another directory", c.Data)
	}
	return openData(ctx, c, env, self, log)
}

// hasStore reports whether a directory holds a store.
func hasStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "db"))
	return err == nil
}

// explain adds what can be done about a store that doesn't open; for what can
// also happen later, advice does.
func explain(err error) error {
	switch {
	case errors.Is(err, store.ErrLocked):
		return &lockedError{err}
	case errors.Is(err, store.ErrNewer):
		return fmt.Errorf("%w; use that version, or another directory with --data", err)
	}
	return err
}

// lockedError says who has the data open.
type lockedError struct{ err error }

// holder is the part of the message that names the process.
func (e *lockedError) holder() string {
	_, who, found := strings.Cut(e.err.Error(), store.ErrLocked.Error()+": ")
	if !found {
		return e.err.Error()
	}
	return who
}

func (e *lockedError) Error() string {
	return e.holder() + "; stop that process, or use another directory with --data"
}

func (e *lockedError) Unwrap() error { return e.err }

// runtimeID returns the configured id, or the one that the store keeps.
func runtimeID(ctx context.Context, c *config.Config, s store.Store) (string, error) {
	if c.RuntimeID != "" {
		return c.RuntimeID, nil
	}
	kept, err := s.SetMeta(ctx, "runtimeId", []byte("runtime_"+event.NewIDs(nil, nil).New("")))
	if err != nil {
		return "", fmt.Errorf("runtime id: %w", err)
	}
	return string(kept), nil
}
