package mcpserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestSessionsAreListedPageByPage(t *testing.T) {
	k := newKit(t).start()
	ann := k.client("ann", newer, nil)
	const many = 120
	for i := range many {
		k.call(ann, "create_session", map[string]any{"sessionId": fmt.Sprintf("sess_%03d", i)})
	}
	k.call(k.client("bob", newer, nil), "create_session", map[string]any{"sessionId": "sess_of_bob"})
	for _, version := range []string{older, newer} {
		s := k.client("ann", version, nil)
		seen, pages := map[string]bool{}, 0
		for cursor := ""; ; {
			page, err := s.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, r := range page.Resources {
				if seen[r.URI] {
					t.Errorf("%s twice", r.URI)
				}
				seen[r.URI] = true
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if len(seen) != many || pages < 2 || seen["agentd://sessions/sess_of_bob"] {
			t.Errorf("%s: %d sessions on %d pages", version, len(seen), pages)
		}
		if _, err := s.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: strings.Repeat("x", 2000)}); err == nil {
			t.Error("a cursor that can't be one was taken")
		}
		templates, err := s.ListResourceTemplates(t.Context(), nil)
		if err != nil || len(templates.ResourceTemplates) != 3 {
			t.Errorf("the templates are %v %v", templates, err)
		}
	}
}

// readText reads a resource as text.
func (k *kit) readText(s *mcp.ClientSession, uri string) string {
	k.t.Helper()
	res, err := s.ReadResource(k.t.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		k.t.Fatalf("%s: %v", uri, err)
	}
	if c := res.Contents[0]; c.URI != uri || c.MIMEType == "" {
		k.t.Errorf("%s is at %s with %s", uri, c.URI, c.MIMEType)
	}
	return res.Contents[0].Text
}

func TestSessionsEventsAndOutputsAreRead(t *testing.T) {
	k := newKit(t).start()
	for _, version := range []string{older, newer} {
		t.Run(version, func(t *testing.T) {
			s := k.client("ann", version, nil)
			id := "sess_" + version
			k.call(s, "run_turn", map[string]any{"input": "say hello", "sessionId": id, "create": true})
			if text := k.readText(s, "agentd://sessions/"+id); !strings.Contains(text, `"sessionId":"`+id+`"`) {
				t.Errorf("the session is %s", text)
			}
			var page struct {
				Events                  []json.RawMessage
				LastSequence, NextAfter uint64
			}
			if err := json.Unmarshal([]byte(k.readText(s, "agentd://sessions/"+id+"/events?after=2&limit=3")), &page); err != nil {
				t.Fatal(err)
			}
			if len(page.Events) != 3 || page.NextAfter != 5 || page.LastSequence < 5 || !strings.Contains(string(page.Events[0]), `"sequence":3`) {
				t.Errorf("the page is %+v", page)
			}
		})
	}
}

func TestAnOutputIsReadInParts(t *testing.T) {
	k := newKit(t).start()
	long := strings.Repeat("0123456789", 2000)
	if err := os.WriteFile(filepath.Join(k.root, "long.txt"), []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	s := k.client("ann", newer, nil)
	k.call(s, "run_turn", map[string]any{"input": strings.Repeat("say hello and more ", 500), "sessionId": "sess_o", "create": true})
	var ref string
	for _, e := range k.events("sess_o") {
		for _, r := range e.Refs {
			ref = r
		}
		data, err := json.Marshal(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			InputRef string `json:"inputRef"`
		}
		if json.Unmarshal(data, &p) == nil && p.InputRef != "" {
			ref = p.InputRef
		}
	}
	if ref == "" {
		t.Fatal("no output was made")
	}
	uri := "agentd://outputs/" + url.PathEscape(ref)
	whole := k.readText(s, uri)
	if !strings.Contains(whole, "say hello") {
		t.Errorf("the output is %.100s", whole)
	}
	if part := k.readText(s, uri+"?offset=5&length=7"); part != whole[5:12] {
		t.Errorf("the part is %q, want %q", part, whole[5:12])
	}
	if _, err := k.client("bob", newer, nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
		t.Error("another account reads the output")
	}
}

func TestResourcesThatAreNotThere(t *testing.T) {
	k := newKit(t).start()
	k.call(k.client("bob", newer, nil), "create_session", map[string]any{"sessionId": "sess_of_bob"})
	for version, code := range map[string]int64{older: -32002, newer: -32602} {
		s := k.client("ann", version, nil)
		for _, uri := range []string{
			"agentd://sessions/sess_none", "agentd://sessions/sess_of_bob", "agentd://sessions/sess_of_bob/events", "agentd://sessions/", "agentd://sessions/a/b",
			"agentd://outputs/nothing", "agentd://elsewhere/x", "agentd://%zz", "agentd://sessions/not%20an%20id", "test://static-text", "file:///etc/passwd",
		} {
			_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != code || !strings.Contains(string(e.Data), "uri") {
				t.Errorf("%s in %s: %v", uri, version, err)
			}
		}
		_, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "agentd://sessions/sess_none/events?limit=2000"})
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32602 {
			t.Errorf("a wrong limit in %s: %v", version, err)
		}
	}
}

func TestSessionsAreSuggested(t *testing.T) {
	k := newKit(t).start()
	s := k.client("ann", newer, nil)
	k.call(s, "create_session", map[string]any{"sessionId": "sess_docs"})
	k.call(s, "create_session", map[string]any{"sessionId": "sess_other"})
	res, err := s.Complete(t.Context(), &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "agentd://sessions/{sessionId}"},
		Argument: mcp.CompleteParamsArgument{Name: "sessionId", Value: "doc"},
	})
	if err != nil || len(res.Completion.Values) != 1 || res.Completion.Values[0] != "sess_docs" {
		t.Errorf("%v %v", res, err)
	}
}
