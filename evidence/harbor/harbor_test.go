package harbor_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/evidence/harbor"
)

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const taskToml = `schema_version = "1.4"
source = "here"
artifacts = ["/logs/agent", {source = "/app/out", destination = "out"}]
[task]
name = "demo/hello"
version = "3"
keywords = ["a"]
authors = [{name = "x", email = "y"}]
[metadata]
difficulty = "easy"
[agent]
timeout_sec = 12.5
network_mode = "no-network"
[verifier]
env = {KEY = "${KEY:-none}"}
[environment]
cpus = 2
memory_mb = 512
workdir = "/app"
unknown_key = true
[environment.healthcheck]
command = "true"
`

func TestTasksAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "hello/task.toml", taskToml)
	write(t, dir, "hello/instruction.md", "Say hello.\n")
	write(t, dir, "old/task.toml", "version = \"1.0\"\n")
	write(t, dir, "old/instruction.md", "Say it.")
	write(t, dir, "README.md", "no task")
	tasks, err := harbor.LoadDataset(dir)
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%v: %d tasks", err, len(tasks))
	}
	hello, old := tasks[0], tasks[1]
	if hello.Name != "hello" || hello.Config.Task.Name != "demo/hello" || hello.AgentTimeout() != 12500*time.Millisecond || hello.VerifierTimeout() != 10*time.Minute ||
		hello.Config.Environment.Workdir != "/app" || hello.Config.Verifier.Env["KEY"] != "${KEY:-none}" || len(hello.Config.Artifacts) != 2 {
		t.Errorf("%+v", hello)
	}
	if old.Config.SchemaVersion != "1.0" || old.AgentTimeout() != 10*time.Minute || old.Instruction != "Say it." {
		t.Errorf("%+v", old)
	}
	if _, err := hello.Test(); err == nil {
		t.Error("there is no script, but it was found")
	}
	before, err := hello.Digest("")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := hello.Digest(harbor.TestsDir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "hello/tests/test.sh", "exit 0")
	after, err := hello.Digest("")
	if err != nil || before == after {
		t.Errorf("the sum doesn't see a new file: %v", err)
	}
	if again, err := hello.Digest(harbor.TestsDir); err != nil || again == tests {
		t.Errorf("the sum of the tests doesn't see a new file: %v", err)
	}
	one, err := harbor.LoadDataset(filepath.Join(dir, "hello"))
	if err != nil || len(one) != 1 {
		t.Errorf("a task as a data set: %v %v", one, err)
	}
}

func TestRewards(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		key     string
		want    float64
		failure error
	}{
		{"a number", map[string]string{"reward.txt": " 0.5\n"}, "", 0.5, nil},
		{"a negative one", map[string]string{"reward.txt": "-1e-3"}, "", -0.001, nil},
		{"the text wins", map[string]string{"reward.txt": "1", "reward.json": `{"reward": 0}`}, "", 1, nil},
		{"a map", map[string]string{"reward.json": `{"reward": 0.25, "style": 1}`}, "", 0.25, nil},
		{"the only one", map[string]string{"reward.json": `{"style": 0.75}`}, "", 0.75, nil},
		{"the named one", map[string]string{"reward.json": `{"reward": 0, "style": 1}`}, "style", 1, nil},
		{"none", nil, "", 0, harbor.ErrRewardNotFound},
		{"empty", map[string]string{"reward.txt": "\n"}, "", 0, harbor.ErrRewardEmpty},
		{"an empty text beside a map", map[string]string{"reward.txt": "", "reward.json": `{"reward": 1}`}, "", 0, harbor.ErrRewardEmpty},
		{"words", map[string]string{"reward.txt": "good"}, "", 0, harbor.ErrRewardParse},
		{"two numbers", map[string]string{"reward.txt": "1\n2"}, "", 0, harbor.ErrRewardParse},
		{"not a number", map[string]string{"reward.txt": "NaN"}, "", 0, harbor.ErrRewardParse},
		{"infinite", map[string]string{"reward.txt": "inf"}, "", 0, harbor.ErrRewardParse},
		{"nested", map[string]string{"reward.json": `{"reward": {"value": 1}}`}, "", 0, harbor.ErrRewardParse},
		{"a text in the map", map[string]string{"reward.json": `{"reward": "1"}`}, "", 0, harbor.ErrRewardParse},
		{"true", map[string]string{"reward.json": `{"reward": true}`}, "", 0, harbor.ErrRewardParse},
		{"an empty map", map[string]string{"reward.json": `{}`}, "", 0, harbor.ErrRewardParse},
		{"a list", map[string]string{"reward.json": `[1]`}, "", 0, harbor.ErrRewardParse},
		{"several, none called reward", map[string]string{"reward.json": `{"a": 1, "b": 0}`}, "", 0, harbor.ErrRewardParse},
		{"none of that name", map[string]string{"reward.txt": "1"}, "style", 0, harbor.ErrRewardParse},
		{"broken details", map[string]string{"reward.txt": "1", "reward-details.json": "{"}, "", 0, harbor.ErrRewardParse},
		{"too large", map[string]string{"reward.txt": strings.Repeat("1", 2<<20)}, "", 0, harbor.ErrRewardParse},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range c.files {
				write(t, dir, name, content)
			}
			r, err := harbor.ReadReward(dir)
			value := 0.0
			if err == nil {
				value, err = r.Value(c.key)
			}
			if !errors.Is(err, c.failure) || value != c.want {
				t.Errorf("%v, %v; want %v, %v", value, err, c.want, c.failure)
			}
		})
	}
}

