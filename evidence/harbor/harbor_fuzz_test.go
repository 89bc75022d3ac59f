package harbor_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"agentd/evidence/harbor"
)

func put(t *testing.T, path string, data []byte) {
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
	f.Fuzz(func(t *testing.T, toml, instruction []byte) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "task.toml"), toml)
		put(t, filepath.Join(dir, "instruction.md"), instruction)
		task, err := harbor.LoadTask(dir)
		if (task == nil) == (err == nil) {
			t.Fatalf("%v, %v", task, err)
		}
		if err == nil && (task.AgentTimeout() <= 0 || task.VerifierTimeout() <= 0) {
			t.Errorf("%q: %v, %v", toml, task.AgentTimeout(), task.VerifierTimeout())
		}
	})
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
		put(t, filepath.Join(dir, name), reward)
		put(t, filepath.Join(dir, "reward-details.json"), details)
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
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f.json")
		put(t, path, data)
		if r, err := harbor.ReadResult(path); err == nil {
			_ = r.Check()
		}
		if list, err := harbor.ReadManifest(path); err == nil {
			_ = harbor.Verify(filepath.Dir(path), list)
		}
	})
}
