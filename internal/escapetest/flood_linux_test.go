package escapetest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/model/provider/script"
	"agentd/sandbox"
)

// TestAttemptsSucceedWithoutASandbox runs attempts that harm nothing but their
// world where nothing is forbidden: an attempt that fails anyway proves nothing.
func TestAttemptsSucceedWithoutASandbox(t *testing.T) {
	harmless := map[string]bool{}
	for _, list := range [][]attempt{writesOutside(), readsOfTheStore(), privateReads(), networks(), cleverWrites()} {
		for _, a := range list {
			harmless[a.name] = a.escaped != nil
		}
	}
	for _, name := range []string{"kill a stranger", "a stranger's environment", "slow a stranger down", "see the machine's /tmp", "list the store", "watch the store", "limits of a stranger", "processors of a stranger", "memory that others share"} {
		harmless[name] = true
	}
	for name, why := range map[string]string{
		"/proc/1/root":                  "not everybody may look into the first process",
		"through an own link":           "covered by the link that is there already",
		"token by /proc/1/root":         "as /proc/1/root",
		"token by uncovering":           "nothing covers it",
		"token by descriptors":          "the descriptors are not the command's",
		"token by moving the workspace": "the move fails while the store is open in it",
		"remove the store":              "the store is in use",
		"token by moving the folder":    "the store is in use",
		"remove the folder":             "the sockets in it are needed",
		"the runtime's files":           "some of them never end",
		"facts":                         "what is compressed can't be read as text",
		"TCP by the shell":              "needs bash",
		"rename race by a program":      "chance decides",
		"MPTCP":                         "not every kernel has it",
		"hard link":                     "what bounds the agent is covered even there, and no link crosses mounts",
		"private key by a hard link":    "as hard link",
		"the runtime's environment":     "the cover takes the privilege to look into other processes",
		"a stranger's environment":      "as the runtime's environment",
	} {
		if !harmless[name] {
			t.Errorf("%s is not in the table", name)
		}
		t.Logf("not tried: %s: %s", name, why)
		delete(harmless, name)
	}
	w := newWorld(t, sandbox.DangerFullAccess)
	w.profile.Hidden = nil // otherwise they are covered even there
	var mine []attempt
	for _, a := range attempts() {
		if harmless[a.name] && a.tool == "" {
			mine = append(mine, a)
		}
	}
	w.open("bypass", w.answers(mine), func(o *agentd.Options) { o.Loop.ParseRules = nil }) // nothing is protected then
	for i, a := range mine {
		if a.name == "kill a stranger" {
			continue // last, because the others need the stranger
		}
		w.succeed(t, i, a)
	}
	for i, a := range mine {
		if a.name == "kill a stranger" {
			w.succeed(t, i, a)
		}
	}
}

// succeed has the agent make an attempt that must get through.
func (w *world) succeed(t *testing.T, i int, a attempt) {
	t.Helper()
	w.must(os.MkdirAll(w.outside, 0o755))
	w.must(os.MkdirAll(w.hidden, 0o755))
	w.must(os.MkdirAll(w.private, 0o755))
	for _, leftover := range []string{w.workspace + "/new", w.outside + "/new"} {
		w.must(os.RemoveAll(leftover))
	}
	w.restore()
	tries := 1
	if a.name == "rename race" {
		tries = 50 // chance decides, and under load the eight rounds of one may all be lost
	}
	var c *call
	for try := range tries {
		id := fmt.Sprintf("sess_%s_%d", strings.Trim(strings.ReplaceAll(mark(i), " ", "_"), "[]"), try)
		w.ask(id, mark(i)+" "+a.name)
		if c = w.facts(id); w.escaped(a, c) {
			return
		}
	}
	t.Errorf("%s can't succeed even without a sandbox: %s", a.name, c.how())
}

// TestOutputFlood has a command print more than anybody wants to keep.
func TestOutputFlood(t *testing.T) { outputFlood(t, "100M") }

// TestLongOutputFlood prints ten times as much.
func TestLongOutputFlood(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: a gigabyte of output is not printed")
	}
	outputFlood(t, "1G")
}

func outputFlood(t *testing.T, size string) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	shell := func(line string) script.Tool {
		return script.Tool{Name: "shell", Arguments: map[string]any{"command": line, "timeoutMs": 600000}}
	}
	w.open("bypass", append(
		wants("text", shell("yes 'a line of a flood' | head -c "+size+"; echo the end")),
		wants("bytes", shell("head -c "+size+" /dev/urandom; echo the end"))...,
	), nil)
	for _, kind := range []string{"text", "bytes"} {
		before := sizeOf(t, w.hidden)
		runtime.GC()
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		began := time.Now()
		w.ask("sess_"+kind, "flood of "+kind)
		runtime.GC()
		runtime.ReadMemStats(&m1)
		c := w.facts("sess_" + kind)
		grown, held := sizeOf(t, w.hidden)-before, int64(m1.HeapAlloc)-int64(m0.HeapAlloc)
		t.Logf("%s: the store grew by %d bytes, memory by %d, %d facts", kind, grown, held, len(c.order))
		if c.result == nil || !c.result.Truncated || c.result.SizeBytes < 100<<20 || c.result.OutputRef == "" {
			t.Fatalf("%s: %s", kind, c.finalText())
		}
		if !strings.Contains(w.output(c.result.OutputRef), "the end") {
			t.Errorf("%s: the end of the output is not there", kind)
		}
		// Eight megabytes are shown at once and one in each second that the flood lasts, on a
		// disk that keeps them in a log and a table; in memory are the store's two buffers.
		seconds := int64(time.Since(began).Seconds()) + 1
		if grown > (48+2*seconds)<<20 || held > 160<<20 || int64(len(c.order)) > 200+20*seconds {
			t.Errorf("%s: a flood of %d s got through", kind, seconds)
		}
	}
}

// sizeOf is the size of all files below a folder.
func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that went away meanwhile has no size
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestNothingOutlivesTheRuntime: a process in the background may outlive its call,
// with its children, but not the runtime.
func TestNothingOutlivesTheRuntime(t *testing.T) {
	w := newWorld(t, sandbox.WorkspaceWrite)
	line := "setsid sh -c 'trap \"\" TERM HUP; echo ready; sleep 71009 & sleep 71009' & echo begun; wait"
	w.open("bypass", wants("stay", script.Tool{Name: "shell", Arguments: map[string]any{"command": line, "background": true}}), nil)
	w.ask("sess_a", "stay")
	c := w.facts("sess_a")
	if c.result == nil || c.result.Status != "background" || c.processes != 1 {
		t.Fatalf("%v: %s", c.order, c.finalText())
	}
	w.follow("sess_a", "ready")
	res, err := w.r.Do(context.Background(), command.Local(), &command.ListProcesses{SessionID: "sess_a"})
	w.must(err)
	if got := res.(*command.ListProcessesResult); len(got.Processes) != 1 {
		t.Errorf("%+v", got)
	}
	for !running("71009") { // it is ready before it sleeps
		time.Sleep(5 * time.Millisecond)
	}
	w.must(w.r.Close(context.Background()))
	if running("71009") {
		t.Error("it outlived the runtime")
	}
	if c := w.stored("sess_a"); c.ended != 1 {
		t.Errorf("its end is no fact: %v", c.order)
	}
}
