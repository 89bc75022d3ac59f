package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/evidence"
	"agentd/loop"
	"agentd/model"
	"agentd/replay"
	"agentd/store/pebble"
)

// Kinds of replays, by what is compared.
const (
	replayFacts  = "facts"
	replayPolicy = "policy"
	replayLive   = "live"
)

// maxCopied bounds the workspace that a live replay copies.
const maxCopied = 1 << 30

// whatIf is what a replay changes.
type whatIf struct {
	live      bool
	trust     bool
	edited    bool
	changes   []string
	workspace string

	host   *loop.HostPolicy
	model  string
	steps  int64
	models []string
	config *config.Config
}

func (w *whatIf) kind() string {
	switch {
	case w.live:
		return replayLive
	case w.edited || w.reconfigures():
		return replayPolicy
	}
	return replayFacts
}

// prepare reads the changes.
func (w *whatIf) prepare(a *app, cmd *cobra.Command) error {
	for _, c := range w.changes {
		name, value, ok := strings.Cut(c, "=")
		if !ok || value == "" {
			return usagef("--with: %q is not of the form NAME=VALUE, such as mode=auto", c)
		}
		if err := w.change(name, value); err != nil {
			return err
		}
	}
	switch {
	case w.model != "" && !w.live:
		return usagef("another model has no recorded answers: --with model=… needs --live")
	case w.live && (w.steps > 0 || w.models != nil):
		return usagef("--with steps=… and models=… are for what was recorded; with --live change the configuration")
	case w.trust && !w.live:
		return usagef("--trust needs --live: without it nothing is executed")
	case w.workspace != "" && !w.live:
		return usagef("--workspace needs --live: without it nothing is executed")
	case !w.live:
		return nil
	}
	loaded, err := a.load(cmd)
	if err == nil {
		w.config = loaded.Config
	}
	return err
}

func (w *whatIf) change(name, value string) error {
	switch name {
	case "model":
		w.model = value
		return nil
	case "mode":
		if err := checkMode(value); err != nil {
			return &exitError{exitUsage, err}
		}
		w.policy().Mode = value
		return nil
	case "steps":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return usagef("--with steps=%q: use a whole number of at least 1", value)
		}
		w.steps = n
		return nil
	case "models":
		w.models = strings.Split(value, ",")
		return nil
	case "policy":
		p, err := readPolicy(value)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		h := w.policy()
		h.Rules = p.Rules
		if p.Mode != "" {
			h.Mode = p.Mode
		}
		return nil
	}
	return usagef("unknown setting %q for --with; use model, policy, mode, steps or models", name)
}

func (w *whatIf) policy() *loop.HostPolicy {
	if w.host == nil {
		w.host = &loop.HostPolicy{}
	}
	return w.host
}

// options are those of a walk over what was recorded.
func (w *whatIf) options() replay.Options {
	o := replay.Options{All: w.kind() == replayPolicy}
	if w.host != nil {
		o.Mode = w.host.Mode
	}
	if w.reconfigures() {
		o.Change = w.reconfigure
	}
	return o
}

// reconfigures reports whether another configuration is tried.
func (w *whatIf) reconfigures() bool { return w.host != nil || w.steps > 0 || w.models != nil }

// reconfigure makes the configuration that is tried of a recorded one.
func (w *whatIf) reconfigure(c *loop.Configuration) {
	if w.host != nil && w.host.Rules != nil {
		c.Rules = loop.HostRules(w.host.Rules)
	}
	if w.steps > 0 {
		c.Limits.MaxSteps = w.steps
	}
	if w.models != nil {
		c.Models = slices.DeleteFunc(slices.Clone(c.Models), func(m model.Info) bool { return !slices.Contains(w.models, m.ID()) })
	}
}

