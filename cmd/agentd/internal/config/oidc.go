package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentd/command"
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
	// Console says how people log in to the console there; without a client id they don't.
	Console ConsoleLogin `json:"console"`
}

// ConsoleLogin is the console as a client of the provider.
type ConsoleLogin struct {
	ClientID string `json:"clientId"`
	// ClientSecretEnv names the environment variable that holds the secret, ClientSecretFile
	// the file; a public client has neither.
	ClientSecretEnv  string   `json:"clientSecretEnv"`
	ClientSecretFile string   `json:"clientSecretFile"`
	RedirectURL      string   `json:"redirectUrl"`
	Scopes           []string `json:"scopes"`
	Name             string   `json:"name"`
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
		{Name: "oidc.grants[].account", Type: ID, Means: "The account that all of them share; if not given, each has their own."},
		{Name: "oidc.console.clientId", Type: Text, Means: "The id of the console as a client of the provider: its login page then offers to log in there. It may be the same as audience."},
		{Name: "oidc.console.clientSecretEnv", Type: Text, Means: "Name of the environment variable with the client's secret; a public client has none. The secret itself is not accepted here."},
		{Name: "oidc.console.clientSecretFile", Type: Text, Means: "File with the client's secret instead, which only its owner may read; read at each login."},
		{Name: "oidc.console.redirectUrl", Type: URL, Means: "Where the provider sends browsers back to, as it is registered there: the address of the server as browsers know it, and " + callbackPath + "; if not given, it follows from the address that the browser asked. A proxy that ends TLS needs it."},
		{Name: "oidc.console.scopes", Type: Texts, Means: "What the provider is asked for: openid, and what has it put the groups into the token; if not given, openid, profile and email."},
		{Name: "oidc.console.name", Type: Text, Means: "What people call the provider, for the button of the login page; if not given, the issuer's host."},
	}
}

// callbackPath is the path of the address that the provider sends browsers back to.
const callbackPath = "/ui/oidc/callback"

// check reports what is missing, and an issuer that others could speak for.
func (o *OIDC) check(add reporter) {
	o.Console.check(add)
	if o.Issuer == "" {
		if o.Audience != "" || len(o.Grants) > 0 || o.Console.ClientID != "" {
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
	}
}

// check reports what can't be logged in with.
func (c *ConsoleLogin) check(add reporter) {
	if c.ClientID == "" {
		for _, s := range []struct {
			name  string
			given bool
		}{
			{"clientSecretEnv", c.ClientSecretEnv != ""},
			{"clientSecretFile", c.ClientSecretFile != ""},
			{"redirectUrl", c.RedirectURL != ""},
			{"scopes", len(c.Scopes) > 0},
			{"name", c.Name != ""},
		} {
			if s.given {
				add("oidc.console.clientId", "is missing: without it, %s has no meaning", s.name)
				return
			}
		}
		return
	}
	if c.ClientSecretEnv != "" && c.ClientSecretFile != "" {
		add("oidc.console", "has both clientSecretEnv and clientSecretFile")
	}
	if len(c.Scopes) > 0 && !slices.Contains(c.Scopes, "openid") {
		add("oidc.console.scopes", "must contain openid: without it, the provider doesn't say who logged in")
	}
	for _, s := range c.Scopes {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			add("oidc.console.scopes", "must be a list of single words, not one text with spaces")
			break
		}
	}
	if utf8.RuneCountInString(c.Name) > maxProviderName || strings.ContainsFunc(c.Name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		add("oidc.console.name", "must have at most %d printable characters", maxProviderName)
	}
	u, err := url.Parse(c.RedirectURL)
	switch {
	case c.RedirectURL == "" || err != nil: // the latter isn't a URL, which was said
	case u.Path != callbackPath || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		add("oidc.console.redirectUrl", "must be the address of this server and the path %s, such as https://agents.example.org%s", callbackPath, callbackPath)
	case u.Scheme == "http" && !netaddr.LoopbackHost(u.Hostname()):
		add("oidc.console.redirectUrl", "must begin with https://: without TLS, anyone on the network could take the login over")
	}
}

// maxProviderName is how long a name may be that fits on a button.
const maxProviderName = 40
