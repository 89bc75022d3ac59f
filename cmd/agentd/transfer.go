package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/facts"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/command"
	"agentd/fault"
	"agentd/server"
	"agentd/transfer"
)

// transferPath is where a running server hands out and takes whole sessions.
const transferPath = "/v1/transfer"

// mover is facts that can write and take whole sessions.
type mover interface {
	facts.Source
	exportSession(ctx context.Context, sessionID string, to io.Writer) error
	importSession(ctx context.Context, from *os.File, opt transfer.ImportOptions) (*transfer.ImportedSession, error)
}

func (a *app) sessionsExportCommand() *cobra.Command {
	var out, format string
	cmd := &cobra.Command{
		Use:   "export SESSION",
		Short: "Export a whole session to a file, for another runtime",
		Long: `Writes all facts of a session as they are stored, one per line, with the
outputs that they refer to, the head of their hash chain and the runtime's
signature. "agentd sessions import" imports it elsewhere. Contents kept for
undo are not exported.

--format cloudevents writes the facts alone, one CloudEvent 1.0 per line.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: `  agentd sessions export sess_01 --out sess_01.jsonl
  agentd sessions export sess_01 --format cloudevents | jq .type`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.withFacts(cmd, toAct, func(f facts.Source) error { return a.exportTo(cmd.Context(), f.(mover), given[0], format, out) })
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "-", `the file, which must not exist; "-" is standard output`)
	cmd.Flags().StringVar(&format, "format", "session", "session or cloudevents")
	return a.withDataFlags(cmd)
}

// exportTo writes a session to a file, which is removed again if that fails.
func (a *app) exportTo(ctx context.Context, f mover, sessionID, format, file string) error {
	write := func(w io.Writer) error { return f.exportSession(ctx, sessionID, w) }
	if format == "cloudevents" {
		write = func(w io.Writer) error { return a.writeCloudEvents(ctx, f, sessionID, w) }
	}
	if file == "-" {
		return write(a.out)
	}
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	show := a.progress()
	if err = write(show.counting("export", to)); err == nil {
		err = to.Sync()
	}
	show.eraseLine()
	info, statErr := to.Stat()
	if err = errors.Join(err, statErr, to.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return a.print(map[string]any{"file": file, "bytes": info.Size()}, func(p *printer) {
		p.linef("%s: %s", file, terminal.Plural(info.Size(), "byte"))
	})
}

// writeCloudEvents writes each fact of a session as a CloudEvent. The form has no
// place to say that the first ones are gone, so people are told.
func (a *app) writeCloudEvents(ctx context.Context, f facts.Source, sessionID string, to io.Writer) error {
	out := bufio.NewWriter(to)
	for after := uint64(0); ; {
		page, last, err := f.Page(ctx, sessionID, after, command.MaxPage)
		if err != nil {
			return err
		}
		for _, x := range page {
			a.sayGap(after, x.Sequence)
			data, err := transfer.CloudEvent(x.Data)
			if err != nil {
				return err
			}
			if _, err := out.Write(append(data, '\n')); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			after = x.Sequence
		}
		if after >= last || len(page) == 0 {
			return out.Flush()
		}
	}
}

func (a *app) sessionsImportCommand() *cobra.Command {
	var opt transfer.ImportOptions
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a session that another runtime exported",
		Long: `Reads a file of "agentd sessions export", checks the hash chain, the signature,
every fact and every output, and only then writes. The session keeps its id, its
facts and its account; an id that another session already has is refused. An
interrupted import can be repeated.

Compare the printed key with that of the runtime you trust: the signature
shows that the file is complete and unchanged, not whose key it is.

A session with unfinished work is refused, because it must not go on in two
places; --allow-open imports it anyway, and the next start continues it.

A session that brings permissions is refused, because its author gave them and
not you: a mode in which commands run by themselves, rules that allow, approvals
for the session. --allow-policy imports it with them.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Example: "  agentd sessions import sess_01.jsonl\n  agentd sessions import --data /var/lib/agentd sess_01.jsonl",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			kind, err := kindOf(given[0])
			if err == nil && kind.name != kindSession {
				err = kind.isNot(given[0], "an exported session", "agentd sessions export")
			}
			if err != nil {
				return fmt.Errorf("import: %w", err)
			}
			file, err := os.Open(given[0])
			if err != nil {
				return fmt.Errorf("import: %w", err)
			}
			err = a.withFacts(cmd, toRun, func(f facts.Source) error { return a.importFrom(cmd.Context(), f.(mover), file, opt) })
			return errors.Join(err, file.Close())
		},
	}
	cmd.Flags().BoolVar(&opt.AllowOpen, "allow-open", false, "also a session with unfinished work")
	cmd.Flags().BoolVar(&opt.AllowPolicy, "allow-policy", false, "also a session with permissions of its own, which then apply here")
	return a.withDataFlags(cmd)
}

