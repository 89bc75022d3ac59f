package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/command"
	"agentd/fault"
	"agentd/internal/wire"
)

// deliverDueUpdates delivers a task's due notifications. Wait is when it is to be looked at
// again without anything happening; done that it needn't be looked at any more.
func (t *teller) deliverDueUpdates(ctx context.Context, x *told) (wait time.Duration, done bool, err error) {
	caller := host(x.account)
	var task *proto.Task
	var updates []update
	var through uint64
	if err := t.s.withCurrentView(ctx, caller, x.rec, func(v *view) {
		task, through = v.snapshot(nil), v.through
		updates = append(updates, v.updates...)
	}); err != nil {
		return 0, false, err
	}
	ended := task.Status.State.Terminal()
	if ended {
		if err := t.settle(ctx, caller, x, task); err != nil {
			return 0, false, err
		}
	}
	if t.s.seal == nil {
		return 0, ended, nil
	}
	pushes, err := listPushes(&command.ListPeerPushes{NativeProtocol: Protocol, RemoteTaskID: x.rec.RemoteTaskID, Unfinished: true}, func(p command.Params) (any, error) {
		return t.s.opt.Runtime.Do(ctx, caller, p)
	})
	if err != nil {
		return 0, false, err
	}
	left := false
	for _, p := range pushes {
		d := &delivery{t: t, x: x, rec: p, caller: caller, task: task, updates: updates, through: through, ended: ended}
		again, err := d.run(ctx)
		if err != nil {
			return 0, false, err
		}
		if again > 0 {
			left = true
			if wait == 0 || again < wait {
				wait = again
			}
		}
	}
	return wait, ended && !left, nil
}

// settle makes what a task delivered edges of the local task.
func (t *teller) settle(ctx context.Context, caller command.Caller, x *told, task *proto.Task) error {
	p := &command.SettlePeerTask{PeerTaskKey: taskKey(x.rec.RemoteTaskID), RemoteStatus: string(task.Status.State)}
	own := artifactOf(x.rec.TurnID)
	for _, a := range task.Artifacts {
		if string(a.ID) != own {
			continue // those that the work made are facts already
		}
		var content strings.Builder
		for _, part := range a.Parts {
			content.WriteString(part.Text())
			content.Write(part.Raw())
		}
		p.Artifacts = append(p.Artifacts, command.PeerArtifact{
			ArtifactID: own, Title: a.Name, MediaType: a.Parts[0].MediaType, SizeBytes: int64(content.Len()), Text: strings.ToValidUTF8(content.String(), "\ufffd"),
		})
	}
	_, err := t.s.opt.Runtime.Do(ctx, caller, p)
	return err
}

// delivery tells one place of one task.
type delivery struct {
	t       *teller
	x       *told
	rec     command.PeerPushRecord
	caller  command.Caller
	task    *proto.Task
	updates []update
	through uint64
	ended   bool
}

// run tells what is left, in order. It returns when to try again, 0 if there is
// nothing to try.
func (d *delivery) run(ctx context.Context) (time.Duration, error) {
	now := d.t.s.opt.Clock()
	tries := d.x.triesOf(d.rec.ConfigID)
	if tries.next.After(now) {
		return tries.next.Sub(now), nil
	}
	left := d.left()
	if len(left) == 0 && !d.ended {
		delete(d.x.tries, d.rec.ConfigID)
		return 0, nil
	}
	// What couldn't be recorded here afterwards is another node's to tell.
	if err := d.t.s.opt.Own(ctx, d.x.rec.SessionID); err != nil {
		return 0, err
	}
	config, err := d.t.s.unseal(ctx, &d.rec)
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		// The key may come, or another node may have it: it is tried as often as a place that
		// doesn't answer.
		return d.failed(ctx, tries, d.rec.Through, 0, 0, err)
	}
	told, attempts := d.rec.Through, int64(0)
	for _, u := range left {
		attempts++
		status, err := d.t.s.postNotification(ctx, config, u.event)
		if err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return d.failed(ctx, tries, told, attempts, status, err)
		}
		told = u.sequence
	}
	delete(d.x.tries, d.rec.ConfigID)
	return 0, d.report(ctx, &command.ReportPeerPush{
		Outcome: "delivered", Through: max(told, d.rec.Through), Attempts: attempts, RemoteStatus: string(d.task.Status.State), Final: d.ended,
	})
}

