// Package facts is how commands reach a runtime: a server, or a data directory that
// this process opened.
//
// # Contract
//
// A [Source] carries out commands and delivers facts; where they come from doesn't
// matter to its users. A [Follower] delivers the facts of a session to a channel
// and says when the connection is lost. The functions find out what commands need to
// know of a session. Nothing here draws or asks.
//
// # Concurrency
//
// Sources may be used by many goroutines, a Follower by one.
package facts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/state"
)

// Fact is one event as it is stored.
type Fact struct {
	Sequence uint64
	Data     []byte
}

// Source is what commands work on.
type Source interface {
	// Do carries out a command and stores its result in what result points to.
	Do(ctx context.Context, p command.Params, result any) error
	// Page returns facts of a session after a sequence, and its last sequence. Where
	// retention removed what follows, it begins with the oldest that there is.
	Page(ctx context.Context, sessionID string, after uint64, limit int) ([]Fact, uint64, error)
	// Follow delivers facts after a sequence, then live ones. Options may be nil; they
	// are for servers alone.
	Follow(ctx context.Context, sessionID string, after uint64, o *client.FollowOptions) iter.Seq2[Fact, error]
	// Open opens the content behind a reference.
	Open(ctx context.Context, ref string) (io.ReadCloser, error)
	// TakeUp has this process go on with what another left in a session. A server did so
	// when it started.
	TakeUp(ctx context.Context, sessionID string) error
	// Live reports whether turns are being carried out.
	Live() bool
	// Remote reports whether a server does, which goes on when this process ends.
	Remote() bool
	// Close ends it.
	Close() error
}

// PageSize is how many facts are read at once.
const PageSize = 1000

// Each reads all facts of a session. Those of a newer server are passed over.
func Each(ctx context.Context, f Source, sessionID string, with func(*event.Event)) error {
	read := func(ref string) ([]byte, error) {
		var content bytes.Buffer
		err := CopyContent(ctx, f, ref, &content)
		return content.Bytes(), err
	}
	for after := uint64(0); ; {
		page, last, err := f.Page(ctx, sessionID, after, PageSize)
		if err != nil {
			return err
		}
		for _, x := range page {
			if e, err := event.DecodeWhole(x.Data, read); err == nil {
				with(e)
			}
			after = x.Sequence
		}
		if len(page) == 0 || after >= last {
			return nil
		}
	}
}

// CopyContent writes the content behind a reference.
func CopyContent(ctx context.Context, f Source, ref string, w io.Writer) error {
	r, err := f.Open(ctx, ref)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

// ReadContent returns the content behind a reference, or its beginning: at most so many
// bytes, all if most is 0.
func ReadContent(ctx context.Context, f Source, ref string, most int64) ([]byte, error) {
	r, err := f.Open(ctx, ref)
	if err != nil {
		return nil, err
	}
	var from io.Reader = r
	if most > 0 {
		from = io.LimitReader(r, most)
	}
	data, err := io.ReadAll(from)
	return data, errors.Join(err, r.Close())
}

// LastSession returns the session that was used last; on the user's own server, in the
// project that the command was started in.
func LastSession(ctx context.Context, f Source) (string, error) {
	var res command.ListSessionsResult
	p := &command.ListSessions{Sort: "updated", Page: command.Page{Limit: 2}} // one may be the runtime's own
	if here, ok := f.(interface{ Workspace() string }); ok {
		p.Workspace = here.Workspace()
	}
	if err := f.Do(ctx, p, &res); err != nil {
		return "", err
	}
	var last *command.SessionSummary
	for i := range res.Sessions {
		s := &res.Sessions[i]
		if s.SessionID != event.RuntimeSession && (last == nil || s.UpdatedAt.After(last.UpdatedAt)) {
			last = s
		}
	}
	if last == nil && p.Workspace != "" {
		return "", fmt.Errorf("there is no session in %s yet; \"agentd run\" starts one, and \"agentd sessions --all\" lists those of other projects", p.Workspace)
	}
	if last == nil {
		return "", errors.New("there is no session yet; \"agentd run\" starts one")
	}
	return last.SessionID, nil
}

// MainThread returns the read model of a session's main thread.
func MainThread(ctx context.Context, f Source, sessionID string) (*state.ThreadReadModel, error) {
	none := 0
	var s struct {
		Threads []state.ThreadReadModel `json:"threads"`
	}
	if err := f.Do(ctx, &command.GetSession{SessionID: sessionID, Limit: &none}, &s); err != nil {
		return nil, err
	}
	for i := range s.Threads {
		if s.Threads[i].ParentThreadID == "" || s.Threads[i].Role == "fork" { // the parent of a fork is in another session
			return &s.Threads[i], nil
		}
	}
	return nil, fmt.Errorf("session %s has no thread", sessionID)
}

// Sequence returns the sequence of a session's last fact.
func Sequence(ctx context.Context, f Source, sessionID string) (uint64, error) {
	s, err := Standing(ctx, f, sessionID)
	return s.Sequence, err
}

// Standing returns how a session stands, without its history.
func Standing(ctx context.Context, f Source, sessionID string) (command.SessionRead, error) {
	none := 0
	var s command.SessionRead
	err := f.Do(ctx, &command.GetSession{SessionID: sessionID, Limit: &none}, &s)
	return s, err
}

// IsTurnEnd reports whether a fact ends a turn.
func IsTurnEnd(e *event.Event) bool {
	return e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed
}

// IsSubagentFact tells a child's begin and end from what it does.
func IsSubagentFact(e *event.Event) bool {
	return e.Type == event.TypeSubagentSpawned || e.Type == event.TypeSubagentCompleted || e.Type == event.TypeSubagentFailed
}
