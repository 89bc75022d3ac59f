package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// maxItemLine bounds a line of the items.
const maxItemLine = 16 << 20

func (a *app) jobRunCommand() *cobra.Command {
	p := &command.CreateJob{}
	var schema string
	var attempts int64
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Work on the items of a file and write the results",
		Long: `Creates a job of the items in a file, one JSON value per line ("-" is
standard input), and follows it to its end. A line is an item's input; an
object with "input" and, if you like, "itemId" names the item too.

Results go to standard output, one JSON object per line, as soon as an item
ends; progress goes to standard error. With --json standard output has the
job's record at the end and nothing else. An interrupt cancels the job;
finished items stay.

Exit codes: 0 the job is done, 1 it failed, 2 usage. A failed item fails the job
unless --failures-allowed lets it pass.`,
		Example: `  agentd job run items.jsonl --instruction "Translate to French."
  agentd job run items.jsonl --instruction "Classify." --schema label.json --concurrency 16 --attempts 3
  seq 10 | agentd job run - --instruction "Is it a prime?"`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := a.canWork(cmd); err != nil {
				return err
			}
			if err := a.readJob(cmd.Context(), given[0], schema, p); err != nil {
				return &exitError{exitUsage, err}
			}
			if attempts > 1 {
				p.RetryPolicy = &event.RetryPolicy{MaxAttempts: attempts, BackoffMs: 1000}
			}
			return a.withFacts(cmd, toRun, func(f facts.Source) error { return a.runJob(cmd.Context(), f, p) })
		},
	}
	cmd.Flags().StringVar(&p.Instruction, "instruction", "", "what to do with each item")
	cmd.Flags().Int64Var(&p.Concurrency, "concurrency", 0, "items in parallel (default 8)")
	cmd.Flags().StringVar(&schema, "schema", "", "file with the JSON Schema that each output must satisfy")
	cmd.Flags().Int64Var(&attempts, "attempts", 1, "maximum attempts per item")
	cmd.Flags().Int64Var((*int64)(&p.FailuresAllowed), "failures-allowed", 0, "how many items may fail without failing the job")
	cmd.Flags().Int64Var(&p.MaxRuntimeMs, "max-runtime-ms", 0, "end the job after this time")
	cmd.Flags().StringVar(&p.SessionID, "session", "", "session of the job; default: a new one")
	cmd.Flags().StringVar(&p.Title, "title", "", "title, for people")
	return a.withDataFlags(cmd)
}

// readJob reads the items and the schema of a job.
func (a *app) readJob(ctx context.Context, file, schema string, p *command.CreateJob) error {
	var in io.Reader
	if file == "-" {
		in = a.input(ctx)
	} else {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }() // it was only read
		in = opened
	}
	var err error
	if p.Items, err = readItems(in); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if schema != "" {
		if p.OutputSchema, err = os.ReadFile(schema); err != nil {
			return err
		}
		if p.OutputSchema, err = compactJSON(p.OutputSchema); err != nil {
			return fmt.Errorf("%s: %w", schema, err)
		}
	}
	return p.Validate()
}

func compactJSON(raw []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// readItems reads items, one JSON value per line.
func readItems(in io.Reader) ([]command.JobItemInput, error) {
	var items []command.JobItemInput
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxItemLine)
	for n := 1; lines.Scan(); n++ {
		raw := bytes.TrimSpace(lines.Bytes())
		if len(raw) == 0 {
			continue
		}
		item, err := readItem(raw)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		items = append(items, item)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errors.New("no items")
	}
	return items, nil
}

// readItem reads a line: an object with an input, or the input itself.
func readItem(raw []byte) (command.JobItemInput, error) {
	compact, err := compactJSON(raw)
	if err != nil {
		return command.JobItemInput{}, fmt.Errorf("not valid JSON: %w", err)
	}
	var item command.JobItemInput
	strict := json.NewDecoder(bytes.NewReader(compact))
	strict.DisallowUnknownFields()
	if compact[0] == '{' && strict.Decode(&item) == nil && len(item.Input) > 0 {
		return item, nil
	}
	return command.JobItemInput{Input: compact}, nil
}

