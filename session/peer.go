package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/state"
	"agentd/store"
)

// maxPushes bounds the push configurations of one task.
const maxPushes = 100

// linkPeer emits that the turn just submitted is a peer's task.
func (r *request) linkPeer(tx *Tx, scope event.Scope, step *command.PeerStep) {
	if step == nil {
		return
	}
	scope.ChannelID = step.ChannelID
	p := &event.PeerTaskLinked{
		NativeProtocol: step.NativeProtocol, Direction: state.PeerInbound, RemoteTaskID: step.RemoteTaskID, RemoteContextID: step.RemoteContextID,
		RemoteAgentRef: step.RemoteAgentRef, DeliveryMechanism: step.DeliveryMechanism, RemoteMessageID: step.RemoteMessageID,
	}
	p.Message, p.MessageRef = r.peerMessage(tx, step)
	tx.Emit(event.Event{Type: event.TypeChannelPeerTaskLinked, Scope: scope, Payload: p})
}

// stepOfPeer emits a step of a peer in a task that it began.
func (r *request) stepOfPeer(tx *Tx, scope event.Scope, step *command.PeerStep, reason string) {
	if step == nil || scope.TaskID == "" {
		return
	}
	scope.ChannelID, scope.ActionID = step.ChannelID, ""
	p := &event.PeerTaskUpdated{
		NativeProtocol: step.NativeProtocol, Direction: state.PeerInbound, RemoteTaskID: step.RemoteTaskID, RemoteContextID: step.RemoteContextID,
		RemoteStatus: reasonOr(step.RemoteStatus, state.Unknown), Status: state.PeerRunning, Reason: reason, RemoteMessageID: step.RemoteMessageID,
	}
	p.Message, p.MessageRef = r.peerMessage(tx, step)
	tx.Emit(event.Event{Type: event.TypeChannelPeerTaskUpdated, Scope: scope, Payload: p})
}

// peerMessage returns a peer's message without secrets: whole, or behind a reference.
func (r *request) peerMessage(tx *Tx, step *command.PeerStep) (inline event.Raw, ref string) {
	message := r.m.redact(step.Message)
	if len(message) > r.m.opt.InlineBytes {
		return nil, tx.Blob(message, "application/json")
	}
	return message, ""
}

func direction(d string) string { return reasonOr(d, state.PeerInbound) }

// peerEntryOf returns a task of the caller's own account.
func (r *request) peerEntryOf(ctx context.Context, k *command.PeerTaskKey) (*peerEntry, error) {
	return r.readPeer(ctx, peerKey(k.NativeProtocol, direction(k.Direction), r.caller.Account, k.RemoteTaskID), k.RemoteTaskID)
}

func (r *request) readPeer(ctx context.Context, key, remoteID string) (*peerEntry, error) {
	v, err := r.m.opt.Store.Get(ctx, kindPeer, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "there is no peer's task %s", remoteID)
	}
	if err != nil {
		return nil, storeFault(err)
	}
	return decodePeer(v)
}

func decodePeer(v []byte) (*peerEntry, error) {
	x := &peerEntry{}
	if err := json.Unmarshal(v, x); err != nil {
		return nil, storeFault(fmt.Errorf("%w: peer's task in the index: %w", store.ErrCorrupt, err))
	}
	return x, nil
}

func (r *request) getPeerTask(ctx context.Context, p *command.GetPeerTask) (*command.PeerTaskRecord, error) {
	x, err := r.peerEntryOf(ctx, &p.PeerTaskKey)
	if err != nil {
		return nil, err
	}
	rec := x.record(p.NativeProtocol, direction(p.Direction))
	return &rec, nil
}

// peerScan is what a list of peers' tasks has to look at.
func (r *request) peerScan(kind, protocol, direction string, all bool) (store.Scan, error) {
	if !all {
		return store.Scan{Kind: kind, Prefix: peerPrefix(protocol, direction, r.caller.Account)}, nil
	}
	if !r.caller.Admin {
		return store.Scan{}, fault.New(fault.Forbidden, "all needs a token with the role admin")
	}
	return store.Scan{Kind: kind, Prefix: peerProtocol(protocol, direction)}, nil
}