func (a *app) importFrom(ctx context.Context, f mover, file *os.File, opt transfer.ImportOptions) error {
	show := a.progress()
	show.sayf("import: checking %s", file.Name())
	got, err := f.importSession(ctx, file, opt)
	show.eraseLine()
	if err != nil {
		return byFlag(byFlag(err, "(allowOpen)", "(--allow-open)"), "(allowPolicy)", "(--allow-policy)")
	}
	return a.print(got, func(p *printer) {
		p.linef("%s: %s of %s, %d of them new, %s (%d missing)", got.SessionID, terminal.Plural(got.Events, "fact"), got.RuntimeID, got.Written, terminal.Plural(got.Outputs, "output"), got.Missing)
		p.linef("signed with key %s", got.Key)
		if got.OpenWork {
			a.sayf("It has unfinished work, which the next start continues.")
		}
		if at := got.LeftPlace; at != nil {
			a.sayf("Its files are in %s on node %s where it comes from, and were not brought along.", terminal.Plain(at.Root), terminal.Plain(at.Node))
		}
	})
}

// byFlag names a flag where an answer names the parameter that it stands for.
func byFlag(err error, parameter, flag string) error {
	if text := err.Error(); strings.Contains(text, parameter) {
		return fault.New(fault.KindOf(err), "%s", strings.ReplaceAll(text, parameter, flag))
	}
	return err
}

func (l *localFacts) exportSession(ctx context.Context, sessionID string, to io.Writer) error {
	return l.runtime.ExportSession(ctx, l.caller, sessionID, to)
}

func (l *localFacts) importSession(ctx context.Context, from *os.File, opt transfer.ImportOptions) (*transfer.ImportedSession, error) {
	return l.runtime.ImportSession(ctx, l.caller, from, opt)
}

func (r *remoteFacts) exportSession(ctx context.Context, sessionID string, to io.Writer) error {
	res, err := r.send(ctx, http.MethodGet, transferPath+"/"+url.PathEscape(sessionID), nil)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	// What breaks off has no last line, which the check finds.
	check, feed := io.Pipe()
	checked := make(chan error, 1)
	go func() {
		_, err := transfer.Read(check, transfer.Visitor{})
		_, drain := io.Copy(io.Discard, check)
		checked <- errors.Join(err, drain)
	}()
	_, err = io.Copy(io.MultiWriter(to, feed), res.Body)
	return errors.Join(err, feed.Close(), <-checked, res.Body.Close())
}

func (r *remoteFacts) importSession(ctx context.Context, from *os.File, opt transfer.ImportOptions) (*transfer.ImportedSession, error) {
	query := url.Values{}
	if opt.AllowOpen {
		query.Set("allowOpen", "true")
	}
	if opt.AllowPolicy {
		query.Set("allowPolicy", "true")
	}
	res, err := r.send(ctx, http.MethodPost, transferPath+"?"+query.Encode(), io.NopCloser(from)) // the file is its owner's to close
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	got := &transfer.ImportedSession{}
	err = json.NewDecoder(res.Body).Decode(got)
	return got, errors.Join(err, res.Body.Close())
}