// runJob creates a job and follows it to its end. An interrupt cancels it.
func (a *app) runJob(ctx context.Context, f facts.Source, p *command.CreateJob) error {
	var made command.JobResult
	if err := f.Do(ctx, p, &made); err != nil {
		return err
	}
	var job command.JobRecord
	if err := f.Do(ctx, &command.GetJob{JobID: made.JobID, Page: command.Page{Limit: 1}}, &job); err != nil {
		return err
	}
	show := &jobShow{a: a, jobID: made.JobID, counts: event.JobCounts{Total: int64(len(p.Items)), Pending: int64(len(p.Items))}, began: time.Now()}
	if err := show.follow(ctx, f, job.SessionID); err != nil {
		if ctx.Err() == nil {
			return err
		}
		end := &command.CancelJob{JobID: made.JobID, Reason: "interrupted at the terminal"}
		err = f.Do(context.WithoutCancel(ctx), end, nil)
		show.finish()
		a.sayf("%s was cancelled; finished items stay.", made.JobID)
		return errors.Join(silent(exitFailed), err)
	}
	show.finish()
	if err := f.Do(ctx, &command.GetJob{JobID: made.JobID}, &job); err != nil {
		return err
	}
	if a.json {
		if err := writeJSON(a.out, job); err != nil {
			return err
		}
	}
	if job.Status != "completed" {
		return silent(exitFailed)
	}
	return nil
}

// jobShow shows how far a job is: a bar that is drawn again on a terminal, a line
// now and then in a pipe.
type jobShow struct {
	a      *app
	jobID  string
	counts event.JobCounts
	began  time.Time
	drawn  time.Time
	line   bool
}

// Least times between two pictures of a job's progress.
const (
	drawEvery = 100 * time.Millisecond
	lineEvery = 2 * time.Second
)

// follow shows the job's facts until it ended.
func (s *jobShow) follow(ctx context.Context, f facts.Source, sessionID string) error {
	for x, err := range f.Follow(ctx, sessionID, 0, followTypes([]string{"job.*"})) {
		if err != nil {
			return err
		}
		if !bytes.Contains(x.Data, []byte(`"type":"job.`)) {
			continue
		}
		e, err := event.Decode(x.Data)
		if err != nil {
			return err
		}
		if e.JobID != s.jobID {
			continue
		}
		done, err := s.showFact(e)
		if err != nil || done {
			return err
		}
	}
	return ctx.Err()
}

// jobLine is a line of what comes out.
type jobLine struct {
	ItemID       string          `json:"itemId"`
	Status       string          `json:"status"`
	AttemptCount int64           `json:"attemptCount"`
	Output       json.RawMessage `json:"output,omitempty"`
	OutputRef    string          `json:"outputRef,omitempty"`
	Error        *event.Failure  `json:"error,omitempty"`
}

// showFact counts and shows a fact of the job, and reports whether the job ended.
func (s *jobShow) showFact(e *event.Event) (bool, error) {
	c := &s.counts
	var line *jobLine
	switch p := e.Payload.(type) {
	case *event.JobItemStarted:
		c.Pending, c.Running = c.Pending-1, c.Running+1
	case *event.JobItemCompleted:
		c.Running, c.Completed = c.Running-1, c.Completed+1
		line = &jobLine{ItemID: e.JobItemID, Status: p.Status, AttemptCount: p.AttemptCount, Output: p.Output}
		if len(p.Output) == 0 {
			line.OutputRef = p.OutputRef
		}
	case *event.JobItemFailed:
		if c.Running--; p.WillRetry {
			c.Pending++
			break
		}
		c.Failed++
		line = &jobLine{ItemID: e.JobItemID, Status: "failed", AttemptCount: p.AttemptCount, Error: &p.Error}
	case *event.JobStatusChanged:
		return state.JobEnded(p.Status), nil
	}
	if line != nil && !s.a.json {
		s.erase()
		if err := writeJSON(s.a.out, line); err != nil {
			return false, err
		}
	}
	// What was written took the bar's place at a terminal.
	s.draw(line != nil && terminal.IsTerminal(s.a.err))
	return false, nil
}

// draw shows how far the job is, if it is time to.
func (s *jobShow) draw(last bool) {
	live, every := terminal.IsTerminal(s.a.err), lineEvery
	if live {
		every = drawEvery
	}
	if now := time.Now(); !last && now.Sub(s.drawn) < every {
		return
	}
	s.drawn = time.Now()
	rate := float64(ended(s.counts)) / max(time.Since(s.began).Seconds(), 0.001)
	text := fmt.Sprintf("%s %d/%d  %d running  %d failed  %.1f/s", bar(s.counts, 30), ended(s.counts), s.counts.Total, s.counts.Running, s.counts.Failed, rate)
	if !live {
		s.a.sayf("%s", text)
		return
	}
	s.erase()
	_, _ = fmt.Fprint(s.a.err, text) // a picture; the facts are elsewhere
	s.line = true
}

// erase takes the bar away, so that something else can be written.
func (s *jobShow) erase() {
	if s.line {
		_, _ = fmt.Fprint(s.a.err, "\r\x1b[K") // as in draw
		s.line = false
	}
}

// finish leaves the last picture standing.
func (s *jobShow) finish() {
	s.draw(true)
	if s.line {
		_, _ = fmt.Fprintln(s.a.err) // as in draw
		s.line = false
	}
}
