package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/rundir"
	"agentd/server"
)

// startLock is held by whoever starts, replaces or takes over the user's server. The
// system gives it back with the process.
const startLock = "start.lock"

// ownServer reports whether a configuration means the user's own server: nothing names
// other facts.
func (a *app) ownServer(c *config.Config) bool {
	return rundir.Supported && a.program != "" && a.server == "" && !c.DataChosen() && c.StateDir == ""
}

// attach returns the user's own server. One that doesn't run is started; one that runs
// with another program, configuration or keys is replaced by commands that carry out
// turns.
func (a *app) attach(cmd *cobra.Command, c *config.Config, n need) (facts.Source, error) {
	root, cwd, err := a.folder(c)
	if err != nil && (n == toRun || n == toServe) {
		return nil, err
	}
	replace := n == toRun || n == toServe
	a.sayOldData()
	note, err := a.ensureServer(cmd.Context(), c, replace)
	if errors.Is(err, errNoSocket) {
		a.sayf("agentd: warning: %v; the data is opened by this process, and by no other meanwhile", err)
		return a.openLocal(cmd.Context(), c, n, a.quiet(c, cmd.Flags().Changed("log-level")))
	}
	if err != nil {
		return nil, err
	}
	r, err := newOwnRemote(a, c, note, root, cwd)
	if err != nil {
		return nil, err
	}
	if a.presence == nil {
		// Without it the server's count of connections is what others go by.
		a.presence, _ = rundir.Attend(clientsDir(c))
		r.leave = func() {
			a.presence.Leave()
			a.presence = nil
		}
	}
	return r, nil
}

// clientsDir is where the processes that use the user's server are present.
func clientsDir(c *config.Config) string { return filepath.Join(c.Local(), "clients") }

// liveNote returns the note of the server that holds the user's data, if one answers.
func (a *app) liveNote(ctx context.Context, c *config.Config) (*serverNote, error) {
	n, err := trustedNote(c.Local())
	if err != nil || n == nil || n.Data != dataName(c) {
		return nil, err
	}
	conn, err := dialNoted(ctx, n)
	if err != nil {
		return nil, ctx.Err() // it is gone
	}
	return n, conn.Close()
}

// dialNoted connects to the server of a note.
func dialNoted(ctx context.Context, n *serverNote) (net.Conn, error) {
	if n.Socket != "" {
		return rundir.Dial(ctx, n.Socket)
	}
	var d net.Dialer
	_, host, _ := strings.Cut(n.base(), "://")
	return d.DialContext(ctx, "tcp", strings.TrimSuffix(host, "/"))
}

// errNoSocket says that there is no place where a server could be reached.
var errNoSocket = errors.New("no server can be started in the background")

// ensureServer returns the note of the user's server, which it starts if none answers,
// and replaces if it is to and what it was started with differs.
func (a *app) ensureServer(ctx context.Context, c *config.Config, replace bool) (*serverNote, error) {
	if err := a.claimData(c); err != nil {
		return nil, err
	}
	n, err := a.liveNote(ctx, c)
	if err != nil {
		return nil, err
	}
	if n != nil && (!replace || a.outdated(c, n) == "") {
		return n, nil
	}
	unlock, err := rundir.Lock(ctx, filepath.Join(c.Local(), startLock))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if n, err = a.liveNote(ctx, c); err != nil { // someone else may have been quicker
		return nil, err
	}
	if n != nil {
		if keep, err := a.keepsServer(ctx, c, n, replace); keep || err != nil {
			return n, err
		}
		if err := a.checkStart(c); err != nil {
			return nil, err
		}
		if err := stopNoted(ctx, n); err != nil {
			return nil, err
		}
	}
	before := a.startedBefore(c, n)
	socket, err := rundir.Socket(a.getenv, dataName(c))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSocket, err)
	}
	if n == nil || n.Managed { // else its own socket is still there for a moment
		if n, err = a.activated(ctx, c, socket, n); n != nil || err != nil {
			return n, err
		}
	}
	if err := a.spawnServer(ctx, c, before); err != nil {
		return nil, err
	}
	if n, err = a.liveNote(ctx, c); err != nil || n != nil {
		return n, err
	}
	return nil, fmt.Errorf("your server ended as soon as it was started; see %q", "agentd daemon logs")
}