func (r *request) listPeerTasks(ctx context.Context, p *command.ListPeerTasks) (*command.ListPeerTasksResult, error) {
	after, err := parsePeerCursor(p.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := r.peerTasks(ctx, p)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *peerEntry) int { return a.place().compare(b.place()) })
	res := &command.ListPeerTasksResult{PeerTasks: []command.PeerTaskRecord{}, Total: int64(len(list))}
	for _, x := range list {
		if p.Cursor != "" && x.place().compare(after) <= 0 {
			continue
		}
		if len(res.PeerTasks) == p.Size() {
			break
		}
		res.PeerTasks = append(res.PeerTasks, x.record(p.NativeProtocol, direction(p.Direction)))
		res.NextCursor = x.place().String()
	}
	if n := len(list); n == 0 || res.NextCursor == list[n-1].place().String() {
		res.NextCursor = ""
	}
	return res, nil
}

// peerTasks reads the tasks that a list is about.
func (r *request) peerTasks(ctx context.Context, p *command.ListPeerTasks) ([]*peerEntry, error) {
	kind := kindPeer
	if p.Unsettled {
		kind = kindPeerOpen
	}
	scan, err := r.peerScan(kind, p.NativeProtocol, direction(p.Direction), p.All)
	if err != nil {
		return nil, err
	}
	var list []*peerEntry
	for e, err := range r.m.opt.Store.Scan(ctx, scan) {
		if err != nil {
			return nil, storeFault(err)
		}
		var x *peerEntry
		if p.Unsettled {
			x, err = r.readPeer(ctx, e.Key, e.Key)
		} else {
			x, err = decodePeer(e.Value)
		}
		if err != nil {
			return nil, err
		}
		if x.fits(p) {
			list = append(list, x)
		}
	}
	return list, nil
}

func (x *peerEntry) fits(p *command.ListPeerTasks) bool {
	switch {
	case p.RemoteContextID != "" && x.RemoteContextID != p.RemoteContextID:
		return false
	case len(p.Status) > 0 && !slices.Contains(p.Status, x.Status):
		return false
	}
	return p.StatusAfter.IsZero() || !x.StatusAt.Before(p.StatusAfter)
}

// peerPlace is where a task stands in a list: newest status first.
type peerPlace struct {
	at int64
	id string
}

func (x *peerEntry) place() peerPlace {
	return peerPlace{x.StatusAt.UnixMicro(), x.Account + "/" + x.RemoteTaskID}
}

func (p peerPlace) compare(q peerPlace) int {
	switch {
	case p.at > q.at:
		return -1
	case p.at < q.at:
		return 1
	}
	return strings.Compare(p.id, q.id)
}

func (p peerPlace) String() string { return strconv.FormatInt(p.at, 36) + "/" + p.id }

func parsePeerCursor(s string) (peerPlace, error) {
	if s == "" {
		return peerPlace{}, nil
	}
	at, id, ok := strings.Cut(s, "/")
	n, err := strconv.ParseInt(at, 36, 64)
	if !ok || err != nil {
		return peerPlace{}, fault.Param("cursor", "was not returned by this list; pass its last nextCursor, or leave it out")
	}
	return peerPlace{n, id}, nil
}

func (r *request) settlePeerTask(ctx context.Context, p *command.SettlePeerTask) (*command.PeerTaskRecord, error) {
	x, err := r.peerEntryOf(ctx, &p.PeerTaskKey)
	if err != nil {
		return nil, err
	}
	rec := x.record(p.NativeProtocol, direction(p.Direction))
	open, err := r.hasIndexEntry(ctx, kindPeerOpen, peerKey(p.NativeProtocol, rec.Direction, r.caller.Account, p.RemoteTaskID))
	if err != nil || !open {
		return &rec, err
	}
	if !endedPeer(x.Status) {
		return nil, fault.New(fault.Conflict, "task %s is %s: it hasn't ended", p.RemoteTaskID, x.Status)
	}
	return mutate(ctx, r, x.SessionID, false, func(tx *Tx) (*command.PeerTaskRecord, error) {
		r.emitSettled(tx, x, p)
		return &rec, nil
	})
}

