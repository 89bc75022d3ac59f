package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// a2aCLIPackage is the command line client of the protocol's own Go SDK. The module
// in a2acli pins it and all that it is made of.
const a2aCLIPackage = "github.com/a2aproject/a2a-go/v2/cmd/a2a"

// a2aCLI is that client, and the server that it talks to.
type a2aCLI struct {
	t       *testing.T
	program string
	// address is the server's, or that of one binding with flags that say which.
	address string
	flags   []string
}

// buildA2ACLI compiles the client; the go command keeps what was compiled before.
func buildA2ACLI(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "a2a")
	out, err := exec.CommandContext(t.Context(), "go", "-C", "a2acli", "build", "-o", program, a2aCLIPackage).CombinedOutput()
	if err != nil {
		t.Fatalf("go build %s: %v\n%s", a2aCLIPackage, err, out)
	}
	return program
}

// command is one call. The words come before the address, the rest after it.
func (c *a2aCLI) command(ctx context.Context, words string, rest ...string) *exec.Cmd {
	args := append(strings.Fields(words), c.address)
	args = append(append(args, c.flags...), rest...)
	return exec.CommandContext(ctx, c.program, args...)
}

// run is one call that has to succeed; its output is read into the given value.
func (c *a2aCLI) run(into any, words string, rest ...string) {
	c.t.Helper()
	out, err := c.command(c.t.Context(), words, append(rest, "-o", "json")...).Output()
	if err != nil {
		c.t.Fatalf("a2a %s %v: %v\n%s%s", words, rest, err, out, stderrOf(err))
	}
	if err := json.Unmarshal(out, into); err != nil {
		c.t.Fatalf("a2a %s %v: %v\n%s", words, rest, err, out)
	}
}

// refused is one call that has to fail, and to say why.
func (c *a2aCLI) refused(why, words string, rest ...string) {
	c.t.Helper()
	_, err := c.command(c.t.Context(), words, rest...).Output()
	if err == nil || !strings.Contains(stderrOf(err), why) {
		c.t.Errorf("a2a %s %v: %v: %s, want %q", words, rest, err, stderrOf(err), why)
	}
}

func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}

// cliTask is a task as the client prints it.
type cliTask struct {
	ID        string `json:"id"`
	ContextID string `json:"contextId"`
	Status    struct{ State string }
	Artifacts []struct{ Parts []struct{ Text string } }
	History   []struct{ Role string }
}

// cliUpdate is an event of a stream as the client prints it.
type cliUpdate struct {
	Task           *cliTask
	StatusUpdate   *struct{ Status struct{ State string } }
	ArtifactUpdate *struct {
		Append, LastChunk bool
		Artifact          struct{ Parts []struct{ Text string } }
	}
}

// updates reads a stream to its end.
func (c *a2aCLI) updates(from io.Reader, each func(*cliUpdate)) {
	c.t.Helper()
	for d := json.NewDecoder(from); ; {
		var u cliUpdate
		err := d.Decode(&u)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.t.Errorf("a stream: %v", err)
			return
		}
		each(&u)
	}
}

// TestA2ACommandLine drives a real server with the a2a command of the protocol's Go
// SDK: by the card, which names both bindings, and by each of them.
func TestA2ACommandLine(t *testing.T) {
	program := buildA2ACLI(t)
	n := serve(t, a2aFolder(t, "", a2aScript), nil)
	token := []string{"--auth", "Bearer " + n.token}
	for name, c := range map[string]*a2aCLI{
		"card":      {address: n.url, flags: token},
		"JSONRPC":   {address: n.url + "/a2a/rpc", flags: append([]string{"--transport", "jsonrpc"}, token...)},
		"HTTP+JSON": {address: n.url + "/a2a/rest", flags: append([]string{"--transport", "rest"}, token...)},
	} {
		t.Run(name, func(t *testing.T) {
			c.t, c.program = t, program
			c.sends()
			c.streams()
			c.asks()
			c.cancels()
			c.lists()
			stranger := *c
			stranger.flags = slices.DeleteFunc(slices.Clone(c.flags), func(s string) bool { return s == "--auth" || s == token[1] })
			stranger.refused("Error", "send", "hello") // its HTTP+JSON client hides the status
		})
	}
	t.Run("cards", func(t *testing.T) {
		(&a2aCLI{t: t, program: program, address: n.url}).discovers(token)
	})
}

// discovers reads the public card without a token, and the extended one with it.
func (c *a2aCLI) discovers(token []string) {
	c.t.Helper()
	type card struct {
		Name                string
		SupportedInterfaces []struct{ ProtocolBinding, URL string }
		Skills              []struct{ ID string }
	}
	var public, extended card
	c.run(&public, "discover")
	var bindings []string
	for _, i := range public.SupportedInterfaces {
		bindings = append(bindings, i.ProtocolBinding)
	}
	if public.Name != "agentd" || !slices.Equal(bindings, []string{"JSONRPC", "HTTP+JSON"}) {
		c.t.Errorf("the card: %+v", public)
	}
	c.run(&extended, "discover", append([]string{"--extended"}, token...)...)
	if extended.Name != public.Name || len(extended.Skills) < len(public.Skills) {
		c.t.Errorf("the extended card: %+v", extended)
	}
	c.refused("401", "discover", "--extended")
}

