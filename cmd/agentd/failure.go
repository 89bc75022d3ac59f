package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"agentd/cmd/agentd/internal/config"
	"agentd/fault"
	"agentd/redact"
	"agentd/store"
)

// failure is an error as --json writes it, on standard error: standard output is
// for answers.
type failure struct {
	Error    string `json:"error"`
	Code     string `json:"code"`
	ExitCode int    `json:"exitCode"`
}

// Codes of failures that have no kind: those of this program alone.
const (
	codeUsage   = "usage"
	codeConfig  = "config"
	codeBlocked = "blocked"
	codeFailed  = "failed"
)

// exit reports an error, once and here alone, and returns the exit code.
func (a *app) exit(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if f, ok := errors.AsType[*fault.Error](err); ok && (f.Param == "cursor" || f.Param == "types") {
		code = exitUsage // only the server can tell, but it is the command line that is wrong
	}
	if e, ok := errors.AsType[*exitError](err); ok && !errors.Is(err, errInterrupted) {
		code = e.code
		if e.err == nil {
			return code
		}
		// A server that can't be started for a mistake of the user's can't be reached either;
		// what they have to know is the mistake.
		if f, ok := errors.AsType[*fault.Error](err); ok && code == exitUsage && errors.Is(f.Err, e) {
			err = e
		}
	}
	// An error quotes what was typed or read, which may be a key in the wrong place.
	said, _ := redact.New(redact.Options{}).Text(suggestValue(a.nameKey(inShellWords(cmd, nameFlag(cmd, err, errorText(err))))))
	if cmd != nil { // an error that names the command it comes from says nothing new
		said = strings.TrimPrefix(said, cmd.Name()+": ")
	}
	if a.jsonErrors {
		// Where standard error can't be written there is no one to tell.
		_ = writeJSON(a.err, failure{Error: said, Code: failureCode(err, code), ExitCode: code})
		return code
	}
	a.sayf("agentd: %s", said)
	if code == exitUsage && cmd != nil && !isConfigError(err) {
		a.sayf("Run '%s --help' for usage.", cmd.CommandPath())
	}
	return code
}

// failureCode returns the kind of an error, or what the exit code says of it.
func failureCode(err error, exit int) string {
	if isConfigError(err) {
		return codeConfig
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return string(f.Kind)
	}
	switch exit {
	case exitUsage:
		return codeUsage
	case exitBlocked:
		return codeBlocked
	}
	return codeFailed
}

func isConfigError(err error) bool {
	_, is := errors.AsType[*config.Error](err)
	return is
}

// describe returns an error as a person at a shell should read it, with what to do next.
func describe(err error) string { return nameCommandLines(errorText(err)) }

// errorText returns an error with what to do next, in the words of the part that made it.
func errorText(err error) string {
	text := err.Error()
	if isFull(err) {
		return fullText(err) + "; " + advice(err)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		text = f.Detail
	} else if rest, ok := strings.CutPrefix(text, "config: "); ok {
		_, rest, _ = strings.Cut(rest, " ") // the call that failed
		text = "the configuration file can't be read: " + rest + "; --config or AGENTD_CONFIG names it"
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		if f.Err != nil {
			text += ": " + cause(f.Err)
		}
	}
	text = namePaths(err, text)
	if next := advice(err); next != "" {
		text += "; " + next
	}
	return text
}

// namePaths has a text name what can't be used of the files by the path alone, once: the call
// that failed, such as "open" or "stat", is the program's own matter.
func namePaths(err error, text string) string {
	switch e := err.(type) { //nolint:errorlint // it goes over the whole tree itself
	case *fs.PathError:
		said := e.Path + ": " + e.Err.Error()
		if e.Path == os.Stdout.Name() {
			said = "standard output: " + e.Err.Error()
		}
		return strings.ReplaceAll(strings.ReplaceAll(text, e.Error(), said), e.Path+": "+said, said)
	case interface{ Unwrap() error }:
		return namePaths(e.Unwrap(), text)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			text = namePaths(part, text)
		}
	}
	return text
}

// isFull reports whether something failed because the disk is full.
func isFull(err error) bool {
	return errors.Is(err, store.ErrNoSpace) || errors.Is(err, syscall.ENOSPC)
}

// fullText says which disk is full.
func fullText(err error) string {
	const text = "the disk is full, and nothing was written"
	place, named := errors.AsType[*fs.PathError](err)
	if named && place.Path == os.Stdout.Name() { // what was done is done: only the answer is lost
		return "the disk is full, and standard output can't be written"
	}
	if _, rest, ok := strings.Cut(err.Error(), store.ErrNoSpace.Error()+": "); ok {
		return text + ": " + rest
	}
	if named {
		return text + ": " + filepath.Dir(place.Path)
	}
	return text
}

// nameFlag has the text of an error name the flag or the argument that the user typed,
// in place of the parameter that it became. "agentd call" is given parameters.
func nameFlag(cmd *cobra.Command, err error, text string) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Param == "" || cmd == nil || cmd.Name() == "call" {
		return text
	}
	if len(f.Fields) > 0 {
		return nameFields(cmd, f, text)
	}
	name := typedName(cmd, f.Param)
	if name == "" {
		return text
	}
	rest, ok := strings.CutPrefix(text, f.Param+": ")
	if !ok {
		return text
	}
	if strings.HasPrefix(rest, "is ") { // a verb, which continues the name
		return name + " " + rest
	}
	return name + ": " + rest
}

