package config

import (
	"fmt"
	"net/url"

	"agentd/command"
	"agentd/event"
	"agentd/internal/netaddr"
)

// OIDC says which tokens of an OpenID Connect provider are let in, and what they may do.
type OIDC struct {
	Issuer       string  `json:"issuer"`
	Audience     string  `json:"audience"`
	GroupsClaim  string  `json:"groupsClaim"`
	AccountClaim string  `json:"accountClaim"`
	NameClaim    string  `json:"nameClaim"`
	Grants       []Grant `json:"grants"`
}

// Grant is what members of a group of the provider, or one of its subjects, may do.
type Grant struct {
	Group   string       `json:"group"`
	Subject string       `json:"subject"`
	Role    command.Role `json:"role"`
	Account string       `json:"account"`
}

func oidcSettings() []Setting {
	roles := []string{string(command.RoleAdmin), string(command.RoleClient), string(command.RoleObserver)}
	return []Setting{
		{Name: "oidc.issuer", Type: URL, Means: "Address of an OpenID Connect provider whose tokens are let in, too, as they name it; https, or http on this machine."},
		{Name: "oidc.audience", Type: Text, Means: "Who its tokens must be meant for (aud): the id of agentd as a client there."},
		{Name: "oidc.groupsClaim", Type: Text, Default: "groups", Means: "The claim that names the groups of a token's holder."},
		{Name: "oidc.accountClaim", Type: Text, Means: "The claim that names the holder's account where the grant has none. Without it, and for a value that can't be an id, the account follows from issuer and subject, so that no one can choose it."},
		{Name: "oidc.nameClaim", Type: Text, Default: "email", Means: "The claim by which facts name the holder; the subject where it is missing."},
		{Name: "oidc.grants[]", Type: Objects, Means: "What holders may do. The grant that allows most counts; who has none is refused."},
		{Name: "oidc.grants[].group", Type: Text, Means: "A group of the provider, or * for everyone with a token."},
		{Name: "oidc.grants[].subject", Type: Text, Means: "A subject (sub) instead of a group, such as a service's account."},
		{Name: "oidc.grants[].role", Type: Choice, Values: roles, Required: true, Means: "What they may do."},
		{Name: "oidc.grants[].account", Type: Text, Means: "The account that all of them share; if not given, each has their own."},
	}
}

// check reports what is missing, and an issuer that others could speak for.
func (o *OIDC) check(add reporter) {
	if o.Issuer == "" {
		if o.Audience != "" || len(o.Grants) > 0 {
			add("oidc.issuer", "is missing")
		}
		return
	}
	if u, err := url.Parse(o.Issuer); err == nil && u.Scheme == "http" && !netaddr.LoopbackHost(u.Hostname()) {
		add("oidc.issuer", "must begin with https://: without TLS, anyone on the network could sign tokens in its name")
	}
	if o.Audience == "" {
		add("oidc.audience", "is missing: without it, tokens for other programs would be let in")
	}
	if len(o.Grants) == 0 {
		add("oidc.grants", "lets no one in; add for example {group: \"*\", role: client}")
	}
	for i, g := range o.Grants {
		at := fmt.Sprintf("oidc.grants[%d]", i)
		if (g.Group == "") == (g.Subject == "") {
			add(at, "needs either group or subject")
		}
		if g.Account != "" && !event.ValidID(g.Account) {
			add(at+".account", "is not an id")
		}
	}
}
