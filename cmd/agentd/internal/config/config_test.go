package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// problems returns the texts of a joined error, without the file's name.
func problems(err error) []string {
	var out []string
	if err == nil {
		return nil
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		out = append(out, strings.TrimPrefix(line, "f.yaml:"))
	}
	return out
}

func TestFileProblems(t *testing.T) {
	tests := []struct {
		name, file string
		want       []string
	}{
		{"unknown key", "listen: 127.0.0.1:1\nlisen: x\n", []string{"2:1: lisen: unknown key; did you mean listen?"}},
		{"unknown key without a likeness", "zzz: 1\n", []string{"1:1: zzz: unknown key"}},
		{"unknown nested key", "log:\n  level: info\n  lvel: x\n", []string{"3:3: log.lvel: unknown key; did you mean level?"}},
		{"unknown key of a list's object", "providers:\n  - id: a\n    kind: script\n    kindd: x\n", []string{"4:5: providers[0].kindd: unknown key; did you mean kind?"}},
		{"unknown key in a flow mapping", "budget: {lowAt: 0.5, low: 1}\n", []string{"1:22: budget.low: unknown key"}},
		{"all problems at once", "a: 1\nb: 2\n", []string{"1:1: a: unknown key", "2:1: b: unknown key"}},
		{"required key", "providers:\n  - id: a\n", []string{"2:7: providers[0]: kind is missing"}},
		{"empty required key", "mcp:\n  - {id: \"\", url: \"http://a\"}\n", []string{`2:10: mcp[0].id: is empty`}},
		{"key twice", "recovery: auto\nrecovery: manual\n", []string{`2:1: mapping key "recovery" already defined at [1:1]`}},
		{"choice", "log: {level: inf}\n", []string{`1:14: log.level: "inf" is not one of debug, info, warn, error; did you mean info?`}},
		{"id", "runtimeId: a b\n", []string{`1:12: runtimeId: "a b" is not an id: 1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or a digit`}},
		{"id of a list's object", "quotas:\n  accounts:\n    - {id: /a}\n", []string{`3:12: quotas.accounts[0].id: "/a" is not an id: 1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or a digit`}},
		{"list of choices", "routing:\n  fallbackOn: [timeout, nope]\n", []string{`2:25: routing.fallbackOn[1]: "nope" is not one of ` + strings.Join(modelFailures, ", ")}},
		{"scalar instead of an object", "log: x\n", []string{"1:6: log: must be an object of keys and values"}},
		{"scalar instead of a list", "allowedHosts: a\n", []string{"1:15: allowedHosts: must be a list, such as [a, b]"}},
		{"scalar instead of objects", "hooks: 3\n", []string{"1:8: hooks: must be a list of objects"}},
		{"list instead of a scalar", "recovery: [auto]\n", []string{"1:11: recovery: must be a single value: choice"}},
		{"number instead of text", "runtimeId: 12\n", []string{`1:12: runtimeId: must be text; write "12"`}},
		{"text instead of a number", "budget: {sessionCostUSD: \"3\"}\n", []string{`1:26: budget.sessionCostUSD: must be a number, not the text "3"`}},
		{"number beyond an integer", "telemetry: {queueSize: 99999999999999999999}\n", []string{`1:24: telemetry.queueSize: must be an integer, not the text "99999999999999999999"`}},
		{"byte order mark before an unknown key", "\ufefflisen: x\n", []string{"1:1: lisen: unknown key; did you mean listen?"}},
		{"negative number", "budget: {sessionCostUSD: -3}\n", []string{`1:26: budget.sessionCostUSD: "-3" is not a number of at least 0`}},
		{"fraction", "compaction: {atContextFraction: 1.5}\n", []string{`1:33: compaction.atContextFraction: "1.5" is not a fraction over 0 and up to 1`}},
		{"duration", "outputs: {expireAfter: 3 days}\n", []string{`1:24: outputs.expireAfter: "3 days" is not a duration such as 500ms, 30s, 10m or 720h`}},
		{"size", "outputs: {inlineBytes: 4 parsecs}\n", []string{`1:24: outputs.inlineBytes: "4 parsecs" is not a size such as 4096, 64kB or 4MiB`}},
		{"boolean", "insecure: yes\n", []string{`1:11: insecure: must be a boolean, not the text "yes"`}},
		{"address", "listen: nowhere\n", []string{`1:9: listen: "nowhere" is not an address such as 127.0.0.1:8700`}},
		{"port", "listen: 127.0.0.1:99999\n", []string{`1:9: listen: "127.0.0.1:99999" is not an address such as 127.0.0.1:8700: the port must be a number from 0 to 65535`}},
		{"bound of zero", "mcp:\n  - {id: a, command: [x], sandbox: {limits: {memoryMB: 0}}}\n", []string{`2:56: mcp[0].sandbox.limits.memoryMB: "0" is neither a whole number from 1 to 1099511627776 nor unlimited`}},
		{"bound by another word", "mcp:\n  - {id: a, command: [x], sandbox: {limits: {openFiles: none}}}\n", []string{`2:57: mcp[0].sandbox.limits.openFiles: "none" is neither a whole number from 1 to 1099511627776 nor unlimited`}},
		{"url", "mcp:\n  - {id: a, url: ftp://x}\n", []string{`2:18: mcp[0].url: "ftp://x" is not an address that begins with http:// or https://`}},
		{"secret in a url", "mcp:\n  - {id: a, url: \"http://u:pw@x\"}\n", []string{`2:18: mcp[0].url: the address "http://xxxxx@x" holds a name or a password; keys belong in the environment`}},
		{"anchor", "recovery: &a auto\n", []string{"1:11: recovery: anchors, aliases and tags are not supported"}},
		{"two documents", "recovery: auto\n---\nrecovery: auto\n", []string{"3:9: the file has more than one document"}},
		{"not an object", "- a\n", []string{"1:1: must be an object of keys and values"}},
		{"not YAML", "a: [\n", []string{"1:4: sequence end token ']' not found"}},
		{"empty", "", nil},
		{"comment", "# nothing\n", nil},
		{"empty section", "log:\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFile("f.yaml", []byte(tt.file))
			if diff := cmp.Diff(tt.want, problems(err)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Errorf("%v has no place", err)
			}
		})
	}
}

