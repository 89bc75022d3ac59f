package harbor_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"agentd/evidence/harbor"
)

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever task.toml is, the task is read with times that can be waited for, or
// refused.
func FuzzTask(f *testing.F) {
	f.Add([]byte("version = \"1.0\"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 10\n[environment]\nbuild_timeout_sec = 1\n"), []byte("Do it."))
	f.Add([]byte("[agent]\ntimeout_sec = nan\n"), []byte("x"))
	f.Add([]byte("[agent]\ntimeout_sec = -1\n"), []byte("x"))
	f.Add([]byte("[verifier]\ntimeout_sec = inf\n"), []byte("x"))
	f.Add([]byte("[verifier]\ntimeout_sec = 1e-30\n"), []byte("x"))
	f.Add([]byte("a = ["), []byte(""))
	f.Add([]byte("[[steps]]\nname = \"first\"\nmin_reward = {a = 1, b = 0.5}\n[steps.agent]\ntimeout_sec = 2\n[steps.healthcheck]\ncommand = \"x\"\ninterval_sec = 0\n"), []byte("x"))
	f.Add([]byte("steps = [{name = \"first\", min_reward = inf}]\nmulti_step_reward_strategy = \"final\"\n"), []byte("x"))
	f.Add([]byte("[[steps]]\nname = \"../..\"\n[[steps]]\n[[steps]]\n"), []byte("x"))
	f.Fuzz(func(t *testing.T, toml, instruction []byte) {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "task.toml"), toml)
		writeFile(t, filepath.Join(dir, "instruction.md"), instruction)
		writeFile(t, filepath.Join(dir, "steps", "first", "instruction.md"), instruction)
		task, err := harbor.LoadTask(dir)
		if (task == nil) == (err == nil) {
			t.Fatalf("%v, %v", task, err)
		}
		if err == nil && (task.AgentTimeout() <= 0 || task.VerifierTimeout() <= 0) {
			t.Errorf("%q: %v, %v", toml, task.AgentTimeout(), task.VerifierTimeout())
		}
		if err == nil {
			checkSteps(t, task)
		}
	})
}

// checkSteps: steps are below the task, can be waited for and be told apart.
func checkSteps(t *testing.T, task *harbor.Task) {
	t.Helper()
	seen := map[string]bool{}
	for i := range task.Config.Steps {
		s := &task.Config.Steps[i]
		if s.AgentTimeout() <= 0 || s.VerifierTimeout() <= 0 || s.Instruction == "" || seen[s.Name] || !filepath.IsLocal(filepath.Join("steps", s.Name)) {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
		if h := s.Healthcheck; h != nil && (h.Timeout() <= 0 || h.Interval(0) < 0 || *h.Retries < 1) {
			t.Errorf("%+v", h)
		}
		if enough := s.Misses(s.MinReward); enough != "" {
			t.Errorf("what must be reached isn't enough: %s", enough)
		}
	}
}

// Whatever a verifier wrote, the reward is numbers that can be counted with, or
// refused.
func FuzzReward(f *testing.F) {
	f.Add("reward.txt", []byte("0.5\n"), []byte(""))
	f.Add("reward.json", []byte(`{"reward":1,"style":0.25}`), []byte(`{"style":{"criteria":[{"name":"a"}]}}`))
	f.Add("reward.txt", []byte("NaN"), []byte(`[]`))
	f.Add("reward.json", []byte(`{"reward":1e999}`), []byte(`{`))
	f.Fuzz(func(t *testing.T, name string, reward, details []byte) {
		if name != "reward.txt" {
			name = "reward.json"
		}
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, name), reward)
		writeFile(t, filepath.Join(dir, "reward-details.json"), details)
		r, err := harbor.ReadReward(dir)
		if r == nil {
			if err == nil {
				t.Fatal("neither a reward nor an error")
			}
			return
		}
		if v, err := r.Value(""); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q: the value is %v", reward, v)
		}
	})
}

// Whatever result.json and the manifest are, they are read or refused.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"id":"1","task_name":"t","trial_name":"t__1","verifier_result":{"rewards":{"reward":1}}}`))
	f.Add([]byte(`[{"path":"../x","sha256":"00"}]`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"id":"1","task_name":"t","trial_name":"t__abcdefg","task_id":{"path":"p"},"agent_info":{"name":"a","version":"1"},"started_at":"2026-01-01T00:00:00Z","finished_at":"2026-01-01T00:00:00Z","verifier_result":{},"step_results":[null,{"step_name":"a","verifier_result":{"rewards":{"a":1}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.json")
		writeFile(t, path, data)
		if r, err := harbor.ReadResult(path); err == nil {
			_ = r.Check()
		}
		if list, err := harbor.ReadManifest(path); err == nil {
			_ = harbor.Verify(filepath.Dir(path), list)
		}
	})
}
