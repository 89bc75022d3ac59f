package config

import (
	"agentd/event"
	"agentd/model"
	"agentd/permission"
)

// Type is how a setting is written.
type Type string

// The types of settings.
const (
	// Text is any text that isn't empty.
	Text Type = "text"
	// Choice is one of the setting's values.
	Choice Type = "choice"
	// Choices is a list of the setting's values.
	Choices Type = "list of choices"
	// Texts is a list of texts.
	Texts Type = "list of text"
	// Integer is a whole number, not negative.
	Integer Type = "integer"
	// Bound is a whole number over 0, or the word unlimited.
	Bound Type = "integer or unlimited"
	// Number may have a fraction; it isn't negative.
	Number Type = "number"
	// Fraction is a number over 0 and up to 1.
	Fraction Type = "fraction"
	// Boolean is true or false.
	Boolean Type = "boolean"
	// Duration is a number with a unit, such as 10m.
	Duration Type = "duration"
	// Size is a number of bytes, or a number with a unit, such as 4KiB.
	Size Type = "size"
	// SizeBound is a size over 0, or the word unlimited.
	SizeBound Type = "size or unlimited"
	// URL is an absolute http or https address.
	URL Type = "URL"
	// ID is what facts accept as an id.
	ID Type = "id"
	// Address is a host and a port.
	Address Type = "address"
	// Objects is a list of objects; the rows below it describe one.
	Objects Type = "list of objects"
)

// Setting is one row of the table of settings.
type Setting struct {
	// Name is the path in the file; the settings of a list's objects are written
	// with brackets, such as "providers[].id".
	Name string
	Type Type
	// Default is the value, as in the file, that holds if none is given; empty
	// if there is none.
	Default string
	// Values are what a choice can be.
	Values []string
	// Env and Flag are other ways to give the value; empty if there are none.
	Env, Flag string
	// Required says that an object of a list needs it.
	Required bool
	// Reload says that a running server takes a new value over on SIGHUP.
	Reload bool
	// Project says that the file of a project may set it, for the turns that are started
	// there.
	Project bool
	// Later says that the setting is checked, but that this release doesn't act
	// on it yet.
	Later bool
	// Means says what it does, in one line.
	Means string
}

// Kinds of providers: the protocols that they speak.
const (
	KindOpenAI    = "openai"
	KindResponses = "openai_responses"
	KindAnthropic = "anthropic"
	KindGemini    = "gemini"
	// KindScript needs no service: it answers from a file.
	KindScript = "script"
)

var (
	modes          = permission.Modes()
	hookPoints     = event.EnumValues("@hookPoint")
	modelFailures  = event.EnumValues("@modelFailure")
	providerKinds  = []string{KindOpenAI, KindResponses, KindAnthropic, KindGemini, KindScript}
	modelAbilities = []string{model.CapTools, model.CapStreaming, model.CapVision, model.CapReasoning, model.CapStructuredOutput}
)

// Table returns all settings, in the order of the reference.
func Table() []Setting {
	var all []Setting
	for _, part := range [][]Setting{hostSettings(), modelSettings(), policySettings(), workSettings(), blobSettings(), quotaSettings(), peerSettings(), oidcSettings(), telemetrySettings()} {
		all = append(all, part...)
	}
	return all
}