func TestCriteriaComeFromTheDetails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "reward.json", `{"content": 1}`)
	write(t, dir, "reward-details.json", `{"content":{"criteria":[{"name":"says hello","value":1},{"id":"c2","value":0}]},"style":{"value":1}}`)
	r, err := harbor.ReadReward(dir)
	if err != nil || strings.Join(r.Criteria, ", ") != "content/c2, content/says hello, style" || r.Details == "" {
		t.Errorf("%v: %+v", err, r)
	}
}

func result() *harbor.TrialResult {
	now := time.Now().UTC()
	return &harbor.TrialResult{
		ID: "x", TaskName: "hello", TrialName: "hello__abcdefg", TaskID: harbor.TaskID{Path: "tasks/hello"}, AgentInfo: harbor.AgentInfo{Name: "a", Version: "1"},
		StartedAt: now, FinishedAt: now.Add(time.Second), VerifierResult: &harbor.VerifierResult{Rewards: map[string]float64{"reward": 1}},
	}
}

func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	if err := harbor.WriteJSON(path, result()); err != nil {
		t.Fatal(err)
	}
	if r, err := harbor.ReadResult(path); err != nil || r.VerifierResult.Rewards["reward"] != 1 {
		t.Errorf("%v: %+v", err, r)
	}
	var members map[string]json.RawMessage
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &members) != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("id task_name trial_name trial_uri task_id source task_checksum config agent_info agent_result verifier_result exception_info started_at finished_at environment_setup agent_setup agent_execution verifier") {
		if _, ok := members[name]; !ok {
			t.Errorf("the result has no %s", name)
		}
	}
	for name, change := range map[string]func(*harbor.TrialResult){
		"no id":          func(r *harbor.TrialResult) { r.ID = "" },
		"another name":   func(r *harbor.TrialResult) { r.TrialName = "hello" },
		"ends too early": func(r *harbor.TrialResult) { r.FinishedAt = r.StartedAt.Add(-1) },
		"no start":       func(r *harbor.TrialResult) { r.StartedAt = time.Time{} },
		"neither way":    func(r *harbor.TrialResult) { r.VerifierResult = nil },
		"a part backwards": func(r *harbor.TrialResult) {
			r.Verifier = &harbor.Timing{StartedAt: r.FinishedAt, FinishedAt: r.StartedAt}
		},
	} {
		r := result()
		change(r)
		if r.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	j := harbor.NewJob("j", time.Now(), 2)
	j.Add("a", result())
	failed := result()
	failed.VerifierResult, failed.ExceptionInfo = nil, &harbor.ExceptionInfo{Type: "VerifierTimeoutError"}
	j.Add("a", failed)
	if s := j.Stats; s.Trials != 2 || s.Errors != 1 || len(s.Evals["a"].RewardStats["reward"]["1"]) != 1 || len(s.Evals["a"].ExceptionStats["VerifierTimeoutError"]) != 1 {
		t.Errorf("%+v", s.Evals["a"])
	}
}

func TestLayoutAndManifest(t *testing.T) {
	dir := t.TempDir()
	l, err := harbor.NewLayout(dir, "../a task: with ümlauts and a very long name", "abc1234")
	if err != nil || filepath.Dir(l.Dir) != dir || strings.ContainsAny(l.Name, "/: ") {
		t.Fatalf("%v: %+v", err, l)
	}
	if _, err := harbor.NewLayout(dir, "x", "../.."); err == nil {
		t.Error("a suffix that leaves the folder was accepted")
	}
	write(t, l.Artifacts(), "a.txt", "content")
	sum, size, err := harbor.Sum(filepath.Join(l.Artifacts(), "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list := []harbor.Artifact{{Source: "/x/a.txt", Destination: "a.txt", Type: "file", Status: "ok", Producer: "t", SHA256: sum, SizeBytes: size, Redaction: "none"}}
	path := filepath.Join(l.Artifacts(), harbor.ManifestFile)
	if err := harbor.WriteJSON(path, list); err != nil {
		t.Fatal(err)
	}
	read, err := harbor.ReadManifest(path)
	if err != nil || len(read) != 1 || read[0] != list[0] {
		t.Fatalf("%v: %+v", err, read)
	}
	if err := harbor.Verify(l.Artifacts(), read); err != nil {
		t.Error(err)
	}
	write(t, l.Artifacts(), "a.txt", "other")
	if harbor.Verify(l.Artifacts(), read) == nil {
		t.Error("a changed file fits its manifest")
	}
	for _, bad := range []string{`{}`, `[{"source":"x","destination":"y"}]`, `[{"source":"x","destination":"../y","type":"file"}]`, `[{"source":"x","destination":"/y","type":"file"}]`} {
		write(t, l.Artifacts(), harbor.ManifestFile, bad)
		if _, err := harbor.ReadManifest(path); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}
