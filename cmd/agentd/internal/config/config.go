package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"agentd/event"
	"agentd/hook"
	"agentd/permission"
)

// Config is a checked configuration. Its fields are those of the file.
type Config struct {
	// File is where it was read from; empty if there was none.
	File string `json:"-"`

	RuntimeID    string   `json:"runtimeId"`
	Listen       string   `json:"listen"`
	Socket       string   `json:"socket"`
	Data         string   `json:"data"`
	Replica      string   `json:"replica"`
	StateDir     string   `json:"stateDir"`
	Insecure     bool     `json:"insecure"`
	AllowedHosts []string `json:"allowedHosts"`
	Advertise    string   `json:"advertise"`
	Node         struct {
		Name   string   `json:"name"`
		Pool   string   `json:"pool"`
		Labels []string `json:"labels"`
		Lease  Span     `json:"lease"`
		// Connections bounds those to the database; 0 for what the URL says.
		Connections int `json:"connections"`
		TLS         struct {
			CA   string `json:"ca"`
			Cert string `json:"cert"`
			Key  string `json:"key"`
		} `json:"tls"`
	} `json:"node"`
	TLS struct {
		Cert string `json:"cert"`
		Key  string `json:"key"`
	} `json:"tls"`
	Daemon struct {
		Idle Span `json:"idle"`
	} `json:"daemon"`
	Log struct {
		Level  string `json:"level"`
		Format string `json:"format"`
	} `json:"log"`
	Workspace struct {
		Root string `json:"root"`
		// TrustRules takes allow rules from the workspace's own file, too.
		TrustRules bool `json:"trustRules"`
	} `json:"workspace"`
	Providers   []Provider `json:"providers"`
	Routing     Routing    `json:"routing"`
	Budget      Budget     `json:"budget"`
	Permissions struct {
		Mode     string   `json:"mode"`
		Rules    []Rule   `json:"rules"`
		Reviewer Reviewer `json:"reviewer"`
	} `json:"permissions"`
	Hooks     []Hook  `json:"hooks"`
	Sandbox   Sandbox `json:"sandbox"`
	Outputs   Outputs `json:"outputs"`
	Blobs     Blobs   `json:"blobs"`
	Retention struct {
		Events Span `json:"events"`
	} `json:"retention"`
	Compaction struct {
		AtContextFraction float64 `json:"atContextFraction"`
	} `json:"compaction"`
	Actions struct {
		Timeout Span `json:"timeout"`
	} `json:"actions"`
	Recovery string `json:"recovery"`
	Quotas   Quotas `json:"quotas"`
	MCP      []MCP  `json:"mcp"`
	Peers    []Peer `json:"peers"`
	Channels struct {
		Silence   Span `json:"silence"`
		ToolGrace Span `json:"toolGrace"`
	} `json:"channels"`
	A2A       A2A       `json:"a2a"`
	OIDC      OIDC      `json:"oidc"`
	Telemetry Telemetry `json:"telemetry"`
	// dataChosen, modeChosen and workspaceChosen say that data, permissions.mode and
	// workspace.root were given.
	dataChosen, modeChosen, workspaceChosen bool
}

// A2A says how other agents give work over the Agent2Agent protocol.
type A2A struct {
	Enabled      bool   `json:"enabled"`
	Name         string `json:"name"`
	Description  string `json:"description"`
	URL          string `json:"url"`
	ExtendedCard bool   `json:"extendedCard"`
	Push         struct {
		AllowHosts []string `json:"allowHosts"`
	} `json:"push"`
}

// Telemetry says where spans and metrics are sent.
type Telemetry struct {
	OTLPEndpoint string   `json:"otlpEndpoint"`
	Signals      []string `json:"signals"`
	Headers      []struct {
		Name string `json:"name"`
		Env  string `json:"env"`
	} `json:"headers"`
	Timeout         Span     `json:"timeout"`
	MetricsInterval Span     `json:"metricsInterval"`
	Compression     string   `json:"compression"`
	QueueSize       int64    `json:"queueSize"`
	Resource        []string `json:"resource"`
	Content         bool     `json:"content"`
}

