package trialrun

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
	"time"
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

// scoring is what scores a task, or a step of one.
type scoring struct {
	// at is where the script leaves what it finds, and finds the trajectory.
	at *harbor.Layout
	// tests are the folders that make up /tests; later ones win.
	tests   []string
	timeout time.Duration
	env     map[string]string
	// id names the process.
	id string
}

// verifyTrial runs the task's script on what the agent left, and records the score.
func (t *trial) verifyTrial(ctx context.Context) error {
	reward, err := t.runScoring(ctx, &scoring{
		at: t.at, tests: []string{filepath.Join(t.task.Dir, harbor.TestsDir)}, timeout: t.task.VerifierTimeout(), env: t.task.Config.Verifier.Env, id: t.at.Name,
	})
	if err == nil {
		t.out.VerifierResult = &harbor.VerifierResult{Rewards: reward.Values}
		err = t.recordReward(ctx, reward)
	}
	if err != nil {
		err = errors.Join(err, t.recordUnscored(ctx, err))
	}
	return err
}

// recordUnscored makes it a fact that a trial could not be scored. One whose agent failed is
// a failed one already.
func (t *trial) recordUnscored(ctx context.Context, why error) error {
	if _, ok := errors.AsType[*exception](why); !ok || t.ended.FailureCategory != "" {
		return nil
	}
	p := &command.EndBenchmarkTrial{TrialID: t.start.TrialID, FailureCategory: failedVerifier, Reason: why.Error()}
	if err := t.rt.Do(ctx, p, &command.TrialResult{}); err != nil {
		return err
	}
	return t.followUntil(ctx, neverSeen)
}

// runScoring runs a script and reads what it gave. The copy of the tests is removed: an
// agent that goes on afterwards has no business with it.
func (t *trial) runScoring(ctx context.Context, s *scoring) (*harbor.Reward, error) {
	tests, err := os.MkdirTemp(t.stage, harbor.TestsDir+"-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := os.RemoveAll(tests); err != nil {
			t.b.o.Log.Warn("a copy of tests could not be removed", "path", tests, "error", err)
		}
	}()
	for _, from := range s.tests {
		if err := copyTree(from, tests, nil); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(filepath.Join(tests, harbor.TestScript)); err != nil || !info.Mode().IsRegular() {
		return nil, &exception{"VerifierError", fmt.Errorf("there is no %s/%s", harbor.TestsDir, harbor.TestScript)}
	}
	if err := rewritePaths(tests, t.mappedPaths(s.at, tests)); err != nil {
		return nil, err
	}
	if err := t.runTests(ctx, s, tests); err != nil {
		return nil, err
	}
	reward, err := harbor.ReadReward(s.at.Verifier())
	if err != nil {
		return nil, &exception{rewardException(err), err}
	}
	return reward, nil
}

// recordReward records the trial's score.
func (t *trial) recordReward(ctx context.Context, reward *harbor.Reward) error {
	value, err := reward.Value(t.b.o.Reward)
	if err != nil {
		return &exception{rewardException(err), err}
	}
	t.res.Rewards = reward.Values
	var res command.TrialResult
	if err := t.rt.Do(ctx, &command.RecordBenchmarkReward{
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

// mappedPath is a path of Harbor's containers and where it is here.
type mappedPath struct{ there, here string }

func (t *trial) mappedPaths(at *harbor.Layout, tests string) []mappedPath {
	out := []mappedPath{{"/logs/verifier", at.Verifier()}, {"/logs/agent", at.Agent()}, {"/logs/artifacts", at.Artifacts()}}
	if tests != "" {
		out = append(out, mappedPath{"/tests", tests})
	}
	if dir := t.task.Config.Environment.Workdir; dir != "" && dir != "/" {
		out = append(out, mappedPath{filepath.Clean(dir), t.workspace})
	}
	return out
}

// runTests runs the script that scores. How it exits doesn't matter, what it leaves
// does.
func (t *trial) runTests(ctx context.Context, s *scoring, tests string) error {
	env := []string{"TESTS_DIR=" + tests}
	for name, value := range s.env {
		env = append(env, name+"="+os.Expand(value, t.b.o.Getenv))
	}
	timeout := t.b.scaled(s.timeout)
	exit, err := t.runScript(ctx, &taskScript{
		id: "verifier_" + s.id, at: s.at, argv: []string{shell(), filepath.Join(tests, harbor.TestScript)}, env: env, writes: []string{tests}, timeout: timeout,
	})
	if err != nil {
		return &exception{"VerifierError", fmt.Errorf("the script can't be run: %w", err)}
	}
	if err := os.WriteFile(filepath.Join(s.at.Verifier(), harbor.TestStdout), exit.Stdout.Bytes(), 0o600); err != nil {
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

// shell is what runs scripts.
func shell() string {
	if _, err := exec.LookPath("bash"); err != nil {
		return "sh"
	}
	return "bash"
}

// taskScript is something of the task's that is run beside the agent.
type taskScript struct {
	id      string
	at      *harbor.Layout
	argv    []string
	env     []string
	writes  []string
	timeout time.Duration
}

// runScript runs something of the task's in the sandbox, in the workspace.
func (t *trial) runScript(ctx context.Context, s *taskScript) (processes.Exit, error) {
	profile := t.rt.Sandbox
	profile.Root, profile.Cwd = t.workspace, t.workspace
	profile.WriteRoots = append(append([]string{}, profile.WriteRoots...), s.at.Verifier(), s.at.Agent(), s.at.Artifacts())
	profile.WriteRoots = append(profile.WriteRoots, s.writes...)
	if profile.Mode == sandbox.ReadOnly {
		profile.Mode = sandbox.WorkspaceWrite
	}
	profile.Limits.WallClock = s.timeout
	env := append([]string{
		"LOGS_DIR=" + s.at.Dir, "VERIFIER_DIR=" + s.at.Verifier(), "AGENT_DIR=" + s.at.Agent(), "ARTIFACTS_DIR=" + s.at.Artifacts(), "WORKSPACE=" + t.workspace,
	}, s.env...)
	p, err := t.rt.Processes().Start(ctx, processes.Spec{
		ProcessID: s.id, Argv: s.argv, Cwd: t.workspace, Env: env, Merge: true, Profile: profile, TimeoutMs: max(s.timeout.Milliseconds(), 1), MaxOutput: maxTestOutput,
	})
	if err != nil {
		return processes.Exit{}, err
	}
	return p.Wait(context.WithoutCancel(ctx))
}

// rewritePaths replaces the paths of Harbor's containers in a copy of a task's
// tests: there is no container here, and the sandbox gives no other names to
// folders.
func rewritePaths(dir string, places []mappedPath) error {
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
func replacePaths(text []byte, places []mappedPath) []byte {
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

// copyTree copies the content of a folder, which may not exist, over what is there.
// Links are copied as they are if they stay inside; anything else but files and
// folders is refused.
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
	there, err := cleared(dst, rel)
	switch {
	case err != nil:
		return err
	case d.IsDir():
		if there {
			return nil
		}
		return dst.Mkdir(rel, info.Mode().Perm()|0o700)
	case there:
		return fmt.Errorf("%s is a folder there already", rel)
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

// cleared removes what is at a place, unless that is a folder: then it is there.
func cleared(dst *os.Root, rel string) (there bool, err error) {
	info, err := dst.Lstat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return true, nil
	}
	return false, dst.Remove(rel)
}
