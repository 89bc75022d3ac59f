package a2a

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel"
	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// Bounds of a page.
const (
	defaultPage = 50
	maxPage     = 100
)

// listRequest is the parameters of ListTasks; pointers tell absent from zero.
type listRequest struct {
	ContextID            string          `json:"contextId"`
	Status               proto.TaskState `json:"status"`
	PageSize             *int            `json:"pageSize"`
	PageToken            string          `json:"pageToken"`
	HistoryLength        *int            `json:"historyLength"`
	StatusTimestampAfter *time.Time      `json:"statusTimestampAfter"`
	IncludeArtifacts     bool            `json:"includeArtifacts"`
}

// listResponse is the answer of ListTasks. All of its fields are always there.
type listResponse struct {
	Tasks         []json.RawMessage `json:"tasks"`
	NextPageToken string            `json:"nextPageToken"`
	PageSize      int               `json:"pageSize"`
	TotalSize     int64             `json:"totalSize"`
}

// listTasks is the operation ListTasks. A page that would be too large has fewer
// tasks: it is asked for again with as many as fit, so that the next one begins
// behind them.
func (s *Server) listTasks(ctx context.Context, c *call, req *listRequest) (*listResponse, error) {
	p, err := req.command()
	if err != nil {
		return nil, err
	}
	out := &listResponse{PageSize: p.Limit}
	for {
		found, err := s.findTasks(ctx, c, p)
		if err != nil {
			return nil, err
		}
		if out.Tasks, err = s.fillPage(ctx, c, req, found.PeerTasks); err != nil {
			return nil, err
		}
		if len(out.Tasks) == len(found.PeerTasks) {
			out.TotalSize, out.NextPageToken = found.Total, base64.RawURLEncoding.EncodeToString([]byte(found.NextCursor))
			return out, nil
		}
		p.Limit = len(out.Tasks)
	}
}

func (s *Server) findTasks(ctx context.Context, c *call, p *command.ListPeerTasks) (*command.ListPeerTasksResult, error) {
	found, err := channel.ResultOf[command.ListPeerTasksResult](s.runCommand(ctx, c, p))
	if fault.KindOf(err) == fault.InvalidParams && err != nil {
		return nil, badParam("pageToken", "was not returned by this list; pass its last nextPageToken, or leave it out")
	}
	return found, err
}

// fillPage encodes tasks as far as they fit into a page, and at least one.
func (s *Server) fillPage(ctx context.Context, c *call, req *listRequest, list []command.PeerTaskRecord) ([]json.RawMessage, error) {
	out, left := []json.RawMessage{}, s.opt.MaxList
	for i := range list {
		t, err := s.taskNow(ctx, c.caller, &list[i], req.HistoryLength)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Elsewhere != "" {
			t, err = briefly(&list[i]), nil // another node has the rest
		}
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(listedTask(t, req.IncludeArtifacts))
		if err != nil {
			return nil, fmt.Errorf("a2a: task %s: %w", t.ID, err)
		}
		if left -= int64(len(b)); left < 0 && i > 0 {
			break
		}
		out = append(out, b)
	}
	return out, nil
}

// briefly is a task as far as its record tells.
func briefly(rec *command.PeerTaskRecord) *proto.Task {
	t := newView(rec, fixtureOptions{}).task
	at := rec.StatusAt.UTC().Truncate(time.Millisecond)
	t.Status = proto.TaskStatus{State: theirState(rec.Status), Timestamp: &at}
	return &t
}

// listedTask is a task in a list: without artifacts, or with the field even if there are
// none.
func listedTask(t *proto.Task, artifacts bool) any {
	if !artifacts {
		t.Artifacts = nil
		return t
	}
	list := t.Artifacts
	if list == nil {
		list = []*proto.Artifact{}
	}
	return &struct {
		*proto.Task
		Artifacts []*proto.Artifact `json:"artifacts"`
	}{t, list}
}

func (req *listRequest) command() (*command.ListPeerTasks, error) {
	p := &command.ListPeerTasks{NativeProtocol: Protocol, RemoteContextID: req.ContextID}
	p.Limit = defaultPage
	if err := checkHistory(req.HistoryLength); err != nil {
		return nil, err
	}
	if n := req.PageSize; n != nil {
		if *n < 1 || *n > maxPage {
			return nil, badParam("pageSize", "must be between 1 and %d, not %d", maxPage, *n)
		}
		p.Limit = *n
	}
	cursor, err := base64.RawURLEncoding.DecodeString(req.PageToken)
	if err != nil {
		return nil, badParam("pageToken", "was not returned by this list; pass its last nextPageToken, or leave it out")
	}
	p.Cursor = string(cursor)
	if req.Status != proto.TaskStateUnspecified {
		ours, ok := ourState(req.Status)
		if !ok {
			return nil, badParam("status", "is not a task state: %q", wire.Clip(string(req.Status)))
		}
		p.Status = []string{ours}
	}
	if at := req.StatusTimestampAfter; at != nil {
		p.StatusAfter = *at
	}
	return p, nil
}
