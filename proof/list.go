package proof

import (
	"context"
	"encoding/json"

	"agentd/command"
	"agentd/fault"
	"agentd/session"
)

// listExports lists what was exported of the sessions that the caller may see.
func (r *Reporter) listExports(ctx context.Context, caller command.Caller, p *command.ListExports) (*command.ListExportsResult, error) {
	page, err := r.manager.ListCards(ctx, caller, &session.CardQuery{
		Kind: session.ExportCards, Page: &p.Page, Narrow: &p.Narrowing, SessionID: p.SessionID, Type: p.Type, Parent: p.TurnID, Group: p.TaskID, Sort: p.Sort,
	})
	if err != nil {
		return nil, err
	}
	res := &command.ListExportsResult{Exports: []command.ExportRecord{}, Total: page.Total, NextCursor: page.Next()}
	for _, c := range page.Things() {
		var record command.ExportRecord
		if err := json.Unmarshal(c.Record, &record); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the record of export %s can't be read", c.ID)
		}
		res.Exports = append(res.Exports, record)
	}
	return res, nil
}

// Export returns the record of an export that the caller may see.
func (r *Reporter) Export(ctx context.Context, caller command.Caller, evidenceID string) (*command.ExportRecord, error) {
	page, err := r.manager.ListCards(ctx, caller, &session.CardQuery{
		Kind: session.ExportCards, Page: &command.Page{Limit: 1}, Narrow: &command.Narrowing{}, Keeps: func(c *session.Card) bool { return c.ID == evidenceID },
	})
	if err != nil {
		return nil, err
	}
	found := page.Things()
	if len(found) == 0 {
		return nil, fault.New(fault.NotFound, "there is no export %s", evidenceID)
	}
	var record command.ExportRecord
	if err := json.Unmarshal(found[0].Record, &record); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the record of export %s can't be read", evidenceID)
	}
	return &record, nil
}
