package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/fault"
	"agentd/session"
	"agentd/store"
	"agentd/store/storefault"
)

// Carrier writes the sessions of one runtime to files, and takes over those of others.
// It may be used by many goroutines.
type Carrier struct {
	// Sessions has the sessions, Store their facts.
	Sessions *session.Manager
	Store    store.Store
	// RuntimeID is that of the runtime that writes.
	RuntimeID string
	// Key returns the key that files are signed with.
	Key func(context.Context) (ed25519.PrivateKey, error)
}

// Export writes a whole session with the outputs that its facts refer to. Memory
// doesn't grow with the session, but for the references.
func (c *Carrier) Export(ctx context.Context, caller command.Caller, sessionID string, to io.Writer) error {
	if err := c.Sessions.See(ctx, caller, sessionID); err != nil { // who may not see the session learns nothing
		return err
	}
	base, err := evidence.Removed(ctx, c.Store, sessionID)
	if err != nil {
		return storefault.Read(err, "session %s can't be read", sessionID)
	}
	_, last, err := c.Sessions.Events(ctx, caller, sessionID, base.Sequence, 1)
	if err != nil {
		return err
	}
	key, err := c.Key(ctx)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 256<<10)
	head := Header{SessionID: sessionID, RuntimeID: c.RuntimeID, ExportedAt: c.Sessions.Now(), RemovedThrough: base.Sequence}
	if base.Sequence > 0 {
		head.RemovedHash = hex.EncodeToString(base.Hash[:])
	}
	w, err := NewWriter(out, head)
	if err != nil {
		return err
	}
	reader, err := c.Sessions.ReaderFor(ctx, sessionID) // also for an admin: the file is the account's
	if err != nil {
		return err
	}
	x := &sessionExport{c: c, caller: reader, w: w, seen: map[string]bool{}}
	for rec, err := range c.Store.Read(ctx, sessionID, store.Range{After: base.Sequence, Before: last + 1}) {
		if err != nil {
			return storefault.Read(err, "session %s can't be read", sessionID)
		}
		if err := w.Event(rec.Data); err != nil {
			return err
		}
		x.noteOutputs(rec.Data)
	}
	for len(x.refs) > 0 {
		ref := x.refs[0]
		x.refs = x.refs[1:]
		if err := x.output(ctx, ref); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(key), out.Flush())
}

// maxInspected is the largest output that is looked through for references.
const maxInspected = 16 << 20

// sessionExport collects the outputs of a session that is being written.
type sessionExport struct {
	c *Carrier
	// caller sees what the session's account sees.
	caller command.Caller
	w      *Writer
	refs   []string
	seen   map[string]bool
}

// noteOutputs remembers the references in a text that were not there before.
func (x *sessionExport) noteOutputs(data []byte) {
	for _, ref := range store.RefsIn(data, math.MaxInt) {
		if !x.seen[ref] {
			x.seen[ref] = true
			x.refs = append(x.refs, ref)
		}
	}
}

// output writes one output, and remembers what it refers to itself. What is not
// there any more, or is not the caller's, is written as missing.
func (x *sessionExport) output(ctx context.Context, ref string) error {
	blob, mediaType, err := x.c.Sessions.Output(ctx, x.caller, ref)
	if fault.KindOf(err) == fault.NotFound {
		return x.w.Output(ref, "", nil)
	}
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // it was only read
	if !strings.Contains(mediaType, "json") || blob.Info().Size > maxInspected {
		if err := x.w.Output(ref, mediaType, blob); err != nil {
			return cmp.Or(storefault.Of(err), err)
		}
		return nil
	}
	data, err := io.ReadAll(blob)
	if err != nil {
		return storefault.Read(err, "output %s can't be read", ref)
	}
	x.noteOutputs(data)
	return x.w.Output(ref, mediaType, bytes.NewReader(data))
}

// ImportOptions say how a session is taken over.
type ImportOptions struct {
	// AllowOpen imports a session that has unfinished work: the next start, or
	// resume_thread, goes on with it as after a crash. Where it came from it must
	// not go on.
	AllowOpen bool
	// AllowPolicy imports a session that has permissions of its own: a mode in which
	// commands run by themselves, rules that allow, approvals. They apply here, too.
	AllowPolicy bool
}

// ImportedSession is a session that was taken over.
type ImportedSession struct {
	SessionID string `json:"sessionId"`
	RuntimeID string `json:"runtimeId"`
	// Events are those of the file, Written those that were not here before.
	Events  uint64 `json:"events"`
	Written uint64 `json:"written"`
	// Outputs came along, Missing ones were gone where they came from.
	Outputs int `json:"outputs"`
	Missing int `json:"missing"`
	// OpenWork says that work is unfinished.
	OpenWork bool `json:"openWork"`
	// LeftPlace is where the session's files are at the runtime that it comes from. They were
	// not brought along, and the session has no place here until a tool works with files.
	LeftPlace *event.WorkspacePlace `json:"leftPlace,omitempty"`
	// Key is the fingerprint of the key that signed: compare it with that of the
	// runtime that you trust.
	Key string `json:"key"`
}