func hostSettings() []Setting {
	return []Setting{
		{Name: "runtimeId", Type: ID, Means: "The id that every fact carries; if not given, created at the first start and kept in the store."},
		{Name: "listen", Type: Address, Default: "127.0.0.1:8700", Env: "AGENTD_LISTEN", Flag: "listen", Means: "Where the server listens. An address that isn't loopback needs TLS or insecure."},
		{Name: "socket", Type: Text, Flag: "socket", Means: "Path of a Unix socket to listen on instead of the address."},
		{Name: "data", Type: Text, Env: "AGENTD_DATA", Flag: "data", Means: "Where the facts are: a directory, or postgres://user@host/database; default: the user's own directory, $XDG_DATA_HOME/agentd or ~/.local/share/agentd."},
		{Name: "replica", Type: Text, Env: "AGENTD_REPLICA", Means: "Address of a standby of the database (streaming replication), postgres://user@host/database: while it keeps up, lists, searches, figures and long histories are read there, as true as in the database itself."},
		{Name: "stateDir", Type: Text, Flag: "state-dir", Means: "Directory of the admin token, the other tokens and the note about the running server; default: the data directory, or ./.agentd if the data is in a database."},
		{Name: "daemon.idle", Type: Duration, Default: "10m", Means: "How long the user's server in the background stays without clients and work before it ends; 0s: for ever."},
		{Name: "tls.cert", Type: Text, Means: "File with the server's certificate chain (PEM); read again on SIGHUP."},
		{Name: "tls.key", Type: Text, Means: "File with the certificate's key (PEM); read again on SIGHUP."},
		{Name: "insecure", Type: Boolean, Default: "false", Flag: "insecure", Means: "Listen beyond loopback without TLS: others on the network can then read tokens and facts."},
		{Name: "allowedHosts", Type: Texts, Means: "Additional host names by which clients may address the server."},
		{Name: "advertise", Type: URL, Env: "AGENTD_ADVERTISE", Flag: "advertise", Means: "Where other nodes of the same database reach this one, such as http://10.0.0.5:8700; if not given, where it listens, or its host name if it listens on all addresses."},
		{Name: "node.name", Type: Text, Env: "AGENTD_NODE_NAME", Flag: "node-name", Means: "The name of this node among those of a database, the same at each start, printable and of at most 256 bytes; if not given, created at the first start and kept in the state directory."},
		{Name: "node.pool", Type: Text, Env: "AGENTD_NODE_POOL", Means: "The name of the nodes that share the file system with the workspaces, mounted at the same paths: sessions that work in a folder of it go on at any of them."},
		{Name: "node.labels", Type: Texts, Means: "Words about this node for people, such as zone=eu; agentd nodes shows them, and nothing is decided by them."},
		{Name: "node.lease", Type: Duration, Default: "10s", Means: "How long after its last sign of life other nodes leave this node's sessions alone, at least 1s."},
		{Name: "node.connections", Type: Integer, Means: "The most connections to the database that this node has open at a time, at least 6; if not given, two more than pool_max_conns in the database's URL, or than the greater of 4 and the number of processors."},
		{Name: "node.tls.ca", Type: Text, Means: "File with the authority (PEM) that signs the certificates of all nodes of the database: nodes then pass requests on only to nodes that it signed for, and only over TLS, and take them only from such; read again on SIGHUP."},
		{Name: "node.tls.cert", Type: Text, Means: "File with this node's certificate chain (PEM), for servers and clients and for the address that other nodes reach it at; without tls.cert, clients are shown it too; read again on SIGHUP."},
		{Name: "node.tls.key", Type: Text, Means: "File with the key of the node's certificate (PEM); read again on SIGHUP."},
		{Name: "log.level", Type: Choice, Values: []string{"debug", "info", "warn", "error"}, Default: "info", Flag: "log-level", Reload: true, Means: "Minimum log level."},
		{Name: "log.format", Type: Choice, Values: []string{"auto", "text", "json"}, Default: "auto", Flag: "log-format", Means: "How log lines look; auto is text on a terminal and JSON elsewhere."},
		{Name: "workspace.root", Type: Text, Default: ".", Means: "The folder that tools work in."},
		{Name: "workspace.trustRules", Type: Boolean, Default: "false", Means: "Also apply allow rules from .agentd-permissions.yaml in a workspace; deny and ask rules always apply."},
	}
}