// activated returns the note of a server that the service manager starts when its
// socket is used; nil if no one listens there. It is another one than the server that was
// stopped, if one was: that one answers until it has ended.
func (a *app) activated(ctx context.Context, c *config.Config, socket string, stopped *serverNote) (*serverNote, error) {
	r, err := newRemote("http://localhost", socket, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	wait, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := rundir.Dial(ctx, socket)
		if err != nil {
			if errors.Is(err, rundir.ErrForeign) {
				return nil, err
			}
			return nil, ctx.Err()
		}
		_ = conn.Close() // the next one asks
		res, err := r.send(wait, http.MethodGet, "/healthz", nil)
		if err == nil {
			_ = res.Body.Close()
		} else if stopped == nil {
			return nil, ctx.Err() // the server that listened is gone
		}
		n, err := a.liveNote(ctx, c)
		if err != nil || stopped == nil || n != nil && n.Token != stopped.Token {
			return n, err
		}
		select {
		case <-wait.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// folder returns the workspace of sessions that a command opens, and the folder in it
// that it is in: what the configuration names, else its project.
func (a *app) folder(c *config.Config) (root, cwd string, err error) {
	if c.WorkspaceChosen() {
		root = absolute(c.Workspace.Root)
		return root, root, nil
	}
	return a.project()
}

// project returns the root of the project that the command is in, and the folder in it.
func (a *app) project() (root, cwd string, err error) {
	cwd, err = os.Getwd()
	if err == nil {
		cwd, err = filepath.EvalSymlinks(cwd)
	}
	if err != nil {
		return "", "", usagef("the current folder can't be used: %w; change to another one", err)
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		for _, mark := range []string{".git", ".hg", ".jj", ".svn"} {
			if exists(filepath.Join(dir, mark)) {
				return dir, cwd, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return cwd, cwd, nil
		}
	}
}

// startWithin is how long a server may take to start: the one before has time to let
// running steps end.
var startWithin = stopWithin + 20*time.Second

// stopNoted asks a server to end, after it said over its own door which process it is.
func stopNoted(ctx context.Context, n *serverNote) error {
	pid, err := notedPID(ctx, n)
	if err != nil {
		return err
	}
	if err := rundir.Terminate(pid); err != nil {
		return fmt.Errorf("the server that runs, process %d, can't be ended: %w", pid, err)
	}
	return nil
}

// dialOnly returns the server of a note, and no other.
func dialOnly(n *serverNote) (*remoteFacts, error) {
	base := "http://localhost"
	if n.Socket == "" {
		base = n.base()
	}
	return newRemote(base, n.Socket, n.Token, nil)
}

// notedStatus is what a server says of itself.
type notedStatus struct {
	Connections int64         `json:"connections"`
	Runtime     runtimeStatus `json:"runtime"`
}

// askStatus asks the server of a note how it is.
func askStatus(ctx context.Context, n *serverNote) (said notedStatus, err error) {
	r, err := dialOnly(n)
	if err != nil {
		return said, err
	}
	defer func() { _ = r.Close() }()
	data, err := r.status(ctx)
	if err != nil {
		return said, err
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return said, fmt.Errorf("status: %w", err)
	}
	return said, nil
}

func notedPID(ctx context.Context, n *serverNote) (int, error) {
	said, err := askStatus(ctx, n)
	if err == nil && said.Runtime.PID <= 1 {
		err = errors.New("the server doesn't say which process it is")
	}
	return said.Runtime.PID, err
}

// workspaceHeader says where sessions work that a request opens without naming a folder.
const workspaceHeader = server.WorkspaceHeader
