package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/loop"
	"agentd/model"
)

// startedWith is what a server was started with. A command that would start it with
// something else replaces it.
type startedWith struct {
	Version string `json:"version"`
	// Config is a fingerprint of the settings, File the file that they are from, and
	// FileSum a fingerprint of what is in it.
	Config  string `json:"config"`
	File    string `json:"file,omitempty"`
	FileSum string `json:"fileSum,omitempty"`
	// Values are fingerprints of keys and variables that the settings name, made with
	// Salt.
	Values map[string]string `json:"values,omitempty"`
	Salt   string            `json:"salt"`
	// Before is what the servers that this one replaced were started with.
	Before []startedWith `json:"before,omitempty"`
}

// startingWith says what a server that this process starts would be started with.
func (a *app) startingWith(c *config.Config, salt string) *startedWith {
	w := &startedWith{Version: a.build(), Config: configSum(c), Salt: salt, Values: map[string]string{}}
	if c.File != "" {
		w.File = absolute(c.File)
		if text, err := os.ReadFile(w.File); err == nil {
			sum := sha256.Sum256(text)
			w.FileSum = hex.EncodeToString(sum[:12])
		}
	}
	for name, value := range a.namedValues(c) {
		h := hmac.New(sha256.New, []byte(salt))
		h.Write([]byte(name + "=" + value))
		w.Values[name] = hex.EncodeToString(h.Sum(nil)[:12])
	}
	return w
}

// build names the program: its version and, where that says little, its file.
func (a *app) build() string {
	if !strings.HasPrefix(a.version, "devel") {
		return a.version
	}
	exe, err := os.Executable()
	if err != nil {
		return a.version
	}
	info, err := os.Stat(exe)
	if err != nil {
		return a.version
	}
	return fmt.Sprintf("%s %d %d", a.version, info.Size(), info.ModTime().UnixNano())
}