// Provider is a provider of models.
type Provider struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	BaseURL   string `json:"baseURL"`
	APIKeyEnv string `json:"apiKeyEnv"`
	// APIKeyFile is the file that holds the key.
	APIKeyFile string `json:"apiKeyFile"`
	// APIKeyKeyring is the item of the system's keyring that holds the key.
	APIKeyKeyring string  `json:"apiKeyKeyring"`
	Script        string  `json:"script"`
	MaxAnswer     int64   `json:"maxAnswerBytes"`
	Models        []Model `json:"models"`
}

// Model is one of a provider's models.
type Model struct {
	ID              string   `json:"id"`
	Capabilities    []string `json:"capabilities"`
	ContextWindow   int64    `json:"contextWindow"`
	MaxOutputTokens int64    `json:"maxOutputTokens"`
	Price           struct {
		InputPerMTok           float64 `json:"inputPerMTok"`
		OutputPerMTok          float64 `json:"outputPerMTok"`
		CachedInputPerMTok     float64 `json:"cachedInputPerMTok"`
		CacheWriteInputPerMTok float64 `json:"cacheWriteInputPerMTok"`
	} `json:"price"`
	Limits struct {
		RequestsPerMinute int64 `json:"requestsPerMinute"`
		TokensPerMinute   int64 `json:"tokensPerMinute"`
	} `json:"limits"`
}

// Routing says which model answers.
type Routing struct {
	Default    string   `json:"default"`
	Fallback   []string `json:"fallback"`
	FallbackOn []string `json:"fallbackOn"`
}

// Budget bounds costs.
type Budget struct {
	SessionCostUSD float64 `json:"sessionCostUSD"`
	LowAt          float64 `json:"lowAt"`
}

// Rule is a permission rule.
type Rule struct {
	Decision string `json:"decision" yaml:"decision"`
	Tool     string `json:"tool"     yaml:"tool"`
	Match    string `json:"match"    yaml:"match"`
	Reason   string `json:"reason"   yaml:"reason"`
}

// Hook is a command that is run at a point of a turn.
type Hook struct {
	Point string `json:"point"`
	Match struct {
		Tool string `json:"tool"`
	} `json:"match"`
	Command []string `json:"command"`
	URL     string   `json:"url"`
	Timeout Span     `json:"timeout"`
	Failure string   `json:"failure"`
	Sandbox Confine  `json:"sandbox"`
}

// Confine is the profile of a program that is no tool. What is empty has a default
// that depends on the program.
type Confine struct {
	Mode       string   `json:"mode"`
	Network    string   `json:"network"`
	Allowed    []string `json:"allowedHosts"`
	ReadRoots  []string `json:"readRoots"`
	WriteRoots []string `json:"writeRoots"`
	Env        []string `json:"env"`
	Visible    []string `json:"visible"`
}

// Sandbox says what tools may do.
type Sandbox struct {
	Mode       string   `json:"mode"`
	Network    string   `json:"network"`
	Allowed    []string `json:"allowedHosts"`
	ReadRoots  []string `json:"readRoots"`
	WriteRoots []string `json:"writeRoots"`
	// Hidden can't be read by tools, hooks and MCP servers.
	Hidden []string `json:"hidden"`
	// Visible are places of the usual list of secrets that tools may use after all.
	Visible []string `json:"visible"`
	// Protected can't be written by tools, beside what bounds agents anyway.
	Protected []string `json:"protected"`
	Env       []string `json:"env"`
	Limits    struct {
		MemoryMB  int64 `json:"memoryMB"`
		Processes int64 `json:"processes"`
		WallClock Span  `json:"wallClock"`
	} `json:"limits"`
}

// Outputs says how large contents are kept.
type Outputs struct {
	InlineBytes  int64 `json:"inlineBytes"`
	PreviewBytes int64 `json:"previewBytes"`
	ExpireAfter  Span  `json:"expireAfter"`
}

// Reviewer is a model that is asked about calls before a person is.
type Reviewer struct {
	// Model is provider/model; empty is no reviewer.
	Model   string `json:"model"`
	Timeout Span   `json:"timeout"`
	// SessionCostUSD bounds the reviews of a session.
	SessionCostUSD float64 `json:"sessionCostUSD"`
	// Destructive and Outside widen what it may allow.
	Destructive bool `json:"destructive"`
	Outside     bool `json:"outside"`
}

