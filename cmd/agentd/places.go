package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentd/cmd/agentd/internal/config"
)

// secretPlaces are where people and programs keep secrets: hidden from tools, hooks
// and MCP servers unless sandbox.visible opens one. ~ is the home folder.
var secretPlaces = []string{
	"~/.ssh", "~/.gnupg", "~/.password-store", "~/.netrc", "~/.git-credentials", "~/.config/git/credentials",
	"~/.aws", "~/.azure", "~/.config/gcloud", "~/.oci", "~/.config/doctl", "~/.config/hcloud", "~/.kube", "~/.docker/config.json",
	"~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.npmrc", "~/.pypirc", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials",
	"~/.terraform.d/credentials.tfrc.json", "~/.vault-token", "~/.config/sops", "~/.config/age", "~/.config/rclone", "~/.s3cfg",
	"~/.pgpass", "~/.my.cnf", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.config/op", "~/.config/Bitwarden",
	"~/.mozilla", "~/.config/chromium", "~/.config/google-chrome", "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.thunderbird",
	"~/.claude/.credentials.json", "~/.codex/auth.json", "~/.config/goose", "~/.local/share/opencode/auth.json",
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
	"/var/lib/kubelet", "/var/run/secrets", "/run/secrets", "/run/credentials",
}

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
	for _, path := range visibleAgain(fromHome(secretPlaces), c.Sandbox.Visible) {
		if !filepath.IsAbs(path) || slices.Contains(dirs, path) { // without a home folder ~ means nothing
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrPermission) {
			continue // tools have no more rights than we do
		}
		dirs = append(dirs, path)
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