// emitSettled emits a task's artifacts, which become its edges, unless its turn did, and
// its end.
func (r *request) emitSettled(tx *Tx, x *peerEntry, p *command.SettlePeerTask) {
	scope := event.Scope{ThreadID: x.ThreadID, TurnID: x.TurnID, TaskID: x.TaskID, ChannelID: x.ChannelID}
	up := &event.PeerTaskUpdated{
		NativeProtocol: p.NativeProtocol, Direction: direction(p.Direction), RemoteTaskID: x.RemoteTaskID, RemoteContextID: x.RemoteContextID,
		RemoteStatus: p.RemoteStatus, Status: x.Status, Reason: "the end was reconciled", Settled: true,
	}
	for i := range p.Artifacts {
		a := &p.Artifacts[i]
		up.RemoteArtifactRefs = append(up.RemoteArtifactRefs, a.ArtifactID)
		if tx.State.Artifacts.Find(a.ArtifactID) != nil {
			continue // the turn recorded it before it ended
		}
		at := scope
		at.ArtifactID = a.ArtifactID
		readRef, mediaType := a.ReadRef, a.MediaType
		if a.Text != "" {
			mediaType = reasonOr(mediaType, "text/plain; charset=utf-8")
			readRef = tx.Blob([]byte(r.m.redactText(a.Text)), mediaType)
		}
		tx.Emit(event.Event{Type: event.TypeArtifactChanged, Scope: at, Payload: &event.ArtifactChanged{
			Change: "created", Title: r.m.redactText(a.Title), Kind: "output", URI: a.URI, ReadRef: readRef, MediaType: mediaType, SizeBytes: a.SizeBytes,
		}})
	}
	tx.Emit(event.Event{Type: event.TypeChannelPeerTaskUpdated, Scope: scope, Payload: up})
}

func endedPeer(status string) bool { return (&state.PeerTask{Status: status}).Recovery() == "settled" }

