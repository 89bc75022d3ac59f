package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml"

	"agentd"
	"agentd/cmd/agentd/internal/config"
	"agentd/event"
	"agentd/hook"
	"agentd/internal/place"
	"agentd/internal/yamlbound"
	"agentd/loop"
	"agentd/model"
	"agentd/model/provider/anthropic"
	"agentd/model/provider/gemini"
	"agentd/model/provider/httpstream"
	"agentd/model/provider/openai"
	"agentd/model/provider/responses"
	"agentd/model/provider/script"
	"agentd/permission"
	processes "agentd/process"
	"agentd/redact"
	"agentd/sandbox"
	"agentd/session"
	"agentd/store"
	"agentd/telemetry/otlp"
	"agentd/tool"
	"agentd/tool/mcp"
	"agentd/workspace"
)

// wiring is how the runtime runs over a store, with what must be closed after it.
type wiring struct {
	options agentd.Options
	close   func() error
	// settle waits until what the tools of turns come from is there, or isn't.
	settle func(context.Context)
	// servers says how the MCP servers stand; nil without any.
	servers func() []mcp.Status
	// keys seal what only this runtime may read.
	keys *sealKeys
	// exporter is nil without telemetry.
	exporter *otlp.Exporter
}

// wire chooses the parts that the configuration asks for.
func (a *app) wire(ctx context.Context, c *config.Config, s store.Store, log *slog.Logger) (*wiring, error) {
	// A store that was there already says nothing of the directory for this machine's
	// files.
	if err := a.claimData(c); err != nil {
		return nil, err
	}
	id, err := runtimeID(ctx, c, s)
	if err != nil {
		return nil, err
	}
	w := &wiring{settle: func(context.Context) {}, close: func() error { return nil }}
	w.options = agentd.Options{
		Store: s, RuntimeID: id, Recovery: c.Recovery, Logger: log, Peers: noPeers{}, Quotas: c.Quotas.Policy(),
		Place:    agentd.NodePlace{Pool: c.Node.Pool},
		Channels: agentd.ChannelLimits{Silence: time.Duration(c.Channels.Silence), ToolGrace: graceOf(c)},
		Session: session.Options{
			InlineBytes: int(c.Outputs.InlineBytes), ExpireAfter: time.Duration(c.Outputs.ExpireAfter), RetainEvents: time.Duration(c.Retention.Events),
		},
	}
	o := &w.options.Loop
	if err := a.wireModels(c, o); err != nil {
		return nil, err
	}
	o.Redact = a.redactor(c)
	o.Workspace, o.ActionTimeout = c.Workspace.Root, time.Duration(c.Actions.Timeout)
	o.Outputs = loop.Outputs{InlineBytes: int(c.Outputs.InlineBytes), PreviewBytes: int(c.Outputs.PreviewBytes), ExpireAfter: time.Duration(c.Outputs.ExpireAfter)}
	if o.Host, err = hostPolicy(c); err != nil {
		return nil, err
	}
	o.ParseRules, o.TrustRules = parseWorkspaceRules, c.Workspace.TrustRules
	o.Data, o.DataInside, o.Places = dataDirs(c), !c.DataChosen(), &place.Places{}
	hidden, err := a.hiddenPaths(c)
	if err != nil {
		return nil, err
	}
	wireSandbox(c, o, hidden)
	o.Reviewer = wireReviewer(c)
	if err := wireHooks(c, o); err != nil {
		return nil, err
	}
	if w.keys, err = a.openSealKeys(ctx, c, s, log); err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	err = errors.Join(wireVault(c, s, o, w, hidden), a.wireTools(ctx, c, o, w, hidden, log))
	a.wireTelemetry(c, s, w, log)
	return w, err
}

// redactor takes out the secrets that this program knows, beside those that it can
// tell by their shape.
func (a *app) redactor(c *config.Config) *redact.Redactor {
	return redact.New(redact.Options{Values: slices.Concat(a.providerKeys(c), []string{a.token(c), a.env[earlierTokenEnv]}, a.telemetryKeys(c), a.peerTokens(c), a.mcpTokens(c), a.bucketSecrets(c), a.consoleSecrets(c))})
}

