package command

// GetQuotas says how much of its quotas an account uses.
type GetQuotas struct {
	// Account that is asked about; absent, the caller's own, and for an admin all.
	Account string `json:"account,omitempty" check:"id"`
}

// Command implements [Params].
func (*GetQuotas) Command() Name            { return "get_quotas" }
func (*GetQuotas) returns(*GetQuotasResult) {}

// Validate implements [Params].
func (p *GetQuotas) Validate() error { return check(p) }

// GetQuotasResult lists quotas with their use.
type GetQuotasResult struct {
	// Quotas of the account, or of each account.
	Quotas []QuotaUse `json:"quotas"`
}

// QuotaUse is how much an account uses of one quota.
type QuotaUse struct {
	// Account that the quota is of; empty for the operator's, which has no name.
	Account string `json:"account"`
	// Quota is its name.
	Quota string `json:"quota" enum:"sessions queuedTurns subscriptions storedBytes schedules processes"`
	// Limit is the most that the account may use; absent if there is none.
	Limit *int64 `json:"limit,omitempty"`
	// Used is how much it uses.
	Used int64 `json:"used"`
}
