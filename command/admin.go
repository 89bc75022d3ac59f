package command

import (
	"time"

	"agentd/event"
	"agentd/fault"
)

// TokenRecord is what is known of a token: everything but the token.
type TokenRecord struct {
	// TokenID is the token's id.
	TokenID string `json:"tokenId"`
	// Name for people.
	Name string `json:"name"`
	// Role says what the token's holder may do.
	Role string `json:"role" enum:"@tokenRole"`
	// Account whose sessions the holder sees; absent for the operator's.
	Account string `json:"account,omitempty"`
	// Status is active, expired or revoked.
	Status string `json:"status" enum:"active expired revoked"`
	// CreatedAt is when the token was made.
	CreatedAt time.Time `json:"createdAt"`
	// ExpiresAt is when the token ends by itself; absent if it doesn't.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// RevokedAt is when the token was revoked; absent if it wasn't.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	// LastUsedAt is when the token was last used at the node that answers, and not at others;
	// it may lag by some minutes.
	LastUsedAt time.Time `json:"lastUsedAt,omitzero"`
}

// ListTokens lists tokens.
type ListTokens struct{ Page }

// Command implements [Params].
func (*ListTokens) Command() Name             { return "list_tokens" }
func (*ListTokens) returns(*ListTokensResult) {}

// Validate implements [Params].
func (p *ListTokens) Validate() error { return check(p) }

