package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"agentd/command"
	"agentd/event"
	"agentd/evidence/harbor"
	processes "agentd/process"
	"agentd/sandbox"
)

const (
	// verifierName names the scripts of tasks in facts.
	verifierName = "harbor-script"
	// maxRewritten bounds the files in which paths are replaced.
	maxRewritten = 1 << 20
	// maxTestOutput bounds what is kept of what a script says.
	maxTestOutput = 4 << 20
)

// verify runs the task's script on what the agent left, and records the score.
func (t *benchTrial) verify(ctx context.Context) error {
	script, err := t.task.Test()
	if err != nil {
		return &exception{"VerifierError", err}
	}
	tests := filepath.Join(t.stage, harbor.TestsDir)
	if err := os.Mkdir(tests, 0o700); err != nil {
		return err
	}
	if err := copyTree(filepath.Dir(script), tests, nil); err != nil {
		return err
	}
	if err := rewritePaths(tests, t.places(tests)); err != nil {
		return err
	}
	if err := t.runScript(ctx, tests); err != nil {
		return err
	}
	reward, err := harbor.ReadReward(t.at.Verifier())
	if err != nil {
		return &exception{rewardException(err), err}
	}
	value, err := reward.Value(t.b.o.reward)
	if err != nil {
		return &exception{rewardException(err), err}
	}
	t.out.VerifierResult = &harbor.VerifierResult{Rewards: reward.Values}
	t.res.Rewards = reward.Values
	var res command.TrialResult
	if err := t.f.do(ctx, &command.RecordBenchmarkReward{
		TrialID:  t.start.TrialID,
		Reward:   &command.Reward{Value: &value, Ref: reward.File, DetailsRef: reward.Details, Criteria: reward.Criteria},
		Verifier: &event.BenchmarkVerifier{Name: verifierName, Version: t.b.verifier, Status: "completed"},
	}, &res); err != nil {
		return err
	}
	t.res.Reward = &value
	return nil
}

// rewardException is Harbor's name of what is wrong with a score.
func rewardException(err error) string {
	for _, known := range []error{harbor.ErrRewardNotFound, harbor.ErrRewardEmpty} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return harbor.ErrRewardParse.Error()
}

// place is a path of Harbor's containers and where it is here.
type place struct{ there, here string }

func (t *benchTrial) places(tests string) []place {
	out := []place{{"/logs/verifier", t.at.Verifier()}, {"/logs/agent", t.at.Agent()}, {"/logs/artifacts", t.at.Artifacts()}, {"/tests", tests}}
	if dir := t.task.Config.Environment.Workdir; dir != "" && dir != "/" {
		out = append(out, place{filepath.Clean(dir), t.workspace})
	}
	return out
}

// runScript runs the script in the sandbox. How it exits doesn't matter, what it
// leaves does.
func (t *benchTrial) runScript(ctx context.Context, tests string) error {
	shell := "bash"
	if _, err := exec.LookPath(shell); err != nil {
		shell = "sh"
	}
	o := &t.f.wired.options.Loop
	profile := o.Sandbox
	profile.Root, profile.Cwd = t.workspace, t.workspace
	// The data directory stays hidden; the results, hidden from the agent, must be
	// written.
	var err error
	if profile.Hidden, err = hiddenPaths(t.config.c); err != nil {
		return err
	}
	profile.WriteRoots = append(append([]string{}, profile.WriteRoots...), t.at.Verifier(), t.at.Agent(), t.at.Artifacts(), tests)
	if profile.Mode == sandbox.ReadOnly {
		profile.Mode = sandbox.WorkspaceWrite
	}
	timeout := t.b.scaled(t.task.VerifierTimeout())
	profile.Limits.WallClock = timeout
	env := []string{
		"TESTS_DIR=" + tests, "LOGS_DIR=" + t.at.Dir, "VERIFIER_DIR=" + t.at.Verifier(), "AGENT_DIR=" + t.at.Agent(),
		"ARTIFACTS_DIR=" + t.at.Artifacts(), "WORKSPACE=" + t.workspace,
	}
	for name, value := range t.task.Config.Verifier.Env {
		env = append(env, name+"="+os.Expand(value, func(name string) string { return t.b.a.env[name] }))
	}
	p, err := o.Processes().Start(ctx, processes.Spec{
		ProcessID: "verifier_" + t.at.Name, Argv: []string{shell, filepath.Join(tests, harbor.TestScript)}, Cwd: t.workspace, Env: env,
		Merge: true, Profile: profile, TimeoutMs: timeout.Milliseconds(), MaxOutput: maxTestOutput,
	})
	if err != nil {
		return &exception{"VerifierError", fmt.Errorf("the script can't be run: %w", err)}
	}
	exit, err := p.Wait(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.at.Verifier(), harbor.TestStdout), exit.Stdout.Bytes(), 0o600); err != nil {
		return err
	}
	switch {
	case exit.Failure != nil:
		return &exception{"VerifierError", exit.Failure}
	case exit.TimedOut:
		return &exception{"VerifierTimeoutError", fmt.Errorf("the script ran longer than %s", timeout)}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return nil
}

// rewritePaths replaces the paths of Harbor's containers in a copy of a task's
// tests: there is no container here, and the sandbox gives no other names to
// folders.
func rewritePaths(dir string, places []place) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() > maxRewritten {
			return err
		}
		text, err := root.ReadFile(path)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		changed := replacePaths(text, places)
		if bytes.Equal(changed, text) {
			return nil
		}
		return root.WriteFile(path, changed, info.Mode().Perm())
	})
	return errors.Join(err, root.Close())
}

// replacePaths replaces whole paths: not the beginning of a longer name, and not
// the end of a longer path.
func replacePaths(text []byte, places []place) []byte {
	for _, p := range places {
		var out bytes.Buffer
		for at := 0; ; {
			i := bytes.Index(text[at:], []byte(p.there))
			if i < 0 {
				out.Write(text[at:])
				break
			}
			begin, end := at+i, at+i+len(p.there)
			out.Write(text[at:begin])
			if (begin > 0 && inName(text[begin-1], "/.")) || (end < len(text) && inName(text[end], ".")) {
				out.WriteString(p.there)
			} else {
				out.WriteString(p.here)
			}
			at = end
		}
		text = out.Bytes()
	}
	return text
}

// inName reports whether a character belongs to a name, or is one of others.
func inName(c byte, others string) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || strings.IndexByte(others, c) >= 0
}

// copyTree copies the content of a folder, which may not exist. Links are copied
// as they are if they stay inside; anything else but files and folders is refused.
func copyTree(from, to string, skip func(rel string) bool) error {
	src, err := os.OpenRoot(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dst, err := os.OpenRoot(to)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	err = fs.WalkDir(src.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		if err != nil || rel == "." || (skip != nil && skip(rel)) {
			return err
		}
		return copyEntry(src, dst, rel, d)
	})
	return errors.Join(err, src.Close(), dst.Close())
}

func copyEntry(src, dst *os.Root, rel string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	switch {
	case d.IsDir():
		return dst.Mkdir(rel, info.Mode().Perm()|0o700)
	case d.Type()&fs.ModeSymlink != 0:
		target, err := src.Readlink(rel)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(rel), target)) {
			return fmt.Errorf("%s leads out of the task", rel)
		}
		return dst.Symlink(target, rel)
	case !d.Type().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", rel)
	}
	content, err := src.ReadFile(rel)
	if err != nil {
		return err
	}
	return dst.WriteFile(rel, content, info.Mode().Perm()|0o600)
}
