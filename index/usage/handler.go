package usage

import (
	"context"

	"agentd/command"
	"agentd/store"
	"agentd/store/storefault"
)

// Handler answers the command usage.
type Handler struct {
	// Store has the entries of the projection.
	Store store.Store
	// CatchUp returns when the index has everything that is durable; see
	// [agentd/index.Indexer.CatchUp].
	CatchUp func(context.Context) error
}

// Register registers the handler.
func (h *Handler) Register(t *command.Table) { command.Handle(t, h.usage) }

// dimensions are the parts of keys by the names that callers give.
var dimensions = map[string]Dimension{
	"account": ByAccount, "workspace": ByWorkspace, "session": BySession, "model": ByModel, "tool": ByTool,
}

func (h *Handler) usage(ctx context.Context, caller command.Caller, p *command.Usage) (*command.UsageResult, error) {
	q := Query{Bucket: Bucket(p.Bucket), From: p.From, To: p.To, Account: caller.Account}
	for _, name := range p.GroupBy {
		q.By |= dimensions[name]
	}
	switch {
	case p.Account != "" && !caller.Sees(p.Account):
		return &command.UsageResult{Rows: []command.UsageRow{}}, nil
	case p.Account != "":
		q.Account = p.Account
	case caller.Admin:
		q.Everyone = true
	}
	if err := h.CatchUp(ctx); err != nil {
		return nil, err
	}
	ctx = store.OnReplica(ctx, h.Store)
	rows, total, err := q.First(ctx, h.Store, p.Size())
	if err != nil {
		return nil, storefault.Reading(err)
	}
	res := &command.UsageResult{Rows: []command.UsageRow{}, Total: int64(total), Truncated: total > p.Size()}
	for i := range rows {
		res.Rows = append(res.Rows, rows[i].wireRow())
	}
	return res, nil
}

func (r *Row) wireRow() command.UsageRow {
	f := &r.Figures
	return command.UsageRow{
		Bucket: r.Start, Model: r.Key.Model, Account: r.Key.Account, Session: r.Key.Session, Tool: r.Key.Tool, Workspace: r.Key.Workspace,
		Turns: f[Turns], Failures: f[Failures], Cancelled: f[Cancelled], ModelCalls: f[ModelCalls], ModelFailures: f[ModelFailures],
		InputTokens: f[InputTokens], CachedInputTokens: f[CachedInputTokens], OutputTokens: f[OutputTokens], ReasoningTokens: f[ReasoningTokens],
		CostUSD: float64(f[CostNanoUSD]) / nano, ToolCalls: f[ToolCalls], ToolFailures: f[ToolFailures], Approvals: f[Approvals], ApprovalWaitMs: f[ApprovalWaitMs],
	}
}
