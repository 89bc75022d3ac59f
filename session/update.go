package session

import (
	"bytes"
	"context"
	"slices"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
)

// updateSession changes a session's own fields.
func (r *request) updateSession(ctx context.Context, p *command.UpdateSession) (*command.UpdateSessionResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.UpdateSessionResult, error) {
		after := *tx.State
		change, err := r.sessionChange(&after, p)
		if err != nil {
			return nil, err
		}
		if change != nil {
			after.UpdatedAt = tx.Now()
			tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: change})
		}
		return sessionRecord(&after), nil
	})
}

// sessionChange applies what a caller asks for to a copy of the session and returns the
// fact that says so; nil if nothing changes.
func (r *request) sessionChange(s *state.Session, p *command.UpdateSession) (*event.SessionUpdated, error) {
	change := &event.SessionUpdated{ChangedBy: r.actor()}
	changed := false
	if p.Title != nil {
		if title := r.m.redactText(*p.Title); title != s.Title {
			s.Title, change.Title, changed = title, &title, true
		}
	}
	tags, err := r.changedTags(s.Tags, p)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(tags, s.Tags) {
		s.Tags, change.Tags, changed = tags, tags, true
		if len(tags) == 0 {
			change.Cleared = append(change.Cleared, state.ClearedTags)
		}
	}
	if p.Pinned != nil && *p.Pinned != s.Pinned {
		s.Pinned, change.Pinned, changed = *p.Pinned, p.Pinned, true
	}
	if p.Archived != nil && *p.Archived != (s.Status == state.SessionArchived) {
		if s.Status = "open"; *p.Archived {
			s.Status = state.SessionArchived
		}
		change.Status, changed = s.Status, true
	}
	if len(p.Metadata) > 0 {
		metadata := r.m.redact(p.Metadata)
		if string(bytes.Join(bytes.Fields(metadata), nil)) == "{}" {
			metadata = nil
		}
		if !bytes.Equal(metadata, s.Metadata) {
			s.Metadata, change.Metadata, changed = metadata, metadata, true
			if metadata == nil {
				change.Cleared = append(change.Cleared, state.ClearedMetadata)
			}
		}
	}
	if !changed {
		return nil, nil
	}
	return change, nil
}

// changedTags are the tags that update_session makes of the session's.
func (r *request) changedTags(old []string, p *command.UpdateSession) ([]string, error) {
	if p.Tags != nil {
		return r.cleanTags(p.Tags), nil
	}
	if len(p.AddTags)+len(p.RemoveTags) == 0 {
		return old, nil
	}
	gone := r.cleanTags(p.RemoveTags)
	kept := slices.DeleteFunc(slices.Clone(old), func(tag string) bool { return slices.Contains(gone, tag) })
	tags := r.cleanTags(append(kept, p.AddTags...))
	if len(p.AddTags) > 0 && len(tags) > command.MaxTags { // an import may have brought more
		return nil, fault.Param("addTags", "make %d tags of the session; it can have %d", len(tags), command.MaxTags)
	}
	return tags, nil
}

// cleanTags returns tags without secrets, each once and in order.
func (r *request) cleanTags(tags []string) []string {
	out := make([]string, 0, len(tags))
	for _, tag := range tags {
		out = append(out, r.m.redactText(tag))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func sessionRecord(s *state.Session) *command.UpdateSessionResult {
	return &command.UpdateSessionResult{
		SessionID: s.SessionID, Title: s.Title, Tags: append([]string{}, s.Tags...), Pinned: s.Pinned, Archived: s.Status == state.SessionArchived,
		Metadata: s.Metadata, Account: s.Account, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
}

// updateThread pins a thread, or takes the pin away.
func (r *request) updateThread(ctx context.Context, p *command.UpdateThread) (*command.UpdateThreadResult, error) {
	return mutate(ctx, r, p.SessionID, false, func(tx *Tx) (*command.UpdateThreadResult, error) {
		if _, err := findThread(tx.State, p.ThreadID); err != nil {
			return nil, err
		}
		pinned := append([]string{}, tx.State.PinnedThreads...)
		if at := slices.Index(pinned, p.ThreadID); *p.Pinned != (at >= 0) {
			change := &event.SessionUpdated{ChangedBy: r.actor()}
			if at >= 0 {
				pinned = slices.Delete(pinned, at, at+1)
			} else {
				pinned = append(pinned, p.ThreadID)
			}
			if change.PinnedThreads = pinned; len(pinned) == 0 {
				change.Cleared = []string{state.ClearedPinnedThreads}
			}
			tx.Emit(event.Event{Type: event.TypeSessionUpdated, Payload: change})
		}
		return &command.UpdateThreadResult{ThreadID: p.ThreadID, Pinned: *p.Pinned, PinnedThreadIDs: pinned}, nil
	})
}
