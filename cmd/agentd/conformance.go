package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/conformance"
)

func (a *app) conformanceCommand() *cobra.Command {
	return parent("conformance", "Check what a runtime wrote against the standard",
		"Holds events, snapshots and packs of any runtime of the Agent Runtime standard\nagainst the standard, and writes fixtures to try such a check with.\n\nExit codes: those of its commands.",
		"  agentd conformance check events.jsonl\n  agentd conformance fixtures ./fixtures", a.conformanceCheckCommand(), a.conformanceFixturesCommand())
}

func (a *app) conformanceCheckCommand() *cobra.Command {
	x := &conformanceCheck{a: a}
	cmd := &cobra.Command{
		Use:   "check FILE|DIR|URL",
		Short: "Check events, snapshots and packs offline",
		Long: `Checks a file, every .json, .jsonl and .ndjson file below a directory, or a
running runtime. A file is a stream of events, one on each line, or one JSON
document: an event, a page of events, a session snapshot, a thread, a task, an
evidence pack or the pack of a benchmark trial. "-" is standard input. Files of
any size are read as streams.

A URL without a path is a runtime with agentd's HTTP interface: the events, the
snapshot and the threads of every session that the token can see are checked. A
URL with a path is one document or stream. The token is AGENTD_TOKEN.

Each check names the paragraph of the standard that it rests on. What the standard
demands must hold; what it only recommends is reported as advice, and counts with
--strict. docs/reference/conformance.md lists all checks.

A sequence that is missing between two events of a session is a failure, unless
the stream marks the gap. --partial says that the stream leaves events out on
purpose, as a filtered one does; an address with types, profile or view says so by
itself. A source without any event or document isn't good: nothing was checked.

--format is text, json or junit; --json is the same as --format json.

Exit codes: 0 it conforms, 1 it doesn't, or something can't be read, 2 usage, 3
there was nothing to check.`,
		Example: `  agentd conformance check events.jsonl
  agentd conformance check --strict --format junit events.jsonl
  agentd events sess_01 --json | agentd conformance check -
  agentd conformance check http://127.0.0.1:8700`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error { return x.run(cmd.Context(), given[0]) },
	}
	cmd.Flags().StringVar(&x.format, "format", "text", "text, json or junit")
	cmd.Flags().BoolVar(&x.strict, "strict", false, "count advice as failures")
	cmd.Flags().BoolVar(&x.partial, "partial", false, "the stream leaves events out on purpose")
	return cmd
}