// configSum is a fingerprint of the settings that a server acts on, with the scripts
// that they name.
func configSum(c *config.Config) string {
	seen := *c
	seen.Data, seen.StateDir, seen.Socket, seen.Listen = "", "", "", ""
	seen.Log.Level, seen.Log.Format = "", ""
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(&seen); err != nil {
		// A budget that is no number: such a server is never the same as another.
		_, _ = fmt.Fprintln(h, err, os.Getpid())
	}
	if c.File != "" {
		_, _ = fmt.Fprintln(h, absolute(c.File))
	}
	for _, p := range c.Providers {
		if p.Script == "" {
			continue
		}
		path := p.Script
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(absolute(c.File)), path)
		}
		if info, err := os.Stat(path); err == nil {
			_, _ = fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// proxyVariables say how providers are reached.
var proxyVariables = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"}

// namedValues are the keys of providers and the variables that the settings name.
func (a *app) namedValues(c *config.Config) map[string]string {
	out := map[string]string{}
	for _, name := range append(c.VariableNames(), proxyVariables...) {
		if v := a.env[name]; v != "" {
			out[name] = v
		}
	}
	for _, p := range a.providersOf(c) {
		name := keyValue(p)
		if at := a.keyPlace(p); at.item == nil {
			if key := a.keyOf(p); key != "" {
				out[name] = key
			}
		} else if !a.background || a.keyOf(p) != "" {
			// A server has what it could read. Commands don't ask the keyring.
			out[name] = "keyring " + at.item.String() + " " + at.revision
		}
	}
	return out
}

// keyValue is the name of the value that is the key of a provider.
func keyValue(p config.Provider) string { return "key of " + p.ID }

// differs says what differs from what a command would start a server with now; empty if
// nothing does. Values that only the server has are no difference.
func (w *startedWith) differs(now *startedWith) string {
	switch {
	case w.Version != now.Version:
		return "another version"
	case w.Config != now.Config:
		return "another configuration"
	}
	for _, name := range slices.Sorted(maps.Keys(now.Values)) {
		if w.Values[name] != now.Values[name] {
			return "another value of " + strings.TrimPrefix(name, "key of ")
		}
	}
	return ""
}

// outdated says what a background server was started with that differs from what this
// command would start it with; empty if nothing does.
func (a *app) outdated(c *config.Config, n *serverNote) string {
	if !n.Background || n.With == nil {
		return ""
	}
	now := a.startingWith(c, n.With.Salt)
	for _, p := range a.providersOf(c) {
		name := keyValue(p)
		// A server that couldn't read the keyring is replaced from where it can be read.
		if _, has := n.With.Values[name]; !has && a.keyPlace(p).item != nil && a.keyOf(p) == "" {
			delete(now.Values, name)
		}
	}
	return n.With.differs(now)
}

// checkStart reports what a server with this configuration would not start for. It is
// asked before the one that runs is ended: a mistake in a file must not stop what others
// are doing.
func (a *app) checkStart(c *config.Config) error {
	var models []model.Info
	for _, p := range a.providersOf(c) {
		if p.Script != "" && !filepath.IsAbs(p.Script) && c.File != "" { // a server is started where its file is
			p.Script = filepath.Join(filepath.Dir(absolute(c.File)), p.Script)
		}
		if _, err := newProvider(p, ""); err != nil {
			return err
		}
		models = append(models, modelsOf(p, "")...)
	}
	if err := checkRouting(&c.Routing, models); err != nil {
		return err
	}
	if _, err := hostPolicy(c); err != nil {
		return err
	}
	return wireHooks(c, new(loop.Options))
}

// keepsServer decides whether a command uses the server that runs. One that was started
// with something else is replaced, with two exceptions, so that two terminals can't take
// it away from each other in turn: what a server before it was started with doesn't come
// back while others use it, and a service manager starts it as its unit says. The lock of
// who starts a server is held.
func (a *app) keepsServer(ctx context.Context, c *config.Config, n *serverNote, replace bool) (bool, error) {
	why := a.outdated(c, n)
	if why == "" || !replace {
		return true, nil
	}
	now := a.startingWith(c, n.With.Salt)
	if n.Managed {
		if n.With.Version != now.Version {
			return false, nil // the service manager starts the new one
		}
		a.sayf("agentd: warning: your server was started by the service manager, with %s; what its unit says counts", why)
		return true, nil
	}
	edited := n.With.File == now.File && n.With.FileSum != now.FileSum
	if edited || !a.wasReplaced(c, n) {
		return false, nil
	}
	others, err := a.otherClients(ctx, c, n)
	if err != nil || others == 0 {
		return false, err
	}
	use := "client uses it"
	if others > 1 {
		use = "clients use it"
	}
	if n.With.Config == now.Config {
		a.sayf("agentd: warning: your server was restarted from elsewhere with %s, and %d %s; it stays so. \"agentd daemon restart\" restarts it with what is set here", why, others, use)
		return true, nil
	}
	other := "another configuration"
	if n.With.File != now.File && n.With.File != "" {
		other = "the configuration " + n.With.File
	}
	return false, fmt.Errorf("your server was restarted from elsewhere with %s, and %d %s; \"agentd daemon restart\" switches it to this one for all, and --data DIR gives this one a server of its own", other, others, use)
}

// wasReplaced reports whether a server that was started with what this command has was
// replaced before.
func (a *app) wasReplaced(c *config.Config, n *serverNote) bool {
	return slices.ContainsFunc(n.With.Before, func(w startedWith) bool { return w.differs(a.startingWith(c, w.Salt)) == "" })
}

// How often, and after what pause each time, a server is asked whether it has noticed that a
// client is gone. What counts is how often it answers, not how long it takes: one on a busy
// machine notices late and answers late.
const (
	leftTries = 50
	leftPause = 10 * time.Millisecond
)

// otherClients counts those who use a server beside this process: the processes that are
// present, also between two connections, else the connections of others, such as
// browsers. A connection that ends meanwhile was of a process that has just gone.
func (a *app) otherClients(ctx context.Context, c *config.Config, n *serverNote) (int64, error) {
	if there, err := a.presence.Others(clientsDir(c)); err == nil && there > 0 {
		return int64(there), nil
	}
	for tries := 1; ; tries++ {
		said, err := askStatus(ctx, n)
		others := max(0, said.Connections-1)
		if err != nil || others == 0 || tries == leftTries {
			return others, err
		}
		select {
		case <-ctx.Done():
			return others, ctx.Err()
		case <-time.After(leftPause):
		}
	}
}

const (
	// beforeVariable has what the servers that a starting one replaces were started with.
	beforeVariable = "AGENTD_REPLACES"
	// maxBefore bounds how many are kept.
	maxBefore = 8
)

// startedBefore returns what the servers before the one that is started now were started
// with: the one that it replaces, or one that was killed, and those before that.
func (a *app) startedBefore(c *config.Config, n *serverNote) []startedWith {
	if n == nil {
		n, _ = trustedNote(c.Local()) // it only says what was
	}
	if n == nil || n.With == nil {
		return nil
	}
	before := slices.Clone(n.With.Before)
	if n.With.differs(a.startingWith(c, n.With.Salt)) != "" {
		last := *n.With
		last.Before = nil
		before = append(before, last)
	}
	before = slices.DeleteFunc(before, func(w startedWith) bool { return w.differs(a.startingWith(c, w.Salt)) == "" })
	return before[max(0, len(before)-maxBefore):]
}

// replacing reads what the process that started this server said about those before it.
func (a *app) replacing() []startedWith {
	text := a.env[beforeVariable]
	delete(a.env, beforeVariable)
	_ = os.Unsetenv(beforeVariable) // no child is to see it
	var before []startedWith
	if json.Unmarshal([]byte(text), &before) != nil {
		return nil // none
	}
	return before
}
