package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/evidence"
)

// exportCommand exports evidence by itself, because that is what is mostly wanted,
// and has a command for each kind of export.
func (a *app) exportCommand() *cobra.Command {
	cmd := a.exportEvidenceCommand()
	cmd.Use, cmd.Short = "export SESSION", "Export evidence of a session"
	cmd.Long = "Exports what happened in a session, a thread, a turn or a task, from its facts\nalone. Each export is recorded in the session. Without a subcommand it is the\nsigned evidence pack.\n\nExit codes: 0 done, 1 failed, 2 usage."
	cmd.Example = "  agentd export sess_01 > pack.json\n  agentd export evidence sess_01 --out evidence.zip\n  agentd export review sess_01 --out review.html\n  agentd export transcript sess_01 --out conversation.md"
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) > 1 {
			return noSuchCommand(cmd, given)
		}
		return args(cobra.ExactArgs(1))(cmd, given)
	}
	cmd.AddCommand(a.exportEvidenceCommand(), a.exportReplayCommand(), a.exportReviewCommand(), a.exportTranscriptCommand())
	return cmd
}

func (a *app) exportEvidenceCommand() *cobra.Command {
	p := &evidenceExport{}
	cmd := a.exporting(&p.ExportScope, p, "FILE.json, FILE.zip or a new directory", &cobra.Command{
		Use:   "evidence SESSION",
		Short: "Export a signed evidence pack",
		Long: `Exports a pack that "agentd evidence verify" checks on any machine. Without --out
the pack goes to standard output, with --json the answer of export_evidence. --out
takes FILE.json for the pack alone, FILE.zip or a directory for the pack with its
facts, the contents that they refer to, and a manifest.

--format agent-evidence writes the pack in the shape of the Agent Evidence
standard instead: one JSON document that names the signed pack by its hash, or
with FILE.zip or a directory both of them and that standard's export manifest.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd export evidence sess_01 > pack.json\n  agentd export evidence sess_01 --turn turn_01 --out evidence.zip\n  agentd export evidence sess_01 --format agent-evidence > sibling.json",
	})
	cmd.Flags().StringVar(&p.format, "format", "agentd", "agentd or agent-evidence")
	return cmd
}

// evidenceExport is export_evidence with the form in which the pack is written.
type evidenceExport struct {
	command.ExportEvidence
	format string
}

// replayExport is export_replay with the form in which the case is written.
type replayExport struct {
	command.ExportReplay
	format string
}

// sibling is the form of the Agent Evidence standard.
const sibling = "agent-evidence"

// formatted returns the command behind an export, and the form that was asked for.
func formatted(p command.Params) (command.Params, string) {
	switch x := p.(type) {
	case *evidenceExport:
		return &x.ExportEvidence, x.format
	case *replayExport:
		return &x.ExportReplay, x.format
	}
	return p, "agentd"
}

// asSibling writes a pack or a case in the shape of the sibling standard.
func asSibling(ctx context.Context, f facts.Source, p command.Params, ref string, w io.Writer) error {
	var doc bytes.Buffer
	if err := facts.CopyContent(ctx, f, ref, &doc); err != nil {
		return err
	}
	if _, ok := p.(*command.ExportReplay); ok {
		return evidence.WriteSiblingReplay(bytes.NewReader(doc.Bytes()), ref, w)
	}
	return evidence.WriteSibling(bytes.NewReader(doc.Bytes()), ref, w)
}

// siblingTo writes a pack or a case in the sibling's shape to a file; a pack also to
// an archive or a directory, with that standard's manifest.
func siblingTo(p command.Params) func(ctx context.Context, f facts.Source, ref, out string) error {
	return func(ctx context.Context, f facts.Source, ref, out string) error {
		_, isCase := p.(*command.ExportReplay)
		if isCase || strings.HasSuffix(out, ".json") {
			return intoFile(out, func(w io.Writer) error { return asSibling(ctx, f, p, ref, w) })
		}
		return packTo(ctx, f, ref, out, func(pack io.ReadSeeker, to evidence.Bundle) error {
			return evidence.WriteSiblingBundle(pack, ref, to)
		})
	}
}

func (a *app) exportReplayCommand() *cobra.Command {
	p := &replayExport{}
	cmd := a.exporting(&p.ExportScope, p, "FILE.json", &cobra.Command{
		Use:   "replay SESSION",
		Short: "Export a replay case",
		Long: `Exports the facts of turns with everything that decisions depend on, so that
"agentd replay" can check them. Without --out the case goes to standard
output, with --json the answer of export_replay. --out takes FILE.json.
"agentd evidence verify" checks the case.

--format agent-evidence writes it in the shape of the Agent Evidence standard
instead, which names the case by its hash and can't be run.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd export replay sess_01 --turn turn_01 > case.json\n  agentd export replay sess_01 --format agent-evidence > replay.json",
	})
	cmd.Flags().StringVar(&p.format, "format", "agentd", "agentd or agent-evidence")
	cmd.Flags().StringVar(&p.GraderInstructions, "grader", "", "what to tell those who judge a replay")
	return cmd
}