// MCP is an MCP server.
type MCP struct {
	ID      string   `json:"id"`
	Command []string `json:"command"`
	URL     string   `json:"url"`
	Env     []string `json:"env"`
	// TrustHints believes the server when it says that a tool only reads.
	TrustHints bool `json:"trustHints"`
	// Credentials are references of bearer tokens that may be chosen when a server over
	// HTTP asks for one.
	Credentials []string      `json:"credentials"`
	Sandbox     ConfineServer `json:"sandbox"`
}

// ConfineServer is the profile of an MCP server.
type ConfineServer struct {
	Confine

	Limits struct {
		MemoryMB  Bounded `json:"memoryMB"`
		Processes Bounded `json:"processes"`
		OpenFiles Bounded `json:"openFiles"`
	} `json:"limits"`
}

// Bounded is a setting of type [Bound]. The zero value is one that wasn't given.
type Bounded string

// Or returns the bound, 0 if there is none, or what holds if nothing was given.
func (b Bounded) Or(def int64) int64 {
	if b == "" {
		return def
	}
	n, _ := strconv.ParseInt(string(b), 10, 64) // the word is no number
	return n
}

// Peer is another agent.
type Peer struct {
	ID       string `json:"id"`
	Protocol string `json:"protocol"`
	CardURL  string `json:"cardURL"`
	// TokenEnv names the environment variable that holds the token, TokenFile the file
	// that does.
	TokenEnv     string   `json:"tokenEnv"`
	TokenFile    string   `json:"tokenFile"`
	AllowPrivate bool     `json:"allowPrivate"`
	Hosts        []string `json:"hosts"`
	Delivery     string   `json:"delivery"`
}

// PeerIDs are the names of the other agents.
func (c *Config) PeerIDs() []string { return ids(c.Peers) }

// Span is a duration that is written as in the file.
type Span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Span(d)
	return err
}

// checkCredentials holds the references of credentials to their form. What isn't one
// may be a credential, so it isn't repeated.
func checkCredentials(add func(path, format string, args ...any), i int, m *MCP) {
	for j, ref := range m.Credentials {
		if !IsReference(ref) {
			add(fmt.Sprintf("mcp[%d].credentials[%d]", i, j), "is neither env:NAME nor file: with an absolute path; the credential itself doesn't belong in the file")
		}
	}
	if len(m.Credentials) > 0 && m.URL == "" {
		add(fmt.Sprintf("mcp[%d].credentials", i), "are for servers over HTTP")
	}
}

// IsReference reports whether a text says where a credential is read from.
func IsReference(text string) bool {
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
	}
	path, ok := strings.CutPrefix(text, "file:")
	return ok && filepath.IsAbs(path) && !strings.ContainsAny(path, "\x00\r\n")
}

