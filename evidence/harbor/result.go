package harbor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// TrialResult is result.json of a trial.
type TrialResult struct {
	ID               string          `json:"id"`
	TaskName         string          `json:"task_name"`
	TrialName        string          `json:"trial_name"`
	TrialURI         string          `json:"trial_uri"`
	TaskID           TaskID          `json:"task_id"`
	Source           *string         `json:"source"`
	TaskChecksum     string          `json:"task_checksum"`
	Config           json.RawMessage `json:"config"`
	AgentInfo        AgentInfo       `json:"agent_info"`
	AgentResult      *AgentResult    `json:"agent_result"`
	VerifierResult   *VerifierResult `json:"verifier_result"`
	ExceptionInfo    *ExceptionInfo  `json:"exception_info"`
	StartedAt        time.Time       `json:"started_at"`
	FinishedAt       time.Time       `json:"finished_at"`
	EnvironmentSetup *Timing         `json:"environment_setup"`
	AgentSetup       *Timing         `json:"agent_setup"`
	AgentExecution   *Timing         `json:"agent_execution"`
	Verifier         *Timing         `json:"verifier"`
	// StepResults are those of a task of several steps, as far as it came. Such a
	// trial has its agent's result in them, and none of its own.
	StepResults []*StepResult `json:"step_results,omitempty"`
}

// StepResult is what a step came to.
type StepResult struct {
	StepName       string          `json:"step_name"`
	AgentResult    *AgentResult    `json:"agent_result"`
	VerifierResult *VerifierResult `json:"verifier_result"`
	ExceptionInfo  *ExceptionInfo  `json:"exception_info"`
	AgentExecution *Timing         `json:"agent_execution"`
	Verifier       *Timing         `json:"verifier"`
}

// TaskID says where a task is.
type TaskID struct {
	Path string `json:"path"`
}

// AgentInfo says who was tried.
type AgentInfo struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	ModelInfo *ModelInfo `json:"model_info"`
}

// ModelInfo names a model.
type ModelInfo struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
}

// AgentResult is what the agent used.
type AgentResult struct {
	InputTokens    int64           `json:"n_input_tokens"`
	CacheTokens    int64           `json:"n_cache_tokens"`
	OutputTokens   int64           `json:"n_output_tokens"`
	CostUSD        *float64        `json:"cost_usd"`
	RolloutDetails json.RawMessage `json:"rollout_details"`
	Metadata       map[string]any  `json:"metadata"`
}

// VerifierResult holds the scores.
type VerifierResult struct {
	Rewards map[string]float64 `json:"rewards"`
}

// ExceptionInfo says what went wrong.
type ExceptionInfo struct {
	Type       string    `json:"exception_type"`
	Message    string    `json:"exception_message"`
	Traceback  string    `json:"exception_traceback"`
	OccurredAt time.Time `json:"occurred_at"`
}

// Timing is when a part began and ended.
type Timing struct {
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
}