// serveTransfer answers GET /v1/transfer/SESSION with a session, and takes one
// with POST /v1/transfer.
func (s *serving) serveTransfer(w http.ResponseWriter, r *http.Request) {
	caller, ok := server.CallerFrom(r.Context())
	id := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, transferPath), "/")
	switch {
	case !ok:
		s.refuse(w, fault.New(fault.Unauthenticated, "a token is needed"))
	case id != "" && r.Method == http.MethodGet:
		s.sendSession(w, r, caller, id)
	case id == "" && r.Method == http.MethodPost:
		s.takeSession(w, r, caller)
	default:
		w.Header().Set("Allow", "GET, POST")
		s.refuse(w, fault.New(fault.MethodNotAllowed, "possible here: GET %s/SESSION and POST %s", transferPath, transferPath))
	}
}

// sendSession spools the session: what can't be read, because a bucket or the database is away,
// ends in an answer that says so and when to come again, not in the middle of a file.
func (s *serving) sendSession(w http.ResponseWriter, r *http.Request, caller command.Caller, id string) {
	err := sendSpooled(w, func(to io.Writer) error {
		return s.runtime.ExportSession(r.Context(), caller, id, to)
	})
	if err != nil {
		s.refuse(w, err)
	}
}

// sendSpooled answers with the session that write writes, once that is whole. After an error nothing was
// sent. An answer that breaks off afterwards is cut, so that the client doesn't take it for whole.
func sendSpooled(w http.ResponseWriter, write func(io.Writer) error) (err error) {
	spool, err := os.CreateTemp("", "agentd-export-*")
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	if err := write(spool); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if _, err := io.Copy(w, spool); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// takeSession spools what comes, because it is read twice.
func (s *serving) takeSession(w http.ResponseWriter, r *http.Request, caller command.Caller) {
	if !caller.Admin {
		s.refuse(w, fault.New(fault.Forbidden, "a session brings its own account: only an admin may import one"))
		return
	}
	r.Body = &patientBody{ReadCloser: r.Body, deadline: http.NewResponseController(w)}
	got, err := s.importBody(r, caller)
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = writeJSON(w, got) // a client that went away needs no answer
}

// patientBody gives each read its own time: a file may be large, but a client that sends
// nothing for a minute is gone.
type patientBody struct {
	io.ReadCloser
	deadline *http.ResponseController
}

// Read implements [io.Reader].
func (b *patientBody) Read(p []byte) (int, error) {
	_ = b.deadline.SetReadDeadline(time.Now().Add(time.Minute)) // without one the server's own holds
	return b.ReadCloser.Read(p)
}

func (s *serving) importBody(r *http.Request, caller command.Caller) (got *transfer.ImportedSession, err error) {
	spool, err := os.CreateTemp("", "agentd-import-*")
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	if _, err = io.Copy(spool, r.Body); err != nil {
		return nil, fault.Wrap(fault.InvalidParams, err, "the file arrived incomplete")
	}
	if _, err = spool.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	return s.runtime.ImportSession(r.Context(), caller, spool, transfer.ImportOptions{
		AllowOpen: r.URL.Query().Get("allowOpen") == "true", AllowPolicy: r.URL.Query().Get("allowPolicy") == "true",
	})
}

// refuse answers with an error, and logs what isn't the caller's mistake.
func (s *serving) refuse(w http.ResponseWriter, err error) {
	err = s.runtime.Explain(err)
	if k := fault.KindOf(err); k == fault.Internal || k == fault.Unavailable {
		s.log.Error("a request could not be carried out", "error", err, "requestId", w.Header().Get("X-Request-ID"))
	}
	server.WriteProblem(w, err)
}