// usual says where a vendor's key is found and which protocol it speaks, for a
// start without a configuration.
var usual = []struct{ id, kind, env string }{
	{"anthropic", config.KindAnthropic, "ANTHROPIC_API_KEY"},
	{"openai", config.KindResponses, "OPENAI_API_KEY"},
	{"gemini", config.KindGemini, "GEMINI_API_KEY"},
}

// builtIn is the provider, and its one model, that needs no configuration.
const builtIn = "script"

// providersOf returns the configured providers; without any, the vendors whose key
// is in the environment or was stored, else the one that needs none.
func (a *app) providersOf(c *config.Config) []config.Provider {
	if len(c.Providers) > 0 {
		return c.Providers
	}
	var out []config.Provider
	for _, u := range usual {
		if p := (config.Provider{ID: u.id, Kind: u.kind, APIKeyEnv: u.env}); a.hasKey(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		out = []config.Provider{{ID: builtIn, Kind: config.KindScript}}
	}
	return out
}

// providerKeys are the keys of the providers.
func (a *app) providerKeys(c *config.Config) []string {
	var out []string
	for _, p := range a.providersOf(c) {
		if key := a.keyOf(p); key != "" {
			out = append(out, key)
		}
	}
	return out
}

// wireModels fills in who answers.
func (a *app) wireModels(c *config.Config, o *loop.Options) error {
	for _, p := range a.providersOf(c) {
		key := a.keyOf(p)
		provider, err := newProvider(p, key)
		if err != nil {
			return err
		}
		o.Providers = append(o.Providers, provider)
		o.Models = append(o.Models, a.withKeyringHint(p, modelsOf(p, key))...)
	}
	if a.background && a.onlyBuiltIn(c) {
		for i := range o.Models {
			o.Models[i].OnlyByName = noModelAdvice
		}
	}
	if err := checkRouting(&c.Routing, o.Models); err != nil {
		return err
	}
	o.DefaultModel, o.Fallback = c.Routing.Default, c.Routing.Fallback
	if o.DefaultModel == "" {
		o.DefaultModel = o.Models[0].ID()
	}
	o.Budget = model.Budget{SessionCostUSD: c.Budget.SessionCostUSD, LowAt: c.Budget.LowAt}
	o.Policy = loop.DefaultPolicy()
	if len(c.Routing.FallbackOn) > 0 {
		o.Policy.FallbackOn = c.Routing.FallbackOn
	}
	if c.Compaction.AtContextFraction > 0 {
		o.Policy.CompactAt = c.Compaction.AtContextFraction
	}
	return nil
}

// checkRouting refuses routing to models that no provider offers. Which ones there are
// isn't in the file where a provider has no list.
func checkRouting(r *config.Routing, models []model.Info) error {
	for i, name := range append([]string{r.Default}, r.Fallback...) {
		if name == "" || slices.ContainsFunc(models, func(m model.Info) bool { return m.ID() == name }) {
			continue
		}
		setting := "routing.default"
		if i > 0 {
			setting = fmt.Sprintf("routing.fallback[%d]", i-1)
		}
		ids := make([]string, len(models))
		for j := range models {
			ids[j] = models[j].ID()
		}
		return usagef("%s: unknown model %q; use one of %s", setting, name, strings.Join(ids, ", "))
	}
	return nil
}

// keyEnv is the variable that holds a provider's key; for a vendor at its own
// address the usual one.
func keyEnv(p config.Provider) string {
	if p.APIKeyEnv != "" || p.BaseURL != "" {
		return p.APIKeyEnv
	}
	for _, u := range usual {
		if u.kind == p.Kind || (p.Kind == "openai" && u.id == "openai") {
			return u.env
		}
	}
	return ""
}

func newProvider(p config.Provider, key string) (model.Provider, error) {
	o := httpstream.Options{Name: p.ID, BaseURL: p.BaseURL, APIKey: key, MaxAnswer: p.MaxAnswer}
	switch p.Kind {
	case config.KindOpenAI:
		return openai.New(o), nil
	case config.KindResponses:
		return responses.New(o), nil
	case config.KindAnthropic:
		return anthropic.New(o), nil
	case config.KindGemini:
		return gemini.New(o), nil
	case config.KindScript:
		if p.Script == "" {
			return script.New(p.ID, nil), nil
		}
		play, err := script.Load(p.Script)
		if err != nil {
			return nil, &exitError{exitUsage, err}
		}
		return script.New(p.ID, play), nil
	}
	return nil, usagef("provider %q: unknown kind %q", p.ID, p.Kind)
}

// modelsOf returns a provider's models, completed by what is known of them.
func modelsOf(p config.Provider, key string) []model.Info {
	env := keyEnv(p)
	var out []model.Info
	if len(p.Models) == 0 {
		out = model.Builtin(p.Kind)
		if p.Kind == config.KindScript {
			out = []model.Info{{Model: builtIn}}
		}
	}
	for _, m := range p.Models {
		i := model.Info{
			Model: m.ID, Capabilities: m.Capabilities, ContextWindow: m.ContextWindow, MaxOutputTokens: m.MaxOutputTokens,
			Limits: model.Limits{RequestsPerMinute: m.Limits.RequestsPerMinute, TokensPerMinute: m.Limits.TokensPerMinute},
		}
		if m.Price.InputPerMTok > 0 || m.Price.OutputPerMTok > 0 {
			rates := model.Rates(m.Price)
			if rates.CacheWriteInputPerMTok == 0 {
				rates.CacheWriteInputPerMTok = model.CacheWriteRate(p.Kind, rates.InputPerMTok)
			}
			i.Price = &model.Price{Rates: rates, Row: "configured price of " + p.ID + "/" + m.ID}
		}
		out = append(out, i)
	}
	for i := range out {
		out[i].Provider = p.ID
		out[i] = model.Complete(out[i], p.Kind, p.BaseURL == "")
		out[i].NeedsCredential, out[i].HasCredential = env != "" || p.APIKeyFile != "" || p.APIKeyKeyring != "", key != ""
		if out[i].NeedsCredential {
			out[i].CredentialHint = keyHint(p)
		}
	}
	return out
}

// hostPolicy is the policy that the configuration gives to the host.
func hostPolicy(c *config.Config) (loop.HostPolicy, error) {
	rules, err := permission.ParseRules("host", configuredRules(c.Permissions.Rules))
	if err != nil {
		return loop.HostPolicy{}, &exitError{exitUsage, fmt.Errorf("permissions.rules: %w", err)}
	}
	return loop.HostPolicy{Mode: c.Permissions.Mode, DefaultMode: !c.ModeChosen(), Rules: rules}, nil
}

// wireReviewer is the reviewer that the configuration asks for, if it does.
func wireReviewer(c *config.Config) *loop.Reviewer {
	r := c.Permissions.Reviewer
	if r.Model == "" {
		return nil
	}
	return &loop.Reviewer{
		Model: r.Model, Timeout: time.Duration(r.Timeout), SessionCostUSD: r.SessionCostUSD,
		ReviewBounds: permission.ReviewBounds{Destructive: r.Destructive, Outside: r.Outside},
	}
}

// parseWorkspaceRules reads the rules that a workspace brings along.
func parseWorkspaceRules(content []byte) (_ []event.PolicyRule, err error) {
	defer func() {
		// The parser of others gives up on some malformed files, and this one comes with
		// whatever was checked out.
		if r := recover(); r != nil {
			err = fmt.Errorf("the file can't be parsed: %v", r)
		}
	}()
	if err := yamlbound.Check(content, yamlbound.Limits{}); err != nil {
		return nil, err
	}
	var file struct {
		Rules []config.Rule `yaml:"rules"`
	}
	if err := yaml.UnmarshalWithOptions(content, &file, yaml.Strict()); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(yaml.FormatError(err, false, false))
	}
	return configuredRules(file.Rules), nil
}