// Import takes over a session that another runtime exported. The whole file
// is checked before anything is written; one that was cut off can be imported
// again. Only an admin may: the facts say whose session it is.
func (c *Carrier) Import(ctx context.Context, caller command.Caller, from io.ReadSeeker, opt ImportOptions) (*ImportedSession, error) {
	if !caller.Admin {
		return nil, fault.New(fault.Forbidden, "a session brings its account along: only an admin may import one")
	}
	whole, err := gatherPayloads(from, func(h *Header) error {
		_, err := c.beginCheck(ctx, h)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = whole.Close() }() // it was read: nothing can be lost
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the file can't be read again")
	}
	sum, checked, err := c.checkImport(ctx, from, whole)
	if err != nil {
		return nil, err
	}
	if checked.OpenWork && !opt.AllowOpen {
		return nil, fault.New(fault.Conflict, "session %s has unfinished work, which must not go on in two places: let it end there, or take it over as it is (allowOpen)", sum.SessionID)
	}
	if len(checked.Permissions) > 0 && !opt.AllowPolicy {
		return nil, fault.New(fault.Conflict, "session %s brings permissions that were given where it comes from and would apply here: %s; take it over only if you trust its origin (allowPolicy)", sum.SessionID, strings.Join(checked.Permissions, ", "))
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the file can't be read again")
	}
	if err := whole.storePayloads(func(payload io.Reader) error {
		_, err := c.Sessions.PutOutput(ctx, payload)
		return err
	}); err != nil {
		return nil, err
	}
	done, err := c.writeImport(ctx, from, sum.SessionID, checked.Foreign)
	if err != nil {
		return nil, err
	}
	return &ImportedSession{
		SessionID: sum.SessionID, RuntimeID: sum.RuntimeID, Events: done.Events, Written: done.Written,
		Outputs: sum.Outputs, Missing: sum.Missing, OpenWork: done.OpenWork, LeftPlace: checked.Foreign, Key: sum.Fingerprint,
	}, nil
}

// checkImport reads the file once without changing anything.
func (c *Carrier) checkImport(ctx context.Context, from io.Reader, whole *payloads) (*Summary, session.Imported, error) {
	var check *session.ImportCheck
	named, brought := map[string]bool{}, map[string]bool{}
	sum, err := Read(from, Visitor{
		Header: func(h *Header) (err error) {
			check, err = c.beginCheck(ctx, h)
			return err
		},
		Event: func(rec store.Record) error {
			if err := nameRefs(named, bytes.NewReader(rec.Data)); err != nil {
				return err
			}
			return check.Add(ctx, whole, &rec)
		},
		Output: func(ref, _ string, content io.Reader) error {
			brought[ref] = true
			return nameRefs(named, content)
		},
	})
	if err != nil {
		return nil, session.Imported{}, unreadable(err)
	}
	for ref := range named {
		if !brought[ref] {
			if err := check.Missing(ctx, ref); err != nil {
				return nil, session.Imported{}, err
			}
		}
	}
	got, err := check.Done()
	return sum, got, err
}

// maxNamed bounds the references of a file, which are kept in memory while it is checked.
const maxNamed = 1 << 20

// nameRefs adds the references in a text to those that are named.
func nameRefs(named map[string]bool, text io.Reader) error {
	refs, err := session.RefsIn(text)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		named[ref] = true
	}
	if len(named) > maxNamed {
		return fault.New(fault.InvalidParams, "it has more than %d references", maxNamed)
	}
	return nil
}

// beginCheck says from a file's first line alone why the session can't be taken over.
func (c *Carrier) beginCheck(ctx context.Context, h *Header) (*session.ImportCheck, error) {
	if h.RemovedThrough > 0 {
		return nil, fault.New(fault.Conflict, "the facts of session %s through %d were removed by retention before the export: it can be read and checked, but not taken over", h.SessionID, h.RemovedThrough)
	}
	return c.Sessions.CheckImport(ctx, h.SessionID)
}

// unreadable classifies what ended the reading of a file: an error of the
// visitor's as it is, anything else is the file's fault. Callers are shown all of it.
func unreadable(err error) error {
	kind := fault.InvalidParams
	if f, ok := errors.AsType[*fault.Error](err); ok {
		kind = f.Kind
	}
	return fault.New(kind, "the file can't be imported: %.1000s", err.Error()) // a file may quote itself at length
}

// writeImport reads the file again and writes. The place that the session had elsewhere is
// none of its places here.
func (c *Carrier) writeImport(ctx context.Context, from io.Reader, sessionID string, foreign *event.WorkspacePlace) (session.Imported, error) {
	in, err := c.Sessions.BeginImport(ctx, sessionID)
	if err != nil {
		return session.Imported{}, err
	}
	here := false
	end := func(failed error) (session.Imported, error) {
		got, err := in.Close(ctx, failed)
		if err != nil || here {
			return got, err
		}
		here = true
		return got, c.Sessions.LeaveForeignPlace(ctx, sessionID, foreign)
	}
	_, err = Read(from, Visitor{
		Event: func(rec store.Record) error { return in.Add(ctx, &rec) },
		Output: func(ref, mediaType string, content io.Reader) error {
			if _, err := end(nil); err != nil {
				return err
			}
			if _, err := c.Sessions.PutOutput(ctx, content); err != nil {
				return err
			}
			return c.Sessions.Emit(ctx, sessionID, event.ByRuntime, func(tx *session.Tx) error {
				tx.Refer(ref, mediaType)
				return nil
			})
		},
	})
	if err != nil {
		err = unreadable(err)
	}
	return end(err)
}