// JobResult is result.json of a job.
type JobResult struct {
	ID         string    `json:"id"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Total      int       `json:"n_total_trials"`
	Stats      JobStats  `json:"stats"`
}

// JobStats counts trials.
type JobStats struct {
	Trials int                  `json:"n_trials"`
	Errors int                  `json:"n_errors"`
	Evals  map[string]*EvalStat `json:"evals"`
}

// EvalStat counts the trials of one agent, model and data set.
type EvalStat struct {
	Trials  int              `json:"n_trials"`
	Errors  int              `json:"n_errors"`
	Metrics []map[string]any `json:"metrics"`
	// RewardStats maps the name of a score to its values, and each to its trials.
	RewardStats    map[string]map[string][]string `json:"reward_stats"`
	ExceptionStats map[string][]string            `json:"exception_stats"`
}

// NewJob returns a job without trials.
func NewJob(id string, started time.Time, total int) *JobResult {
	return &JobResult{ID: id, StartedAt: started, Total: total, Stats: JobStats{Evals: map[string]*EvalStat{}}}
}

// Add counts a trial.
func (j *JobResult) Add(eval string, t *TrialResult) {
	e := j.Stats.Evals[eval]
	if e == nil {
		e = &EvalStat{Metrics: []map[string]any{}, RewardStats: map[string]map[string][]string{}, ExceptionStats: map[string][]string{}}
		j.Stats.Evals[eval] = e
	}
	j.Stats.Trials++
	e.Trials++
	if x := t.ExceptionInfo; x != nil {
		j.Stats.Errors++
		e.Errors++
		e.ExceptionStats[x.Type] = append(e.ExceptionStats[x.Type], t.TrialName)
	}
	if t.VerifierResult == nil {
		return
	}
	for name, v := range t.VerifierResult.Rewards {
		if e.RewardStats[name] == nil {
			e.RewardStats[name] = map[string][]string{}
		}
		value := strconv.FormatFloat(v, 'g', -1, 64)
		e.RewardStats[name][value] = append(e.RewardStats[name][value], t.TrialName)
	}
}

// Lock is lock.json of a job: what exactly was run.
type Lock struct {
	SchemaVersion    int         `json:"schema_version"`
	CreatedAt        time.Time   `json:"created_at"`
	Harbor           LockHarbor  `json:"harbor"`
	Invocation       []string    `json:"invocation"`
	ConcurrentTrials int         `json:"n_concurrent_trials"`
	Retry            any         `json:"retry"`
	Trials           []LockTrial `json:"trials"`
}

// LockHarbor says which program ran the job.
type LockHarbor struct {
	Version       string  `json:"version"`
	GitCommitHash *string `json:"git_commit_hash"`
	IsEditable    bool    `json:"is_editable"`
}

// LockTrial is one trial of a job.
type LockTrial struct {
	Task        LockTask       `json:"task"`
	Timeouts    map[string]any `json:"timeouts"`
	Agent       map[string]any `json:"agent"`
	Environment map[string]any `json:"environment"`
	Verifier    map[string]any `json:"verifier"`
}

// LockTask names a task and its content.
type LockTask struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Digest string `json:"digest"`
}

// trialName is the name of a trial's folder.
var trialName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*__[A-Za-z0-9]{7}$`)

// Check reports what result.json of a trial must have and doesn't.
func (t *TrialResult) Check() error {
	switch {
	case t.ID == "" || t.TaskName == "" || t.TaskID.Path == "" || t.AgentInfo.Name == "" || t.AgentInfo.Version == "":
		return errors.New("harbor: result: id, task_name, task_id, agent_info.name and agent_info.version are required")
	case !trialName.MatchString(t.TrialName):
		return fmt.Errorf("harbor: result: %q is not the name of a trial", t.TrialName)
	case t.StartedAt.IsZero() || t.FinishedAt.Before(t.StartedAt):
		return errors.New("harbor: result: it ends before it starts")
	case t.VerifierResult == nil && t.ExceptionInfo == nil:
		return errors.New("harbor: result: it has neither scores nor a reason why not")
	}
	results, parts := []*VerifierResult{t.VerifierResult}, []*Timing{t.EnvironmentSetup, t.AgentSetup, t.AgentExecution, t.Verifier}
	for i, s := range t.StepResults {
		if s == nil || s.StepName == "" {
			return fmt.Errorf("harbor: result: step_results[%d] has no step_name", i)
		}
		results, parts = append(results, s.VerifierResult), append(parts, s.AgentExecution, s.Verifier)
	}
	for _, r := range results {
		if err := r.check(); err != nil {
			return err
		}
	}
	for _, x := range parts {
		if x != nil && x.FinishedAt.Before(x.StartedAt) {
			return errors.New("harbor: result: a part ends before it starts")
		}
	}
	return nil
}

func (r *VerifierResult) check() error {
	if r == nil {
		return nil
	}
	for name, v := range r.Rewards {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("harbor: result: the score %q is not a number", name)
		}
	}
	return nil
}

// ReadResult reads result.json of a trial.
func ReadResult(path string) (*TrialResult, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("harbor: result: %w", err)
	}
	t := &TrialResult{}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("harbor: %s: %w", path, err)
	}
	return t, t.Check()
}

// WriteJSON writes a file of a job: indented, with a line feed at its end.
func WriteJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("harbor: %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("harbor: %w", err)
	}
	return nil
}
