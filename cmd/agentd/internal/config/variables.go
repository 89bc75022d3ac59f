package config

import (
	"fmt"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/keyring"
	"agentd/redact"
)

// maxVariable is longer than any name that people give a variable.
const maxVariable = 64

// variable is what stands where the name of an environment variable belongs.
type variable struct {
	path, text string
	// assigned says that NAME=value may stand there, too.
	assigned bool
}

// variables returns all of them.
func (c *Config) variables() []variable {
	var out []variable
	list := func(path string, texts []string, assigned bool) {
		for i, text := range texts {
			out = append(out, variable{fmt.Sprintf("%s[%d]", path, i), text, assigned})
		}
	}
	for i, p := range c.Providers {
		out = append(out, variable{path: fmt.Sprintf("providers[%d].apiKeyEnv", i), text: p.APIKeyEnv})
	}
	out = append(out, variable{path: "blobs.s3.accessKeyEnv", text: c.Blobs.S3.AccessKeyEnv}, variable{path: "blobs.s3.secretKeyEnv", text: c.Blobs.S3.SecretKeyEnv},
		variable{path: "oidc.console.clientSecretEnv", text: c.OIDC.Console.ClientSecretEnv})
	for i, p := range c.Peers {
		out = append(out, variable{path: fmt.Sprintf("peers[%d].tokenEnv", i), text: p.TokenEnv})
	}
	for i, h := range c.Telemetry.Headers {
		out = append(out, variable{path: fmt.Sprintf("telemetry.headers[%d].env", i), text: h.Env})
	}
	for i, m := range c.MCP {
		list(fmt.Sprintf("mcp[%d].env", i), m.Env, false)
		list(fmt.Sprintf("mcp[%d].sandbox.env", i), m.Sandbox.Env, false)
	}
	for i, h := range c.Hooks {
		list(fmt.Sprintf("hooks[%d].sandbox.env", i), h.Sandbox.Env, true)
	}
	list("sandbox.env", c.Sandbox.Env, true)
	return out
}

// VariableNames are the environment variables that the settings name, without those
// that the settings give a value to.
func (c *Config) VariableNames() []string {
	var out []string
	for _, v := range c.variables() {
		if v.text != "" && (!v.assigned || !strings.Contains(v.text, "=")) {
			out = append(out, v.text)
		}
	}
	return out
}

// checkVariables refuses secrets where the name of a variable belongs. What stands
// there may be a key, so it is never repeated.
func (c *Config) checkVariables(add reporter) {
	shapes := redact.New(redact.Options{})
	for _, v := range c.variables() {
		name, value := v.text, ""
		if v.assigned {
			name, value, _ = strings.Cut(v.text, "=")
		}
		switch _, found := shapes.Text(value); {
		case v.text == "":
		case looksLikeKey(shapes, name) || found.Any():
			add(v.path, "must be the name of an environment variable, but the value (%d characters) looks like a secret itself: put it in a variable, and the variable's name here; a key that was in a file should be replaced", len(v.text))
		case !isVariable(name):
			add(v.path, "must be the name of an environment variable: letters, digits and _, not starting with a digit; a value doesn't belong here")
		}
	}
}

// checkKey reports what can't be said about where a key is.
func (p Provider) checkKey(at string, add reporter) {
	var named []string
	for _, s := range []struct{ name, value string }{{"apiKeyEnv", p.APIKeyEnv}, {"apiKeyFile", p.APIKeyFile}, {"apiKeyKeyring", p.APIKeyKeyring}} {
		if s.value != "" {
			named = append(named, s.name)
		}
	}
	if len(named) > 1 {
		add(at, "has both %s", strings.Join(named, " and "))
	}
	if p.APIKeyKeyring == "" {
		return
	}
	if looksLikeKey(redact.New(redact.Options{}), p.APIKeyKeyring) {
		add(at+".apiKeyKeyring", "must be the name of an item of the system's keyring, but the value (%d characters) looks like a secret itself: store it with \"agentd login --store keyring\"; a key that was in a file should be replaced", len(p.APIKeyKeyring))
	} else if _, err := keyring.ParseItem(p.APIKeyKeyring); err != nil {
		add(at+".apiKeyKeyring", "must be the name of an item of the system's keyring: ACCOUNT or SERVICE/ACCOUNT")
	}
}

// isVariable reports whether a text can be the name of an environment variable.
func isVariable(s string) bool {
	return s != "" && !isDigit(rune(s[0])) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && !isDigit(r) && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// looksLikeKey reports whether a text looks like a secret: by its shape, its length, or
// because it looks drawn. Names in capitals have digits, too.
func looksLikeKey(shapes *redact.Redactor, s string) bool {
	if _, found := shapes.Text(s); found.Any() || len(s) > maxVariable {
		return true
	}
	if !slices.ContainsFunc([]rune(s), func(r rune) bool { return r >= 'a' && r <= 'z' }) {
		return false
	}
	_, found := shapes.Text("secret=" + s)
	return found.Any()
}
