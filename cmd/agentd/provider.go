package main

import (
	"fmt"

	"agentd/cmd/agentd/internal/config"
	"agentd/server"
	"agentd/server/oidc"
)

// withProvider also lets in holders of tokens of the identity provider, if one is configured,
// and returns how people log in to the console there, nil if they don't.
func (s *serving) withProvider(next server.Authenticator) (server.Authenticator, *oidc.Login, error) {
	c := &s.loaded.Config.OIDC
	if c.Issuer == "" {
		return next, nil, nil
	}
	opt := oidc.Options{
		Issuer: c.Issuer, Audience: c.Audience, Console: c.Console.ClientID, Next: next,
		GroupsClaim: c.GroupsClaim, AccountClaim: c.AccountClaim, NameClaim: c.NameClaim,
	}
	for _, g := range c.Grants {
		opt.Grants = append(opt.Grants, oidc.Grant(g))
	}
	auth := oidc.New(opt)
	if c.Console.ClientID == "" {
		return auth, nil, nil
	}
	login := oidc.LoginOptions{ClientID: c.Console.ClientID, Scopes: c.Console.Scopes, Name: c.Console.Name}
	if c.Console.ClientSecretEnv != "" || c.Console.ClientSecretFile != "" {
		if _, err := clientSecret(&c.Console, s.env); err != nil {
			return nil, nil, &exitError{exitUsage, err}
		}
		login.Secret = func() (string, error) { return clientSecret(&c.Console, s.env) }
	}
	return auth, auth.NewLogin(login), nil
}

// clientSecret reads the secret of the console as a client of the provider where the settings
// say that it is.
func clientSecret(c *config.ConsoleLogin, env map[string]string) (string, error) {
	if c.ClientSecretFile != "" {
		secret, err := readKey(c.ClientSecretFile)
		if err != nil {
			return "", fmt.Errorf("oidc.console.clientSecretFile: %w", err)
		}
		return secret, nil
	}
	if env[c.ClientSecretEnv] == "" {
		return "", fmt.Errorf("oidc.console.clientSecretEnv: the variable %s is not set", c.ClientSecretEnv)
	}
	return env[c.ClientSecretEnv], nil
}

// consoleSecrets is the secret of the console at the provider, which must not be told.
func (a *app) consoleSecrets(c *config.Config) []string {
	login := &c.OIDC.Console
	if login.ClientSecretEnv == "" && login.ClientSecretFile == "" {
		return nil
	}
	if secret, err := clientSecret(login, a.env); err == nil {
		return []string{secret}
	}
	return nil // what can't be read is complained about where it is needed
}
