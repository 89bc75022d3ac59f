package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"agentd/cmd/agentd/internal/config"
	"agentd/loop"
	"agentd/permission"
)

// boundPaths are the files that bound agents on this machine: the configuration in
// use and those of projects, this program, and the programs of hooks and MCP servers with the scripts that
// they name. Those run in a workspace, so their words are looked for there too. What
// the configuration adds may be relative to each workspace.
func boundPaths(c *config.Config) loop.BoundSet {
	var out loop.BoundSet
	keep := func(path string) {
		abs, err := filepath.Abs(path)
		if err != nil || path == "" {
			return
		}
		out.Paths = append(out.Paths, abs)
		// A name that is a link, and what it leads to.
		if resolved, err := filepath.EvalSymlinks(abs); err == nil && resolved != abs {
			out.Paths = append(out.Paths, resolved)
		}
	}
	keep(c.File)
	out.Paths = append(out.Paths, config.ProjectFileName) // of each workspace
	for _, p := range c.Providers {
		keep(p.Script)
	}
	if self, err := os.Executable(); err == nil {
		keep(self)
	}
	var commands [][]string
	for _, h := range c.Hooks {
		commands = append(commands, h.Command)
	}
	for _, m := range c.MCP {
		commands = append(commands, m.Command)
	}
	for _, command := range commands {
		if len(command) == 0 {
			continue
		}
		words := commandWords(command)
		for _, word := range words {
			if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
				keep(word)
			}
		}
		if !strings.ContainsRune(command[0], filepath.Separator) {
			if found, err := exec.LookPath(command[0]); err == nil {
				keep(found)
			}
		}
		out.Commands = append(out.Commands, words)
	}
	for _, path := range fromHome(c.Sandbox.Protected) {
		out.Paths = append(out.Paths, filepath.Clean(path))
	}
	slices.Sort(out.Paths)
	out.Paths = slices.Compact(out.Paths)
	return out
}

// commandWords are the words of a command that may be names of files, in order and each
// once: its arguments, what stands behind = or a short option in them, and the words of
// those that are shell lines. A program that is found by its name is none.
func commandWords(command []string) []string {
	var out []string
	keep := func(word string) {
		unnatural := strings.ContainsFunc(word, func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Co, r) || strings.ContainsRune(";|&<>()`$\"'", r)
		})
		if word == "" || unnatural || strings.HasPrefix(word, "-") || len(word) > maxWordLen || slices.Contains(out, word) {
			return
		}
		out = append(out, word)
	}
	for i, arg := range command {
		if i == 0 && !strings.ContainsRune(arg, filepath.Separator) {
			continue
		}
		for _, word := range append([]string{arg}, lineWords(arg)...) {
			keep(word)
			if _, value, found := strings.Cut(word, "="); found {
				keep(value)
			}
			if len(word) > 2 && word[0] == '-' && word[1] != '-' {
				keep(word[2:])
			}
			// $PWD/x, ${ROOT}/x: variables of a hook lead to the workspace, if anywhere.
			if _, rest, found := strings.Cut(word, "/"); found && strings.HasPrefix(word, "$") {
				keep(rest)
			}
		}
	}
	return out
}

// maxWordLen is the longest name of a file: a longer word is a line, or text.
const maxWordLen = 255

// lineWords takes an argument that may be a shell line apart: as the shell would, and
// at every character that ends a word, whatever it is quoted by.
func lineWords(arg string) []string {
	if !strings.ContainsAny(arg, " \t\n;|&<>()\"'`$") {
		return nil
	}
	var out []string
	for _, c := range permission.Analyse(arg).Commands {
		for i, word := range c.Words {
			if i > 0 || strings.ContainsRune(word, filepath.Separator) {
				out = append(out, word)
			}
		}
	}
	for _, word := range strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\r\n;|&<>()\"'`", r) }) {
		if strings.ContainsAny(word, "/.") {
			out = append(out, word)
		}
	}
	return out
}
