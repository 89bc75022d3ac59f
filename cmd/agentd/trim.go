package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/fault"
	"agentd/server"
	"agentd/session"
)

// trimPath is where a running server removes events.
const trimPath = "/v1/trim"

// trimmer is facts whose first events can be removed.
type trimmer interface {
	facts.Source
	trimSession(ctx context.Context, sessionID string, opt session.TrimOptions) (*session.Trimmed, error)
}

func (a *app) sessionsTrimCommand() *cobra.Command {
	var before string
	var dry bool
	cmd := &cobra.Command{
		Use:   "trim SESSION --before SEQUENCE|DURATION",
		Short: "Remove the first events of a session for good",
		Long: `Removes the events of a session before a sequence, or those that are older than
a duration. Their result stays: the session's state, its records, the hash of
its chain at the last removed event, and an event that says what is gone. Only
a backup can bring the events back; an evidence pack that was exported before
still proves them.

A session keeps its events while it has unfinished work, while a fork refers to
them, and while a connected peer has not acknowledged them. Contents behind
references stay until they expire.

The setting retention.events does the same automatically for idle sessions.

Exit codes: 0 done, also if there was nothing to remove, 1 failed, 2 usage.`,
		Example: `  agentd sessions trim sess_01 --before 720h --dry-run
  agentd sessions trim sess_01 --before 5000
  agentd sessions trim sess_01 --before 720h --json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			opt, err := parseBefore(before, time.Now())
			if err != nil {
				return err
			}
			opt.DryRun = dry
			return a.withFacts(cmd, toLook, func(f facts.Source) error { return a.trim(cmd.Context(), f.(trimmer), given[0], opt) })
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "the first sequence to keep, or the age beyond which events are removed")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	return a.withDataFlags(cmd)
}

// parseBefore reads a sequence or a duration.
func parseBefore(text string, now time.Time) (session.TrimOptions, error) {
	if text == "" {
		return session.TrimOptions{}, usagef("--before is missing: give the first sequence to keep, such as 5000, or an age such as 720h")
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		return session.TrimOptions{Before: n}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return session.TrimOptions{}, usagef("--before: %q is neither a sequence such as 5000 nor a duration such as 720h", text)
	}
	return session.TrimOptions{OlderThan: now.Add(-d)}, nil
}

func (a *app) trim(ctx context.Context, f trimmer, sessionID string, opt session.TrimOptions) error {
	got, err := f.trimSession(ctx, sessionID, opt)
	if err != nil {
		return err
	}
	return a.print(got, func(p *printer) {
		switch {
		case got.Events == 0:
			p.linef("%s: there is nothing to remove", got.SessionID)
		case got.DryRun:
			p.linef("%s: the events %d to %d (%s) would be removed", got.SessionID, got.From, got.Through, terminal.Plural(got.Bytes, "byte"))
		default:
			p.linef("%s: the events %d to %d (%s) were removed", got.SessionID, got.From, got.Through, terminal.Plural(got.Bytes, "byte"))
		}
	})
}

func (l *localFacts) trimSession(ctx context.Context, sessionID string, opt session.TrimOptions) (*session.Trimmed, error) {
	return l.manager.Trim(ctx, sessionID, opt)
}

func (r *remoteFacts) trimSession(ctx context.Context, sessionID string, opt session.TrimOptions) (*session.Trimmed, error) {
	q := url.Values{}
	if opt.Before > 0 {
		q.Set("before", strconv.FormatUint(opt.Before, 10))
	} else {
		q.Set("olderThan", opt.OlderThan.UTC().Format(time.RFC3339Nano))
	}
	if opt.DryRun {
		q.Set("dryRun", "true")
	}
	res, err := r.send(ctx, http.MethodPost, trimPath+"/"+url.PathEscape(sessionID)+"?"+q.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("trim: %w", err)
	}
	got := &session.Trimmed{}
	err = json.NewDecoder(res.Body).Decode(got)
	return got, errors.Join(err, res.Body.Close())
}

// serveTrim answers POST /v1/trim/SESSION, for admins.
func (s *serving) serveTrim(w http.ResponseWriter, r *http.Request) {
	caller, ok := server.CallerFrom(r.Context())
	id := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, trimPath), "/")
	if !ok {
		s.refuse(w, fault.New(fault.Unauthenticated, "a token is needed"))
		return
	}
	if id == "" || r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		s.refuse(w, fault.New(fault.MethodNotAllowed, "possible here: POST %s/SESSION", trimPath))
		return
	}
	opt, err := trimQuery(r.URL.Query())
	if err != nil {
		s.refuse(w, err)
		return
	}
	got, err := s.runtime.TrimSession(r.Context(), caller, id, opt)
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = writeJSON(w, got) // a client that went away needs no answer
}

// trimQuery reads what goes: exactly one bound, so that nothing goes by mistake.
func trimQuery(q url.Values) (session.TrimOptions, error) {
	opt := session.TrimOptions{DryRun: q.Get("dryRun") == "true"}
	before, older := q.Get("before"), q.Get("olderThan")
	if (before == "") == (older == "") {
		return opt, fault.Param("before", "give either before, a sequence, or olderThan, a time")
	}
	var err error
	if before != "" {
		if opt.Before, err = strconv.ParseUint(before, 10, 64); err != nil || opt.Before == 0 {
			return opt, fault.Param("before", "is not a sequence")
		}
		return opt, nil
	}
	if opt.OlderThan, err = time.Parse(time.RFC3339Nano, older); err != nil {
		return opt, fault.Param("olderThan", "is not a time such as 2026-11-15T12:00:00Z")
	}
	return opt, nil
}
