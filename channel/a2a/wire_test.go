package a2a_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	proto "github.com/a2aproject/a2a-go/v2/a2a"

	"agentd/channel/a2a"
)

// plainAnswer is an answer whose body was read.
type plainAnswer struct {
	StatusCode int
	Header     http.Header
}

// send carries out a request and returns the answer with its body.
func (k *kit) send(r *http.Request) (*plainAnswer, []byte) {
	k.t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return &plainAnswer{res.StatusCode, res.Header}, b
}

func (k *kit) fetchPath(path string, header ...string) (*plainAnswer, []byte) {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, k.http.URL+path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return k.send(r)
}

func TestThePublicCard(t *testing.T) {
	k := newKit(t)
	res, body := k.fetchPath(a2a.CardPath)
	var card proto.AgentCard
	if err := json.Unmarshal(body, &card); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	want := map[proto.TransportProtocol]string{"JSONRPC": "https://agent.example/a2a/rpc", "HTTP+JSON": "https://agent.example/a2a/rest"}
	for _, i := range card.SupportedInterfaces {
		if i.URL != want[i.ProtocolBinding] || i.ProtocolVersion != "1.0" {
			t.Errorf("interface %+v", i)
		}
		delete(want, i.ProtocolBinding)
	}
	if len(want) > 0 || !card.Capabilities.Streaming || !card.Capabilities.PushNotifications || !card.Capabilities.ExtendedAgentCard {
		t.Errorf("card %s", body)
	}
	if card.Name == "" || card.Description == "" || card.Version == "" || len(card.Skills) != 1 || len(card.DefaultInputModes) == 0 || len(card.SecuritySchemes) != 1 {
		t.Errorf("card %s", body)
	}
	etag, modified := res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	if etag == "" || modified == "" || !strings.Contains(res.Header.Get("Cache-Control"), "max-age=") {
		t.Errorf("headers %v", res.Header)
	}
	for _, header := range [][]string{{"If-None-Match", etag}, {"If-Modified-Since", modified}, {"If-None-Match", `"other", ` + etag}} {
		if res, body := k.fetchPath(a2a.CardPath, header...); res.StatusCode != http.StatusNotModified || len(body) > 0 || res.Header.Get("ETag") != etag {
			t.Errorf("%v: %d", header, res.StatusCode)
		}
	}
	if res, _ := k.fetchPath(a2a.CardPath, "If-None-Match", `"other"`); res.StatusCode != http.StatusOK {
		t.Errorf("another card: %d", res.StatusCode)
	}
	if res, _ := k.fetchPath(a2a.CardPath, "Accept", "application/a2a+json"); res.Header.Get("Content-Type") != "application/a2a+json" {
		t.Errorf("asked for the protocol's type: %v", res.Header)
	}
	if res, _ := k.send(k.post(a2a.CardPath, object{})); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") == "" {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

func TestTheExtendedCard(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		card := k.call(b, "GetExtendedAgentCard", object{}).ok().result
		var names []string
		for _, s := range card["skills"].([]any) {
			names = append(names, str(s, "name"))
		}
		if len(names) < 3 || !strings.Contains(strings.Join(names, " "), "write_file") {
			t.Errorf("skills %v", names)
		}
		k.as("nobody", b, "GetExtendedAgentCard", object{}).fails("PERMISSION_DENIED")
		without := newKit(t, func(o *a2a.Options) { o.Card.Extended = false })
		without.call(b, "GetExtendedAgentCard", object{}).fails("UNSUPPORTED_OPERATION")
	})
}

