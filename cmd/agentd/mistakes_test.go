package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/config"
)

// inward are traces of the program's inside that no message may have: functions and types
// of Go, packages, and names of parameters.
var inward = regexp.MustCompile(`strconv\.|options\.|client:|json:|yaml:|config:|harbor:|agentd/|invalid syntax|\*[a-z]+\.|%!|parentT|dependsOn|[a-z]Id\b|[a-z]Ms\b`)

// mistake is a command line that can't be used.
type mistake struct {
	line []string
	// names is what the message must name: a flag or an argument as it is typed.
	names string
}

// mistakes returns every command line of the program with one thing wrong: each flag
// with a value of another type or none of its values, an empty one, without a value and with
// a letter too many, and each required argument missing, or one too many.
func mistakes() []mistake {
	var out []mistake
	all, emptied := choices(config.Table()), map[string]bool{}
	for _, c := range commandTree(tree()) {
		path := strings.Fields(c.CommandPath())[1:]
		needed := requiredArguments(c)
		line := func(more ...string) []string {
			filled := make([]string, len(needed))
			for i := range filled {
				filled[i] = "x"
			}
			return slices.Concat(path, filled, more)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := "--" + f.Name
			if f.Name == "help" || f.Hidden {
				return
			}
			if !strings.HasPrefix(f.Value.Type(), "string") || choicesOf(c, f, all) != nil {
				out = append(out, mistake{line(name + "=nonsense"), name})
			}
			if f.NoOptDefVal == "" {
				out = append(out, mistake{line(name), name})
			}
			if f.Value.Type() == "string" && !mayBeEmpty[f.Name] && !emptied[f.Name] {
				emptied[f.Name] = true // once: most commands have the settings
				out = append(out, mistake{line(name + "="), name + " needs a value: "})
			}
			out = append(out, mistake{line(name + "x"), name + "?"})
		})
		for _, u := range idUses(c, idKinds()) {
			if u.flag != "" && !strings.Contains(c.Use, "=TRIALS") {
				out = append(out, mistake{line("--"+u.flag, "no id!"), "--" + u.flag})
			}
		}
		for i, name := range needed {
			filled := slices.Repeat([]string{"x"}, i)
			out = append(out, mistake{slices.Concat(path, filled), name + " is missing"})
		}
		if !strings.Contains(c.Use, "...") && c.HasParent() && !c.HasSubCommands() && c.Name() != "run" && c.Name() != "chat" && c.Name() != "help" {
			filled := slices.Repeat([]string{"x"}, len(argumentsOf(c.Use))+1)
			out = append(out, mistake{slices.Concat(path, filled), c.CommandPath()})
		}
	}
	return out
}

// requiredArguments returns the names of the arguments that a command can't do without.
func requiredArguments(c *cobra.Command) []string {
	var names []string
	for _, word := range argumentsOf(c.Use) {
		if name := strings.TrimRight(word, "."); !strings.HasPrefix(name, "[") && !strings.Contains(c.Use, " | ") {
			names = append(names, name)
		}
	}
	return names
}

// TestMistakesAreNamed: whatever is wrong on a command line, the exit code is 2, the
// message names what was typed and nothing of the program's inside, it says how to go
// on, and with --json it is one object.
func TestMistakesAreNamed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := ownFolders(dir)
	all := mistakes()
	if len(all) < 1000 {
		t.Errorf("only %d mistakes were made", len(all))
	}
	for _, m := range all {
		out, errs, code := inProcess(t, env, m.line...)
		if code != exitUsage || out != "" || !strings.Contains(errs, m.names) || inward.MatchString(errs) || !strings.Contains(errs, " --help' for usage.\n") {
			t.Errorf("agentd %s: exit code %d, want 2 and %q named\n%s%s", strings.Join(m.line, " "), code, m.names, out, errs)
		}
		if strings.HasSuffix(m.names, " is missing") {
			out, errs, code = inProcess(t, env, append(m.line, "--json")...)
			var said failure
			if err := json.Unmarshal([]byte(errs), &said); err != nil || code != exitUsage || out != "" || said.Code != codeUsage || !strings.Contains(said.Error, m.names) {
				t.Errorf("agentd %s --json: exit code %d, %s%s", strings.Join(m.line, " "), code, out, errs)
			}
		}
	}
}

