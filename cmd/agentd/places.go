package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/keyring"
	"agentd/sandbox"
)

// dataDirs are the folders that agentd keeps the store, its tokens and its keys in.
func dataDirs(c *config.Config) []string {
	var out []string
	for _, d := range c.Directories() {
		out = append(out, d.Path)
	}
	return out
}

// hiddenPaths are what no tool may read: agentd's own data, places where secrets are
// kept, and what the configuration hides.
func (a *app) hiddenPaths(c *config.Config) ([]string, error) {
	dirs := append(a.ownFiles(c), fromHome(c.Sandbox.Hidden)...)
	for i, d := range dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, fmt.Errorf("hidden %s: %w", d, err)
		}
		dirs[i] = abs
	}
	for _, p := range c.Providers {
		if path := absolute(a.fromHomeOf(p.APIKeyFile)); p.APIKeyFile != "" && exists(path) {
			dirs = append(dirs, path)
		}
	}
	secrets := append(sandbox.SecretPaths(), keyring.Sockets(a.getenv)...)
	for _, path := range visibleAgain(secrets, c.Sandbox.Visible) {
		if !slices.Contains(dirs, path) {
			dirs = append(dirs, path)
		}
	}
	return dirs, nil
}

// visibleAgain leaves out the hidden places that a configuration opens, with all that
// is in them.
func visibleAgain(hidden, visible []string) []string {
	visible = fromHome(visible)
	return slices.DeleteFunc(slices.Clone(hidden), func(path string) bool {
		return slices.ContainsFunc(visible, func(v string) bool {
			v = filepath.Clean(v)
			return path == v || strings.HasPrefix(path, v+"/")
		})
	})
}
