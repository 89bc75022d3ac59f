package escapetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	pdb "github.com/cockroachdb/pebble/v2"

	"agentd/evidence/replaytest"
	"agentd/store"
)

var anyRef = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// collect asks for everything that can be asked for.
func (a *agentServer) collect(id string) {
	a.Helper()
	var threads []string
	session := a.command("get_session", map[string]any{"sessionId": id, "limit": 1000})
	raw, err := json.Marshal(session)
	a.must(err)
	for _, m := range regexp.MustCompile(`"threadId":"([^"]+)"`).FindAllStringSubmatch(string(raw), -1) {
		if !slices.Contains(threads, m[1]) {
			threads = append(threads, m[1])
		}
	}
	for _, thread := range threads {
		a.command("get_thread_read", map[string]any{"sessionId": id, "threadId": thread})
	}
	for _, name := range []string{"list_sessions", "list_actions", "list_processes", "list_tasks", "get_tool_inventory", "get_execution_environment", "get_policy"} {
		params := map[string]any{}
		if name != "list_sessions" {
			params["sessionId"] = id
		}
		a.command(name, params)
	}
	for kind, key := range map[string]string{"turnId": "turnId", "toolCallId": "toolCallId", "taskId": "taskId"} {
		for _, m := range regexp.MustCompile(`"`+key+`":"([a-z]+_[0-9a-z]+)"`).FindAllStringSubmatch(string(a.found["the stream"]), -1) {
			a.command("explain", map[string]any{"sessionId": id, kind: m[1]})
		}
	}
	a.sendRequest("the page of events", http.MethodGet, "/v1/sessions/"+id+"/events?after=0&limit=1000", nil)
	var refs []string
	for _, ref := range anyRef.FindAllString(string(a.found["the stream"]), -1) {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
			a.sendRequest("the outputs", http.MethodGet, "/v1/outputs/"+url.PathEscape(ref), nil)
		}
	}
	a.exports(id)
	a.sendRequest("the metrics", http.MethodGet, "/metrics", nil)
	a.asked.Lock()
	a.found["what the model was sent"] = bytes.Clone(a.asked.bodies.Bytes())
	a.asked.Unlock()
}

// exports takes out every pack that can be made of a session, with what it refers to.
func (a *agentServer) exports(id string) {
	a.Helper()
	var said bytes.Buffer
	for _, name := range []string{"export_evidence", "export_replay", "export_review"} {
		said.Write(a.sendRequest("the exports", http.MethodPost, "/v1/commands/"+name, map[string]any{"sessionId": id}))
	}
	for _, ref := range anyRef.FindAllString(said.String(), -1) {
		a.sendRequest("the exports", http.MethodGet, "/v1/outputs/"+url.PathEscape(ref), nil)
	}
}

// stop ends the server as an operator does.
func (a *agentServer) stop() {
	a.Helper()
	a.must(a.cmd.Process.Signal(syscall.SIGTERM))
	a.logged.Wait()
	a.must(a.cmd.Wait())
	a.found["the log"] = a.logs.Bytes()
}

// replay runs the sessions again that servers recorded which have ended.
func (a *agentServer) replay() {
	a.Helper()
	replaytest.Program(a.T, func(args ...string) *exec.Cmd {
		cmd := a.cli(args...)
		cmd.Args = slices.DeleteFunc(cmd.Args, func(arg string) bool { return arg == "--log-level" || arg == "debug" })
		return cmd
	})
}