// sends has a message answered, and reads the task once more by its id.
func (c *a2aCLI) sends() {
	c.t.Helper()
	var sent, got cliTask
	c.run(&sent, "send", "hello")
	if sent.Status.State != "TASK_STATE_COMPLETED" || len(sent.Artifacts) != 1 || sent.Artifacts[0].Parts[0].Text != "Hello, peer." {
		c.t.Errorf("sent: %+v", sent)
	}
	c.run(&got, "get task", sent.ID, "--history", "5")
	if got.ID != sent.ID || got.ContextID != sent.ContextID || got.Status != sent.Status || len(got.Artifacts) != 1 || len(got.History) != 1 {
		c.t.Errorf("read again: %+v", got)
	}
	// The context goes on, with another task.
	var next cliTask
	c.run(&next, "send", "--context", sent.ContextID, "hello")
	if next.ContextID != sent.ContextID || next.ID == sent.ID {
		c.t.Errorf("in the same context: %+v after %+v", next, sent)
	}
	c.refused("no task", "get task", "nosuch")
}

// streams follows an answer that comes in pieces.
func (c *a2aCLI) streams() {
	c.t.Helper()
	out, err := c.command(c.t.Context(), "send", "--stream", "-o", "json", "in pieces").Output()
	if err != nil {
		c.t.Fatalf("a2a send --stream: %v: %s", err, stderrOf(err))
	}
	var states []string
	text, pieces, last := "", 0, false
	c.updates(bytes.NewReader(out), func(u *cliUpdate) {
		switch {
		case u.Task != nil:
			states = append(states, u.Task.Status.State)
		case u.StatusUpdate != nil:
			states = append(states, u.StatusUpdate.Status.State)
		case u.ArtifactUpdate != nil:
			if u.ArtifactUpdate.Append != (pieces > 0) || last {
				c.t.Errorf("piece %d: %+v", pieces, u.ArtifactUpdate)
			}
			pieces++
			text, last = text+u.ArtifactUpdate.Artifact.Parts[0].Text, u.ArtifactUpdate.LastChunk
		}
	})
	if want := []string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"}; !slices.Equal(states, want) {
		c.t.Errorf("the states were %v", states)
	}
	if text != "one two three four five six" || pieces < 2 || !last {
		c.t.Errorf("%d pieces: %q, the last one said so: %v", pieces, text, last)
	}
}

// asks has the agent ask back, and answers.
func (c *a2aCLI) asks() {
	c.t.Helper()
	var asked, answered cliTask
	c.run(&asked, "send", "which colour")
	if asked.Status.State != "TASK_STATE_INPUT_REQUIRED" {
		c.t.Fatalf("asked: %+v", asked)
	}
	c.run(&answered, "send", "--task", asked.ID, "blue")
	if answered.ID != asked.ID || answered.Status.State != "TASK_STATE_COMPLETED" {
		c.t.Errorf("answered: %+v", answered)
	}
	c.refused("accepts no more messages", "send", "--task", asked.ID, "green")
}

// cancels stops a task that another process of the client follows.
func (c *a2aCLI) cancels() {
	c.t.Helper()
	var begun, stopped cliTask
	c.run(&begun, "send", "--immediate", "slow")
	if begun.Status.State != "TASK_STATE_SUBMITTED" && begun.Status.State != "TASK_STATE_WORKING" {
		c.t.Fatalf("begun: %+v", begun)
	}
	follower := c.command(c.t.Context(), "subscribe", begun.ID, "-o", "json")
	var said bytes.Buffer
	follower.Stderr = &said
	out, err := follower.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := follower.Start(); err != nil {
		c.t.Fatal(err)
	}
	there, last := make(chan struct{}), ""
	var following sync.WaitGroup
	following.Go(func() {
		first := sync.OnceFunc(func() { close(there) })
		defer first() // a follower that ends early must not keep the test waiting
		c.updates(bufio.NewReader(out), func(u *cliUpdate) {
			first()
			if u.StatusUpdate != nil {
				last = u.StatusUpdate.Status.State
			}
		})
	})
	<-there
	c.run(&stopped, "cancel", begun.ID)
	following.Wait()
	if err := follower.Wait(); err != nil {
		c.t.Errorf("a2a subscribe: %v: %s", err, said.Bytes())
	}
	if stopped.Status.State != "TASK_STATE_CANCELED" || last != "TASK_STATE_CANCELED" {
		c.t.Errorf("it is %s; who followed it saw %q", stopped.Status.State, last)
	}
	c.refused("ended", "cancel", begun.ID)
}

// lists reads the tasks of a state, page by page.
func (c *a2aCLI) lists() {
	c.t.Helper()
	seen := map[string]bool{}
	for token := ""; ; {
		var page struct {
			Tasks         []cliTask
			TotalSize     int
			NextPageToken string
		}
		args := []string{"--status", "completed", "--limit", "1"}
		if token != "" {
			args = append(args, "--page-token", token)
		}
		c.run(&page, "list tasks", args...)
		if len(page.Tasks) != 1 || seen[page.Tasks[0].ID] || page.Tasks[0].Status.State != "TASK_STATE_COMPLETED" || len(page.Tasks[0].Artifacts) != 0 {
			c.t.Fatalf("a page: %+v", page)
		}
		seen[page.Tasks[0].ID] = true
		if token = page.NextPageToken; token == "" {
			if len(seen) != page.TotalSize || len(seen) < 4 {
				c.t.Errorf("%d tasks were listed of %d", len(seen), page.TotalSize)
			}
			return
		}
	}
}
