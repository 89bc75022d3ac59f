package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
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

// boundPaths are the files that bound agents on this machine: the configuration in
// use, this program, and the programs of hooks and MCP servers with the scripts that
// they name. What the configuration adds may be relative to each workspace.
func boundPaths(c *config.Config) []string {
	var out []string
	keep := func(path string) {
		abs, err := filepath.Abs(path)
		if err != nil || path == "" {
			return
		}
		out = append(out, abs)
		// A name that is a link, and what it leads to.
		if resolved, err := filepath.EvalSymlinks(abs); err == nil && resolved != abs {
			out = append(out, resolved)
		}
	}
	keep(c.File)
	for _, p := range c.Providers {
		keep(p.Script)
	}
	if self, err := os.Executable(); err == nil {
		keep(self)
	}
	var commands [][]string
	for _, h := range c.Hooks {
		commands = append(commands, h.Command)
	}
	for _, m := range c.MCP {
		commands = append(commands, m.Command)
	}
	for _, command := range commands {
		for i, arg := range command {
			if i == 0 && !strings.ContainsRune(arg, filepath.Separator) {
				if found, err := exec.LookPath(arg); err == nil {
					keep(found)
				}
				continue
			}
			if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
				keep(arg)
			}
		}
	}
	for _, path := range fromHome(c.Sandbox.Protected) {
		out = append(out, filepath.Clean(path))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