// nameFields does so for a document that breaks its schema: the flag is that of the
// document, whatever its fields are called.
func nameFields(cmd *cobra.Command, f *fault.Error, text string) string {
	document := f.Param
	if i := strings.IndexAny(document, ".["); i >= 0 {
		document = document[:i]
	}
	name := typedName(cmd, document)
	if document == "payload" {
		name = typedName(cmd, "input")
	}
	if name == "" || text != f.Detail {
		return text
	}
	said := make([]string, 0, len(f.Fields))
	for _, field := range f.Fields {
		at := strings.TrimPrefix(strings.TrimPrefix(field.Param, document), ".")
		said = append(said, strings.TrimPrefix(at+": "+field.Detail, ": "))
	}
	return name + ": " + strings.Join(said, "; ")
}

// unknownModel is how the runtime refuses a model.
var unknownModel = regexp.MustCompile(`"([^"]*)" is not a configured model`)

// vendorOf are the beginnings of models' names by which their vendors are known.
var vendorOf = map[string]string{"claude": "anthropic", "gpt": "openai", "gemini": "gemini"}

// nameKey adds to the refusal of a vendor's model which key is missing.
func (a *app) nameKey(text string) string {
	m := unknownModel.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	vendor, _, named := strings.Cut(m[1], "/")
	if !named {
		family, _, _ := strings.Cut(m[1], "-")
		vendor = vendorOf[family]
	}
	for _, u := range usual {
		if u.id == vendor && a.env[u.env] == "" {
			return text + "; to use " + u.id + ", set " + u.env + " where turns run, or configure the provider"
		}
	}
	return text
}

// flagNames are the flags whose names differ from those of their parameters.
var flagNames = map[string]string{
	"permissionMode": "mode", "groupBy": "by", "parentThreadId": "thread", "parentTaskId": "parent", "dependsOn": "after",
	"expiresInMs": "expires", "maxAttempts": "attempts", "maxFailures": "failures-allowed",
}

// typedName returns the flag of a command that sets a parameter, or the argument that
// does; empty if neither is known.
func typedName(cmd *cobra.Command, param string) string {
	param = param[strings.LastIndex(param, ".")+1:]
	param, _, _ = strings.Cut(param, "[") // of a list, whichever element
	short := strings.TrimSuffix(strings.TrimSuffix(param, "Id"), "Ms")
	for _, name := range []string{param, short, strings.TrimSuffix(param, "s"), flagNames[param]} {
		var kebab strings.Builder
		for _, r := range name {
			if unicode.IsUpper(r) {
				kebab.WriteByte('-')
			}
			kebab.WriteRune(unicode.ToLower(r))
		}
		if name != "" && cmd.Flags().Lookup(kebab.String()) != nil {
			return "--" + kebab.String()
		}
	}
	for _, arg := range strings.Fields(cmd.Use)[1:] {
		if arg = strings.Trim(arg, "[]."); strings.EqualFold(arg, short) || arg == "PROMPT" && param == "input" {
			return arg
		}
	}
	return ""
}

// cause returns the text of what lies behind a fault. Of a request that failed it
// leaves out the address of the command: the caller named the server, not that.
func cause(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return err.Error()
}

// advice returns what can be done about an error that doesn't say it itself.
func advice(err error) string {
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return `keep a copy of the data as it is, and restore a backup with "agentd restore"`
	case isFull(err):
		return "make space on that disk"
	case strings.Contains(err.Error(), "data directory: ") && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		return "name another one with --data or AGENTD_DATA, or let this user write to it"
	case errors.Is(err, fs.ErrExist):
		return "nothing is overwritten: move it away, or name another file"
	case errors.Is(err, store.ErrFull):
		return "raise its max_connections, or lower node.connections at the nodes"
	case errors.Is(err, syscall.ECONNREFUSED) && strings.Contains(err.Error(), "postgres: "):
		return "start the database, or name another one with --data"
	case errors.Is(err, syscall.ECONNREFUSED):
		return `"agentd serve" starts a server, --server names another one`
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return whereListed(err.Error())
	}
	switch f.Kind { //nolint:exhaustive // the others say what to do in their detail
	case fault.Unauthenticated:
		return "set AGENTD_TOKEN to a token of that server"
	case fault.NotFound:
		return whereListed(f.Detail)
	}
	return ""
}

// listedBy are the commands that list the things of a kind, by the words in which an error
// calls it. Of nodes and models the error itself says which there are.
var listedBy = map[string]string{
	"action":        "actions --all",
	"artifact":      "call list_artifacts",
	"channel":       "channels",
	"export":        "call list_exports",
	"finished turn": "turns",
	"item":          "job show JOB",
	"job":           "jobs",
	"open thread":   "call get_session",
	"process":       "call list_processes",
	"project rule":  "policy rules",
	"queued turn":   "turns",
	"schedule":      "schedules",
	"session":       "sessions",
	"subagent":      "subagents SESSION",
	"task":          "tasks",
	"token":         "tokens list",
	"tool call":     "events SESSION",
	"trial":         "call list_trials",
	"turn":          "turns",
}

// whereListed returns how the ids of what isn't there are found.
func whereListed(detail string) string {
	rest, ok := strings.CutPrefix(detail, "there is no ")
	if !ok || strings.Contains(rest, "; ") { // it says itself how to go on
		return ""
	}
	words := strings.Fields(rest)
	for n := min(2, len(words)); n > 0; n-- {
		if list := listedBy[strings.Join(words[:n], " ")]; list != "" {
			return `"agentd ` + list + `" lists them`
		}
	}
	return ""
}