// replayLive submits the inputs of a case to a runtime in a folder of its own.
func (a *app) replayLive(ctx context.Context, c *evidence.Case, w *whatIf) (_ []replay.OutcomeDifference, err error) {
	dir, err := os.MkdirTemp("", "agentd-replay-*")
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := pebble.Open(filepath.Join(dir, "data"), nil)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	conf := w.config.WithData(filepath.Join(dir, "data"))
	if err := a.acceptNew(conf, conf.Data); err != nil {
		return nil, err
	}
	if conf.Workspace.Root = w.workspace; w.workspace == "" {
		conf.Workspace.Root = filepath.Join(dir, "workspace")
		hidden, err := a.hiddenPaths(w.config)
		if err == nil {
			err = copyWorkspace(workspaceOf(c), conf.Workspace.Root, append(hidden, dir)...)
		}
		if err != nil {
			return nil, err
		}
	}
	wired, err := a.wire(ctx, conf, s, a.quiet(conf, false))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wired.close()) }()
	opt := wired.options
	opt.Store, opt.Recovery = s, "none"
	with := replay.LiveOptions{Model: w.model, Trust: w.trust}
	if w.host != nil {
		with.Mode = w.host.Mode
		if w.host.Rules != nil {
			opt.Loop.Host.Rules = w.host.Rules
		}
	}
	r, err := agentd.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close(ctx)) }()
	return replay.Live(ctx, r, c, with)
}

// workspaceOf is where the session of a case worked.
func workspaceOf(c *evidence.Case) string {
	if c.Environment != nil {
		return c.Environment.Workspace // a case of the earlier format
	}
	return c.Workspace
}

// copyWorkspace copies the folder of a case, so that nothing in it is touched,
// without what is hidden: the copy would be hidden from no one, and the author of the
// case chose the folder. A folder that isn't there any more is empty.
func copyWorkspace(from, to string, hidden ...string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	if from == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	info, statErr := os.Stat(root)
	if err != nil || statErr != nil || !info.IsDir() {
		return fmt.Errorf("replay: the workspace %s isn't a folder that can be copied; name one with --workspace", from)
	}
	c := &treeCopy{from: root, to: to, left: maxCopied}
	for _, path := range hidden {
		if info, err := os.Stat(path); err == nil {
			c.hidden = append(c.hidden, info)
		}
	}
	for dir := root; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || c.hides(info) {
			return fmt.Errorf("replay: the workspace %s lies in a folder that is hidden from tools: name another one with --workspace", from)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if err := filepath.WalkDir(root, c.visit); err != nil {
		return fmt.Errorf("replay: copy of the workspace: %w", err)
	}
	return nil
}

// treeCopy copies a folder, up to so many bytes.
type treeCopy struct {
	from, to string
	hidden   []fs.FileInfo
	left     int64
}

// hides reports whether a file is a hidden one, under whatever name.
func (c *treeCopy) hides(info fs.FileInfo) bool {
	return slices.ContainsFunc(c.hidden, func(h fs.FileInfo) bool { return os.SameFile(h, info) })
}

func (c *treeCopy) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(c.from, path)
	if err != nil {
		return err
	}
	to := filepath.Join(c.to, rel)
	switch {
	case c.hides(info) && d.IsDir():
		return fs.SkipDir
	case c.hides(info):
		return nil
	case d.IsDir():
		return os.MkdirAll(to, 0o700)
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case d.Type().IsRegular():
		return c.file(path, to, info)
	}
	return nil // sockets and devices are no part of a workspace
}

func (c *treeCopy) file(path, to string, info fs.FileInfo) (err error) {
	if c.left -= info.Size(); c.left < 0 {
		return fmt.Errorf("%s is larger than 1 GiB: name a folder with --workspace", c.from)
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// printDecisions lists the decisions that another policy changes.
func printDecisions(p *printer, of string, r *replayResult) {
	if len(r.Decisions) == 0 {
		p.linef("%s %s: no decision would change", p.Paint(terminal.Green, "same"), of)
		return
	}
	p.linef("%s %s: %s", p.Paint(terminal.Yellow, "changed"), of, terminal.Plural(int64(len(r.Decisions)), "decision"))
	for _, d := range r.Decisions {
		p.linef("  %s", terminal.Plain(d.Says))
	}
}

// printOutcomes lists what the turns of a live replay came to.
func printOutcomes(p *printer, of string, r *replayResult) {
	for _, d := range r.Outcomes {
		word := p.Paint(terminal.Green, "same")
		if !d.Same {
			word = p.Paint(terminal.Red, "different")
		}
		p.linef("%s %s turn %d: %s", word, of, d.Expected.Turn, terminal.Plain(d.Says))
	}
}
