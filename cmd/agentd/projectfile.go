package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/permission"
	"agentd/state"
)

// projectFiles has sessions that clients of the user's own server open, and their turns,
// take what nobody chose from the file of their project. The commands of this program do
// it themselves, and say what they ignore; editors and programs come without.
type projectFiles struct {
	runtime *agentd.Runtime
	sources config.Sources
	models  func(*config.Config) []string
	log     *slog.Logger
}

// fill adds to a command what the project's file says.
func (f *projectFiles) fill(ctx context.Context, caller command.Caller, p command.Params) error {
	switch p := p.(type) {
	case *command.CreateSession:
		if p.PermissionMode != "" {
			return nil
		}
		root := caller.Workspace
		if p.Workspace != nil && p.Workspace.Root != "" {
			root = p.Workspace.Root
		}
		file, err := f.read(root)
		if err == nil {
			p.PermissionMode, err = f.narrower(ctx, caller, file.Mode)
		}
		return err
	case *command.SubmitTurn:
		return f.fillTurn(ctx, caller, p)
	}
	return nil
}

func (f *projectFiles) fillTurn(ctx context.Context, caller command.Caller, p *command.SubmitTurn) error {
	var o event.TurnOptions
	if p.Options != nil {
		o = *p.Options
	}
	if o.Model != "" && o.PermissionMode != "" {
		return nil
	}
	root, hasMode := caller.Workspace, false
	if p.SessionID != "" {
		err := f.runtime.ViewAs(ctx, caller, p.SessionID, func(s *state.Session) error {
			if root = ""; s.Workspace != nil {
				root = s.Workspace.Root
			}
			hasMode = choosesMode(s, p.ThreadID)
			return nil
		})
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	file, err := f.read(root)
	if err != nil || file.File == "" {
		return err
	}
	if o.Model == "" {
		o.Model = file.Model
	}
	if o.PermissionMode == "" && !hasMode {
		if o.PermissionMode, err = f.narrower(ctx, caller, file.Mode); err != nil {
			return err
		}
	}
	if o.Model != "" || o.PermissionMode != "" {
		p.Options = &o
	}
	return nil
}

// narrower returns the mode of a project unless it is wider than the host's, which isn't
// always the configuration's: an admin may have chosen another.
func (f *projectFiles) narrower(ctx context.Context, caller command.Caller, mode string) (string, error) {
	if mode == "" {
		return "", nil
	}
	res, err := f.runtime.Do(ctx, caller, &command.GetPolicy{})
	if err != nil {
		return "", err
	}
	if host, ok := res.(*command.PolicyResult); !ok || permission.IsWider(mode, host.Mode) {
		return "", nil
	}
	return mode, nil
}

// choosesMode reports whether someone chose the permission mode of a session, or of a
// thread in it.
func choosesMode(s *state.Session, threadID string) bool {
	t := s.Thread(threadID)
	return s.PermissionMode != "" || t != nil && t.PermissionMode != "" ||
		slices.ContainsFunc(s.Permission.Policies, func(p state.Policy) bool { return p.Source == "session" && p.Mode != "" })
}

// read returns what the file of a project asks for; nothing if it has none.
func (f *projectFiles) read(root string) (config.Project, error) {
	if root == "" {
		return config.Project{}, nil
	}
	src := f.sources
	src.ProjectFile = filepath.Join(root, config.ProjectFileName)
	if _, err := os.Lstat(src.ProjectFile); errors.Is(err, fs.ErrNotExist) {
		return config.Project{}, nil
	}
	loaded, err := config.Load(src)
	if err != nil {
		return config.Project{}, fault.Wrap(fault.InvalidParams, err, "%s", err)
	}
	p := loaded.Project
	for _, ignored := range p.Ignored {
		f.log.Warn("a project's setting has no effect", "reason", ignored)
	}
	if known := f.models(loaded.Config); p.Model != "" && !slices.Contains(known, p.Model) {
		return p, fault.New(fault.InvalidParams, "%s: routing.default: %q is none of your models; choose one of %s", p.File, p.Model, strings.Join(known, ", "))
	}
	return p, nil
}
