package atif

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrEmpty says that a trajectory without a step was to be written.
var ErrEmpty = errors.New("atif: a trajectory has at least one step")

// Writer writes a trajectory step by step.
type Writer struct {
	w     io.Writer
	steps int64
	err   error
}

// NewWriter begins a trajectory. Of head it uses what stands before the steps:
// version, ids and agent.
func NewWriter(w io.Writer, head *Trajectory) (*Writer, error) {
	x := &Writer{w: w}
	x.member("{", "schema_version", head.SchemaVersion)
	if head.SessionID != "" {
		x.member(",", "session_id", head.SessionID)
	}
	if head.TrajectoryID != "" {
		x.member(",", "trajectory_id", head.TrajectoryID)
	}
	x.member(",", "agent", head.Agent)
	x.raw(`,"steps":[`)
	return x, x.err
}

// Steps returns how many steps were written.
func (x *Writer) Steps() int64 { return x.steps }

// Step writes a step and gives it its number.
func (x *Writer) Step(s *Step) error {
	before := "\n"
	if x.steps > 0 {
		before = ",\n"
	}
	x.steps++
	s.StepID = x.steps
	x.raw(before)
	x.value(s)
	return x.err
}

// Close ends the trajectory. Of tail it uses what stands after the steps.
func (x *Writer) Close(tail *Trajectory) error {
	if x.steps == 0 && x.err == nil {
		x.err = ErrEmpty
	}
	x.raw("\n]")
	if tail.Notes != "" {
		x.member(",", "notes", tail.Notes)
	}
	if tail.FinalMetrics != nil {
		x.member(",\n", "final_metrics", tail.FinalMetrics)
	}
	if tail.ContinuedRef != "" {
		x.member(",", "continued_trajectory_ref", tail.ContinuedRef)
	}
	if len(tail.Extra) > 0 {
		x.member(",\n", "extra", tail.Extra)
	}
	if len(tail.Subagents) > 0 {
		x.member(",\n", "subagent_trajectories", tail.Subagents)
	}
	x.raw("}\n")
	return x.err
}

func (x *Writer) member(before, name string, value any) {
	x.raw(before + `"` + name + `":`)
	x.value(value)
}

func (x *Writer) value(v any) {
	if x.err != nil {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		x.err = fmt.Errorf("atif: %w", err)
		return
	}
	x.raw(string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}

func (x *Writer) raw(s string) {
	if x.err != nil {
		return
	}
	if _, err := io.WriteString(x.w, s); err != nil {
		x.err = fmt.Errorf("atif: %w", err)
	}
}
