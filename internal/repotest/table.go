package repotest

// role says how a package may be used, beyond which packages may import it.
type role int

const (
	// product code: part of the library or of the server.
	product role = iota
	// adapter: an engine, a provider, a protocol. Only programs import it, so that
	// a program that embeds the library links what it uses and nothing else.
	adapter
	// program: wires everything; may import all product code and adapters.
	program
	// support for tests; product code may not import it.
	support
)

// row is one package of the import table.
type row struct {
	// dir of the package, relative to the module.
	dir  string
	role role
	// may lists the packages of this module that it imports at most. Programs and
	// test support need none: they may import everything.
	may []string
	// standardOnly forbids every module but this one.
	standardOnly bool
	// pure forbids what would make a result depend on more than the arguments:
	// files, network, clock, goroutines, locks, contexts.
	pure bool
	// pureFiles are held to the same in a package that isn't pure as a whole.
	pureFiles []string
	// why explains a row that says more or less than the rule "a package imports
	// only what stands below it".
	why string
}

// importTable says which package may import which. A package stands above what it may
// import. The rows of packages that are still to come are there already: the
// table is the plan, and a new package finds its place in it. A package without
// a row fails the test.
var importTable = []row{
	{dir: "event", standardOnly: true},
	{dir: "fault", standardOnly: true},
	{dir: "command", may: []string{"event", "fault", "internal/wire"}, why: "parameters come from outside: the strict decoder of internal/wire reads them"},
	{dir: "state", may: []string{"internal/clip", "event", "tool/toolkind"}, standardOnly: true, pure: true},
	{dir: "store", may: []string{"event"}},

	{dir: "internal/filelock", why: "a lock that ends with its process, also where a child had it for an instant"},
	{dir: "store/pebble", role: adapter, may: []string{"store", "event", "internal/filelock"}},
	{dir: "store/postgres", role: adapter, may: []string{"store", "event"}},
	{dir: "store/storefault", may: []string{"store", "fault"}, why: "what the store's errors mean to callers: one answer for all who read and write"},
	{dir: "store/s3", role: adapter, may: []string{"store"}},

	{dir: "internal/place", standardOnly: true, why: "files and folders by identity, for all that opens or covers them"},
	{dir: "internal/pathglob", standardOnly: true, why: "one matcher of paths for rules and tools"},
	{dir: "internal/yamlbound", standardOnly: true, why: "what a file may cost is settled before any parser reads it"},
	{dir: "internal/clip", standardOnly: true, pure: true, why: "one way to shorten text"},
	{dir: "internal/netaddr", standardOnly: true, why: "the one list of addresses that are not public"},
	{dir: "sandbox", may: []string{"sandbox/internal/stage", "internal/place", "internal/netaddr"}},
	{dir: "sandbox/internal/stage", why: "what the confined child runs before anything else of the program"},
	{dir: "process", may: []string{"sandbox", "event"}},
	{dir: "permission", may: []string{"internal/clip", "event", "internal/pathglob", "tool/toolkind"}},
	{dir: "hook", may: []string{"internal/clip", "event"}},
	{dir: "redact", may: []string{"event"}},
	{dir: "workspace", may: []string{"internal/clip", "event", "store", "internal/place", "internal/pathglob"}},
	{dir: "tool/toolkind", standardOnly: true, pure: true, why: "what built-in tools do, for code that must not know how"},
	{dir: "tool", may: []string{"internal/clip", "event", "internal/place", "internal/pathglob", "tool/toolkind"}},
	{dir: "tool/mcp", role: adapter, may: []string{"internal/clip", "tool", "event"}},
	{dir: "model", may: []string{"event"}},
	{dir: "model/provider/script", role: adapter, may: []string{"model", "event", "tool/toolkind"}},
	{dir: "model/provider/httpstream", may: []string{"internal/clip", "model", "event"}, why: "what the adapters of providers over HTTP share"},
	{dir: "model/provider/openai", role: adapter, may: []string{"model/provider/httpstream", "model", "event"}},
	{dir: "model/provider/responses", role: adapter, may: []string{"model/provider/httpstream", "model", "event"}},
	{dir: "model/provider/anthropic", role: adapter, may: []string{"model/provider/httpstream", "model", "event"}},
	{dir: "model/provider/gemini", role: adapter, may: []string{"model/provider/httpstream", "model", "event"}},

	{dir: "admission", standardOnly: true, why: "measures and shares; the caller says what is written and who waits"},
	{dir: "quota", standardOnly: true, why: "counts and limits alone; the caller says what is in use"},
	{dir: "session", may: []string{"admission", "internal/clip", "state", "store", "store/storefault", "command", "event", "fault", "quota"}},
	{dir: "index", may: []string{"store", "store/storefault", "event", "fault"}, why: "it knows facts and entries; what they mean is the projections' business"},
	{dir: "index/usage", may: []string{"index", "store", "store/storefault", "command", "event"}, why: "sums over the facts of all sessions"},
	{dir: "find", may: []string{"index", "internal/clip", "store", "store/storefault", "command", "event", "fault"}, why: "lists and search over the sessions of all accounts"},
	{dir: "loop", may: []string{"admission", "internal/clip", "session", "state", "store", "store/storefault", "command", "event", "fault", "model", "tool", "permission", "hook", "sandbox", "process", "redact", "workspace", "internal/place", "tool/toolkind"}, pureFiles: []string{"next.go", "next_failure.go"}},
	{dir: "work", may: []string{"internal/clip", "session", "state", "store", "command", "event", "fault", "tool/toolkind"}},
	{dir: "telemetry", may: []string{"internal/clip", "event"}},
	{dir: "telemetry/otlp", role: adapter, may: []string{"telemetry", "store", "event"}, why: "it links the messages of OTLP, which only who sends telemetry needs"},
	{dir: "evidence", may: []string{"internal/clip", "event", "state", "store", "command", "tool/toolkind"}, why: "it answers commands, in their result types"},
	{dir: "replay", may: []string{"loop", "session", "evidence", "hook", "permission", "model", "tool", "state", "store", "command", "event", "tool/toolkind"}, why: "it decides again with what decides"},
	{dir: "evidence/atif", may: []string{"event", "state", "store", "evidence"}},
	{dir: "evidence/harbor", standardOnly: false, why: "the files of a Harbor task and trial; knows nothing of agentd"},
	{dir: "transfer", may: []string{"session", "evidence", "store", "store/storefault", "command", "event", "fault"}},
	{dir: "proof", may: []string{"session", "evidence", "state", "store", "store/storefault", "command", "event", "fault"}, why: "the runtime side of evidence: it reads sessions, evidence knows only facts"},
	{dir: "trial", may: []string{"session", "proof", "evidence", "evidence/atif", "state", "store", "store/storefault", "command", "event", "fault"}},
	{dir: "channel", may: []string{"session", "state", "store", "command", "event", "fault"}},
	{dir: "channel/turnview", may: []string{"event", "tool/toolkind"}, standardOnly: true, why: "what the adapters of protocols show of a turn, without I/O"},
	// Adapters of protocols send events and quote texts as the server does: internal/wire has both.
	{dir: "channel/a2a", role: adapter, may: []string{"channel/a2a/dial", "channel/turnview", "channel", "command", "event", "state", "fault", "internal/wire"}},
	{dir: "channel/a2a/peer", role: adapter, may: []string{"channel/a2a/dial", "channel", "command", "event", "state", "fault", "internal/wire"}},
	{dir: "channel/a2a/dial", may: []string{"internal/netaddr"}, standardOnly: true, why: "what both sides of the protocol dial other agents with"},
	{dir: "channel/acp", role: adapter, may: []string{"channel/turnview", "channel", "command", "event", "state", "fault", "internal/wire", "tool/toolkind"}},
	{dir: "channel/agui", role: adapter, may: []string{"channel/turnview", "channel", "command", "event", "state", "fault", "internal/wire"}},
	{dir: "channel/openaiapi", role: adapter, may: []string{"channel/turnview", "channel", "command", "event", "state", "fault", "internal/wire"}},
	{dir: "channel/mcpserver", role: adapter, may: []string{"channel/turnview", "channel", "command", "event", "state", "fault", "internal/wire"}},

	{dir: "takeover", may: []string{"loop", "session", "state", "store", "event", "fault"}, why: "what a node does for and with the others"},

	{dir: ".", may: []string{
		"admission", "event", "fault", "command", "state", "store", "store/storefault", "sandbox", "process", "permission", "hook", "tool", "model", "redact", "workspace",
		"session", "loop", "work", "telemetry", "evidence", "proof", "trial", "channel", "transfer", "quota", "replay", "index", "index/usage", "find", "internal/place", "takeover",
	}, why: "the library: everything below it, and no adapter"},
	{dir: "console"},
	{dir: "server", may: []string{"admission", "channel/turnview", "command", "event", "fault", "transfer", "internal/wire", "internal/gen", "console", "tool/toolkind"}},
	{dir: "server/oidc", may: []string{"command", "event", "fault", "internal/clip", "internal/netaddr", "server"}, why: "tokens of an identity provider, apart because of what it imports"},
	{dir: "client", may: []string{"command", "event", "fault", "internal/wire"}},
	{dir: "conformance", may: []string{"event"}, why: "it judges any runtime, so it knows the standard's list of types and nothing of this one"},

	{dir: "internal/wire", may: []string{"internal/clip", "event", "fault"}},
	{dir: "internal/gen"},

	{dir: "cmd/agentd", role: program},
	{dir: "cmd/agentd/internal/chat", role: program, why: "the interactive client in lines; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/collector", role: program, why: "how often the program collects garbage; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/config", role: program, why: "the program's table of settings; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/conversation", role: program, why: "drives a session for both interactive clients; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/datadir", role: program, why: "which data directories are this user's; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/rundir", role: program, why: "the socket of the user's own server; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/facts", role: program, why: "how commands reach a runtime; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/keyring", role: program, why: "the keyring of the user's system; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/keyring/keyringtest", role: support, why: "a session bus and a Secret Service for tests"},
	{dir: "cmd/agentd/internal/sharedkey", role: program, why: "the key that the nodes of a database share; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/shortid", role: program, why: "how people write ids; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/terminal", role: program, why: "text for terminals; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/transcript", role: program, why: "writes down conversations; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/trialrun", role: program, why: "runs benchmark trials; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/tui", role: program, why: "the interactive client that draws; for cmd/agentd alone"},
	{dir: "cmd/agentd/internal/turntext", role: program, why: "shows turns as text; for cmd/agentd alone"},
	{dir: "bench", role: program, why: "compares engines, so it links them"},
	{dir: "bench/rig", role: program, why: "a fake provider and a real server for the benchmarks of turns; for bench alone"},
	{dir: "bench/peers", role: program, why: "turns beside other agents; for bench alone"},
	{dir: "bench/collector", role: program, why: "an OpenTelemetry Collector for the test of the telemetry; a module of its own"},
	{dir: "bench/rawlog", role: program, why: "the raw file that the engines are compared with; for bench alone"},
	{dir: "bench/rawpg", role: program, why: "the bare insert that the engine over PostgreSQL is compared with; for bench alone"},
	{dir: "internal/gen/generate", role: program, why: "reads the catalogues and writes what follows from them"},
	{dir: "scripts/testlog", role: program, why: "names the tests that a run skipped; for the Makefile alone"},

	{dir: "event/eventtest", role: support},
	{dir: "store/storetest", role: support},
	{dir: "evidence/replaytest", role: support, why: "decides again in the sessions that tests recorded"},
	{dir: "model/provider/providertest", role: support},
	{dir: "telemetry/otlp/otlptest", role: support},
	{dir: "server/oidc/oidctest", role: support},
	{dir: "cmd/agentd/internal/terminal/termtest", role: support},
	{dir: "internal/leaktest", role: support},
	{dir: "internal/pgtest", role: support},
	{dir: "internal/s3test", role: support},
	{dir: "internal/runtimetest", role: support, why: "the runtime that tests of turns, channels, trials and exports drive"},
	{dir: "internal/adaptertest", role: support, why: "the runtime that the tests of protocol adapters drive"},
	{dir: "internal/answertest", role: support, why: "holds answers of commands against their schemas, closed"},
	{dir: "internal/nodetest", role: support},
	{dir: "internal/escapetest", role: support, why: "tests alone: what an agent can reach and leaves behind"},
	{dir: "internal/tourtest", role: support, why: "drives commands for the tests of the schemas and of the OpenAPI document"},
	{dir: "internal/repotest", role: support},
	{dir: "contract", role: support, why: "tests alone: the OpenAPI document against real traffic"},
	{dir: "interop", role: support, why: "tests alone: programs of others against agentd's protocols"},
}

// impureImports are the packages of the standard library that a pure package
// does without, with what they would bring in.
var impureImports = map[string]string{
	"context":      "cancellation",
	"crypto/rand":  "randomness",
	"io/fs":        "files",
	"log":          "output",
	"log/slog":     "output",
	"math/rand":    "randomness",
	"math/rand/v2": "randomness",
	"net":          "the network",
	"os":           "files and the environment",
	"runtime":      "the scheduler",
	"sync":         "locks",
	"syscall":      "the system",
}

// impureCalls are functions of package time that read the clock or wait.
var impureCalls = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true,
	"AfterFunc": true, "Tick": true, "NewTimer": true, "NewTicker": true,
}