func wireSandbox(c *config.Config, o *loop.Options, hidden []string) {
	o.Sandbox = sandbox.Profile{
		Mode: sandbox.Mode(c.Sandbox.Mode), Network: sandbox.Network(c.Sandbox.Network), AllowedHosts: c.Sandbox.Allowed,
		ReadRoots: fromHome(c.Sandbox.ReadRoots), WriteRoots: c.Sandbox.WriteRoots, Hidden: hidden, Env: c.Sandbox.Env,
		Limits: sandbox.Limits{
			MemoryMB: c.Sandbox.Limits.MemoryMB, Processes: c.Sandbox.Limits.Processes, WallClock: time.Duration(c.Sandbox.Limits.WallClock),
		},
	}
	o.Bounds = boundPaths(c)
	o.Processes = sync.OnceValue(func() *processes.Manager { return processes.New(processes.Options{Report: sandbox.Probe()}) })
}

func wireHooks(c *config.Config, o *loop.Options) error {
	if len(c.Hooks) == 0 {
		return nil
	}
	ids := event.NewIDs(nil, nil)
	opt := hook.Options{NewID: func() string { return ids.New(event.PrefixHook) }, Exec: loop.HookExec(o.Processes, o.Places, o.Bounds, hookProfiles(c, o.Sandbox))}
	for i, h := range c.Hooks {
		opt.Hooks = append(opt.Hooks, hook.Hook{
			Point: hook.Point(h.Point), Match: hook.Match{Tool: h.Match.Tool}, Command: fromHere(h.Command), URL: h.URL,
			Timeout: time.Duration(h.Timeout), Failure: h.Failure, Profile: strconv.Itoa(i),
		})
	}
	r, err := hook.New(opt)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("hooks: %w", err)}
	}
	o.Hooks = r
	return nil
}

