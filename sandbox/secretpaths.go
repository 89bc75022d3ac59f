package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// SecretPlaces are where people and programs usually keep secrets, and the sockets of
// programs that hand them out. ~ is the home folder, $XDG_RUNTIME_DIR the folder of what
// runs for the user, also where the variable isn't set.
func SecretPlaces() []string {
	return []string{
		"~/.ssh", "~/.gnupg", "~/.password-store", "~/.netrc", "~/.git-credentials", "~/.config/git/credentials",
		"~/.aws", "~/.azure", "~/.config/gcloud", "~/.oci", "~/.config/doctl", "~/.config/hcloud", "~/.kube", "~/.docker/config.json",
		"~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.npmrc", "~/.pypirc", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials",
		"~/.terraform.d/credentials.tfrc.json", "~/.vault-token", "~/.config/sops", "~/.config/age", "~/.config/rclone", "~/.s3cfg",
		"~/.pgpass", "~/.my.cnf", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.config/op", "~/.config/Bitwarden",
		"~/.mozilla", "~/.config/chromium", "~/.config/google-chrome", "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.thunderbird",
		"~/.claude/.credentials.json", "~/.codex/auth.json", "~/.config/goose", "~/.local/share/opencode/auth.json", "~/.local/share/agentd",
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
		"/var/lib/kubelet", "/var/run/secrets", "/run/secrets", "/run/credentials",
		runtimeDir + "/bus", runtimeDir + "/keyring", runtimeDir + "/gcr", runtimeDir + "/gnupg",
	}
}

// runtimeDir stands for the folder of what runs for the user.
const runtimeDir = "$XDG_RUNTIME_DIR"

// SecretPaths returns [SecretPlaces] as absolute paths, for [Profile.Hidden]. Without a
// home folder those below it are left out, and so are those that this process can't look
// at: what it starts has no more rights.
func SecretPaths() []string {
	home, err := os.UserHomeDir()
	var out []string
	add := func(path string) {
		if !outOfReach(path) {
			out = append(out, path)
		}
	}
	for _, path := range SecretPlaces() {
		if rest, ok := strings.CutPrefix(path, "~"); ok {
			if err == nil && filepath.IsAbs(home) {
				add(filepath.Join(home, rest))
			}
			continue
		}
		if rest, ok := strings.CutPrefix(path, runtimeDir); ok {
			for _, dir := range runtimeDirs() {
				add(filepath.Join(dir, rest))
			}
			continue
		}
		add(path)
	}
	return out
}

// runtimeDirs are the folders of what runs for the user: the one of the environment, and
// the one that a system with sessions makes.
func runtimeDirs() []string {
	usual := "/run/user/" + strconv.Itoa(os.Getuid())
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && filepath.Clean(dir) != usual {
		return []string{filepath.Clean(dir), usual}
	}
	return []string{usual}
}

// outOfReach reports whether a folder of another user keeps this process from a path: what it
// starts has no more rights then. A folder of its own doesn't count, because a command could open
// it again.
func outOfReach(path string) bool {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrPermission) {
		return false
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if !errors.Is(err, fs.ErrPermission) {
			return err == nil && ofAnotherUser(info)
		}
	}
}
