package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/internal/netaddr"
	"agentd/model/provider/script"
	"agentd/store/pebble"
	"agentd/store/postgres"
)

// finding is one thing that "agentd doctor" looked at.
type finding struct {
	Check string `json:"check"`
	// Status is ok, warn or fail.
	Status string `json:"status"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func ok(check, format string, args ...any) finding {
	return finding{Check: check, Status: "ok", Detail: fmt.Sprintf(format, args...)}
}

func warn(check, advice, format string, args ...any) finding {
	return finding{Check: check, Status: "warn", Advice: advice, Detail: fmt.Sprintf(format, args...)}
}

func fail(check, advice, format string, args ...any) finding {
	return finding{Check: check, Status: "fail", Advice: advice, Detail: fmt.Sprintf(format, args...)}
}

func (a *app) doctorCommand() *cobra.Command {
	var network bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and give advice",
		Long: `Looks at the configuration, the data, the address, the providers with their keys,
the MCP servers, what a node needs beside others, and what the sandbox really
enforces on this machine, each with advice. Addresses on this machine are tried,
others only with --network; a database and its replica always. It changes nothing
but a file that it makes and removes to measure the disk.

Exit codes: 0 nothing stands in the way, 1 something does, 2 usage.`,
		Example: "  agentd doctor\n  agentd doctor --network\n  agentd doctor --config agentd.yaml --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.loadOnly(cmd)
			if err != nil {
				return err
			}
			found := a.examine(cmd.Context(), loaded.Config, network)
			box := a.examineSandbox(loaded.Config)
			found = append(found, box.findings()...)
			if err := a.print(map[string]any{"findings": found, "sandbox": box}, func(p *printer) {
				printFindings(p, found)
				box.print(p)
			}); err != nil {
				return err
			}
			if slices.ContainsFunc(found, func(f finding) bool { return f.Status == "fail" }) {
				return silent(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&network, "network", false, "also try addresses on other machines")
	return a.settings(cmd, flagSettings()...)
}

// examine looks at everything but the sandbox, one after the other.
func (a *app) examine(ctx context.Context, c *config.Config, network bool) []finding {
	found := []finding{ok("configuration", "can be used")}
	if err := a.checkData(c); err != nil {
		found = append(found, fail("data", "", "%v", err), listenFinding(ctx, c))
	} else {
		found = append(found, a.serverFindings(ctx, c)...)
	}
	if !c.Database() {
		found = append(found, diskFindings(c.Data)...)
	}
	found = append(found, a.bucketFindings(ctx, c, network)...)
	found = append(found, a.nodeFindings(ctx, c)...)
	found = append(found, oidcFindings(ctx, c, network)...)
	found = append(found, machineFindings()...)
	if a.ownServer(c) && a.onlyBuiltIn(c) {
		found = append(found, warn("model", `"agentd init" sets one up; or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY`, "none is configured; only --model script/script is there, which repeats its input"))
	} else {
		for _, p := range a.providersOf(c) {
			found = append(found, a.providerFinding(ctx, p, network))
		}
	}
	for _, m := range c.MCP {
		found = append(found, mcpFinding(ctx, m, network))
	}
	return found
}

// serverFindings looks at the server that holds the data, or else at the data.
func (a *app) serverFindings(ctx context.Context, c *config.Config) []finding {
	var found []finding
	running, err := a.remote(ctx, c)
	if err != nil {
		found = append(found, fail("server", "remove the file if no server runs", "%v", err))
	}
	if running != nil {
		defer running.Close()
		return append(found, ok("server", "runs and answers at %s", running.address()))
	}
	found = append(found, ok("server", "none runs"), listenFinding(ctx, c))
	return append(found, a.storeFindings(ctx, c)...)
}

func listenFinding(ctx context.Context, c *config.Config) finding {
	if c.Socket != "" {
		return ok("address", "a Unix socket at %s", c.Socket)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fail("address", "stop what uses it, or choose another with --listen", "%v", err)
	}
	if err := l.Close(); err != nil {
		return fail("address", "", "%v", err)
	}
	if cert, _ := certificateFiles(c); !isLoopback(c.Listen) && cert == "" {
		return warn("address", "set tls.cert and tls.key, or listen on 127.0.0.1", "%s is free, but others can reach it and TLS is not configured", c.Listen)
	}
	return ok("address", "%s is free", c.Listen)
}

// storeFindings opens the store, if there is one, and says what opening found.
func (a *app) storeFindings(ctx context.Context, c *config.Config) []finding {
	if !c.Database() && !hasStore(c.Data) {
		return []finding{ok("store", "none in %s yet; \"agentd serve\" creates it", c.Data)}
	}
	s, err := openData(ctx, c, a.env, node{reads: true}, nil)
	if pending, found := errors.AsType[*postgres.PendingError](err); found {
		return []finding{pendingFinding(pending)}
	}
	if err != nil {
		return []finding{fail("store", "", "%s", describe(err))}
	}
	meta, err := s.Meta(ctx)
	var problem, grant string
	if p, ok := s.(*postgres.Store); ok {
		problem, grant = p.MonthProblem()
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return []finding{fail("store", "", "%v", err)}
	}
	found := []finding{ok("store", "%s at %s, version %d", meta.Engine, meta.Location, meta.Version)}
	if problem != "" {
		found = append(found, warn("store", grant, "there is no table for this month, and retention removes events row by row: %s", problem))
	}
	for _, r := range meta.Recovery {
		found = append(found, warn("store", "run \"agentd verify\"", "%s", r))
	}
	return found
}

// diskFindings looks at the disk of the data directory: space, and how long
// making something durable takes.
func diskFindings(dir string) []finding {
	at := absolute(dir)
	for !exists(at) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
	}
	var found []finding
	if free, err := freeBytes(at); err == nil && free >= 0 {
		f := ok("disk", "%d MiB free", free>>20)
		if free < pebble.DefaultReserveBytes {
			f = fail("disk", "make space: below 512 MiB nothing is appended", "%d MiB free", free>>20)
		}
		found = append(found, f)
	}
	took, err := syncTime(at)
	if err != nil {
		return append(found, fail("disk", "the data directory must be writable", "%s", namePaths(err, err.Error())))
	}
	if took > 50*time.Millisecond {
		return append(found, warn("disk", "a faster disk makes every command faster", "one fsync takes %s", took.Round(time.Microsecond)))
	}
	return append(found, ok("disk", "one fsync takes %s", took.Round(time.Microsecond)))
}

// syncTime returns the middle of some fsyncs.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return 0, err
	}
	var times []time.Duration
	for range 9 {
		if err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		began := time.Now()
		if err == nil {
			err = f.Sync()
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2], errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// providerFinding says whether a provider can be asked.
func (a *app) providerFinding(ctx context.Context, p config.Provider, network bool) finding {
	name := "provider " + p.ID
	if p.Kind == "script" {
		switch {
		case p.Script == "":
			return warn(name, "set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or configure providers", "the built-in script provider answers, which needs no key and only repeats its input")
		case !exists(p.Script):
			return fail(name, "correct providers[].script", "there is no file %s", p.Script)
		}
		if _, err := script.Load(p.Script); err != nil {
			return fail(name, "correct the script", "%v", err)
		}
		return ok(name, "plays %s", p.Script)
	}
	has, wrong := a.keyFinding(p)
	if wrong != "" {
		advice := keyHint(p)
		if a.keyPlace(p).item != nil {
			advice = "" // it is said
		}
		return warn(name, advice, "%s", wrong)
	}
	if p.BaseURL == "" {
		return ok(name, "%s at the vendor's own address, %s", p.Kind, has)
	}
	return addressFinding(ctx, name, p.BaseURL, has, "check providers[].baseURL and the network", network)
}

// keyFinding says where the key of a provider is, or why it isn't there.
func (a *app) keyFinding(p config.Provider) (has, wrong string) {
	at := a.keyPlace(p)
	_, err := a.findKey(p)
	switch {
	case at.variable != "":
		return "its key is in " + at.variable, ""
	case at.item != nil && err == nil:
		return fmt.Sprintf("its key is in the system's keyring, as %s", at.item), ""
	case at.item != nil:
		return "", keyringProblem(p, err)
	case at.stored && err == nil:
		return "its key was stored with agentd login, in " + at.file, ""
	case at.file != "" && err == nil:
		return "its key is in " + p.APIKeyFile, ""
	case at.stored:
		return "", fmt.Sprintf("the file %s with its key can't be used: %v", at.file, err)
	case at.file != "":
		return "", fmt.Sprintf("the file %s with its key can't be used: %v", p.APIKeyFile, err)
	case keyEnv(p) != "":
		return "", fmt.Sprintf("the variable %s with its key is not set", keyEnv(p))
	}
	return "needs no key", ""
}

// addressFinding says whether an address can be reached, if it may be tried.
func addressFinding(ctx context.Context, name, address, has, advice string, network bool) finding {
	shown := config.ShownURL(address) // people paste what doctor says
	if !network && !loopbackURL(address) {
		return ok(name, "%s, %s; not tried; --network tries it", shown, has)
	}
	if err := reachable(ctx, address); err != nil {
		return warn(name, advice, "%s can't be reached: %v", shown, err)
	}
	return ok(name, "%s can be reached, %s", shown, has)
}

// loopbackURL reports whether an address is on this machine.
func loopbackURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && netaddr.LoopbackHost(u.Hostname())
}

// mcpFinding says whether an MCP server can be begun or reached.
func mcpFinding(ctx context.Context, m config.MCP, network bool) finding {
	name := "MCP server " + m.ID
	if m.URL != "" {
		return addressFinding(ctx, name, m.URL, "over HTTP", "check mcp[].url", network)
	}
	if len(m.Command) == 0 {
		return fail(name, "give it a command or a url", "has neither")
	}
	path, err := exec.LookPath(m.Command[0])
	if err != nil {
		return fail(name, "install it, or correct mcp[].command", "%v", err)
	}
	return ok(name, "runs %s", path)
}

// reachable opens a connection to an address, and sends nothing over it.
func reachable(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	host := u.Host
	if u.Port() == "" {
		port := "80"
		if strings.EqualFold(u.Scheme, "https") {
			port = "443"
		}
		host = net.JoinHostPort(u.Hostname(), port)
	}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err == nil && proxy != nil {
		host = proxy.Host
	}
	d := &net.Dialer{Timeout: 3 * time.Second}
	var conn net.Conn
	if strings.EqualFold(u.Scheme, "https") && (err != nil || proxy == nil) {
		conn, err = (&tls.Dialer{NetDialer: d}).DialContext(ctx, "tcp", host)
	} else {
		conn, err = d.DialContext(ctx, "tcp", host)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

func printFindings(p *printer, found []finding) {
	marks := map[string]string{"ok": p.Paint(terminal.Green, "ok  "), "warn": p.Paint(terminal.Yellow, "warn"), "fail": p.Paint(terminal.Red, "FAIL")}
	for _, f := range found {
		p.linef("%s  %s: %s", marks[f.Status], f.Check, terminal.Plain(f.Detail))
		if f.Advice != "" {
			p.linef("      %s", f.Advice)
		}
	}
}
