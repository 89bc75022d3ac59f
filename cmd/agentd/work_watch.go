package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/event"
)

// watched is what -f of a list follows in one session.
type watched struct {
	sessionID string
	// types are the facts that are shown as lines, as patterns; redraw are those that
	// the list is drawn anew for, if they are others.
	types, redraw []string
	// show writes the list as it is now.
	show func(context.Context) error
}

// watch shows a list and then its changes as they come, until it is stopped: on a
// terminal the list is drawn anew, in a pipe each change is a line, with --json each
// is the fact.
func (a *app) watch(ctx context.Context, f facts.Source, w watched) error {
	// Where the facts are before the list is read: what happens meanwhile is shown.
	_, last, err := f.Page(ctx, w.sessionID, 0, 1)
	if err != nil {
		return err
	}
	if !a.json {
		if err := w.show(ctx); err != nil {
			return err
		}
	}
	if _, local := f.(*localFacts); local { // also one that could carry out turns: it takes up none
		a.sayf("No server holds the data: there will be no changes.")
		return nil
	}
	if !a.json && terminal.IsTerminal(a.out) {
		if w.redraw != nil {
			w.types = w.redraw
		}
		err = a.redraw(ctx, f, w, last)
	} else {
		err = a.changes(ctx, f, w, last)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was stopped, as -f always is
	}
	return err
}

// changes writes a line for each fact.
func (a *app) changes(ctx context.Context, f facts.Source, w watched, last uint64) error {
	for e, err := range f.Follow(ctx, w.sessionID, last, followTypes(w.types)) {
		if err == nil {
			err = a.showChange(e, w.types)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showChange writes the line of one fact, with what it is about and how far that is.
func (a *app) showChange(e facts.Fact, types []string) error {
	line, err := parseLine(e.Data)
	if err != nil || a.json || !wanted(line.Type, types) {
		return errors.Join(err, a.showEvent(e, &eventFlags{types: types}))
	}
	var about struct {
		TaskID     string `json:"taskId"`
		JobID      string `json:"jobId"`
		SubagentID string `json:"subagentId"`
		Payload    struct {
			Progress *struct {
				event.Progress
				event.JobCounts
			} `json:"progress"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(e.Data, &about); err != nil {
		return fmt.Errorf("read a fact: %w", err)
	}
	family, _, _ := strings.Cut(line.Type, ".")
	parts := []string{map[string]string{"task": about.TaskID, "job": about.JobID, "subagent": about.SubagentID}[family]}
	if at := about.Payload.Progress; at != nil {
		if at.Total > 0 {
			parts = append(parts, fmt.Sprintf("%d/%d  %d running  %d failed", ended(at.JobCounts), at.Total, at.Running, at.Failed))
		}
		if at.Percent != nil {
			parts = append(parts, fmt.Sprintf("%.0f%%", *at.Percent))
		}
		parts = append(parts, terminal.Clip(terminal.Plain(at.Phase), 20), terminal.Clip(terminal.Plain(at.Summary), 60))
	}
	p := a.printer()
	p.linef("%s  %s", line.format(p), strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " "))
	return p.flush()
}

// redraw draws the list anew when something changed, and not more often than can be
// looked at.
func (a *app) redraw(ctx context.Context, f facts.Source, w watched, last uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- wakeOn(ctx, f, w, last, changed)
		close(ended)
	}()
	defer func() {
		cancel()
		for range ended { // until the one that follows has ended
		}
	}()
	for {
		select {
		case err := <-ended:
			return err
		case <-changed:
		}
		if _, err := fmt.Fprint(a.out, "\x1b[H\x1b[2J"); err != nil {
			return fmt.Errorf("write to the terminal: %w", err)
		}
		if err := w.show(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(drawEvery):
		}
	}
}

// wakeOn signals each fact that changes the list.
func wakeOn(ctx context.Context, f facts.Source, w watched, last uint64, changed chan<- struct{}) error {
	for e, err := range f.Follow(ctx, w.sessionID, last, followTypes(w.types)) {
		if err != nil {
			return err
		}
		line, err := parseLine(e.Data)
		if err != nil {
			return err
		}
		if !wanted(line.Type, w.types) {
			continue
		}
		select {
		case changed <- struct{}{}:
		default: // the list will be read after this fact anyway
		}
	}
	return nil
}
