// Package oidc lets in who brings a token of an OpenID Connect provider: people who are
// logged in elsewhere, and services with an account there. The provider says who they are
// and which groups they are in; the operator's grants say what that allows here.
package oidc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/clip"
	"agentd/server"
)

// Everyone is the group of a grant that holds for each token that the provider signed.
const Everyone = "*"

// Grant is what members of a group, or one subject, may do.
type Grant struct {
	// Group is one of the token's groups, or [Everyone]; Subject is its sub claim. One of
	// the two is set.
	Group, Subject string
	Role           command.Role
	// Account owns what its holders create. If it is empty, each has an account of their own.
	Account string
}

// Options configure an [Authenticator].
type Options struct {
	// Issuer is the provider's address, as its tokens name it.
	Issuer string
	// Audience is who tokens must be meant for: the client id of agentd at the provider.
	Audience string
	// Console is the client id of the console, if people log in to it at the provider: what
	// they get there is meant for it, and let in as well.
	Console string
	// GroupsClaim and NameClaim name the claims that say which groups the holder is in and
	// what they are called. Defaults: groups, email.
	GroupsClaim, NameClaim string
	// AccountClaim names the claim that is the holder's account where the grant has none.
	// Without it the account follows from issuer and subject, and can't be that of anybody
	// else: a subject may be a name that its holder chose, and equal to an account here.
	AccountClaim string
	// Grants are tried together: the one that allows most counts, of equal ones the first.
	Grants []Grant
	// Next knows the tokens of this server; it is asked first.
	Next server.Authenticator
	// Clock defaults to time.Now.
	Clock func() time.Time
}

// Authenticator is a [server.Authenticator] for tokens of one provider.
type Authenticator struct {
	opt   Options
	asker *asker
	limit *rate.Limiter

	mu    sync.Mutex
	known *provider // nil until the provider was asked
	asked time.Time // when it was
	// asking is the question that is under way, nil if there is none.
	asking *asking
}

// New returns an authenticator. The provider is asked when the first of its tokens comes,
// so a server starts without it.
func New(opt Options) *Authenticator {
	for _, d := range []struct {
		name *string
		to   string
	}{{&opt.GroupsClaim, "groups"}, {&opt.NameClaim, "email"}} {
		if *d.name == "" {
			*d.name = d.to
		}
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	return &Authenticator{
		opt: opt, limit: rate.NewLimiter(asksPerSecond, asksAtOnce),
		asker: &asker{next: &bounded{next: http.DefaultTransport, limit: rate.NewLimiter(rate.Inf, 0)}, clock: opt.Clock},
	}
}

// Authenticate implements [server.Authenticator].
func (a *Authenticator) Authenticate(ctx context.Context, token string) (server.Identity, error) {
	id, err := a.opt.Next.Authenticate(ctx, token)
	if fault.KindOf(err) != fault.Unauthenticated || strings.Count(token, ".") != 2 {
		return id, err
	}
	if err := a.checkClaim(token); err != nil {
		return server.Identity{}, err
	}
	p, err := a.reachProvider(ctx)
	if err != nil {
		return server.Identity{}, err
	}
	t, err := a.verify(ctx, p, token, a.opt.Audience, a.opt.Console)
	if err != nil {
		return server.Identity{}, err
	}
	return a.identify(t)
}

// verify returns a token that the provider signed for one of these clients.
func (a *Authenticator) verify(ctx context.Context, p *provider, token string, clients ...string) (*oidc.IDToken, error) {
	noting, away := noteAway(ctx)
	t, err := p.verifier.Verify(noting, token)
	if expired := (*oidc.TokenExpiredError)(nil); errors.As(err, &expired) {
		return nil, a.expired(expired.Expiry)
	}
	if *away != nil { // it may be good
		return nil, a.away(*away)
	}
	if err == nil && !slices.ContainsFunc(clients, func(c string) bool { return c != "" && slices.Contains(t.Audience, c) }) {
		err = errors.New("it is meant for another program")
	}
	if err != nil {
		return nil, a.refuse(err, clients[0])
	}
	return t, nil
}

// refuse says that a token is none of the provider's for a client.
func (a *Authenticator) refuse(err error, client string) error {
	return fault.Wrap(fault.Unauthenticated, err, "the token is not one of %s for %s", a.opt.Issuer, client)
}

// expired says that a token was good until then.
func (a *Authenticator) expired(at time.Time) error {
	return fault.New(fault.Unauthenticated, "the token expired at %s; get a new one from %s", at.UTC().Format(time.RFC3339), a.opt.Issuer)
}

// CheckProvider says why the provider can't be asked how its tokens are checked; nil if it can.
func (a *Authenticator) CheckProvider(ctx context.Context) error {
	_, err := a.reachProvider(ctx)
	return err
}

// identify says who the holder of a good token is here.
func (a *Authenticator) identify(t *oidc.IDToken) (server.Identity, error) {
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return server.Identity{}, fault.Wrap(fault.Unauthenticated, err, "the claims of the token can't be read")
	}
	if t.Subject == "" { // who it is can't be told, and a grant for a group has no subject either
		return server.Identity{}, fault.New(fault.Unauthenticated, "the token names no subject (sub)")
	}
	grant := a.grantFor(t.Subject, groupsOf(claims[a.opt.GroupsClaim]))
	if grant == nil {
		return server.Identity{}, fault.New(fault.Forbidden, "no grant of this server is for the subject %s or one of the groups in its claim %s", clip.Text(t.Subject, 100), a.opt.GroupsClaim)
	}
	sum := sha256.Sum256([]byte(t.Issuer + "\n" + t.Subject))
	own := "oidc_" + hex.EncodeToString(sum[:12])
	id := server.Identity{TokenID: own, Name: t.Subject, Role: grant.Role, Account: grant.Account, Expires: t.Expiry}
	// An address that the provider didn't check may be anybody's, and facts would name them.
	unchecked := a.opt.NameClaim == "email" && claims["email_verified"] != nil && claims["email_verified"] != true && claims["email_verified"] != "true"
	if name, _ := claims[a.opt.NameClaim].(string); name != "" && !unchecked {
		id.Name = name
	}
	id.Name = clip.Text(strings.Map(printable, id.Name), 128)
	if id.Account == "" && a.opt.AccountClaim != "" {
		id.Account, _ = claims[a.opt.AccountClaim].(string)
	}
	if !event.ValidID(id.Account) { // an account is an id
		id.Account = own
	}
	return id, nil
}

// grantFor returns the grant that allows most, or nil.
func (a *Authenticator) grantFor(subject string, groups []string) *Grant {
	var best *Grant
	for i := range a.opt.Grants {
		g := &a.opt.Grants[i]
		named, member := g.Subject != "" && g.Subject == subject, g.Group != "" && slices.Contains(groups, g.Group)
		if !named && !member && g.Group != Everyone {
			continue
		}
		if best == nil || !best.Role.Allows(g.Role) {
			best = g
		}
	}
	return best
}

// groupsOf reads a claim that is a list of names, or one name.
func groupsOf(claim any) []string {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		var out []string
		for _, v := range c {
			if s, ok := v.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return -1
	}
	return r
}