// left is what the place hasn't been told: at first the task as it is, then what
// happens to it.
func (d *delivery) left() []update {
	if d.rec.Through == 0 {
		return []update{{d.through, d.task}}
	}
	for i, u := range d.updates {
		if u.sequence > d.rec.Through {
			return d.updates[i:]
		}
	}
	return nil
}

// failed decides what follows from a failure: another try, or none.
func (d *delivery) failed(ctx context.Context, tries *tries, told uint64, attempts int64, status int, cause error) (time.Duration, error) {
	o := &d.t.s.opt.Push
	tries.count++
	r := &command.ReportPeerPush{Outcome: "failing", Through: told, Attempts: attempts, HTTPStatus: int64(status), Detail: wire.Shorten(cause.Error(), 500)}
	switch {
	case errors.Is(cause, errRefused):
		r.Outcome, r.Final = "refused", true
	case tries.count >= o.Attempts || status == http.StatusGone:
		r.Outcome, r.Final = "gave_up", true
	}
	wait := o.Backoff
	for range tries.count - 1 {
		if wait *= 2; wait >= o.MaxBackoff {
			wait = o.MaxBackoff
			break
		}
	}
	tries.next = d.t.s.opt.Clock().Add(wait)
	if r.Final {
		delete(d.x.tries, d.rec.ConfigID)
		wait = 0
	}
	// One fact for a row of failures is enough, unless a notification succeeded in between.
	if tries.count == 1 || told > d.rec.Through || r.Final {
		return wait, d.report(ctx, r)
	}
	return wait, nil
}

func (d *delivery) report(ctx context.Context, r *command.ReportPeerPush) error {
	r.PeerTaskKey, r.ConfigID = taskKey(d.rec.RemoteTaskID), d.rec.ConfigID
	_, err := d.t.s.opt.Runtime.Do(ctx, d.caller, r)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	return nil
}

func (x *told) triesOf(configID string) *tries {
	t := x.tries[configID]
	if t == nil {
		t = &tries{}
		x.tries[configID] = t
	}
	return t
}

// postNotification tells a place. The status is 0 if there was no answer.
func (s *Server) postNotification(ctx context.Context, p *proto.PushConfig, e proto.Event) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Push.Timeout)
	defer cancel()
	body, err := json.Marshal(proto.StreamResponse{Event: e})
	if err != nil {
		return 0, fmt.Errorf("a2a: push: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%w: %s", errRefused, "the address can't be read")
	}
	if !s.allowsHost(req.URL.Host) && isPrivateHost(req.URL.Hostname()) {
		return 0, errRefused // it was allowed when it was configured
	}
	req.Header.Set("Content-Type", "application/a2a+json")
	req.Header.Set("User-Agent", "agentd")
	req.Header.Set("A2A-Version", Version)
	if p.Token != "" {
		req.Header.Set("X-A2A-Notification-Token", p.Token)
	}
	if p.Auth != nil {
		req.Header.Set("Authorization", p.Auth.Scheme+" "+p.Auth.Credentials)
	}
	res, err := s.teller.client.Do(req)
	if err != nil {
		return 0, plainError(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return res.StatusCode, fmt.Errorf("%w: redirects are not followed", errRefused)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return res.StatusCode, fmt.Errorf("a2a: the push endpoint answered with status %d", res.StatusCode)
	}
	return res.StatusCode, nil
}

// plainError is an error of a request without its address, which may hold secrets, and
// without what name servers said: the peer that configured the push reads it, and would learn
// the addresses of hosts that only this machine can find.
func plainError(err error) error {
	if errors.Is(err, errRefused) {
		return errRefused
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("a2a: push: the host %s can't be found", name.Name)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("a2a: push: %w", u.Err)
	}
	return err
}