func (a *app) exportReviewCommand() *cobra.Command {
	p := &command.ExportReview{}
	return a.exporting(&p.ExportScope, p, "FILE.md, FILE.html or FILE.json", &cobra.Command{
		Use:   "review SESSION",
		Short: "Export a page for people",
		Long: `Exports what was asked, done, decided, changed and left open, each statement
with the event that supports it. Without --out it goes to standard output as
Markdown, with --json the answer of export_review. --out takes FILE.md,
FILE.html or FILE.json.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd export review sess_01\n  agentd export review sess_01 --turn turn_01 --out review.html",
	})
}

// exporting completes a command that exports a scope.
func (a *app) exporting(scope *command.ExportScope, p command.Params, forms string, cmd *cobra.Command) *cobra.Command {
	var out string
	cmd.Args = args(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		scope.SessionID = given[0]
		return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.export(cmd.Context(), f, p, out) })
	}
	cmd.Flags().StringVar(&scope.ThreadID, "thread", "", "only this thread")
	cmd.Flags().StringVar(&scope.TurnID, "turn", "", "only this turn")
	cmd.Flags().StringVar(&scope.TaskID, "task", "", "only this task")
	cmd.Flags().StringVar(&out, "out", "", "output: "+forms+" (default standard output)")
	return a.withDataFlags(cmd)
}

func (a *app) export(ctx context.Context, f facts.Source, p command.Params, out string) error {
	p, format := formatted(p)
	if err := checkOut(p, out); err != nil { // before the session records an export
		return err
	}
	var res command.ExportResult
	if err := f.Do(ctx, p, &res); err != nil {
		return err
	}
	if out == "" && format == sibling {
		return asSibling(ctx, f, p, res.Ref, a.out)
	}
	if out == "" && a.json {
		return writeJSON(a.out, res)
	}
	if out == "" {
		return showExport(ctx, f, p, res.Ref, a.out)
	}
	to := exportTo
	if format == sibling {
		to = siblingTo(p)
	} else if _, ok := p.(*command.ExportReplay); ok {
		to = caseTo
	} else if _, ok := p.(*command.ExportReview); ok {
		to = reviewTo
	}
	if err := to(ctx, f, res.Ref, out); err != nil {
		return fmt.Errorf("export to %s: %w", out, err)
	}
	return a.print(map[string]string{"evidenceId": res.EvidenceID, "ref": res.Ref, "out": out}, func(p *printer) {
		p.linef("%s is in %s", res.EvidenceID, terminal.Plain(out))
	})
}

// showExport writes an export to standard output; a review as Markdown.
func showExport(ctx context.Context, f facts.Source, p command.Params, ref string, w io.Writer) error {
	if _, ok := p.(*command.ExportReview); ok {
		return copyReview(ctx, f, ref, ".md", w)
	}
	return facts.CopyContent(ctx, f, ref, w)
}

// exportTo writes a pack to a file, or with its contents to an archive or a
// directory.
func exportTo(ctx context.Context, f facts.Source, ref, out string) (err error) {
	if strings.HasSuffix(out, ".json") {
		return intoFile(out, func(w io.Writer) error { return facts.CopyContent(ctx, f, ref, w) })
	}
	open := func(ref string) (io.ReadCloser, error) { return f.Open(ctx, ref) }
	return packTo(ctx, f, ref, out, func(pack io.ReadSeeker, to evidence.Bundle) error { return evidence.WriteBundle(pack, open, to) })
}

// packTo writes what is made of a pack to an archive or a directory.
func packTo(ctx context.Context, f facts.Source, ref, out string, write func(io.ReadSeeker, evidence.Bundle) error) (err error) {
	pack, err := os.CreateTemp("", "agentd-export-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pack.Close(), os.Remove(pack.Name())) }()
	if err := facts.CopyContent(ctx, f, ref, pack); err != nil {
		return err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if strings.HasSuffix(out, ".zip") {
		return intoFile(out, func(w io.Writer) error {
			z := &zipBundle{zip.NewWriter(w)}
			return errors.Join(write(pack, z), z.w.Close())
		})
	}
	d := &dirBundle{dir: out}
	if err := d.begin(); err != nil {
		return err
	}
	return errors.Join(write(pack, d), d.end())
}

// caseTo writes a replay case to a file.
func caseTo(ctx context.Context, f facts.Source, ref, out string) error {
	return intoFile(out, func(w io.Writer) error { return facts.CopyContent(ctx, f, ref, w) })
}

// reviewTo writes a review to a file in the form that its name asks for.
func reviewTo(ctx context.Context, f facts.Source, ref, out string) error {
	return intoFile(out, func(w io.Writer) error { return copyReview(ctx, f, ref, filepath.Ext(out), w) })
}

// copyReview writes a review in one of its forms.
func copyReview(ctx context.Context, f facts.Source, ref, form string, w io.Writer) error {
	if form == ".json" {
		return facts.CopyContent(ctx, f, ref, w)
	}
	var raw bytes.Buffer
	if err := facts.CopyContent(ctx, f, ref, &raw); err != nil {
		return err
	}
	var r evidence.Review
	if err := json.Unmarshal(raw.Bytes(), &r); err != nil {
		return fmt.Errorf("review: %w", err)
	}
	page := r.Markdown
	if form == ".html" {
		page = r.HTML
	}
	_, err := io.WriteString(w, page)
	return err
}

// intoFile writes a new file for its owner alone.
func intoFile(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// zipBundle writes a bundle as an archive. Its files carry no time, so that the
// same pack gives the same archive.
type zipBundle struct{ w *zip.Writer }

// zipTime is the time of all files in an archive, the first that the format knows:
// the same export gives the same bytes.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Create implements [evidence.Bundle].
func (z *zipBundle) Create(path string) (io.Writer, error) {
	return z.w.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Deflate, Modified: zipTime})
}

// dirBundle writes a bundle as a directory.
type dirBundle struct {
	dir string
	f   *os.File
}

func (d *dirBundle) begin() error {
	if entries, err := os.ReadDir(d.dir); err == nil && len(entries) > 0 {
		return errNotEmpty
	}
	return os.MkdirAll(d.dir, 0o700)
}

// Create implements [evidence.Bundle].
func (d *dirBundle) Create(path string) (io.Writer, error) {
	if err := d.end(); err != nil {
		return nil, err
	}
	to := filepath.Join(d.dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return nil, err
	}
	var err error
	d.f, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return d.f, err
}

// end closes the file that is being written.
func (d *dirBundle) end() error {
	if d.f == nil {
		return nil
	}
	err := d.f.Close()
	d.f = nil
	return err
}