// undoInline is how much of a call's earlier contents is written with its facts.
const undoInline = 256 << 10

func wireVault(c *config.Config, s store.Store, o *loop.Options, w *wiring, hidden []string) error {
	v, err := workspace.New(workspace.Options{Blobs: s, Key: w.keys.own, OtherKeys: w.keys.others, Inline: undoInline, Exclude: hidden, SpoolDir: c.Local(), Places: o.Places})
	if err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	o.Vault = v
	w.close = v.Close
	return nil
}

// wireTools registers the built-in tools, and those of MCP servers as they come
// and go.
func (a *app) wireTools(ctx context.Context, c *config.Config, o *loop.Options, w *wiring, hidden []string, log *slog.Logger) error {
	r, err := tool.NewRegistry(tool.Builtins(&tool.Options{Places: o.Places, Hidden: hidden, Peers: c.PeerIDs()})...)
	if err != nil {
		return err
	}
	o.Tools = r
	if len(c.MCP) == 0 {
		return nil
	}
	servers := make([]mcp.Server, len(c.MCP))
	for i, m := range c.MCP {
		servers[i] = mcp.Server{ID: m.ID, Command: m.Command, URL: m.URL, TrustHints: m.TrustHints, Credentials: m.Credentials}
		for _, name := range slices.Concat(m.Env, m.Sandbox.Env) {
			if v, ok := a.env[name]; ok && !strings.Contains(name, "=") {
				servers[i].Env = append(servers[i].Env, name+"="+v)
			}
		}
	}
	root, err := filepath.Abs(c.Workspace.Root)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	execute, err := a.confineServers(c, servers, o, root)
	if err != nil {
		return err
	}
	for i := range servers {
		log.Info("MCP server", "id", servers[i].ID, "sandbox", boundaryNote(servers[i].Boundary))
	}
	var client *mcp.Client
	var mu sync.Mutex
	update := func() {
		mu.Lock()
		defer mu.Unlock()
		if client == nil {
			return
		}
		if err := r.Replace("mcp", client.Tools()); err != nil {
			log.Warn("not all tools of the MCP servers can be offered", "error", err)
		}
	}
	mu.Lock()
	client = mcp.Open(context.WithoutCancel(ctx), servers, mcp.Options{
		Logger: log, Version: a.version, Root: root, OnChange: update, Exec: execute, Limited: limited,
		Credential: a.credential,
		OnState: func(server string, state mcp.State, reason string) {
			log.Info("MCP server", "id", server, "state", string(state), "reason", reason)
		},
	})
	mu.Unlock()
	update()
	w.servers = client.Status
	w.settle = func(ctx context.Context) {
		_ = client.Settle(ctx) // who isn't there by then is not waited for
		update()
	}
	closeVault := w.close
	w.close = func() error {
		client.Close()
		return closeVault()
	}
	return nil
}
