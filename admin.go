package agentd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/session"
)

// Host is what the program around a runtime knows and the runtime doesn't. Commands of
// admins that need what is left out are refused.
type Host struct {
	// Tokens says who may come in.
	Tokens TokenKeeper
	// Configuration returns the settings that are in effect, without secrets.
	Configuration func() ([]command.ConfigurationValue, error)
}

// TokenSharer is a [TokenKeeper] whose tokens let their holders in on all nodes of a shared
// store.
type TokenSharer interface {
	// TokenEntry returns what other nodes need to know of a token; the secret isn't part
	// of it.
	TokenEntry(tokenID string) ([]byte, error)
	// TakeTokens takes over what other nodes know.
	TakeTokens(entries [][]byte) error
}

// TokenKeeper keeps tokens. Its errors are faults; a token is named by its id or its
// name.
type TokenKeeper interface {
	// ListTokens returns all tokens, oldest first, those that ended included.
	ListTokens() ([]command.TokenRecord, error)
	// CreateToken makes a token and returns it and its secret.
	CreateToken(p *command.CreateToken) (command.TokenRecord, string, error)
	// RotateToken replaces a token's secret and returns the new one.
	RotateToken(p *command.RotateToken) (command.TokenRecord, string, error)
	// RevokeToken ends a token. To revoke one twice is fine.
	RevokeToken(idOrName string) (command.TokenRecord, error)
}

// registerAdmin registers the commands of admins that concern more than sessions.
func (r *Runtime) registerAdmin(t *command.Table) {
	command.Handle(t, r.drainNode)
	command.HandleKept(t, r.forgetNode, r.takeOffList)
	command.Handle(t, r.moveSession)
	command.Handle(t, r.listTokens)
	command.HandleKept(t, r.createToken, tokenAnswer[*command.CreateToken])
	command.HandleKept(t, r.rotateToken, tokenAnswer[*command.RotateToken])
	command.HandleKept(t, r.revokeToken, func(_ context.Context, _ command.Caller, _ *command.RevokeToken, k *keptToken) (*command.TokenRecord, error) {
		return &k.Record, nil
	})
	command.Handle(t, r.listAccounts)
	command.Handle(t, r.getConfiguration)
}

// keptToken is what is kept of a call that made a secret: everything but the secret.
type keptToken struct {
	Record command.TokenRecord `json:"record"`
	secret string
}

func tokenAnswer[P command.Params](_ context.Context, _ command.Caller, _ P, k *keptToken) (*command.NewTokenResult, error) {
	return &command.NewTokenResult{TokenRecord: k.Record, Token: k.secret}, nil
}

// tokensFor returns the keeper of tokens for a caller that may use it.
func (r *Runtime) tokensFor(caller command.Caller, p command.Params) (TokenKeeper, error) {
	if err := session.CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	if r.opt.Host.Tokens == nil {
		return nil, fault.New(fault.PolicyRejected, "this runtime keeps no tokens: it runs without a server")
	}
	return r.opt.Host.Tokens, nil
}

// tokenOrders are the orders of the list of tokens.
var tokenOrders = command.Orders[command.TokenRecord]{
	"created": func(t command.TokenRecord) string { return command.TimeKey(t.CreatedAt) },
}

// accountOrders are the orders of the list of accounts.
var accountOrders = command.Orders[command.AccountRecord]{
	"name": func(a command.AccountRecord) string { return a.Account },
}

func (r *Runtime) listTokens(_ context.Context, caller command.Caller, p *command.ListTokens) (*command.ListTokensResult, error) {
	tokens, err := r.tokensFor(caller, p)
	if err != nil {
		return nil, err
	}
	list, err := tokens.ListTokens()
	if err != nil {
		return nil, err
	}
	page, err := command.NewOrderedPage(&p.Page, "created", "asc", tokenOrders, func(t command.TokenRecord) string { return t.TokenID })
	if err != nil {
		return nil, err
	}
	for i := range list {
		page.Offer(list[i])
	}
	return &command.ListTokensResult{Tokens: page.Things(), Total: page.Total, NextCursor: page.Next()}, nil
}

func (r *Runtime) createToken(ctx context.Context, caller command.Caller, p *command.CreateToken) (*keptToken, error) {
	tokens, err := r.tokensFor(caller, p)
	if err != nil {
		return nil, err
	}
	before, err := r.takeTokens(ctx) // the name may be taken at another node
	if err != nil {
		return nil, err
	}
	made, secret, err := tokens.CreateToken(p)
	if err != nil {
		return nil, err
	}
	kept, err := r.recordToken(ctx, caller, p, "token_created", made, secret, before)
	if err != nil {
		// No caller has seen the secret, so the token is of no use.
		_, revokeErr := tokens.RevokeToken(made.TokenID)
		if revokeErr != nil {
			r.opt.Logger.Warn("a token that was made for nothing could not be revoked", "tokenId", made.TokenID, "error", revokeErr)
		}
	}
	return kept, err
}