func modelSettings() []Setting {
	return []Setting{
		{Name: "providers[]", Type: Objects, Means: "The model providers. Without any: the vendors whose usual key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY) is in the environment or was stored with agentd login, else the built-in script provider; on the user's own server that one answers only if it is asked for by name."},
		{Name: "providers[].id", Type: Text, Required: true, Means: "Name of the provider in facts and options."},
		{Name: "providers[].kind", Type: Choice, Values: providerKinds, Required: true, Means: "The protocol it speaks: openai is chat completions and everything compatible with it."},
		{Name: "providers[].baseURL", Type: URL, Means: "Its address."},
		{Name: "providers[].apiKeyEnv", Type: Text, Means: "Name of the environment variable with the key. The key itself is not accepted here."},
		{Name: "providers[].apiKeyFile", Type: Text, Means: "File with the key, which only its owner may read; ~ is the home folder. The key itself is not accepted here."},
		{Name: "providers[].apiKeyKeyring", Type: Text, Means: "Item of the system's keyring with the key: ACCOUNT, of the service agentd, or SERVICE/ACCOUNT. The key itself is not accepted here."},
		{Name: "providers[].script", Type: Text, Means: "For kind script: the file with the answers; without it the provider repeats the user's input."},
		{Name: "providers[].maxAnswerBytes", Type: Size, Means: "How much text, reasoning and arguments of tool calls one answer may have; 16MiB if not given. A longer one fails as malformed."},
		{Name: "providers[].models[]", Type: Objects, Means: "The models that it offers."},
		{Name: "providers[].models[].id", Type: Text, Required: true, Means: "The provider's name for the model."},
		{Name: "providers[].models[].capabilities", Type: Choices, Values: modelAbilities, Means: "What the model can do."},
		{Name: "providers[].models[].contextWindow", Type: Integer, Means: "Tokens that fit into a request and its answer."},
		{Name: "providers[].models[].maxOutputTokens", Type: Integer, Means: "Tokens of the longest answer."},
		{Name: "providers[].models[].price.inputPerMTok", Type: Number, Means: "USD per million input tokens."},
		{Name: "providers[].models[].price.outputPerMTok", Type: Number, Means: "USD per million output tokens."},
		{Name: "providers[].models[].price.cachedInputPerMTok", Type: Number, Means: "USD per million cached input tokens."},
		{Name: "providers[].models[].price.cacheWriteInputPerMTok", Type: Number, Means: "USD per million input tokens that the provider keeps for later requests. Without it they cost as much as other input, with `kind: anthropic` a quarter more."},
		{Name: "providers[].models[].limits.requestsPerMinute", Type: Integer, Means: "Requests per minute."},
		{Name: "providers[].models[].limits.tokensPerMinute", Type: Integer, Means: "Tokens per minute."},
		{Name: "routing.default", Type: Text, Project: true, Means: "The model for turns that name none, as provider/model."},
		{Name: "routing.fallback", Type: Texts, Means: "Models that are tried in order when that one fails."},
		{Name: "routing.fallbackOn", Type: Choices, Values: modelFailures, Means: "Failures after which the next model is tried."},
		{Name: "budget.sessionCostUSD", Type: Number, Means: "Maximum cost of one session."},
		{Name: "budget.lowAt", Type: Fraction, Default: "0.8", Means: "Fraction of the budget at which quota.low is recorded."},
	}
}

// Values of profiles.
var (
	sandboxModes = []string{"read_only", "workspace_write", "danger_full_access"}
	networks     = event.EnumValues("@network")
)