func TestVersions(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		for version, want := range map[string]string{
			"1.0": "", "1.0.1": "", "": "VERSION_NOT_SUPPORTED", "0.3": "VERSION_NOT_SUPPORTED",
			"1": "VERSION_NOT_SUPPORTED", "1.1": "VERSION_NOT_SUPPORTED", "10.0": "VERSION_NOT_SUPPORTED", "99.0": "VERSION_NOT_SUPPORTED", "x": "VERSION_NOT_SUPPORTED",
		} {
			r := k.request(b, "ListTasks", object{})
			r.Header.Set("A2a-Version", version)
			a := k.sendRequest(b, r).fails(want)
			if want != "" && (b == jsonRPC && a.code != -32009 || b == httpJSON && a.status != 400) {
				t.Errorf("%q: code %d, status %d", version, a.code, a.status)
			}
		}
		r := k.request(b, "ListTasks", object{})
		r.Header.Del("A2a-Version")
		r.URL.RawQuery = "A2A-Version=1.0"
		k.sendRequest(b, r).ok()
	})
}

func TestExtensions(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t, func(o *a2a.Options) {
			o.Card.Extensions = []proto.AgentExtension{{URI: "https://x.example/one", Required: true}, {URI: "https://x.example/two"}}
		})
		k.call(b, "ListTasks", object{}).fails("EXTENSION_SUPPORT_REQUIRED")
		r := k.request(b, "ListTasks", object{})
		r.Header.Set("A2a-Extensions", "https://y.example/other, https://x.example/one")
		k.sendRequest(b, r).ok()
	})
}

