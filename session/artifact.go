package session

import (
	"context"
	"encoding/json"
	"errors"

	"agentd/command"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

func (r *request) listArtifacts(ctx context.Context, p *command.ListArtifacts) (*command.ListArtifactsResult, error) {
	page, err := r.m.ListCards(ctx, r.caller, &CardQuery{
		Kind: ArtifactCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Status: p.Status, Type: p.Type, Parent: p.TurnID, Group: p.TaskID, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListArtifactsResult{Artifacts: []command.ArtifactRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		a, err := r.findArtifact(ctx, c.SessionID, c.ID)
		if fault.KindOf(err) == fault.NotFound {
			continue // its session was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		res.Artifacts = append(res.Artifacts, artifactRecord(c.SessionID, a))
	}
	return res, nil
}

// findArtifact reads what is known of an artifact, also when it left the working set.
func (r *request) findArtifact(ctx context.Context, sessionID, id string) (*state.Artifact, error) {
	var out *state.Artifact
	if err := r.viewSession(ctx, sessionID, func(st *state.Session) error {
		if a := st.Artifacts.Find(id); a != nil {
			kept := *a
			out = &kept
		}
		return nil
	}); err != nil || out != nil {
		return out, err
	}
	snap, err := r.m.opt.Store.Snapshot(ctx, sessionID, "artifact/"+id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no artifact %s", id)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	out = &state.Artifact{}
	if err := json.Unmarshal(snap.Data, out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of artifact %s can't be read", id)
	}
	return out, nil
}

func artifactRecord(sessionID string, a *state.Artifact) command.ArtifactRecord {
	return command.ArtifactRecord{
		ArtifactID: a.ArtifactID, SessionID: sessionID, ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, ToolCallID: a.ToolCallID,
		Change: a.Change, Kind: a.Kind, Title: a.Title, URI: a.URI, VersionID: a.VersionID, ReadRef: a.ReadRef, DiffRef: a.DiffRef,
		MediaType: a.MediaType, SizeBytes: a.SizeBytes, VersionCount: a.VersionCount, FirstSeenAt: a.FirstSeenAt, UpdatedAt: a.UpdatedAt,
	}
}