func policySettings() []Setting {
	return []Setting{
		{Name: "permissions.mode", Type: Choice, Values: modes, Default: "default", Reload: true, Project: true, Means: "The permission mode of sessions that name none."},
		{Name: "permissions.rules[]", Type: Objects, Reload: true, Means: "Rules for tools; the strictest match wins: deny over ask over allow."},
		{Name: "permissions.rules[].decision", Type: Choice, Values: event.EnumValues("@ruleDecision"), Required: true, Reload: true, Means: "The rule's decision."},
		{Name: "permissions.rules[].tool", Type: Text, Required: true, Reload: true, Means: "Glob over tool names."},
		{Name: "permissions.rules[].match", Type: Text, Reload: true, Means: "Glob over the command, the path or the input."},
		{Name: "permissions.rules[].reason", Type: Text, Reload: true, Means: "Why, for people."},
		{Name: "permissions.reviewer.model", Type: Text, Means: "A model, as provider/model, that is asked about a call before a person is, and may allow it. Without it there is no reviewer."},
		{Name: "permissions.reviewer.timeout", Type: Duration, Default: "30s", Means: "How long a review may take; after that the person is asked."},
		{Name: "permissions.reviewer.sessionCostUSD", Type: Number, Means: "Maximum cost of the reviews of one session; after that the person is asked."},
		{Name: "permissions.reviewer.destructive", Type: Boolean, Default: "false", Means: "Also let the reviewer allow calls that destroy something."},
		{Name: "permissions.reviewer.outside", Type: Boolean, Default: "false", Means: "Also let the reviewer allow calls that run outside of the sandbox, such as tools of MCP servers."},
		{Name: "hooks[]", Type: Objects, Means: "Commands that run at points of a turn."},
		{Name: "hooks[].point", Type: Choice, Values: hookPoints, Required: true, Means: "When it runs."},
		{Name: "hooks[].match.tool", Type: Text, Means: "Glob over the tool names that it runs for."},
		{Name: "hooks[].command", Type: Texts, Means: "The program and its arguments; it runs in the sandbox."},
		{Name: "hooks[].url", Type: URL, Means: "Where the hook's input is posted instead of running a program."},
		{Name: "hooks[].timeout", Type: Duration, Means: "How long it may take."},
		{Name: "hooks[].failure", Type: Choice, Values: []string{"open", "closed"}, Means: "Whether a hook that fails lets the work go on (open) or stops it (closed)."},
		{Name: "hooks[].sandbox.mode", Type: Choice, Values: sandboxModes, Means: "What the program may write, independent of the tools; workspace_write if not given."},
		{Name: "hooks[].sandbox.network", Type: Choice, Values: networks, Means: "Whether the program can reach the network; deny if not given."},
		{Name: "hooks[].sandbox.allowedHosts", Type: Texts, Means: "Hosts that the proxy lets the program reach."},
		{Name: "hooks[].sandbox.readRoots", Type: Texts, Means: "Folders and files that the program may read besides the workspace and the system's; if empty, everything that isn't hidden."},
		{Name: "hooks[].sandbox.visible", Type: Texts, Means: "Usual places of secrets that the program may read nevertheless, such as ~/.aws."},
		{Name: "hooks[].sandbox.writeRoots", Type: Texts, Means: "Additional folders that the program may write."},
		{Name: "hooks[].sandbox.env", Type: Texts, Means: "Environment variables that the program sees besides the usual ones."},
		{Name: "sandbox.mode", Type: Choice, Values: sandboxModes, Default: "workspace_write", Means: "What tools may write."},
		{Name: "sandbox.network", Type: Choice, Values: networks, Default: "deny", Means: "Whether tools can reach the network; proxy: only the allowed hosts."},
		{Name: "sandbox.allowedHosts", Type: Texts, Means: "Hosts that the proxy lets through: example.org, *.example.org, each with or without a port."},
		{Name: "sandbox.readRoots", Type: Texts, Means: "Folders and files that commands may read besides the workspace and the system's (/usr, /etc and the like); if empty, everything that isn't hidden. ~ is the home folder."},
		{Name: "sandbox.hidden", Type: Texts, Means: "Folders and files that tools, hooks and MCP servers can't read, besides the data directory and the usual places of secrets (see security)."},
		{Name: "sandbox.visible", Type: Texts, Means: "Usual places of secrets that may be read nevertheless, such as ~/.kube; a folder includes everything in it."},
		{Name: "sandbox.protected", Type: Texts, Means: "Files and folders that commands can't write and file tools ask about in every mode, besides the files that always bound agents (see security). A relative path applies in each workspace."},
		{Name: "sandbox.writeRoots", Type: Texts, Means: "Additional folders that tools may write."},
		{Name: "sandbox.env", Type: Texts, Means: "Environment variables that tools see besides the usual ones."},
		{Name: "sandbox.limits.memoryMB", Type: Integer, Default: "2048", Means: "Total memory of a tool's processes, in MiB."},
		{Name: "sandbox.limits.processes", Type: Integer, Default: "256", Means: "Processes of a tool."},
		{Name: "sandbox.limits.wallClock", Type: Duration, Default: "10m", Means: "How long a tool may run."},
	}
}