// errors of each binding, by what was asked.
func TestErrors(t *testing.T) {
	k := newKit(t)
	done := k.call(jsonRPC, "SendMessage", message("done", "say x")).task()
	part := func(p object) object { return message("m", "", object{"parts": []object{p}}) }
	for _, c := range []struct {
		name, method string
		params       object
		reason       string
		code, status int
		field        string
	}{
		{"no task", "GetTask", object{"id": "none"}, "TASK_NOT_FOUND", -32001, 404, ""},
		{"long id", "GetTask", object{"id": strings.Repeat("x", 5000)}, "TASK_NOT_FOUND", -32001, 404, ""},
		{"ended", "CancelTask", object{"id": done["id"]}, "TASK_NOT_CANCELABLE", -32002, 400, ""},
		{"nothing to follow", "SubscribeToTask", object{"id": done["id"]}, "UNSUPPORTED_OPERATION", -32004, 400, ""},
		{"nobody to follow", "SubscribeToTask", object{"id": "none"}, "TASK_NOT_FOUND", -32001, 404, ""},
		{"media type", "SendMessage", part(object{"raw": "AA==", "mediaType": "application/x-other"}), "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, ""},
		{"no message", "SendMessage", object{}, "INVALID_PARAMS", -32602, 400, "message"},
		{"no id", "SendMessage", message("", "x"), "INVALID_PARAMS", -32602, 400, "message.messageId"},
		{"no role", "SendMessage", message("m", "x", object{"role": ""}), "INVALID_PARAMS", -32602, 400, "message.role"},
		{"their role", "SendMessage", message("m", "x", object{"role": "ROLE_AGENT"}), "INVALID_PARAMS", -32602, 400, "message.role"},
		{"no parts", "SendMessage", message("m", "x", object{"parts": []object{}}), "INVALID_PARAMS", -32602, 400, "message.parts"},
		{"empty part", "SendMessage", part(object{}), "INVALID_PARAMS", -32602, 400, ""},
		{"two contents", "SendMessage", part(object{"text": "x", "url": "https://x.example"}), "INVALID_PARAMS", -32602, 400, ""},
		{"no content", "SendMessage", part(object{"text": ""}), "INVALID_PARAMS", -32602, 400, "message.parts"},
		{"a file's path", "SendMessage", part(object{"url": "file:///etc/passwd"}), "INVALID_PARAMS", -32602, 400, "message.parts[0].url"},
		{"a number as a message", "SendMessage", object{"message": 7}, "INVALID_PARAMS", -32602, 400, "message"},
		{"control characters", "SendMessage", message("m\u0007", "x"), "INVALID_PARAMS", -32602, 400, "message.messageId"},
		{"history", "SendMessage", object{"message": message("m", "x")["message"], "configuration": object{"historyLength": -3}}, "INVALID_PARAMS", -32602, 400, "historyLength"},
		{"many parts", "SendMessage", message("m", "x", object{"parts": many(101)}), "INVALID_PARAMS", -32602, 400, "message.parts"},
		{"deep", "SendMessage", part(object{"data": deep(200)}), "INVALID_PARAMS", -32602, 400, ""},
	} {
		for _, b := range []binding{jsonRPC, httpJSON} {
			a := k.call(b, c.method, c.params)
			if a.reason != c.reason || (b == jsonRPC && (a.code != c.code || a.status != 200)) || (b == httpJSON && (a.code != c.status || a.status != c.status)) {
				t.Errorf("%s over %s: %s %d, status %d (%s)", c.name, b, a.reason, a.code, a.status, a.message)
			}
			if c.field != "" && (len(a.fields) != 1 || a.fields[0] != c.field) {
				t.Errorf("%s over %s: fields %v", c.name, b, a.fields)
			}
		}
	}
	if n := k.agent.called(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

func many(n int) []object {
	list := make([]object, n)
	for i := range list {
		list[i] = object{"text": "x"}
	}
	return list
}

func deep(n int) any {
	var v any = "x"
	for range n {
		v = []any{v}
	}
	return v
}

// Bodies that are no requests at all.
func TestNonsenseOverJSONRPC(t *testing.T) {
	k := newKit(t, func(o *a2a.Options) { o.MaxBody = 4096 })
	for body, want := range map[string]int{
		``:         -32700,
		`{`:        -32700,
		"\xff\xfe": -32700,
		`[]`:       -32600,
		`[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]`: -32600,
		`7`:  -32600,
		`{}`: -32600,
		`{"jsonrpc":"1.0","id":1,"method":"ListTasks"}`:                           -32600,
		`{"jsonrpc":"2.0","id":1}`:                                                -32600,
		`{"jsonrpc":"2.0","id":1,"method":7}`:                                     -32600,
		`{"jsonrpc":"2.0","method":"ListTasks"}`:                                  -32600,
		`{"jsonrpc":"2.0","id":{},"method":"ListTasks"}`:                          -32600,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`:            -32601,
		`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":[1]}`:              -32602,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":[]}}`: -32602,
		`{"jsonrpc":"2.0","id":1,"x":"` + strings.Repeat("x", 5000) + `"}`:        -32013,
	} {
		r := k.post(a2a.RPCPath, object{})
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		if a := k.sendRequest(jsonRPC, r); a.code != want || a.status != 200 {
			t.Errorf("%.60q: %d (%s), expected %d", body, a.code, a.message, want)
		}
	}
	r := k.post(a2a.RPCPath, object{})
	r.Header.Set("Content-Type", "text/plain")
	if a := k.sendRequest(jsonRPC, r).fails("CONTENT_TYPE_NOT_SUPPORTED"); a.code != -32005 {
		t.Errorf("code %d", a.code)
	}
	id := k.post(a2a.RPCPath+"/", object{"jsonrpc": "2.0", "id": "mine", "method": "ListTasks"})
	if a := k.sendRequest(jsonRPC, id); a.ok().body["id"] != "mine" {
		t.Errorf("the id became %v", a.body["id"])
	}
	if res, _ := k.fetchPath(a2a.RPCPath); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", res.StatusCode)
	}
}

func TestNonsenseOverREST(t *testing.T) {
	k := newKit(t, func(o *a2a.Options) { o.MaxBody = 4096 })
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/message:send", `{`, 400},
		{"POST", "/message:send", ``, 400},
		{"POST", "/message:send", `[]`, 400},
		{"POST", "/message:send", strings.Repeat("x", 5000), 413},
		{"GET", "/message:send", ``, 405},
		{"DELETE", "/tasks", ``, 405},
		{"PATCH", "/tasks/x", ``, 405},
		{"GET", "/", ``, 404},
		{"GET", "/tasks/a/b", ``, 404},
		{"POST", "/tasks/x:explode", ``, 404},
		{"GET", "/tasks/%zz", ``, 400},
		{"GET", "/tasks/..%2f..%2fx", ``, 404},
		{"GET", "/tasks?pageSize=many", ``, 400},
		{"GET", "/tasks?includeArtifacts=perhaps", ``, 400},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, k.http.URL+a2a.RESTPath+"/", bytes.NewReader([]byte(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		path, query, _ := strings.Cut(c.path, "?")
		r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+a2a.RESTPath+path, query
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2a-Version", "1.0")
		r.Header.Set("Authorization", "Bearer alice")
		res, body := k.send(r)
		if res.StatusCode != c.status {
			t.Errorf("%s %s %.20q: %d, expected %d: %s", c.method, c.path, c.body, res.StatusCode, c.status, body)
		}
		if res.StatusCode == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	r := k.restRequest("SendMessage", message("m", "say x"))
	r.Header.Set("Content-Type", "text/plain")
	if a := k.sendRequest(httpJSON, r).fails("CONTENT_TYPE_NOT_SUPPORTED"); a.status != 400 {
		t.Errorf("status %d", a.status)
	}
	for accept, want := range map[string]string{"": "application/json", "*/*": "application/json", "application/a2a+json, */*": "application/a2a+json"} {
		r := k.restRequest("ListTasks", object{})
		r.Header.Set("Accept", accept)
		if a := k.sendRequest(httpJSON, r); a.header.Get("Content-Type") != want {
			t.Errorf("Accept %q: %s", accept, a.header.Get("Content-Type"))
		}
	}
	r = k.restRequest("SendMessage", message("m", "say x"))
	r.Header.Set("Content-Type", "application/a2a+json; charset=utf-8")
	k.sendRequest(httpJSON, r).ok()
}

// Readers of the protocol's JSON take the names of its definition, too.
func TestNamesInSnakeCase(t *testing.T) {
	k := newKit(t)
	sent := object{"message": object{
		"message_id": "m1", "context_id": "snake", "role": "ROLE_USER", "parts": []object{{"text": "say x", "media_type": "text/plain"}},
		"metadata": object{"keep_this": 1},
	}, "configuration": object{"history_length": 1, "return_immediately": false}}
	task := k.call(jsonRPC, "SendMessage", sent).task()
	if task["contextId"] != "snake" || valueAt(task, "history", 0, "metadata", "keep_this") != float64(1) {
		t.Errorf("task %v", task)
	}
	if n := k.call(jsonRPC, "ListTasks", object{"context_id": "snake", "page_size": 1}).ok().result; n["totalSize"] != float64(1) || n["pageSize"] != float64(1) {
		t.Errorf("list %v", n)
	}
}

// What a peer sends beside text reaches the model and comes back in the history.
func TestPartsOfAllKinds(t *testing.T) {
	both(t, func(t *testing.T, b binding) {
		k := newKit(t)
		parts := []object{
			{"text": "say x", "metadata": object{"n": 1}},
			{"raw": "aGVsbG8=", "filename": "a.txt", "mediaType": "text/plain"},
			{"url": "https://files.example/a.png", "mediaType": "image/png"},
			{"data": object{"a": []any{1.5, nil, "x"}}},
		}
		task := k.call(b, "SendMessage", message("m", "", object{"parts": parts, "metadata": object{"k": "v"}, "referenceTaskIds": []string{"other"}})).task()
		want, _ := json.Marshal(parts)
		var plain []any
		if err := json.Unmarshal(want, &plain); err != nil {
			t.Fatal(err)
		}
		got, _ := json.Marshal(valueAt(task, "history", 0, "parts"))
		again, _ := json.Marshal(plain)
		if !bytes.Equal(got, again) || str(task, "history", 0, "metadata", "k") != "v" || str(task, "history", 0, "referenceTaskIds", 0) != "other" {
			t.Errorf("history %s\nexpected %s", got, again)
		}
		large := strings.Repeat("QUFB", 10_000)
		kept := k.call(b, "SendMessage", message("m2", "", object{"parts": []object{{"text": "say y"}, {"raw": large, "mediaType": "text/plain"}}})).task()
		if text := str(kept, "history", 0, "parts", 1, "text"); text != "[a file of 30000 bytes]" {
			t.Errorf("a large file is in the history as %.80q", text)
		}
	})
}