// decode fills a Config from resolved values.
func decode(values []Value) (*Config, error) {
	by := map[string]any{}
	for _, v := range values {
		if v.Value != nil {
			by[v.Name] = v.Value
		}
	}
	data, err := json.Marshal(nest(by, ""))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := new(Config)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

// problems returns what doesn't fit together, by path.
func (c *Config) problems() [][2]string {
	var out [][2]string
	add := func(path, format string, args ...any) {
		out = append(out, [2]string{path, fmt.Sprintf(format, args...)})
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		add("tls", "cert and key must be given together")
	}
	switch {
	case c.Replica == "":
	case !IsDatabase(c.Replica):
		add("replica", "must be the address of a standby, such as postgres://user@host/database")
	case !c.Database():
		add("replica", "is that of a database, and data is a directory; set data to the database's address")
	}
	c.checkNode(add)
	c.checkProviders(add)
	c.checkVariables(add)
	for name, list := range map[string][]string{"mcp": ids(c.MCP), "peers": ids(c.Peers), "quotas.accounts": ids(c.Quotas.Accounts)} {
		for i, id := range list {
			checkUnique(add, name, list, i, id)
		}
	}
	for i, m := range c.MCP {
		if (len(m.Command) == 0) == (m.URL == "") {
			add(fmt.Sprintf("mcp[%d]", i), "needs either command or url")
		}
		checkCredentials(add, i, &m)
	}
	for i, p := range c.Peers {
		if p.TokenEnv != "" && p.TokenFile != "" {
			add(fmt.Sprintf("peers[%d]", i), "has both tokenEnv and tokenFile")
		}
	}
	for i, h := range c.Hooks {
		if (len(h.Command) == 0) == (h.URL == "") {
			add(fmt.Sprintf("hooks[%d]", i), "needs either command or url")
		} else if len(h.Command) > 0 && h.Command[0] == "" {
			add(fmt.Sprintf("hooks[%d].command", i), "names no program")
		} else if _, err := filepath.Match(h.Match.Tool, ""); err != nil {
			add(fmt.Sprintf("hooks[%d].match.tool", i), "%q is not a valid glob: %v", h.Match.Tool, err)
		} else if time.Duration(h.Timeout) > hook.MaxTimeout {
			add(fmt.Sprintf("hooks[%d].timeout", i), "%v is more than %v", time.Duration(h.Timeout), hook.MaxTimeout)
		}
	}
	for i, r := range c.Permissions.Rules {
		rule := event.PolicyRule{Decision: r.Decision, Tool: r.Tool, Match: r.Match, Reason: r.Reason}
		if _, err := permission.ParseRules("host", []event.PolicyRule{rule}); err != nil {
			add(fmt.Sprintf("permissions.rules[%d]", i), "%s", strings.TrimPrefix(err.Error(), "rule 1: "))
		}
	}
	c.Telemetry.check(add)
	c.OIDC.check(add)
	c.Blobs.S3.check(add)
	return out
}

// check reports what can't be sent to or with.
func (t *Telemetry) check(add reporter) {
	if t.OTLPEndpoint != "" {
		if _, err := parseURL(t.OTLPEndpoint); err != nil {
			add("telemetry.otlpEndpoint", "%v", err)
		}
	}
	for i, kv := range t.Resource {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			add(fmt.Sprintf("telemetry.resource[%d]", i), "is not of the form name=value")
		}
	}
}

type reporter func(path, format string, args ...any)

func (c *Config) checkProviders(add reporter) {
	known, list := map[string]bool{}, ids(c.Providers)
	unlisted := map[string]bool{} // providers whose models the program knows
	for i, p := range c.Providers {
		at := fmt.Sprintf("providers[%d]", i)
		checkUnique(add, "providers", list, i, p.ID)
		if strings.Contains(p.ID, "/") {
			add(at+".id", "contains a /, which separates provider and model")
		}
		p.checkKey(at, add)
		if p.Script != "" && p.Kind != "script" {
			add(at+".script", "is for kind script only")
		}
		models := ids(p.Models)
		unlisted[p.ID] = len(models) == 0
		for j, m := range p.Models {
			checkUnique(add, at+".models", models, j, m.ID)
			known[p.ID+"/"+m.ID] = true
		}
	}
	if len(c.Providers) == 0 {
		return
	}
	check := func(path, name string) {
		if provider, _, _ := strings.Cut(name, "/"); name != "" && !known[name] && !unlisted[provider] {
			add(path, "%q is not a configured model (provider/model)", name)
		}
	}
	check("routing.default", c.Routing.Default)
	check("permissions.reviewer.model", c.Permissions.Reviewer.Model)
	for i, name := range c.Routing.Fallback {
		check(fmt.Sprintf("routing.fallback[%d]", i), name)
	}
}

// checkUnique reports an id that an earlier object of the list has.
func checkUnique(add reporter, name string, list []string, i int, id string) {
	for j := range i {
		if list[j] == id {
			add(fmt.Sprintf("%s[%d].id", name, i), "%q is used twice", id)
			return
		}
	}
}

type identified interface{ id() string }

func (p Provider) id() string { return p.ID }
func (m Model) id() string    { return m.ID }
func (m MCP) id() string      { return m.ID }
func (p Peer) id() string     { return p.ID }

func ids[T identified](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.id()
	}
	return out
}