func workSettings() []Setting {
	return []Setting{
		{Name: "outputs.inlineBytes", Type: Size, Default: "4096", Means: "The largest content that is kept in a fact; larger content is stored behind a reference."},
		{Name: "outputs.previewBytes", Type: Size, Default: "1024", Means: "How much of it is shown in the fact."},
		{Name: "outputs.expireAfter", Type: Duration, Default: "720h", Means: "How long large outputs are kept."},
		{Name: "retention.events", Type: Duration, Means: "How long the events of an idle session are kept after its last one, before they are removed for good; forever if not given. See operations."},
		{Name: "compaction.atContextFraction", Type: Fraction, Default: "0.8", Means: "Fraction of the context window at which a thread is compacted."},
		{Name: "actions.timeout", Type: Duration, Means: "How long a question waits for an answer before it counts as denied; forever if not given."},
		{Name: "recovery", Type: Choice, Values: []string{"auto", "manual"}, Default: "auto", Means: "After a crash: continue work that is safe to repeat, or wait for resume_thread."},
	}
}

func peerSettings() []Setting {
	return []Setting{
		{Name: "mcp[]", Type: Objects, Means: "MCP servers whose tools are offered."},
		{Name: "mcp[].id", Type: Text, Required: true, Means: "Name of the server."},
		{Name: "mcp[].command", Type: Texts, Means: "The program and its arguments, for a server on standard input and output."},
		{Name: "mcp[].url", Type: URL, Means: "The address of a server over HTTP."},
		{Name: "mcp[].env", Type: Texts, Means: "Names of environment variables that the program is given."},
		{Name: "mcp[].credentials", Type: Texts, Means: "References of bearer tokens, env:NAME or file:/path, that a person may choose when a server over HTTP answers 401; see concepts. None is used before."},
		{Name: "mcp[].trustHints", Type: Boolean, Default: "false", Means: "Trust the server when it says that a tool only reads."},
		{Name: "mcp[].sandbox.mode", Type: Choice, Values: sandboxModes, Means: "What the program may write; workspace_write if not given. In danger_full_access it is kept from the data directory alone."},
		{Name: "mcp[].sandbox.network", Type: Choice, Values: networks, Means: "Whether the program can reach the network; allow if not given."},
		{Name: "mcp[].sandbox.allowedHosts", Type: Texts, Means: "Hosts that the proxy lets the program reach."},
		{Name: "mcp[].sandbox.readRoots", Type: Texts, Means: "Folders and files that the program may read besides the workspace and the system's; if empty, everything that isn't hidden."},
		{Name: "mcp[].sandbox.visible", Type: Texts, Means: "Usual places of secrets that the program may read nevertheless, such as ~/.aws."},
		{Name: "mcp[].sandbox.writeRoots", Type: Texts, Means: "Additional folders that the program may write; if not given, the caches of package managers (~/.cache, ~/.npm, ~/.local/share/uv and others that are there)."},
		{Name: "mcp[].sandbox.env", Type: Texts, Means: "Names of additional environment variables that the program is given."},
		{Name: "mcp[].sandbox.limits.memoryMB", Type: Bound, Means: "Total memory of the server's processes, in MiB; 8192 if not given."},
		{Name: "mcp[].sandbox.limits.processes", Type: Bound, Means: "Processes and threads of the server; 2048 if not given."},
		{Name: "mcp[].sandbox.limits.openFiles", Type: Bound, Means: "Open files of each of the server's processes; 16384 if not given."},
		{Name: "peers[]", Type: Objects, Means: "Other agents that work can be delegated to."},
		{Name: "peers[].id", Type: Text, Required: true, Means: "Name of the peer."},
		{Name: "peers[].protocol", Type: Choice, Values: []string{"a2a"}, Required: true, Means: "The protocol it speaks."},
		{Name: "peers[].cardURL", Type: URL, Required: true, Means: "Where its agent card is; without a path, the usual place on that host."},
		{Name: "peers[].tokenEnv", Type: Text, Means: "Name of the environment variable with the bearer token. The token itself is not accepted here."},
		{Name: "peers[].tokenFile", Type: Text, Means: "File with the bearer token, instead of tokenEnv; read again on SIGHUP."},
		{Name: "peers[].allowPrivate", Type: Boolean, Means: "Whether the host of the card may have an address that is not public. A loopback address in cardURL doesn't need it."},
		{Name: "peers[].hosts", Type: Texts, Means: "Additional hosts, with or without a port, that the card may name."},
		{Name: "peers[].delivery", Type: Choice, Values: []string{"auto", "streaming", "polling", "push"}, Means: "How its tasks are followed; auto if not given, which means streams if the peer offers them. Push needs a2a.url."},
		{Name: "channels.silence", Type: Duration, Default: "90s", Means: "How long a remote channel without a stream may be silent before it counts as disconnected."},
		{Name: "channels.toolGrace", Type: Duration, Default: "30s", Means: "How long calls of a client's own tools wait for it to reconnect after its connection broke."},
		{Name: "a2a.enabled", Type: Boolean, Default: "true", Means: "Whether other agents can give work over the Agent2Agent protocol."},
		{Name: "a2a.name", Type: Text, Default: "agentd", Means: "Name of the agent on its card."},
		{Name: "a2a.description", Type: Text, Default: "An agent that works on tasks with its tools.", Means: "Description of the agent on its card."},
		{Name: "a2a.url", Type: URL, Means: "Address of the server on the card, if it differs from the one it listens on; with several nodes that of all of them, the same on each."},
		{Name: "a2a.extendedCard", Type: Boolean, Default: "true", Means: "Whether callers with a token get a card that lists the tools."},
		{Name: "a2a.push.allowHosts", Type: Texts, Means: "Hosts, with or without a port, that push notifications may reach although their addresses are not public."},
	}
}

