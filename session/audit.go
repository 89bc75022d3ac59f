package session

import (
	"context"
	"path"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// maxAudited is how many facts one page of an audit looks at, however few of them it has.
const maxAudited = 10_000

// readAudit reads a page of what an auditor looks at. It is a feed that ends where nothing
// more was written, and that keeps few types.
func (r *request) readAudit(ctx context.Context, p *command.ReadAudit) (*command.ReadAuditResult, error) {
	types, err := auditedTypes(p.Types)
	if err != nil {
		return nil, err
	}
	f := &Feed{m: r.m, caller: r.caller}
	if f.seal, err = r.m.cursors.open(ctx, r.m.opt.Store); err != nil {
		return nil, err
	}
	if p.After != "" {
		if err := f.beginAfter(ctx, p.After); err != nil {
			return nil, err
		}
	}
	res := &command.ReadAuditResult{Events: []event.Raw{}, Gaps: []command.AuditGap{}}
	limit := (&command.Page{Limit: p.Limit}).Size()
	for seen := 0; seen < maxAudited; {
		records, left, err := f.ready(ctx)
		if err != nil {
			return nil, err
		}
		if !left {
			res.Complete = true
			break
		}
		seen += max(len(records), 1)
		for i := range records {
			rec := &records[i]
			if rec.RemovedThrough > 0 {
				res.Gaps = append(res.Gaps, command.AuditGap{SessionID: rec.SessionID, FirstSequence: rec.Sequence, LastSequence: rec.RemovedThrough})
				continue
			}
			var e event.Event
			if _, err := event.DecodeHeader(rec.Data, &e); err != nil {
				return nil, err
			}
			if !types[e.Type] {
				continue
			}
			if res.Events = append(res.Events, rec.Data); len(res.Events) == limit {
				res.Cursor = rec.Cursor()
				return res, nil
			}
		}
	}
	res.Cursor = f.Cursor()
	return res, nil
}

// auditedTypes are the types that fit one of the patterns.
func auditedTypes(patterns []string) (map[event.Type]bool, error) {
	if len(patterns) == 0 {
		patterns = command.AuditTypes()
	}
	out := map[event.Type]bool{}
	for i, p := range patterns {
		found := false
		for _, d := range event.Catalog() {
			if ok, err := path.Match(p, string(d.Type)); ok && err == nil {
				out[d.Type], found = true, true
			}
		}
		if !found {
			return nil, fault.Param("types", "no event type matches %q, the pattern with number %d", p, i+1)
		}
	}
	return out, nil
}
