package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentd/channel/a2a"
	"agentd/channel/a2a/peer"
	"agentd/fault"
)

// TestMountsRefuseInTheirProtocol: that the node which owns a session is out of reach is said
// in the form that the clients of an address read.
func TestMountsRefuseInTheirProtocol(t *testing.T) {
	s, _ := serveHere(t)
	// The others have no form of their own: what they say is a problem.
	problems := map[string]bool{backupPath: true, transferPath: true, trimPath: true, "/agui": true, peer.PushPath: true, a2a.CardPath: true, "/v1/models": true}
	type says struct {
		status     int
		retryAfter string
		paths      map[string]string
	}
	rpc := func(status int, retry, code string) says {
		return says{status, retry, map[string]string{"jsonrpc": `"2.0"`, "id": "7", "error.code": code, "error.message": `"node b has it"`}}
	}
	want := map[string]map[fault.Kind]says{
		a2a.RPCPath: {fault.Unavailable: rpc(200, "", "-32012"), fault.NotFound: rpc(200, "", "-32001")},
		a2a.RESTPath: {
			fault.Unavailable: says{503, "2", map[string]string{"error.code": "503", "error.status": `"UNAVAILABLE"`, "error.message": `"node b has it"`}},
			fault.NotFound:    says{404, "2", map[string]string{"error.code": "404", "error.status": `"NOT_FOUND"`}},
		},
		mcpPath:                {fault.Unavailable: rpc(503, "2", "-32603"), fault.NotFound: rpc(404, "2", "-32602")},
		"/v1/chat/completions": {fault.Unavailable: says{503, "2", map[string]string{"error.type": `"server_error"`}}},
		"/v1/responses":        {fault.Unavailable: says{503, "2", map[string]string{"error.type": `"server_error"`}}},
	}
	for _, m := range s.mounts(s.runtime.Port()) {
		if kinds := want[m.Prefix]; kinds == nil != (m.Refuse == nil) || kinds == nil && !problems[m.Prefix] {
			t.Errorf("%s refuses in its own form: %v, want %v", m.Prefix, m.Refuse != nil, kinds != nil)
		}
		for kind, x := range want[m.Prefix] {
			f := fault.New(kind, "node b has it")
			f.RetryAfter = 2 * time.Second
			w := httptest.NewRecorder()
			m.Refuse(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, m.Prefix, strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"x","params":{}}`)), f)
			if got := w.Header().Get("Content-Type"); w.Code != x.status || w.Header().Get("Retry-After") != x.retryAfter || got != "application/json" {
				t.Errorf("%s, %s: %d %v", m.Prefix, kind, w.Code, w.Header())
			}
			for path, value := range x.paths {
				at := json.RawMessage(w.Body.Bytes())
				for name := range strings.SplitSeq(path, ".") {
					var fields map[string]json.RawMessage
					if err := json.Unmarshal(at, &fields); err != nil {
						t.Fatalf("%s: %v in %s", m.Prefix, err, w.Body)
					}
					at = fields[name]
				}
				if string(at) != value {
					t.Errorf("%s, %s: %s is %s, want %s", m.Prefix, kind, path, at, value)
				}
			}
		}
	}
}