func (a *app) conformanceFixturesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "fixtures DIR",
		Short: "Write documents that conform, and documents that don't",
		Long: `Writes agentd's own fixtures into a directory: below valid what conforms, below
broken documents that are wrong in one way each. manifest.json says which check
finds which. They are not the standard's own fixtures.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd conformance fixtures ./fixtures",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, given []string) error {
			if err := conformance.WriteFixtures(given[0]); err != nil {
				return err
			}
			n := len(conformance.Fixtures())
			return a.print(map[string]any{"dir": given[0], "fixtures": n}, func(p *printer) {
				p.linef("%s are in %s", terminal.Plural(n, "fixture"), terminal.Plain(given[0]))
			})
		},
	}
}

// conformanceCheck is "agentd conformance check".
type conformanceCheck struct {
	a      *app
	format string
	strict bool
	// partial says that missing sequences are meant.
	partial bool
}

// exitNothing is the exit code when there was nothing to check: neither good nor bad.
const exitNothing = 3

func (x *conformanceCheck) run(ctx context.Context, target string) error {
	if x.a.json {
		x.format = "json"
	}
	c := conformance.NewChecker(conformance.Limits{})
	if x.partial {
		c.Partial()
	}
	if err := x.read(ctx, c, target); err != nil {
		return err
	}
	if err := x.write(c.Report()); err != nil {
		return err
	}
	switch {
	case c.Report().Empty():
		return silent(exitNothing)
	case !c.Report().Conforms(x.strict):
		return silent(exitFailed)
	}
	return nil
}

func (x *conformanceCheck) read(ctx context.Context, c *conformance.Checker, target string) error {
	u, err := url.Parse(target)
	switch {
	case target == "-":
		return c.Read("standard input", x.a.in)
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return x.fetch(ctx, c, u)
	}
	return c.Path(target)
}

// fetch checks a running runtime, or one document of it.
func (x *conformanceCheck) fetch(ctx context.Context, c *conformance.Checker, u *url.URL) error {
	base := url.URL{Scheme: u.Scheme, Host: u.Host}
	r, err := newRemote(base.String(), "", x.a.env["AGENTD_TOKEN"], nil)
	if err != nil {
		return usagef("%s: %w", u.Redacted(), err)
	}
	if strings.Trim(u.Path, "/") == "" {
		return checkRuntime(ctx, c, r)
	}
	if q := u.Query(); q.Has("types") || q.Has("profile") || q.Has("view") {
		c.Partial()
	}
	res, err := r.send(ctx, http.MethodGet, u.RequestURI(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.Read(u.Redacted(), res.Body)
}

// checkRuntime checks all sessions of a runtime that the token can see.
func checkRuntime(ctx context.Context, c *conformance.Checker, r *remoteFacts) error {
	for p := (&command.ListSessions{Page: command.Page{Limit: command.MaxPage}}); ; {
		var page struct {
			Sessions   []struct{ SessionID string }
			NextCursor string
		}
		if err := r.Do(ctx, p, &page); err != nil {
			return err
		}
		for _, s := range page.Sessions {
			if err := checkSession(ctx, c, r, s.SessionID); err != nil {
				return fmt.Errorf("session %s: %w", s.SessionID, err)
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		p.Cursor = page.NextCursor
	}
}

func checkSession(ctx context.Context, c *conformance.Checker, r *remoteFacts, id string) error {
	if err := c.Events(id, eventsOf(ctx, r, id)); err != nil {
		return err
	}
	var snapshot struct {
		Threads []struct {
			ThreadID string `json:"threadId"`
		} `json:"threads"`
	}
	raw, err := document(ctx, c, r, id+": snapshot", &command.GetSession{SessionID: id})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &snapshot); err != nil {
		return err
	}
	for _, t := range snapshot.Threads {
		if _, err := document(ctx, c, r, id+": thread "+t.ThreadID, &command.GetThreadRead{SessionID: id, ThreadID: t.ThreadID}); err != nil {
			return err
		}
	}
	return nil
}

// document checks what a command answers.
func document(ctx context.Context, c *conformance.Checker, r *remoteFacts, name string, p command.Params) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := r.Do(ctx, p, &raw); err != nil {
		return nil, err
	}
	return raw, c.Read(name, bytes.NewReader(raw))
}

// eventsOf returns all events of a session, a page at a time.
func eventsOf(ctx context.Context, r *remoteFacts, id string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for after := uint64(0); ; {
			page, last, err := r.Page(ctx, id, after, 1000)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, f := range page {
				if !yield(f.Data, nil) {
					return
				}
				after = f.Sequence
			}
			if len(page) == 0 || after >= last {
				return
			}
		}
	}
}

func (x *conformanceCheck) write(r *conformance.Report) error {
	switch x.format {
	case "json":
		return r.WriteJSON(x.a.out)
	case "junit":
		return r.WriteJUnit(x.a.out, x.strict)
	}
	ink := x.a.ink(x.a.out)
	colour := func(code string) func(string) string {
		return func(s string) string { return ink.Paint(code, s) }
	}
	return r.WriteText(x.a.out, &conformance.Paint{Bad: colour(terminal.Red), Advice: colour(terminal.Yellow), Good: colour(terminal.Green), Dim: colour(terminal.Dim)}, terminal.Plain)
}
