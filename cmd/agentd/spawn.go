package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/rundir"
)

const (
	// logFile is the log of the server in the background, in its data directory.
	logFile = "server.log"
	// maxLog is the size from which a new log is begun at a start; one old one is kept.
	maxLog = 8 << 20
	// readyVariable names the descriptor on which a server says that it is ready, or why
	// it isn't.
	readyVariable = "AGENTD_READY_FD"
	// readyWord is what it says then.
	readyWord = "ready"
	// usageWord begins why it isn't, if the configuration can't be used.
	usageWord = "usage: "
)

// spawnServer starts the user's server in the background and waits until it is ready.
// It outlives this process and its terminal.
func (a *app) spawnServer(ctx context.Context, c *config.Config, before []startedWith) error {
	log, err := openLog(c.Local())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own
	told, tell, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start your server: %w", err)
	}
	defer func() { _ = told.Close() }() // it was only read
	cmd, err := a.serverProcess(c)
	if err != nil {
		return errors.Join(err, tell.Close())
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{tell}
	cmd.Env = append(cmd.Env, readyVariable+"=3")
	if len(before) > 0 {
		text, err := json.Marshal(before)
		if err != nil {
			return errors.Join(err, tell.Close())
		}
		cmd.Env = append(cmd.Env, beforeVariable+"="+string(text))
	}
	err = cmd.Start()
	_ = tell.Close() // the server has its own
	if err != nil {
		return fmt.Errorf("start your server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = told.Close() }) // ends the wait; the server goes on
	defer stop()
	text, err := io.ReadAll(io.LimitReader(told, 64<<10))
	_ = cmd.Process.Release() // it is no one's to wait for
	if ctx.Err() != nil {
		return ctx.Err()
	}
	said := strings.TrimSpace(string(text))
	wrong, isUsage := strings.CutPrefix(said, usageWord)
	switch {
	case said == readyWord:
		return nil
	case isUsage: // it would be wrong in any server
		return &exitError{exitUsage, errors.New(wrong)}
	case said != "":
		return fmt.Errorf("your server can't be started: %s", said)
	}
	return errors.Join(fmt.Errorf("your server ended while it was starting; see %q", "agentd daemon logs"), err)
}

// serverProcess is this program as the user's server. Paths in the configuration are
// relative to its file, and nothing of the folder that it was started in is kept in use.
func (a *app) serverProcess(c *config.Config) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err == nil {
		_, err = os.Stat(exe)
	}
	if err != nil { // the program's file was replaced since this process was started
		if exe, err = exec.LookPath(a.program); err != nil {
			return nil, fmt.Errorf("start your server: %w", err)
		}
	}
	args := []string{a.program, "daemon", "run"}
	dir := absolute(c.Local())
	if c.File != "" {
		file := absolute(c.File)
		dir = filepath.Dir(file)
		if file != config.UserFile(a.getenv) {
			args = append(args, "--config", file)
		}
	}
	cmd := &exec.Cmd{Path: exe, Args: args, Dir: dir, SysProcAttr: rundir.Detached()}
	for name, value := range a.env {
		if !slices.Contains([]string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "AGENTD_CONFIG", readyVariable, beforeVariable}, name) {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd, nil
}

// openLog opens the log of the server in the background, and begins a new one if it has
// become large.
func openLog(dir string) (*os.File, error) {
	path := filepath.Join(dir, logFile)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("log of your server: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of your server: %w", err)
	}
	return f, nil
}

// readiness tells the process that started this one that it is ready, or why it isn't.
// The zero value and nil tell no one.
type readiness struct{ to *os.File }

// readyPipe is how this process tells the one that started it.
func (a *app) readyPipe() *readiness {
	fd, err := strconv.Atoi(a.env[readyVariable])
	if err != nil || fd < 3 {
		return nil
	}
	delete(a.env, readyVariable)
	_ = os.Unsetenv(readyVariable) // no child is to see it
	return &readiness{rundir.Inherited(fd, "ready")}
}

// tellOutcome says it, once.
func (r *readiness) tellOutcome(err error) {
	if r == nil || r.to == nil {
		return
	}
	text := readyWord
	if err != nil {
		text = describe(err)
		if e, ok := errors.AsType[*exitError](err); ok && e.code == exitUsage {
			text = usageWord + text
		}
	}
	_, _ = r.to.WriteString(text + "\n") // who waits learns from the end of the pipe otherwise
	_ = r.to.Close()
	r.to = nil
}
