package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"agentd/cmd/agentd/internal/config"
)

// maxCredential bounds the content of a file that holds a credential.
const maxCredential = 8 << 10

var (
	errNoVariable = errors.New("the variable is not set")
	errNoFile     = errors.New("the file can't be read")
	errNoToken    = errors.New("it has no token: expected one line of visible characters")
)

// credential reads what is behind a reference. Nothing of it is in the errors, which
// are shown to people and models.
func (a *app) credential(ref string) (string, error) {
	var token string
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		if token = a.env[name]; token == "" {
			return "", errNoVariable
		}
	} else {
		b, err := readBounded(strings.TrimPrefix(ref, "file:"), maxCredential)
		if err != nil {
			return "", errNoFile
		}
		token = string(b)
	}
	token = strings.TrimSpace(token)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errNoToken
	}
	return token, nil
}

// readBounded reads a file that is no longer than that.
func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errors.New("it is too long")
	}
	return b, err
}

// mcpTokens are the credentials for MCP servers as they are at the start, which must
// not be told. What can't be read is complained about where it is needed.
func (a *app) mcpTokens(c *config.Config) []string {
	var out []string
	for i := range c.MCP {
		for _, ref := range c.MCP[i].Credentials {
			if v, err := a.credential(ref); err == nil {
				out = append(out, v)
			}
		}
	}
	return out
}
