package server

import (
	"errors"
	"net/http"
	"net/url"

	"agentd/fault"
)

// LoginReason is why a login at the provider failed. It is in the address of the login page,
// which says what it means: a text in an address could be anybody's.
type LoginReason string

// The reasons.
const (
	// LoginDenied: the person, or the provider, said no.
	LoginDenied LoginReason = "denied"
	// LoginForeign: the answer belongs to no attempt of this browser, or to one that ended.
	LoginForeign LoginReason = "state"
	// LoginLate: the attempt took too long.
	LoginLate LoginReason = "expired"
	// LoginRefused: the provider answered with another error.
	LoginRefused LoginReason = "refused"
	// LoginUsed: the provider doesn't take the code: it was used before, or is too old.
	LoginUsed LoginReason = "code"
	// LoginClient: the provider doesn't know this server by its id and secret.
	LoginClient LoginReason = "client"
	// LoginToken: the provider's token isn't one for this attempt.
	LoginToken LoginReason = "token"
	// LoginAway: the provider can't be reached.
	LoginAway LoginReason = "away"
	// LoginRole: the provider knows the person, and no grant of this server is for them.
	LoginRole LoginReason = "role"
	// LoginFailed is everything else.
	LoginFailed LoginReason = "failed"
)

// LoginError is why a login at the provider failed, for the log: it must not have secrets.
type LoginError struct {
	Reason LoginReason
	Err    error
}

func (e *LoginError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LoginError) Unwrap() error { return e.Err }

// sentence says what a reason means and what to do; empty for what is none.
func (l LoginReason) sentence(provider string) string {
	switch l {
	case LoginDenied:
		return "The login was cancelled, or " + provider + " refused it. Log in again, or with another account there."
	case LoginForeign:
		return "This login was finished already, or was begun in another browser. Log in again."
	case LoginLate:
		return "The login took longer than ten minutes. Log in again."
	case LoginRefused:
		return provider + " answered with an error, which is in the server's log. Log in again; if it comes again, tell the operator of this server."
	case LoginUsed:
		return provider + " didn't accept the login: it was used already, or took too long. Log in again."
	case LoginClient:
		return provider + " doesn't know this server. Tell its operator to check oidc.console.clientId and the client's secret."
	case LoginToken:
		return "What " + provider + " answered is not a login for this server. Log in again; if it comes again, tell the operator of this server."
	case LoginAway:
		return provider + " can't be reached. Try again in a moment, or log in with a token."
	case LoginRole:
		return provider + " knows you, but no role here is for you or one of your groups. Ask the operator of this server for one."
	case LoginFailed:
		return "The login failed; the server's log says why. Try again in a moment."
	}
	return ""
}

// kind is what the answer is in the server's own words.
func (l LoginReason) kind() fault.Kind {
	switch l {
	case LoginDenied, LoginRole:
		return fault.Forbidden
	case LoginForeign, LoginLate:
		return fault.InvalidParams
	case LoginAway, LoginFailed, LoginClient:
		return fault.Unavailable
	case LoginRefused, LoginUsed, LoginToken:
	}
	return fault.Unauthenticated
}

// reasonOf is why a login failed.
func reasonOf(err error) LoginReason {
	if e, ok := errors.AsType[*LoginError](err); ok {
		return e.Reason
	}
	switch fault.KindOf(err) {
	case fault.Forbidden:
		return LoginRole
	case fault.Unauthenticated:
		return LoginToken
	case fault.Unavailable, fault.RateLimited:
		return LoginAway
	default:
		return LoginFailed
	}
}

// failLogin ends an attempt on the login page, and logs why.
func (s *Server) failLogin(w http.ResponseWriter, r *http.Request, q *request, p LoginProvider, err error) error {
	reason := reasonOf(err)
	s.opt.Logger.WarnContext(r.Context(), "a login at the identity provider failed", "reason", string(reason), "error", err, "requestId", q.id)
	says := reason.sentence(p.Name())
	failed := fault.New(reason.kind(), "%s", says)
	if err := writeMovingPage(w, failed.Kind.Def().HTTP, says, loginPage+"?"+url.Values{"failed": {string(reason)}}.Encode()); err != nil {
		return err
	}
	return failed
}