// hasIndexEntry reports whether an index entry is there.
func (r *request) hasIndexEntry(ctx context.Context, kind, key string) (bool, error) {
	_, err := r.m.opt.Store.Get(ctx, kind, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	return true, nil
}

// changePush changes a push configuration.
func (r *request) changePush(ctx context.Context, k *command.PeerTaskKey, configID string, payload event.Payload, t event.Type) (*command.PeerPushResult, error) {
	x, err := r.peerEntryOf(ctx, k)
	if err != nil {
		return nil, err
	}
	return mutate(ctx, r, x.SessionID, false, func(tx *Tx) (*command.PeerPushResult, error) {
		scope := event.Scope{ThreadID: x.ThreadID, TurnID: x.TurnID, TaskID: x.TaskID, ChannelID: x.ChannelID}
		tx.Emit(event.Event{Type: t, Scope: scope, Payload: payload})
		return &command.PeerPushResult{ConfigID: configID, Changed: true}, nil
	})
}

func (r *request) setPeerPush(ctx context.Context, p *command.SetPeerPush) (*command.PeerPushResult, error) {
	have, err := r.listPeerPushes(ctx, &command.ListPeerPushes{
		Page: command.Page{Limit: maxPushes}, NativeProtocol: p.NativeProtocol, RemoteTaskID: p.RemoteTaskID,
	})
	if err != nil {
		return nil, err
	}
	if len(have.Pushes) >= maxPushes && !slices.ContainsFunc(have.Pushes, func(x command.PeerPushRecord) bool { return x.ConfigID == p.ConfigID }) {
		return nil, fault.New(fault.RateLimited, "task %s has %d push configurations, which is the maximum; delete one first", p.RemoteTaskID, maxPushes)
	}
	return r.changePush(ctx, &p.PeerTaskKey, p.ConfigID, &event.PeerPushConfigured{
		NativeProtocol: p.NativeProtocol, RemoteTaskID: p.RemoteTaskID, ConfigID: p.ConfigID, Target: p.Target, Sealed: p.Sealed, ConfiguredBy: r.actor(),
	}, event.TypeChannelPeerPushConfigured)
}

func (r *request) removePeerPush(ctx context.Context, p *command.RemovePeerPush) (*command.PeerPushResult, error) {
	if _, err := r.peerEntryOf(ctx, &p.PeerTaskKey); err != nil {
		return nil, err
	}
	there, err := r.hasIndexEntry(ctx, kindPush, pushKey(p.NativeProtocol, r.caller.Account, p.RemoteTaskID, p.ConfigID))
	if err != nil || !there {
		return &command.PeerPushResult{ConfigID: p.ConfigID}, err
	}
	return r.changePush(ctx, &p.PeerTaskKey, p.ConfigID, &event.PeerPushRemoved{
		NativeProtocol: p.NativeProtocol, RemoteTaskID: p.RemoteTaskID, ConfigID: p.ConfigID, RemovedBy: r.actor(),
	}, event.TypeChannelPeerPushRemoved)
}

func (r *request) reportPeerPush(ctx context.Context, p *command.ReportPeerPush) (*command.PeerPushResult, error) {
	there, err := r.hasIndexEntry(ctx, kindPush, pushKey(p.NativeProtocol, r.caller.Account, p.RemoteTaskID, p.ConfigID))
	if err != nil || !there {
		return &command.PeerPushResult{ConfigID: p.ConfigID}, err
	}
	return r.changePush(ctx, &p.PeerTaskKey, p.ConfigID, &event.PeerPushReported{
		NativeProtocol: p.NativeProtocol, RemoteTaskID: p.RemoteTaskID, ConfigID: p.ConfigID, Outcome: p.Outcome, Through: p.Through,
		RemoteStatus: p.RemoteStatus, Attempts: p.Attempts, HTTPStatus: p.HTTPStatus, Detail: r.m.redactText(p.Detail), Final: p.Final,
	}, event.TypeChannelPeerPushReported)
}

func (r *request) listPeerPushes(ctx context.Context, p *command.ListPeerPushes) (*command.ListPeerPushesResult, error) {
	kind := kindPush
	if p.Unfinished {
		kind = kindPushOpen
	}
	scan, err := r.peerScan(kind, p.NativeProtocol, state.PeerInbound, p.All)
	if err != nil {
		return nil, err
	}
	if p.RemoteTaskID != "" && !p.All {
		scan.Prefix = peerKey(p.NativeProtocol, state.PeerInbound, r.caller.Account, p.RemoteTaskID) + "/"
	}
	page, err := command.NewOrderedPage(&p.Page, "id", "", pushOrders, pushPlace)
	if err != nil {
		return nil, err
	}
	for e, err := range r.m.opt.Store.Scan(ctx, scan) {
		if err != nil {
			return nil, storeFault(err)
		}
		if p.RemoteTaskID == "" || isPushOf(e.Key, p.RemoteTaskID) {
			page.Offer(e.Key)
		}
	}
	res := &command.ListPeerPushesResult{Pushes: []command.PeerPushRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, key := range page.Things() {
		rec, err := r.readPush(ctx, p.NativeProtocol, key)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			res.Pushes = append(res.Pushes, *rec)
		}
	}
	return res, nil
}

// pushOrders are the orders of the list of push configurations: that of their keys.
var pushOrders = command.Orders[string]{"id": func(key string) string { return key }}

// pushPlace tells keys apart that are alike in all that a cursor has room for: peers
// choose the ids.
func pushPlace(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// readPush returns a push configuration with its progress, or nil if it is gone.
func (r *request) readPush(ctx context.Context, protocol, key string) (*command.PeerPushRecord, error) {
	var x pushEntry
	if found, err := r.readIndexJSON(ctx, kindPush, key, &x); err != nil || !found {
		return nil, err
	}
	var done pushedEntry
	if _, err := r.readIndexJSON(ctx, kindPushed, key, &done); err != nil {
		return nil, err
	}
	return &command.PeerPushRecord{
		NativeProtocol: protocol, RemoteTaskID: x.RemoteTaskID, Account: x.Account, ConfigID: x.ConfigID, Target: x.Target, Sealed: x.Sealed,
		Outcome: done.Outcome, Through: done.Through, Final: done.Final,
	}, nil
}

// readIndexJSON reads a JSON value of the index.
func (r *request) readIndexJSON(ctx context.Context, kind, key string, into any) (bool, error) {
	v, err := r.m.opt.Store.Get(ctx, kind, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeFault(err)
	}
	if err := json.Unmarshal(v, into); err != nil {
		return false, storeFault(fmt.Errorf("%w: %s in the index: %w", store.ErrCorrupt, kind, err))
	}
	return true, nil
}
