package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agentd/cmd/agentd/internal/config"
)

// generated is the first line of a page that follows from code.
const generated = "<!-- Generated from the code of cmd/agentd; run \"go test ./cmd/agentd -run TestReference -update\" to write it anew. -->\n\n"

// cliReference returns the reference page of all commands.
func cliReference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Command line\n\n" + generated)
	b.WriteString("`agentd COMMAND --help` says the same. Answers go to standard output; logs, progress and advice go to standard error. With `--json` an error is one JSON object on standard error, with `error`, `code` and `exitCode`.\n\n")
	b.WriteString("| Exit code | Means |\n| --- | --- |\n| 0 | Done; for `run`: the turn completed; for `verify`: no problems. |\n| 1 | Failed; for `verify`: problems were found. |\n| 2 | The command line or the configuration can't be used. |\n| 3 | `run`: the turn waits for an action that can't be answered here. |\n\n")
	b.WriteString("| Command | Does |\n| --- | --- |\n")
	list := commandTree(root)[1:]
	for _, c := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range list {
		cliSection(&b, c)
	}
	return b.String()
}

func cliSection(b *strings.Builder, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n\n```\n%s\n```\n\n%s\n", c.CommandPath(), c.UseLine(), prose(text))
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", unindent(c.Example))
	}
	var rows []string
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", flagName(f), cell(f.Usage)))
		}
	})
	if len(rows) > 0 {
		b.WriteString("\n| Flag | Means |\n| --- | --- |\n" + strings.Join(rows, ""))
	}
}

// prose joins the lines of each paragraph, but leaves indented ones alone.
func prose(text string) string {
	var out []string
	for para := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(para, "\t") || strings.HasPrefix(para, "  ") {
			out = append(out, "```sh\n"+unindent(para)+"\n```")
			continue
		}
		out = append(out, strings.Join(strings.Fields(escapeMarkdown(para)), " "))
	}
	return strings.Join(out, "\n\n")
}

func escapeMarkdown(s string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}

func unindent(s string) string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], " \t")
	}
	return strings.Join(lines, "\n")
}

// cell makes a text fit into a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(escapeMarkdown(s), "|", `\|`), "\n", " ")
}

// configReference returns the reference page of all settings.
func configReference() string {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" + generated)
	b.WriteString(`A configuration has these layers, and a later one wins: defaults, the YAML file (` + "`--config` or `AGENTD_CONFIG`" + `), the environment, flags. ` +
		"`agentd config show` shows each value and where it comes from, `agentd config check FILE` checks a file.\n\n" +
		"The file is strict: an unknown key, a value of the wrong type and a key that is given twice are errors with line and column. Anchors, aliases and tags are rejected. An empty value counts as not given. Relative paths are relative to the working directory of the process.\n\n" +
		"Besides the settings there is `AGENTD_TOKEN`, the admin token; without it one is created at the first start and kept in `DATA/token`. `AGENTD_EARLIER_TOKEN` is the one before, while it is replaced on [nodes over one database](../operations.md#several-nodes).\n\n" +
		"*Reload* means that a running server applies a new value on SIGHUP; a change to any other setting is logged as needing a restart. *Later* means that the setting is checked, but that this release doesn't use it yet.\n\n" +
		"| Setting | Type | Default | Also | Means |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range config.Table() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Name, typeCell(s), code(s.Default), alsoCell(s), cell(meansCell(s)))
	}
	b.WriteString("\nSizes are bytes, or a number with `kB`, `MB`, `GB`, `KiB`, `MiB` or `GiB`. Durations are numbers with units, such as `500ms`, `30s`, `10m` or `720h`.\n")
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func typeCell(s config.Setting) string {
	if len(s.Values) == 0 {
		return string(s.Type)
	}
	quoted := make([]string, len(s.Values))
	for i, v := range s.Values {
		quoted[i] = code(v)
	}
	return string(s.Type) + ": " + strings.Join(quoted, " ")
}

func alsoCell(s config.Setting) string {
	var also []string
	if s.Env != "" {
		also = append(also, code(s.Env))
	}
	if s.Flag != "" {
		also = append(also, code("--"+s.Flag))
	}
	return strings.Join(also, " ")
}

func meansCell(s config.Setting) string {
	text := s.Means
	if s.Required {
		text += " Required."
	}
	if s.Reload {
		text += " Reload."
	}
	if s.Later {
		text += " Later."
	}
	return text
}