func telemetrySettings() []Setting {
	return []Setting{
		{Name: "telemetry.otlpEndpoint", Type: Text, Means: "Where spans and metrics are sent (OTLP over HTTP), such as http://127.0.0.1:4318; empty for nowhere."},
		{Name: "telemetry.signals", Type: Choices, Values: []string{"traces", "metrics"}, Means: "What is sent; both if not given."},
		{Name: "telemetry.headers[]", Type: Objects, Means: "Headers of the requests, for backends that need a key."},
		{Name: "telemetry.headers[].name", Type: Text, Required: true, Means: "Name of the header."},
		{Name: "telemetry.headers[].env", Type: Text, Required: true, Means: "Environment variable with its value; the value itself is never in the file."},
		{Name: "telemetry.timeout", Type: Duration, Default: "10s", Means: "How long one request may take."},
		{Name: "telemetry.metricsInterval", Type: Duration, Default: "60s", Means: "How often metrics are sent."},
		{Name: "telemetry.compression", Type: Choice, Values: []string{"none", "gzip"}, Default: "none", Means: "How requests are compressed."},
		{Name: "telemetry.queueSize", Type: Integer, Default: "8192", Means: "Maximum number of spans that wait to be sent; more are dropped and counted."},
		{Name: "telemetry.content", Type: Boolean, Default: "false", Means: "Also send prompts, answers, arguments and results as they are in the facts: redacted, each up to 8 KiB."},
		{Name: "telemetry.resource", Type: Texts, Means: "Additional resource attributes, as name=value, such as deployment.environment.name=prod."},
	}
}
