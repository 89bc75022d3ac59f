package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/cmd/agentd/internal/terminal"
	"agentd/model"
	"agentd/redact"
)

func (a *app) configCommand() *cobra.Command {
	return parent("config", "Show or check the configuration",
		"The configuration has these layers, and a later one wins: defaults, your file or\nthe one that --config names, the project's file, the environment, flags.\n\nExit codes: those of its commands.",
		"  agentd config show\n  agentd config check agentd.yaml", a.configShow(), a.configCheck())
}

// shownValue is one setting in "config show --json".
type shownValue struct {
	Name       string       `json:"name"`
	Value      any          `json:"value"`
	Origin     config.Layer `json:"origin"`
	Where      string       `json:"where,omitempty"`
	Reloadable bool         `json:"reloadable"`
	InUse      bool         `json:"inUse"`
}

func (a *app) configShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show each setting's value and where it comes from",
		Long: `Shows the result of all layers: the value of each setting and its origin.
Names, passwords and the values of queries in addresses are not shown, nor is what
looks like a key. A setting that this release only checks is
marked with "not in use yet".

Exit codes: 0 done, 2 the configuration can't be used.`,
		Example: "  agentd config show\n  agentd config show --config agentd.yaml --listen 127.0.0.1:9000\n  agentd config show --json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := a.loadForTurns(cmd)
			if err != nil {
				return err
			}
			for _, ignored := range loaded.Project.Ignored {
				a.sayf("agentd: warning: %s", ignored)
			}
			shown := make([]shownValue, len(loaded.Values))
			for i, v := range loaded.Values {
				shown[i] = shownValue{strings.TrimSuffix(v.Name, "[]"), redacted(v.Value), v.Layer, v.Where, v.Reload, !v.Later}
			}
			return a.print(map[string]any{"settings": shown}, func(p *printer) { printSettings(p, shown) })
		},
	}
	return a.settings(cmd, flagSettings()...)
}

// flagSettings returns the names of all settings that have a flag.
func flagSettings() []string {
	var names []string
	for _, s := range config.Table() {
		if s.Flag != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// redacted is a setting as it may be shown to anyone: the names and passwords in addresses
// and the values of their queries are hidden, and so is what looks like a key, however deep
// in lists and objects it is.
func redacted(v any) any {
	switch v := v.(type) {
	case string:
		return redactedText(v)
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = redactedText(v[i])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redacted(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = redacted(v[name])
		}
		return out
	}
	return v
}

// addressIn finds addresses, also within the argument of a program.
var addressIn = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)

func redactedText(s string) string {
	if config.IsDatabase(s) {
		return redactedDatabase(s)
	}
	text, _ := redact.New(redact.Options{}).Text(addressIn.ReplaceAllStringFunc(s, config.ShownURL))
	return text
}

// redactedDatabase hides the passwords in the address of a database. Its user is shown:
// that is no key.
func redactedDatabase(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(name, "password") {
			q.Set(name, "xxxxx")
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

func printSettings(p *printer, shown []shownValue) {
	rows := [][]string{{"SETTING", "VALUE", "ORIGIN"}}
	for _, v := range shown {
		origin := string(v.Origin)
		if v.Where != "" {
			origin += " " + v.Where
		}
		if !v.InUse && v.Origin != config.FromDefault {
			origin += " (not in use yet)"
		}
		rows = append(rows, []string{v.Name, terminal.Plain(valueText(v.Value)), terminal.Plain(origin)})
	}
	p.table(rows)
}

func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case []any:
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(b)
	}
	return fmt.Sprint(v)
}

// checkedFile is the answer of "config check".
type checkedFile struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Problems []configProblem `json:"problems"`
}

type configProblem struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a configuration file",
		Long:    "Checks a configuration file and nothing else: neither the environment nor flags.\n\nExit codes: 0 the file can be used, 1 it can't (each problem is printed with line\nand column), 2 usage.",
		Example: "  agentd config check agentd.yaml\n  agentd config check --json agentd.yaml",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, files []string) error {
			loaded, err := config.Load(config.Sources{File: files[0]})
			if err == nil {
				err = checkModels(loaded.Config)
			}
			res := checkedFile{File: files[0], Valid: err == nil, Problems: problemsOf(err)}
			shapes := redact.New(redact.Options{})
			for i := range res.Problems {
				res.Problems[i].Problem, _ = shapes.Text(res.Problems[i].Problem)
			}
			if err := a.print(res, func(p *printer) {
				if err != nil {
					text, _ := shapes.Text(problemText(err))
					p.linef("%s", plainLines(text))
					return
				}
				p.linef("%s can be used", files[0])
			}); err != nil {
				return err
			}
			if err != nil {
				return silent(exitFailed)
			}
			return nil
		},
	}
}

// checkModels checks what routing names against the models of the providers. Without
// any the environment decides which ones there are.
func checkModels(c *config.Config) error {
	if len(c.Providers) == 0 {
		return nil
	}
	var all []model.Info
	for _, p := range c.Providers {
		all = append(all, modelsOf(p, "")...)
	}
	return checkRouting(&c.Routing, all)
}

// plainLines is plainText for a text of several lines.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = terminal.Plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// problemsOf takes a joined error apart.
func problemsOf(err error) []configProblem {
	out := []configProblem{}
	if err == nil {
		return out
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			out = append(out, problemsOf(part)...)
		}
		return out
	}
	if c, ok := err.(*config.Error); ok { //nolint:errorlint // one part of the joined error
		return append(out, configProblem{c.Line, c.Column, c.Key, c.Problem})
	}
	return append(out, configProblem{Problem: problemText(err)})
}

// problemText says what is wrong with a file without the name of the part that read it.
func problemText(err error) string {
	return namePaths(err, strings.TrimPrefix(err.Error(), "config: "))
}
