package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// isJSON reports whether a text is JSON values and nothing else.
func isJSON(text string) bool {
	values := json.NewDecoder(strings.NewReader(text))
	for {
		var one json.RawMessage
		if err := values.Decode(&one); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// asJSON runs a line with --json and fails unless a program can read what it says: standard
// output has JSON alone, and what failed without an answer is one object on standard error.
func (w *idWorld) asJSON(line []string) (out string, code int) {
	w.Helper()
	out, errs, code := w.run(append(line, "--json")...)
	var said failure
	switch {
	case !isJSON(out):
		w.Errorf("agentd %s --json writes more than JSON:\n%s", strings.Join(line, " "), out)
	case code == 0 || out != "": // the answer says what failed
	case json.Unmarshal([]byte(errs), &said) != nil || said.ExitCode != code || said.Error == "" || said.Code == "":
		w.Errorf("agentd %s --json: exit code %d, standard error is not one object:\n%s", strings.Join(line, " "), code, errs)
	}
	return out, code
}

// namedThing is how an error says that something isn't there.
var namedThing = regexp.MustCompile(`there is no .*nowhere_to_be_found`)

// unknownIDs gives every command an id that nothing has wherever it takes one. It fails with
// the same exit code in both forms, in words of the command line; what isn't there is named,
// with how to find what is.
func (w *idWorld) unknownIDs() {
	named := 0
	for _, c := range commandTree(tree()) {
		for _, u := range idUses(c, idKinds()) {
			line := slices.Concat(strings.Fields(c.CommandPath())[1:], w.lineWith(c, &u, "nowhere_to_be_found"))
			out, errs, code := w.run(line...)
			if inward.MatchString(errs) || code != 0 && !isBulk(c) && (out != "" || !strings.HasPrefix(errs, "agentd: ")) {
				w.Errorf("agentd %s: exit code %d, %s%s", strings.Join(line, " "), code, out, errs)
			}
			if namedThing.MatchString(errs) {
				named++
				if !strings.Contains(errs, `" lists them`) {
					w.Errorf("agentd %s doesn't say where to look: %s", strings.Join(line, " "), errs)
				}
			}
			if c.Name() == "chat" {
				continue // it has no JSON form
			}
			if _, other := w.asJSON(line); other != code {
				w.Errorf("agentd %s ends with %d, with --json with %d", strings.Join(line, " "), code, other)
			}
		}
	}
	if named < 30 {
		w.Errorf("only %d errors named what isn't there", named)
	}
}

// isBulk reports whether a command does its work for each of several things, and its answer
// is what became of each.
func isBulk(c *cobra.Command) bool {
	return slices.Contains([]string{"agentd interrupt", "agentd sessions archive"}, c.CommandPath())
}

// missingThing finds how errors say that something isn't there.
var missingThing = regexp.MustCompile(`fault\.NotFound, "there is no ([a-z ]+?)(?: of turn)? %`)

// turnAdvice finds what is advised about a turn in the words of its parameters.
var turnAdvice = regexp.MustCompile(`Advice.* = "[^"]*\boptions\.[a-zA-Z]+`)

// unlisted are the kinds of things that no command lists, and why.
var unlisted = map[string]string{
	"command":      "a name that is near is suggested, and the reference has all",
	"node":         "the error says which there are",
	"output":       "references stand in facts",
	"replay":       "their ids are known from what started them, and they are gone with the server",
	"response":     "of the OpenAI endpoint alone",
	"schema":       "the error says which there are",
	"subscription": "of a connection alone",
	"tool":         "of one turn alone",
}

// TestMissingThingsAreListed: whatever the runtime says isn't there, there is a command that
// lists what is. What it advises about turns is said in words for everyone.
func TestMissingThingsAreListed(t *testing.T) {
	kinds := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range missingThing.FindAllSubmatch(source, -1) {
			kinds[string(found[1])] = true
		}
		if advice := turnAdvice.Find(source); advice != nil {
			t.Errorf("%s: %s: who gave a flag, or nothing, doesn't know the parameter", path, advice)
		}
		return err
	})
	if err != nil || len(kinds) < 20 {
		t.Fatalf("%v, only %d kinds of things were found", err, len(kinds))
	}
	for kind := range kinds {
		if (listedBy[kind] == "") == (unlisted[kind] == "") {
			t.Errorf("there is no %s: how does a person find those that there are? See listedBy", kind)
		}
	}
	for _, line := range listedBy {
		isCommandLine(t, "agentd "+strings.TrimRight(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ "))
	}
}

// TestFilesAreNamed: an error about a file says which one, what is wrong with it and how to go
// on, and nothing of the call that failed.
func TestFilesAreNamed(t *testing.T) {
	failed := func(call, path string, err error) error { return &fs.PathError{Op: call, Path: path, Err: err} }
	for want, err := range map[string]error{
		"x: no such file or directory":        failed("stat", "x", syscall.ENOENT),
		"x: is a directory":                   fmt.Errorf("x: %w", failed("read", "x", syscall.EISDIR)),
		"at x: permission denied":             fmt.Errorf("at x: %w", failed("open", "x", syscall.EACCES)),
		"x: file exists; nothing is overwri":  failed("open", "x", syscall.EEXIST),
		"/no: permission denied; name anoth":  fmt.Errorf("data directory: %w", failed("mkdir", "/no", syscall.EACCES)),
		"/ro: read-only file system; name a":  fmt.Errorf("data directory: %w", failed("mkdir", "/ro", syscall.EROFS)),
		"x: file already closed\ny: is a dir": errors.Join(failed("write", "x", fs.ErrClosed), failed("open", "y", syscall.EISDIR)),
		"is full, and standard output can't":  failed("write", os.Stdout.Name(), syscall.ENOSPC),
		"answer: standard output: broken pi":  fmt.Errorf("write the answer: %w", failed("write", os.Stdout.Name(), syscall.EPIPE)),
		"nothing was written: /d; make space": failed("write", "/d/f", syscall.ENOSPC),
	} {
		if got := errorText(err); !strings.Contains(got, want) || regexp.MustCompile(`\b(stat|read|open|mkdir|write) (x|y|/)`).MatchString(got) {
			t.Errorf("%v\n got %q\nwant %q", err, got, want)
		}
	}
}

// notAnswered are the commands that TestEveryAnswerIsJSON leaves out.
var notAnswered = map[string]string{
	"agentd chat":    "needs a terminal",
	"agentd serve":   "goes on until it is stopped",
	"agentd console": "opens a browser",
	"agentd daemon":  "is about the user's own server; the script daemon.txtar has one",
	"agentd restore": "TestMistakesAreNamed and the script backup.txtar have it",
}

// TestEveryAnswerIsJSON gives every command what it needs, and --json: whether it succeeds or
// fails, standard output has JSON and nothing else.
func TestEveryAnswerIsJSON(t *testing.T) {
	t.Parallel()
	w := newIDWorld(t)
	answered := 0
	for _, c := range commandTree(tree()) {
		path := strings.Fields(c.CommandPath())
		if notAnswered[strings.Join(path[:min(2, len(path))], " ")] != "" || len(path) == 1 {
			continue
		}
		line := path[1:]
		for _, name := range requiredArguments(c) {
			switch {
			case w.whole[idArguments[name]] != "":
				line = append(line, w.whole[idArguments[name]])
			case name == "FILE" || strings.Contains(name, "DIR") || name == "DATASET":
				line = append(line, filepath.Join(w.dir, strings.Join(path, "_")))
			default:
				line = append(line, "x")
			}
		}
		if out, code := w.asJSON(line); code == 0 && out != "" {
			answered++
		}
	}
	if answered < 40 {
		t.Errorf("only %d commands answered", answered)
	}
}
