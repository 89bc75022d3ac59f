package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd"
	"agentd/client"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/runtimetest"
	"agentd/server"
)

// runtimeBackend is a real runtime as the server wants it.
type runtimeBackend struct{ agentd.Port }

func (runtimeBackend) Ready(context.Context) error                { return nil }
func (runtimeBackend) Status(context.Context, command.Caller) any { return struct{}{} }

// holders knows an admin and a client of another account.
type holders struct{}

func (holders) Authenticate(_ context.Context, token string) (server.Identity, error) {
	switch token {
	case "admin":
		return server.Identity{TokenID: "t1", Name: "root", Role: command.RoleAdmin}, nil
	case "stranger":
		return server.Identity{TokenID: "t2", Name: "eve", Role: command.RoleClient, Account: "other"}, nil
	}
	return server.Identity{}, fault.New(fault.Unauthenticated, "the token is not known")
}

// processDoor is a server over a kit whose model starts a process in the background.
type processDoor struct {
	*runtimetest.Kit
	url, id string
}

func openProcessDoor(t *testing.T, line string) *processDoor {
	t.Helper()
	runtimetest.NeedsSandbox(t)
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithShell),
		runtimetest.CallsTool("shell", map[string]any{"command": line, "background": true}), runtimetest.Says("done"))
	k.Completes(k.Submit("sess_a", "go"))
	d := &processDoor{Kit: k, id: runtimetest.Payloads[*event.ToolResult](k, "sess_a")[0].ProcessID}
	d.serve(t)
	return d
}

func (d *processDoor) serve(t *testing.T) {
	t.Helper()
	s := httptest.NewServer(server.New(runtimeBackend{d.Runtime.Port()}, &server.Options{Auth: holders{}, Version: "test"}).Handler())
	t.Cleanup(s.Close)
	d.url = s.URL
}

// get asks for the output of the process.
func (d *processDoor) get(t *testing.T, token, query, accept string) closedAnswer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/v1/processes/"+d.id+"/output"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", accept)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return closedAnswer{res}
}

// closedAnswer is an answer whose body is closed at the end of the test.
type closedAnswer struct{ *http.Response }

func (d *processDoor) read(t *testing.T, query string) string {
	t.Helper()
	res := d.get(t, "admin", query, "*/*")
	all, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", query, res.StatusCode, err, all)
	}
	return string(all)
}

// lines are those that "seq from to" prints.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// CONTRACT, "Changed" 4: GET /v1/processes/{processId}/output streams the output live, from
// an offset on, and ends with the process.
func TestProcessOutputIsStreamedLive(t *testing.T) {
	d := openProcessDoor(t, "seq 1 30000; until [ -e go ]; do sleep 0.05; done; seq 30001 30010")
	res := d.get(t, "admin", "", "*/*")
	begin := make([]byte, len(lines(1, 30000)))
	if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != lines(1, 30000) {
		t.Fatalf("%v after %.20q", err, begin)
	}
	if n := d.CountFacts("sess_a", event.TypeProcessCompleted); n != 0 {
		t.Error("it isn't live")
	}
	if got := d.read(t, fmt.Sprintf("?follow=0&offset=%d", len(begin)-6)); got != "30000\n" {
		t.Errorf("without following: %q", got)
	}
	d.WriteFile("go", "")
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != lines(30001, 30010) {
		t.Errorf("%q, %v", rest, err)
	}
	whole := lines(1, 30010)
	for _, offset := range []int{0, 1, 70_000, len(whole) - 1, len(whole), len(whole) + 100} {
		if got, want := d.read(t, fmt.Sprintf("?offset=%d", offset)), whole[min(offset, len(whole)):]; got != want {
			t.Errorf("from %d: %d bytes, want %d", offset, len(got), len(want))
		}
	}
	// A restart of the runtime and of the server leaves it readable.
	d.Close()
	d.Open()
	d.serve(t)
	if got := d.read(t, ""); got != whole {
		t.Errorf("after a restart: %d bytes, want %d", len(got), len(whole))
	}
	c, err := client.New(d.url, &client.Options{Token: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.ProcessOutput(t.Context(), d.id, 70_000, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil || string(got) != whole[70_000:] {
		t.Errorf("the client reads %d bytes, want %d: %v", len(got), len(whole)-70_000, err)
	}
}

// A reader that takes nothing in holds up neither the process nor other readers.
func TestProcessOutputWithAReaderThatDoesNotRead(t *testing.T) {
	d := openProcessDoor(t, "until [ -e go ]; do sleep 0.05; done; seq 1 600000")
	_ = d.get(t, "admin", "", "*/*") // its body is never read
	d.WriteFile("go", "")
	d.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
	if got, want := d.read(t, ""), lines(1, 600000); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// As server-sent events each piece says where it begins, and a client that was cut off
// goes on with the last id that it saw.
func TestProcessOutputAsEvents(t *testing.T) {
	d := openProcessDoor(t, "printf 'h\\303\\244llo\\n'; seq 1 20000; exit 3")
	d.WaitFor("sess_a", runtimetest.FactIs(event.TypeProcessCompleted, ""))
	whole := "hällo\n" + lines(1, 20000)
	for _, offset := range []int{0, 7, 66_000} {
		res := d.get(t, "admin", fmt.Sprintf("?offset=%d", offset), "text/event-stream")
		got, ended, id := "", server.ProcessEnd{}, ""
		frames := bufio.NewScanner(res.Body)
		frames.Buffer(nil, 1<<20)
		for name := ""; frames.Scan(); {
			switch key, value, _ := strings.Cut(frames.Text(), ": "); key {
			case "event":
				name = value
			case "id":
				id = value
			case "data":
				if name == "end" {
					if err := json.Unmarshal([]byte(value), &ended); err != nil {
						t.Fatal(err)
					}
					continue
				}
				var p server.ProcessPiece
				if err := json.Unmarshal([]byte(value), &p); err != nil {
					t.Fatal(err)
				}
				if p.Offset != int64(offset+len(got)) || id != fmt.Sprint(offset+len(got)+len(p.Text)) {
					t.Fatalf("piece at %d with the id %s, after %d bytes", p.Offset, id, offset+len(got))
				}
				got += p.Text
			}
		}
		if got != whole[offset:] {
			t.Errorf("from %d: %d bytes, want %d", offset, len(got), len(whole)-offset)
		}
		if ended.Status != "completed" || ended.ExitCode == nil || *ended.ExitCode != 3 || ended.SizeBytes != int64(len(whole)) {
			t.Errorf("%+v", ended)
		}
	}
}

// A caller that may not read the session learns nothing, and a request that can't be right says
// what is wrong.
func TestProcessOutputIsRefused(t *testing.T) {
	d := openProcessDoor(t, "echo hello")
	for name, c := range map[string]struct {
		token, query string
		status       int
		says         string
	}{
		"another account":   {"stranger", "", http.StatusNotFound, "there is no process " + d.id},
		"no number":         {"admin", "?offset=x", http.StatusBadRequest, "offset"},
		"a negative number": {"admin", "?offset=-1", http.StatusBadRequest, "offset"},
		"no flag":           {"admin", "?follow=maybe", http.StatusBadRequest, "follow"},
		"unknown":           {"admin", "?tail=3", http.StatusBadRequest, "tail"},
		"no token":          {"nobody", "", http.StatusUnauthorized, ""},
	} {
		res := d.get(t, c.token, c.query, "*/*")
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	d.id = "proc_none"
	if res := d.get(t, "admin", "", "*/*"); res.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown process: %d", res.StatusCode)
	}
}