func (r *Runtime) rotateToken(ctx context.Context, caller command.Caller, p *command.RotateToken) (*keptToken, error) {
	tokens, err := r.tokensFor(caller, p)
	if err != nil {
		return nil, err
	}
	before, err := r.takeTokens(ctx) // it may have been revoked at another node
	if err != nil {
		return nil, err
	}
	made, secret, err := tokens.RotateToken(p)
	if err != nil {
		return nil, err
	}
	return r.recordToken(ctx, caller, p, "token_rotated", made, secret, before)
}

func (r *Runtime) revokeToken(ctx context.Context, caller command.Caller, p *command.RevokeToken) (*keptToken, error) {
	tokens, err := r.tokensFor(caller, p)
	if err != nil {
		return nil, err
	}
	// While the store is away the token is at least revoked here.
	before, away := r.takeTokens(ctx)
	gone, err := tokens.RevokeToken(p.TokenID)
	switch {
	case away != nil && fault.KindOf(err) == fault.NotFound:
		return nil, away
	case err != nil:
		return nil, err
	}
	return r.recordToken(ctx, caller, p, "token_revoked", gone, "", before)
}

// recordToken writes the fact about a token. It takes the place of what was known before.
func (r *Runtime) recordToken(ctx context.Context, caller command.Caller, p command.Params, change string, t command.TokenRecord, secret string, before []session.SharedToken) (*keptToken, error) {
	var entry []byte
	if sharer, ok := r.opt.Host.Tokens.(TokenSharer); ok && r.manager.IsShared() {
		var err error
		if entry, err = sharer.TokenEntry(t.TokenID); err != nil {
			return nil, err
		}
	}
	kept, err := session.RecordToken(ctx, r.manager, caller, p, &event.RuntimeChanged{
		Change: change, TokenID: t.TokenID, TokenName: t.Name, Role: t.Role, Account: t.Account, ExpiresAt: t.ExpiresAt,
	}, keptToken{Record: t}, entry, before)
	if err != nil {
		return nil, err
	}
	kept.secret = secret
	return kept, nil
}

func (r *Runtime) listAccounts(ctx context.Context, caller command.Caller, p *command.ListAccounts) (*command.ListAccountsResult, error) {
	if err := session.CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	accounts, err := r.manager.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	if r.opt.Host.Tokens != nil {
		tokens, err := r.opt.Host.Tokens.ListTokens()
		if err != nil {
			return nil, err
		}
		accounts = countTokens(accounts, tokens)
	}
	page, err := command.NewOrderedPage(&p.Page, "name", "", accountOrders, func(a command.AccountRecord) string { return a.Account })
	if err != nil {
		return nil, err
	}
	for i := range accounts {
		page.Offer(accounts[i])
	}
	return &command.ListAccountsResult{Accounts: page.Things(), Total: page.Total, NextCursor: page.Next()}, nil
}

// countTokens adds the active tokens to accounts, and accounts that have nothing else.
func countTokens(accounts []command.AccountRecord, tokens []command.TokenRecord) []command.AccountRecord {
	for i := range tokens {
		if tokens[i].Status != "active" {
			continue
		}
		at, found := slices.BinarySearchFunc(accounts, tokens[i].Account, func(a command.AccountRecord, name string) int { return strings.Compare(a.Account, name) })
		if !found {
			accounts = slices.Insert(accounts, at, command.AccountRecord{Account: tokens[i].Account})
		}
		accounts[at].Tokens++
	}
	return accounts
}

func (r *Runtime) getConfiguration(_ context.Context, caller command.Caller, p *command.GetConfiguration) (*command.GetConfigurationResult, error) {
	if err := session.CheckAdmin(caller, p); err != nil {
		return nil, err
	}
	if r.opt.Host.Configuration == nil {
		return nil, fault.New(fault.Unavailable, "this runtime was not started from a configuration")
	}
	settings, err := r.opt.Host.Configuration()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the configuration could not be shown")
	}
	return &command.GetConfigurationResult{Settings: settings}, nil
}

// shareTokens takes over the tokens that other nodes made, changed or revoked.
func (r *Runtime) shareTokens(ctx context.Context) error {
	_, err := r.takeTokens(ctx)
	return err
}

// takeTokens is shareTokens; it also returns what was taken over.
func (r *Runtime) takeTokens(ctx context.Context) ([]session.SharedToken, error) {
	sharer, ok := r.opt.Host.Tokens.(TokenSharer)
	if !ok {
		return nil, nil
	}
	shared, err := r.manager.Tokens(ctx)
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), err, "the tokens of other nodes could not be read; try again")
	}
	if len(shared) == 0 {
		return nil, nil
	}
	entries := make([][]byte, len(shared))
	for i := range shared {
		entries[i] = shared[i].Value
	}
	if err := sharer.TakeTokens(entries); err != nil {
		return nil, fmt.Errorf("agentd: the tokens of other nodes: %w", err)
	}
	return shared, nil
}