// TestSuggestions: who mistypes a flag, a value or a command is told the one that is near,
// and none that isn't.
func TestSuggestions(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	env := ownFolders(dir)
	for line, want := range map[string]string{
		"run --mdoe auto x":                         "unknown flag: --mdoe; did you mean --mode?",
		"run --mode autoo x":                        `--mode: "autoo" is not one of default, untrusted, on_request, on_failure, never, plan, bypass, auto; did you mean auto?`,
		"run --mode by x":                           "bypass, auto\n",
		"run --mode bypas x":                        "did you mean bypass?",
		"chat --mode planning":                      "did you mean plan?",
		"sessions --sort update":                    "did you mean updated?",
		"sessions --order down":                     `--order: "down" is not one of asc, desc` + "\n",
		"sessions --frobnicate":                     "unknown flag: --frobnicate\n",
		"sessions -q":                               "unknown flag: -q; flags with more than one letter begin with two dashes",
		"sesions":                                   `there is no command "agentd sesions"; did you mean sessions?`,
		"tokens create x --data postgres://u@h/d":   "name one with --server",
		"tokens creat x":                            "did you mean create?",
		"call get_sesion":                           "did you mean get_session?",
		"call frobnicate":                           "docs/reference/commands.md lists them",
		"serve --log-level warning":                 "did you mean warn?",
		"sessions --limit 99999999999999999999":     `--limit: "99999999999999999999" is out of range; give a smaller number`,
		"events x --after -1":                       `--after: "-1" is not a whole number of 0 or more, such as 20`,
		"turns --from yesterday":                    `--from: "yesterday" is no time; use a date`,
		"sessions --server nonsense":                `--server: "nonsense" is not the address of a server such as http://127.0.0.1:8700`,
		"sessions --config nonsense":                "the configuration file can't be read: nonsense: no such file or directory; --config or AGENTD_CONFIG names it",
		"bench compare":                             "--baseline is missing: give a configuration and its trials",
		"bench run nowhere --config c.yaml":         "DATASET: ",
		"sessions trim x":                           "--before is missing",
		"sessions update x":                         "nothing to change: give --title, --tag, --add-tag, --remove-tag, --pin or --archive",
		"sessions update x --tag a --add-tag b":     "--tag replaces all tags; leave out --add-tag and --remove-tag",
		"sessions update x --add-tag ":              "--add-tag is empty",
		"nodes drain ":                              `NODE is empty, given as "": agentd nodes drain NODE`,
		"nodes undrain ":                            `NODE is empty`,
		"nodes move x --to ":                        "--to needs a value: the node that the session goes on at",
		"nodes move x --to y --root ":               "--root needs a value",
		"tokens create x --server ":                 "--server needs a value: address of a server",
		"why no/id":                                 `ID: "no/id" is not an id`,
		"sessions --=x":                             "flags are written --name or --name=value",
		"quotas set acme --sessions x --sessions 1": `--sessions: "x" is not a whole number such as 20`,
	} {
		out, errs, code := inProcess(t, env, strings.Split(line, " ")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) || inward.MatchString(errs) {
			t.Errorf("agentd %s: exit code %d, want 2 and %q:\n%s%s", line, code, want, out, errs)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"mode", "mdoe", 1}, {"mode", "model", 1}, {"auto", "autoo", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}} {
		if got := distance(c.a, c.b); got != c.want || distance(c.b, c.a) != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestNearestFlag: a flag with two letters swapped, or with one left out, is told from all
// others of its command; only another flag that one such slip leads to just as well may be
// suggested in its place.
func TestNearestFlag(t *testing.T) {
	for _, c := range commandTree(tree()) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for _, name := range names {
			for _, slip := range []func(string) []string{swapped, shortened} {
				for _, typed := range slip(name) {
					if len(typed) < 3 || slices.Contains(names, typed) {
						continue
					}
					got := nearest(typed, names)
					if got != name && (got == "" || !slices.Contains(slip(got), typed)) {
						t.Errorf("%s --%s: suggested %q, meant --%s", c.CommandPath(), typed, got, name)
					}
				}
			}
		}
	}
	for typed, want := range map[string]string{"modle": "model", "mdoe": "mode", "moedl": "model", "mdel": "model", "moed": "mode", "mods": "mode", "modell": "model"} {
		if got := nearest(typed, []string{"mode", "model"}); got != want {
			t.Errorf("%s: %s, want %s", typed, got, want)
		}
	}
}

// swapped returns a word with each two neighbours swapped.
func swapped(word string) []string {
	var out []string
	for i := 1; i < len(word); i++ {
		if word[i] != word[i-1] {
			out = append(out, word[:i-1]+word[i:i+1]+word[i-1:i]+word[i+1:])
		}
	}
	return out
}

// shortened returns a word without each of its letters.
func shortened(word string) []string {
	out := make([]string, len(word))
	for i := range word {
		out[i] = word[:i] + word[i+1:]
	}
	return out
}
