package session

import (
	"context"

	"agentd/command"
	"agentd/fault"
	"agentd/quota"
	"agentd/state"
	"agentd/store"
)

// getQuotas answers what an account uses, or, for an admin, what each does.
func (r *request) getQuotas(ctx context.Context, p *command.GetQuotas) (*command.GetQuotasResult, error) {
	if !r.caller.Admin && p.Account != "" && p.Account != r.caller.Account {
		return nil, fault.New(fault.Forbidden, "get_quotas for another account needs a token with the role admin")
	}
	if err := r.m.readLimitsOfOthers(ctx); err != nil {
		return nil, err
	}
	accounts := []string{r.caller.Account}
	if p.Account != "" {
		accounts = []string{p.Account}
	} else if r.caller.Admin {
		var err error
		if accounts, err = r.m.accountsInUse(ctx); err != nil {
			return nil, err
		}
	}
	return r.quotasOf(ctx, accounts)
}

// quotasOf returns what accounts use of each quota. What other nodes use of several was just read.
func (r *request) quotasOf(ctx context.Context, accounts []string) (*command.GetQuotasResult, error) {
	if err := r.m.loadStandings(ctx); err != nil {
		return nil, err
	}
	res := &command.GetQuotasResult{Quotas: []command.QuotaUse{}}
	for _, account := range accounts {
		usage, err := r.m.usageOf(ctx, account)
		if err != nil {
			return nil, err
		}
		if len(accounts) == 1 {
			if err := r.m.followShares(ctx, usage, quota.Sessions, true); err != nil {
				return nil, err
			}
		}
		res.Quotas = append(res.Quotas, quotaUses(account, usage, r.m.Limits(account))...)
	}
	return res, nil
}

// quotaUses returns what an account uses of each quota.
func quotaUses(account string, usage *quota.Account, limits quota.Limits) []command.QuotaUse {
	var out []command.QuotaUse
	for _, name := range quota.Names() {
		use := command.QuotaUse{Account: account, Quota: string(name), Used: usage.Used(name)}
		if limit := limits.Of(name); limit > 0 {
			use.Limit = &limit
		}
		out = append(out, use)
	}
	return out
}

// accountsInUse returns the accounts that have stored something or were seen by this
// process, the operator's first.
func (m *Manager) accountsInUse(ctx context.Context) ([]string, error) {
	if m.shared != nil {
		if err := m.followAllShares(ctx); err != nil {
			return nil, err
		}
	}
	for e, err := range m.opt.Store.Scan(ctx, store.Scan{Kind: kindUsage}) {
		if err != nil {
			return nil, storeFault(err)
		}
		if _, err := m.usageOf(ctx, e.Key[1:]); err != nil { // known by now, unless an earlier version wrote it
			return nil, err
		}
	}
	if _, err := m.usageOf(ctx, ""); err != nil {
		return nil, err
	}
	return m.quotas.IDs(), nil
}

// loadStandings looks once at the sessions with unfinished work: what they use is in
// their state. A server did so when it took up their work.
func (m *Manager) loadStandings(ctx context.Context) error {
	m.standings.Lock()
	defer m.standings.Unlock()
	if m.standingsKnown || m.shared != nil {
		return nil // of several nodes each counts the sessions that it owns
	}
	ids, err := m.Open(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := m.Peek(ctx, id, func(*state.Session) error { return nil }); err != nil && fault.KindOf(err) != fault.Unavailable {
			return err
		}
	}
	m.standingsKnown = true
	return nil
}
