package peer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/internal/wire"
)

// gathered is what a stream delivered.
type gathered struct {
	list []*proto.Artifact
	size int64
	// broken says that something of it may be missing, done that the task ended.
	broken, done bool
}

// addTaskArtifacts takes the artifacts of a whole task.
func (g *gathered) addTaskArtifacts(list []*proto.Artifact, most int64) {
	if len(list) == 0 {
		return
	}
	g.list, g.size = nil, 0
	for _, a := range list {
		g.addArtifactPiece(&proto.TaskArtifactUpdateEvent{Artifact: a}, most)
	}
}

// addArtifactPiece takes a piece. What is too much is left out: then the task has to be asked for.
func (g *gathered) addArtifactPiece(e *proto.TaskArtifactUpdateEvent, most int64) {
	if e.Artifact == nil || g.broken {
		return
	}
	for _, p := range e.Artifact.Parts {
		g.size += partSize(p)
	}
	if g.size > most {
		*g = gathered{broken: true}
		return
	}
	i := slices.IndexFunc(g.list, func(a *proto.Artifact) bool { return a.ID == e.Artifact.ID })
	switch {
	case i < 0:
		a := *e.Artifact
		g.list = append(g.list, &a)
	case e.Append:
		g.list[i].Parts = append(slices.Clone(g.list[i].Parts), e.Artifact.Parts...)
	default:
		a := *e.Artifact
		g.list[i] = &a
	}
}

func partSize(p *proto.Part) int64 {
	if p == nil {
		return 0
	}
	switch c := p.Content.(type) {
	case proto.Text:
		return int64(len(c))
	case proto.Raw:
		return int64(len(c))
	case proto.Data:
		b, err := json.Marshal(c.Value)
		if err == nil {
			return int64(len(b))
		}
	}
	return 0
}

// reconcile brings a task that is done at the peer to its end here: everything that
// it delivered is stored first.
func (r *run) reconcile(ctx context.Context, s *proto.TaskStatus, whole *proto.Task) error {
	r.got.done = true
	said := &command.UpdatePeerTask{Status: unreconciled, RemoteStatus: string(s.State), Message: recordedMessage(s.Message), Reason: "the peer is done; what it delivers is being fetched"}
	if !r.isDone() { // else it was said before, and why it is still so
		if err := r.reportStatus(ctx, said); err != nil {
			return err
		}
	}
	r.w.Link.Status = unreconciled
	if whole == nil {
		var err error
		if whole, err = r.fetchFinished(ctx); err != nil {
			return err
		}
	}
	list, err := r.deliveries(ctx, whole)
	if err != nil {
		return err
	}
	for i := range list {
		if slices.Contains(r.w.Artifacts, list[i].ArtifactID) {
			continue
		}
		up := *said
		up.Message, up.Artifacts = nil, list[i:i+1]
		if err := r.reportStatus(ctx, &up); err != nil {
			return err
		}
	}
	r.over = true
	return r.reportStatus(ctx, &command.UpdatePeerTask{Status: "completed", RemoteStatus: string(s.State), Summary: taskSummary(s.Message, whole.Artifacts)})
}

// fetchFinished asks for a task that is done. A peer that has forgotten it by then told
// everything in its stream.
func (r *run) fetchFinished(ctx context.Context) (*proto.Task, error) {
	t, err := r.fetchTask(ctx, 0)
	if errors.Is(err, proto.ErrTaskNotFound) && !r.got.broken {
		return &proto.Task{ID: proto.TaskID(r.w.Link.RemoteTaskID), Artifacts: r.got.list}, nil
	}
	return t, err
}

// taskSummary is what a task came to, for people.
func taskSummary(m *proto.Message, list []*proto.Artifact) string {
	if text := textOf(m); text != "" {
		return wire.Shorten(text, 4000)
	}
	for _, a := range list {
		if a != nil {
			if text := textIn(a.Parts); text != "" {
				return wire.Shorten(text, 4000)
			}
		}
	}
	return ""
}

// deliveries are what a task delivered, with the contents: each artifact of one part
// as it is, of others each part by itself.
func (r *run) deliveries(ctx context.Context, t *proto.Task) ([]command.PeerDelivery, error) {
	var out []command.PeerDelivery
	left := r.c.opt.MaxBody
	for _, a := range t.Artifacts {
		if a == nil {
			continue
		}
		for i, p := range joinTextParts(a.Parts) {
			if p == nil {
				continue
			}
			if len(out) >= r.c.opt.MaxArtifacts {
				return nil, errTooLarge
			}
			d, content, err := r.delivery(ctx, a, i, p, left)
			if err != nil {
				return nil, err
			}
			if left -= int64(len(content)); left < 0 {
				return nil, errTooLarge
			}
			d.Content = base64.StdEncoding.EncodeToString(content)
			out = append(out, *d)
		}
	}
	return out, nil
}

// joinTextParts puts the texts together that follow each other: a stream delivers a text in
// pieces.
func joinTextParts(parts proto.ContentParts) proto.ContentParts {
	var out proto.ContentParts
	for _, p := range parts {
		if p == nil {
			continue
		}
		text, ok := p.Content.(proto.Text)
		if n := len(out); ok && n > 0 && out[n-1].MediaType == p.MediaType && out[n-1].Filename == p.Filename {
			if before, same := out[n-1].Content.(proto.Text); same {
				both := *p
				both.Content = before + text
				out[n-1] = &both
				continue
			}
		}
		out = append(out, p)
	}
	return out
}

func (r *run) delivery(ctx context.Context, a *proto.Artifact, i int, p *proto.Part, left int64) (*command.PeerDelivery, []byte, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", r.w.RunID, a.ID, i))
	d := &command.PeerDelivery{
		ArtifactID: "artifact_peer_" + hex.EncodeToString(sum[:10]), RemoteArtifactID: wire.Shorten(string(a.ID), 1000), MediaType: wire.Shorten(p.MediaType, 200), Title: wire.Shorten(a.Name, 900),
	}
	if p.Filename != "" {
		d.Title = wire.Shorten(p.Filename, 900)
	}
	switch c := p.Content.(type) {
	case proto.Text:
		setDefault(&d.MediaType, "text/plain; charset=utf-8")
		return d, []byte(c), nil
	case proto.Raw:
		setDefault(&d.MediaType, "application/octet-stream")
		return d, c, nil
	case proto.Data:
		setDefault(&d.MediaType, "application/json")
		b, err := json.Marshal(c.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: an artifact: %w", errNonsense, err)
		}
		return d, b, nil
	case proto.URL:
		d.URI = wire.Shorten(string(c), 4000)
		b, err := r.fetchContent(ctx, string(c), left, d)
		return d, b, err
	}
	return nil, nil, fmt.Errorf("%w: an artifact has a part without content", errNonsense)
}

// fetchContent reads what a peer names by its address, under the same rules as the peer
// itself.
func (r *run) fetchContent(ctx context.Context, address string, left int64, d *command.PeerDelivery) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil || req.URL.Host == "" {
		return nil, fmt.Errorf("%w: an artifact's address can't be read", errNonsense)
	}
	res, err := r.line.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("an artifact: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("an artifact: %w", &statusError{res.StatusCode})
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, left+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("an artifact: %w", err)
	case int64(len(b)) > left:
		return nil, errTooLarge
	}
	setDefault(&d.MediaType, wire.Shorten(res.Header.Get("Content-Type"), 200))
	return b, nil
}