// load writes a file and loads it.
func load(t *testing.T, file string, src Sources) (*Loaded, error) {
	t.Helper()
	src.File = filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(src.File, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(src)
}

func TestWhatDoesNotFitTogether(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"model that isn't configured", "providers:\n  - {id: a, kind: script, models: [{id: m}]}\nrouting:\n  default: a/x\n", `:4:3: routing.default: "a/x" is not a configured model`},
		{"fallback that isn't configured", "providers:\n  - {id: a, kind: script, models: [{id: m}]}\nrouting: {fallback: [a/m, b/m]}\n", `:3:11: routing.fallback[1]: "b/m" is not a configured model`},
		{"provider twice", "providers:\n  - {id: a, kind: script}\n  - {id: a, kind: script}\n", `:3:6: providers[1].id: "a" is used twice`},
		{"model twice", "providers:\n  - {id: a, kind: script, models: [{id: m}, {id: m}]}\n", `providers[0].models[1].id: "m" is used twice`},
		{"slash in a provider's id", "providers:\n  - {id: a/b, kind: script}\n", "contains a /"},
		{"script for another kind", "providers:\n  - {id: a, kind: openai, script: x}\n", "is for kind script only"},
		{"half of TLS", "tls: {cert: a}\n", ":1:1: tls: cert and key must be given together"},
		{"no lease", "node: {lease: 0s}\n", ":1:8: node.lease: 0s is too short: it must be at least 1s"},
		{"lease of a moment", "node: {lease: 2ns}\n", ":1:8: node.lease: 2ns is too short"},
		{"long name of a node", "node: {name: " + strings.Repeat("n", 257) + "}\n", ":1:8: node.name: must have at most 256 bytes"},
		{"name of a node in two lines", "node: {name: \"a\\nb\"}\n", ":1:8: node.name: must have"},
		{"name of a node that begins with a space", "node: {name: \" a\"}\n", ":1:8: node.name: must have"},
		{"pool in two lines", "node: {pool: \"a\\nb\"}\n", ":1:8: node.pool: must have"},
		{"part of a node's certificates", "node: {tls: {ca: a}}\n", ":1:8: node.tls: ca, cert and key must be given together"},
		{"node without TLS among those with it", "data: postgres://h/d\nadvertise: http://h:1\nnode: {tls: {ca: a, cert: b, key: c}}\n", ":2:1: advertise: must begin with https://"},
		{"address of a node with a query", "advertise: \"http://h:1?x\"\n", ":1:1: advertise: must end with the host"},
		{"address of all machines", "advertise: \"http://[::]:8700\"\n", ":1:1: advertise: :: is no address of a machine"},
		{"port that there isn't", "advertise: http://h:65536\n", `:1:12: advertise: "http://h:65536" has the port 65536; ports are from 1 to 65535`},
		{"MCP server with two ways", "mcp:\n  - {id: a, command: [x], url: \"http://x\"}\n", "needs either command or url"},
		{"credential in clear", "mcp:\n  - {id: a, url: \"http://x\", credentials: [abcdef]}\n", "is neither env:NAME nor file: with an absolute path"},
		{"credential in a relative file", "mcp:\n  - {id: a, url: \"http://x\", credentials: [\"file:token\"]}\n", "is neither env:NAME nor file: with an absolute path"},
		{"credential of a program", "mcp:\n  - {id: a, command: [x], credentials: [\"env:A\"]}\n", "are for servers over HTTP"},
		{"MCP server without a way", "mcp:\n  - {id: a}\n", "needs either command or url"},
		{"hook without a program", "hooks:\n  - {point: stop, command: []}\n", "hooks[0]: needs either command or url"},
		{"rule without a glob", "permissions:\n  rules:\n    - {decision: deny, tool: x}\n    - {decision: deny, tool: \"[a\"}\n", `:4:7: permissions.rules[1]: tool "[a" is not a valid glob: a "[" has no "]"`},
		{"hook without a glob", "hooks:\n  - {point: stop, command: [x], match: {tool: \"[\"}}\n", `:2:41: hooks[0].match.tool: "[" is not a valid glob: syntax error in pattern`},
		{"hook for too long", "hooks:\n  - {point: stop, command: [x], timeout: 100h}\n", `:2:33: hooks[0].timeout: 100h0m0s is more than 10m0s`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(t, tt.file, Sources{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestEveryKeyOfTheContract(t *testing.T) {
	l, err := Load(Sources{File: "testdata/full.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.RuntimeID != "my_runtime" || c.Providers[0].Models[0].Price.CachedInputPerMTok != 0.05 || c.Hooks[0].Match.Tool != "shell" ||
		time.Duration(c.Hooks[0].Timeout) != 5*time.Second || c.Sandbox.Limits.MemoryMB != 2048 || c.MCP[1].URL == "" ||
		c.MCP[0].Sandbox.Limits.MemoryMB.Or(1) != 4096 || c.MCP[0].Sandbox.Limits.Processes.Or(1) != 0 || c.MCP[0].Sandbox.Limits.OpenFiles.Or(1) != 1 ||
		c.Permissions.Rules[0].Match != "git push *" || time.Duration(c.Outputs.ExpireAfter) != 720*time.Hour || c.Peers[0].Protocol != "a2a" {
		t.Errorf("values got lost: %+v", c)
	}
}

func TestContractExample(t *testing.T) {
	text, err := os.ReadFile("../../../../../shared/CONTRACT.md")
	if err != nil {
		t.Skip("the wire contract's example configuration is not checked: ../shared is absent")
	}
	_, rest, found := strings.Cut(string(text), "```yaml\n")
	file, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the contract has no YAML example")
	}
	if _, err := load(t, file, Sources{}); err != nil {
		t.Error(err)
	}
}

func TestLayers(t *testing.T) {
	env := map[string]string{}
	src := Sources{Env: func(name string) string { return env[name] }, Flags: map[string]string{}}
	file := ""
	want := func(value string, layer Layer, where string) {
		t.Helper()
		l, err := load(t, file, src)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range l.Values {
			if v.Name == "listen" && (v.Value != value || v.Layer != layer || !strings.HasSuffix(v.Where, where) || l.Config.Listen != value) {
				t.Errorf("listen is %v from %s %q, want %s from %s %q", v.Value, v.Layer, v.Where, value, layer, where)
			}
		}
	}
	want("127.0.0.1:8700", FromDefault, "")
	file = "data: x\nlisten: 127.0.0.1:1\n"
	want("127.0.0.1:1", FromFile, "f.yaml:2:1")
	env["AGENTD_LISTEN"] = "127.0.0.1:2"
	want("127.0.0.1:2", FromEnvironment, "AGENTD_LISTEN")
	src.Flags["listen"] = "127.0.0.1:3"
	want("127.0.0.1:3", FromFlag, "--listen")
}

func TestBadValuesOfOtherLayers(t *testing.T) {
	for name, src := range map[string]Sources{
		`--listen: "x" is not an address`:       {Flags: map[string]string{"listen": "x"}},
		"--data: is empty":                      {Flags: map[string]string{"data": ""}},
		`AGENTD_LISTEN: "y" is not an address`:  {Env: func(string) string { return "y" }},
		`--log-level: "loud" is not one of`:     {Flags: map[string]string{"log-level": "loud"}},
		"config: open nowhere.yaml: no such fi": {File: "nowhere.yaml"},
	} {
		if _, err := Load(src); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want one with %q", err, name)
		}
	}
}

func TestChanges(t *testing.T) {
	from, err := load(t, "log: {level: info}\nproviders: [{id: a, kind: script}]\n", Sources{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := load(t, "log: {level: debug}\nproviders: [{id: b, kind: script}]\n", Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Change{{"log.level", true}, {"providers", false}}, Changes(from, to)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	from.TakeOver(to)
	if from.Config.Log.Level != "debug" || from.Config.Providers[0].ID != "a" {
		t.Errorf("taken over: %+v", from.Config)
	}
	if diff := cmp.Diff([]Change{{"providers", false}}, Changes(from, to)); diff != "" {
		t.Errorf("what needs a restart is not reported again (-want +got):\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Table() {
		for _, name := range []string{s.Name, "env " + s.Env, "flag " + s.Flag} {
			if seen[name] && !strings.HasSuffix(name, " ") {
				t.Errorf("%s is declared twice", name)
			}
			seen[name] = true
		}
		if s.Means == "" || !strings.HasSuffix(s.Means, ".") {
			t.Errorf("%s doesn't say what it means", s.Name)
		}
		if (s.Type == Choice || s.Type == Choices) != (len(s.Values) > 0) {
			t.Errorf("%s: only choices have values", s.Name)
		}
		if s.Default != "" {
			if _, err := s.parse(s.Default); err != nil {
				t.Errorf("%s: default: %v", s.Name, err)
			}
		}
		if parent, _, ok := strings.Cut(s.Name, "[]."); ok && findSetting(parent+"[]") == nil {
			t.Errorf("%s: its list has no row", s.Name)
		}
	}
}

func FuzzFile(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(full))
	f.Add("a: &x [*x]\n<<: *x\n")
	f.Add("? {a: b}\n: c\n")
	f.Add("log: {level: !!binary aGk=}\n")
	f.Fuzz(func(t *testing.T, file string) {
		values, err := parseFile("f.yaml", []byte(file))
		if err == nil && values == nil {
			t.Error("neither values nor an error")
		}
	})
}

func TestShownURL(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:9/v1":                           "http://127.0.0.1:9/v1",
		"https://example.com/mcp?token=planted&v=planted": "https://example.com/mcp?token=xxxxx&v=xxxxx",
		"https://name:planted@example.com/":               "https://xxxxx@example.com/",
		"https://planted@example.com/":                    "https://xxxxx@example.com/",
		"https://example.com/#planted":                    "https://example.com/#xxxxx",
		"https://example.com/?planted":                    "https://example.com/?xxxxx",
		"https://example.com/?a=planted;b=planted":        "https://example.com/?xxxxx",
		"https://example.com/%zz?key=planted":             "https://example.com/%zz",
		"https://planted@example.com/%zz#planted":         "https://xxxxx@example.com/%zz",
		"localhost:9000":                                  "localhost:9000",
	} {
		if got := ShownURL(address); got != want {
			t.Errorf("%s is shown as %s", address, got)
		}
	}
}