// ListTokensResult is a page of tokens.
type ListTokensResult struct {
	// Tokens are ordered by their age, oldest first, those that ended included.
	Tokens []TokenRecord `json:"tokens"`
	// Total counts the tokens, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// CreateToken makes a token.
type CreateToken struct {
	Mutation
	// Name for people; no other active token has it.
	Name string `json:"name" max:"128"`
	// Role says what the token's holder may do; default client.
	Role string `json:"role,omitempty" enum:"@tokenRole"`
	// Account whose sessions the holder sees; the operator's if absent.
	Account string `json:"account,omitempty" check:"id"`
	// ExpiresInMs is how long the token is good; for ever if absent.
	ExpiresInMs int64 `json:"expiresInMs,omitempty" max:"315360000000"`
}

// Command implements [Params].
func (*CreateToken) Command() Name           { return "create_token" }
func (*CreateToken) returns(*NewTokenResult) {}

// Validate implements [Params].
func (p *CreateToken) Validate() error { return check(p) }

// NewTokenResult is a token that was made or renewed.
type NewTokenResult struct {
	TokenRecord
	// Token is the token itself. It is shown this once: a repeated call with the same
	// idempotency key doesn't have it.
	Token string `json:"token,omitempty" secret:"pass"`
}

// RotateToken replaces the secret of a token.
type RotateToken struct {
	Mutation
	// TokenID is the id or the name of the token.
	TokenID string `json:"tokenId" max:"128"`
	// ExpiresInMs is how long the token is good from now on; as long as before if absent.
	ExpiresInMs int64 `json:"expiresInMs,omitempty" max:"315360000000"`
}

// Command implements [Params].
func (*RotateToken) Command() Name           { return "rotate_token" }
func (*RotateToken) returns(*NewTokenResult) {}

// Validate implements [Params].
func (p *RotateToken) Validate() error { return check(p) }

// RevokeToken ends a token.
type RevokeToken struct {
	Mutation
	// TokenID is the id or the name of the token.
	TokenID string `json:"tokenId" max:"128"`
}

// Command implements [Params].
func (*RevokeToken) Command() Name        { return "revoke_token" }
func (*RevokeToken) returns(*TokenRecord) {}

// Validate implements [Params].
func (p *RevokeToken) Validate() error { return check(p) }

// ListAccounts lists accounts.
type ListAccounts struct{ Page }

// Command implements [Params].
func (*ListAccounts) Command() Name               { return "list_accounts" }
func (*ListAccounts) returns(*ListAccountsResult) {}

// Validate implements [Params].
func (p *ListAccounts) Validate() error { return check(p) }

// ListAccountsResult is a page of accounts.
type ListAccountsResult struct {
	// Accounts that have stored something, have a token or have quotas of their own, ordered
	// by their names, the operator's first.
	Accounts []AccountRecord `json:"accounts"`
	// Total counts the accounts, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// AccountRecord is one account.
type AccountRecord struct {
	// Account is its name; empty for the operator's.
	Account string `json:"account"`
	// Tokens counts its active tokens.
	Tokens int64 `json:"tokens"`
	// Sessions counts its sessions.
	Sessions int64 `json:"sessions"`
	// StoredBytes is the size of what it stored.
	StoredBytes int64 `json:"storedBytes"`
	// OwnQuotas says that set_quotas gave it limits of its own.
	OwnQuotas bool `json:"ownQuotas"`
}

// SetQuotas changes the limits of an account.
type SetQuotas struct {
	Mutation
	// Account that the limits are of.
	Account string `json:"account,omitempty" check:"id"`
	// Operator says that the limits are of the operator's account, which has no name.
	Operator bool `json:"operator,omitempty"`
	// Limits that change; what is absent stays as it is, and 0 is no limit.
	Limits *QuotaChange `json:"limits,omitempty"`
	// Reset takes back what was set: the limits of the configuration hold again.
	Reset bool `json:"reset,omitempty"`
}

// QuotaChange has limits that change.
type QuotaChange struct {
	// Sessions bounds the sessions of the account.
	Sessions *int64 `json:"sessions,omitempty"`
	// QueuedTurns bounds the turns that wait.
	QueuedTurns *int64 `json:"queuedTurns,omitempty"`
	// Subscriptions bounds open streams.
	Subscriptions *int64 `json:"subscriptions,omitempty"`
	// StoredBytes bounds what is stored.
	StoredBytes *int64 `json:"storedBytes,omitempty"`
	// Schedules bounds schedules.
	Schedules *int64 `json:"schedules,omitempty"`
	// Processes bounds running processes.
	Processes *int64 `json:"processes,omitempty"`
	// ScheduleMinIntervalMs is the shortest time between two runs of a schedule.
	ScheduleMinIntervalMs *int64 `json:"scheduleMinIntervalMs,omitempty"`
}

// Command implements [Params].
func (*SetQuotas) Command() Name            { return "set_quotas" }
func (*SetQuotas) returns(*GetQuotasResult) {}

// Validate implements [Params].
func (p *SetQuotas) Validate() error {
	if err := check(p); err != nil {
		return err
	}
	switch {
	case (p.Account == "") != p.Operator:
		return fault.Param("account", "give account, or operator: true for the account without a name")
	case (p.Limits == nil) != p.Reset:
		return fault.Param("limits", "give limits, or reset: true for those of the configuration")
	}
	return nil
}

// GetConfiguration returns the settings that are in effect.
type GetConfiguration struct{}

// Command implements [Params].
func (*GetConfiguration) Command() Name                   { return "get_configuration" }
func (*GetConfiguration) returns(*GetConfigurationResult) {}

// Validate implements [Params].
func (p *GetConfiguration) Validate() error { return check(p) }

// GetConfigurationResult has all settings.
type GetConfigurationResult struct {
	// Settings in the order of the reference.
	Settings []ConfigurationValue `json:"settings"`
}

// ConfigurationValue is a setting and where its value comes from.
type ConfigurationValue struct {
	// Name of the setting.
	Name string `json:"name"`
	// Value that is in effect, without secrets; null if there is none.
	Value event.Raw `json:"value"`
	// Origin is the layer that the value comes from.
	Origin string `json:"origin" enum:"default file environment flag"`
	// Where is the place in that layer: file:line:column, a variable or a flag.
	Where string `json:"where,omitempty"`
	// Reloadable says that a change takes effect without a restart.
	Reloadable bool `json:"reloadable"`
}

// GetRetention says what is kept for how long.
type GetRetention struct{}

// Command implements [Params].
func (*GetRetention) Command() Name               { return "get_retention" }
func (*GetRetention) returns(*GetRetentionResult) {}

// Validate implements [Params].
func (p *GetRetention) Validate() error { return check(p) }

// GetRetentionResult says what is kept for how long, and what was removed.
type GetRetentionResult struct {
	// EventsMs is how long the events of an idle session are kept; absent for ever.
	EventsMs int64 `json:"eventsMs,omitempty"`
	// OutputsMs is how long outputs are kept; absent for ever.
	OutputsMs int64 `json:"outputsMs,omitempty"`
	// RemovedSessions counts the sessions whose events were removed since this process
	// started.
	RemovedSessions uint64 `json:"removedSessions"`
	// RemovedEvents counts these events.
	RemovedEvents uint64 `json:"removedEvents"`
	// RemovedBytes is their size.
	RemovedBytes uint64 `json:"removedBytes"`
	// Run is the run that run_retention started last on this node; absent before the
	// first.
	Run *RetentionRun `json:"run,omitempty"`
}

// RetentionRun is what a run of retention did so far.
type RetentionRun struct {
	// Status is running, completed or failed.
	Status string `json:"status" enum:"running completed failed"`
	// StartedAt is when it began.
	StartedAt time.Time `json:"startedAt"`
	// EndedAt is when it ended; absent while it runs.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// EventsBefore is the moment before which a session must have ended.
	EventsBefore time.Time `json:"eventsBefore"`
	// Total counts the sessions that are old enough; absent until they are known.
	Total int64 `json:"total"`
	// Sessions counts those whose events were removed.
	Sessions int64 `json:"sessions"`
	// Events counts these events.
	Events int64 `json:"events"`
	// Kept counts old sessions that keep their events, because something needs them.
	Kept int64 `json:"kept"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
}

// RunRetention removes old events now.
type RunRetention struct {
	Mutation
	// OlderThanMs is how long ago a session's last event must be; as configured if absent.
	OlderThanMs int64 `json:"olderThanMs,omitempty" max:"3153600000000"`
	// DryRun only counts the sessions that are old enough.
	DryRun bool `json:"dryRun,omitempty"`
}

// Command implements [Params].
func (*RunRetention) Command() Name         { return "run_retention" }
func (*RunRetention) returns(*RetentionRun) {}

// Validate implements [Params].
func (p *RunRetention) Validate() error { return check(p) }

// ListNodes lists the nodes of the runtime.
type ListNodes struct{ Page }

// Command implements [Params].
func (*ListNodes) Command() Name            { return "list_nodes" }
func (*ListNodes) returns(*ListNodesResult) {}

// Validate implements [Params].
func (p *ListNodes) Validate() error { return check(p) }

// ListNodesResult is a page of nodes.
type ListNodesResult struct {
	// Nodes that share the store, ordered by their names, whichever node answers.
	Nodes []NodeRecord `json:"nodes"`
	// Total counts the nodes, over all pages.
	Total int64 `json:"total"`
	// NextCursor is the cursor of the next page; absent on the last.
	NextCursor string `json:"nextCursor,omitempty"`
}

// NodeRecord is one node.
type NodeRecord struct {
	// NodeID is the node's name.
	NodeID string `json:"nodeId"`
	// Address at which other nodes reach it; absent if none does, as of a program that opened
	// the database for itself.
	Address string `json:"address,omitempty"`
	// Self says that this node answers.
	Self bool `json:"self"`
	// Alive says that the node's lease holds.
	Alive bool `json:"alive"`
	// LastSeenAt is the node's last sign of life; absent for a store with one node.
	LastSeenAt time.Time `json:"lastSeenAt,omitzero"`
	// LeaseUntil is how long other nodes leave its sessions alone; absent for a store with
	// one node.
	LeaseUntil time.Time `json:"leaseUntil,omitzero"`
	// Sessions counts the sessions that the node owns now.
	Sessions int64 `json:"sessions"`
	// Pool names the nodes that share a file system with it; absent if it is in none.
	Pool string `json:"pool,omitempty"`
	// Labels are words about the node for people.
	Labels []string `json:"labels,omitempty"`
	// State says whether the node takes work: open, draining while it hands over what it
	// has, or drained.
	State string `json:"state" enum:"open draining drained"`
	// Running counts the threads that the node works on, by its last sign of life.
	Running int64 `json:"running"`
	// Waiting counts the threads that wait until there is room.
	Waiting int64 `json:"waiting"`
}
