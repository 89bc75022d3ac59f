package session

import (
	"context"

	"agentd/command"
	"agentd/fault"
	"agentd/state"
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
	return findKept(ctx, r, sessionID, "artifact", id, func(st *state.Session) *state.Artifact { return st.Artifacts.Find(id) })
}

func artifactRecord(sessionID string, a *state.Artifact) command.ArtifactRecord {
	return command.ArtifactRecord{
		ArtifactID: a.ArtifactID, SessionID: sessionID, ThreadID: a.ThreadID, TurnID: a.TurnID, TaskID: a.TaskID, ToolCallID: a.ToolCallID,
		Change: a.Change, Kind: a.Kind, Title: a.Title, URI: a.URI, VersionID: a.VersionID, ReadRef: a.ReadRef, DiffRef: a.DiffRef,
		MediaType: a.MediaType, SizeBytes: a.SizeBytes, VersionCount: a.VersionCount, FirstSeenAt: a.FirstSeenAt, UpdatedAt: a.UpdatedAt,
	}
}
