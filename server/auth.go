package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// Role is what a token may do.
type Role = command.Role

// Identity is who holds a token.
type Identity struct {
	// TokenID names the token in bounds and logs; it is not a secret.
	TokenID string
	// Name of the token, recorded in facts and logged.
	Name string
	Role command.Role
	// Account owns what the caller creates; only an admin sees other accounts.
	Account string
	// Expires is when the token ends; zero is never.
	Expires time.Time
}

// LocalIdentity is the identity of the user that runs the program: an admin.
func LocalIdentity() Identity {
	return Identity{TokenID: "local", Name: "local", Role: command.RoleAdmin}
}

// Authenticator says who holds a token.
type Authenticator interface {
	// Authenticate returns the holder of a token. A token that is unknown,
	// expired or revoked is an Unauthenticated fault. It must compare secrets in
	// constant time, and it is also asked again about tokens of open streams.
	Authenticate(ctx context.Context, token string) (Identity, error)
}

// caller returns the identity as commands know it.
func (id *Identity) caller() command.Caller {
	return command.Caller{
		Account: id.Account,
		Admin:   id.Role == command.RoleAdmin,
		Actor:   event.Actor{Kind: "user", ID: id.Name, Account: id.Account},
	}
}

// permit reports why a role may not do what needs another, or nil.
func permit(have, need command.Role, name command.Name) error {
	if have.Allows(need) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s needs a token with the role %s; this one has the role %s", name, need, have)
}

var errNoToken = fault.New(fault.Unauthenticated, "the request has no token: send Authorization: Bearer TOKEN")

// bearer returns the token of a request.
func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", errNoToken
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if len(values) == 1 && strings.EqualFold(scheme, "Bearer") && token == "" {
		return "", errNoToken
	}
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return "", fault.New(fault.Unauthenticated, "the Authorization header must be: Bearer TOKEN")
	}
	return token, nil
}

// maxToken is the longest token that is looked at. Those of identity providers name all
// groups of their holder.
const maxToken = 16 << 10

// login is who a caller is, and how to ask again.
type login struct {
	auth  Authenticator
	token string
	// cookie says that a browser's cookie carried the token, and checkLeft, set then, that the
	// browser didn't log out since.
	cookie    bool
	checkLeft func() error
	Identity
}

// authenticate finds out who sent a request. Cookies says whether the console's cookie
// counts if there is no Authorization header.
func (s *Server) authenticate(r *http.Request, cookies bool) (*login, error) {
	token, err := bearer(r)
	l := &login{auth: s.opt.Auth}
	if cookies && len(r.Header.Values("Authorization")) == 0 {
		var carried sealedLogin
		var bad error
		if carried, l.cookie, bad = s.cookieLogin(r); l.cookie {
			token, err = carried.Token, bad
			l.checkLeft = func() error { return s.browsers.left.check(carried.cookie) }
		}
	}
	if err != nil {
		return nil, err
	}
	if s.opt.Auth == nil {
		return nil, fault.New(fault.Unauthenticated, "the server has no tokens; create one with agentd tokens create")
	}
	l.token = token
	l.Identity, err = s.opt.Auth.Authenticate(r.Context(), token)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// again reports why the caller may not go on, or nil: also that the browser logged out. A caller without a token,
// as over standard input, always may.
func (l *login) again(ctx context.Context) error {
	if l.auth == nil {
		return nil
	}
	if l.checkLeft != nil {
		if err := l.checkLeft(); err != nil {
			return err
		}
	}
	id, err := l.auth.Authenticate(ctx, l.token)
	if err != nil {
		return err
	}
	if id.Role != l.Role || id.Account != l.Account {
		return fault.New(fault.Unauthenticated, "the token's role or account changed; connect again")
	}
	l.Expires = id.Expires
	return nil
}

// until returns how long a token need not be looked at: for a while, or to its end.
func (l *login) until(d time.Duration) time.Duration {
	if !l.Expires.IsZero() {
		d = min(d, time.Until(l.Expires))
	}
	return max(0, d)
}

type contextKey int

const (
	callerKey contextKey = iota
	roleKey
	passingKey
)

// CallerFrom returns the caller of a request that a [Mount] handles; false if
// the mount is public and the request had no token.
func CallerFrom(ctx context.Context) (command.Caller, bool) {
	c, ok := ctx.Value(callerKey).(command.Caller)
	return c, ok
}

// RoleFrom returns the role of the caller that [CallerFrom] returns: what a mount
// must ask before it carries out a command in the caller's name.
func RoleFrom(ctx context.Context) (command.Role, bool) {
	r, ok := ctx.Value(roleKey).(command.Role)
	return r, ok
}