// readFiles reads what the server wrote: the bytes of each file, and what is in the
// store once it is uncompressed. Nothing that it wrote is left out but the token of
// its own, which is a secret's proper place.
func (a *agentServer) readFiles() {
	a.Helper()
	a.must(filepath.WalkDir(a.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "token" {
			return err
		}
		b, err := os.ReadFile(path)
		a.found["the bytes of the data directory"] = append(a.found["the bytes of the data directory"], b...)
		return err
	}))
	db, err := pdb.Open(a.data+"/db", &pdb.Options{ReadOnly: true, FormatMajorVersion: pdb.FormatNewest, Logger: quiet{}})
	a.must(err)
	defer db.Close()
	it, err := db.NewIter(nil)
	a.must(err)
	var all bytes.Buffer
	for ok := it.First(); ok; ok = it.Next() {
		all.Write(it.Key())
		v, err := it.ValueAndErr()
		a.must(err)
		all.Write(v)
		if content, err := store.DecodeChunk(v); err == nil {
			all.Write(content)
		}
		all.WriteByte('\n')
	}
	a.must(it.Close())
	a.found["the store"] = all.Bytes()
}

// quiet is a logger of Pebble's that says nothing.
type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// controls shows that the search finds what is there: the words that came in with
// the secrets, and the marks that stand in their place.
func (a *agentServer) controls() {
	a.Helper()
	for _, place := range []string{"the stream", "the store"} {
		for _, word := range []string{
			"word-input", "word-longinput", "word-asked", "word-vendor", "word-file", "word-large", "word-hook", "word-context", "word-model", "word-thought",
			"word-joined", "word-slow", "word-base64", "word-command", "word-written", "word-edited", "word-path", "word-mcp", "word-argument", "word-unknown",
			"word-clean", "word-question", "word-answer", "word-reason", "word-end", "word-listed", "word-metadata",
		} {
			if place == "the stream" && slices.Contains([]string{"word-longinput", "word-context", "word-large"}, word) {
				continue // behind a reference
			}
			if !bytes.Contains(a.found[place], []byte(word)) {
				a.Errorf("%s is not in %s: nothing was shown about it", word, place)
			}
		}
	}
	for _, word := range []string{"word-title", "word-noted", "word-rule"} {
		if !bytes.Contains(a.found["the store"], []byte(word)) {
			a.Errorf("%s is not in the store: nothing was shown about it", word)
		}
	}
	for place, word := range map[string]string{
		"the exports": "word-input", "the bytes of the data directory": "word-input", "the outputs": "word-large", "results of commands": "word-input", "the log": "ready",
		"the page of events": "word-end", "what the model was sent": "word-asked", "the metrics": "agentd",
	} {
		if !bytes.Contains(a.found[place], []byte(word)) {
			a.Errorf("%s is not in %s (%d bytes): nothing was shown about it", word, place, len(a.found[place]))
		}
	}
	if n := bytes.Count(a.found["the stream"], []byte("[redacted:")); n < 20 {
		a.Errorf("only %d redactions", n)
	}
}

// moreControls shows the same for the doors, the command line, its files and the
// engine's files.
func (a *agentServer) moreControls() {
	a.Helper()
	for place, words := range map[string][]string{
		"A2A": {doorWord, "word-end"}, "AG-UI": {"word-model", "word-file", "word-end"}, "OpenAI": {"word-end"}, "MCP": {"word-end", "word-input"}, "ACP": {"word-end", "word-input"},
		"the command line":                    {"word-input", "word-file", "word-command", "word-trial", "word-metadata"},
		"the telemetry":                       {"word-input", "word-model", "word-trial", doorWord},
		"every version in the engine's files": {"word-input", "word-large", "word-question", "word-trial", "word-reward"},
		"the file session.jsonl":              {"word-input"}, "the file cloud.jsonl": {"word-input"}, "the file backup.tar": {"MANIFEST"},
		"the file evidence.zip": {"word-input"}, "the file replay.json": {"word-input"}, "the file sibling.json": {"replay_id"},
		"the file review.html": {"word-input"}, "the file review.json": {"word-input"}, "the file spans.pb": {"word-input"},
	} {
		parts := expand(a.found[place], 3)
		for _, word := range words {
			if !slices.ContainsFunc(parts, func(b []byte) bool { return bytes.Contains(b, []byte(word)) }) {
				a.Errorf("%s is not in %s (%d bytes): nothing was shown about it", word, place, len(a.found[place]))
			}
		}
	}
}
