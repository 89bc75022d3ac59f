package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"agentd/fault"
)

func TestParseRPCRequests(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": 1}}`: `1 m {"a":1}`,
		`{"jsonrpc":"2.0","id":"x","method":"m"}`:                 `"x" m `,
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:                `null m `,
		`{"jsonrpc":"2.0","id":1.5,"method":"m","params":null}`:   `1.5 m `,
		` {"method":"m","jsonrpc":"2.0","id":1,"extension":[]} `:  `1 m `,
		`{"jsonrpc":"2.0","method":"m\u0041"}`:                    ` mA `,
	} {
		reqs, batch, err := ParseRPC([]byte(body))
		if err != nil || batch || len(reqs) != 1 || reqs[0].Err != nil {
			t.Errorf("%s: %+v, %v, %v", body, reqs, batch, err)
			continue
		}
		if got := fmt.Sprintf("%s %s %s", reqs[0].ID, reqs[0].Method, reqs[0].Params); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
		if reqs[0].Notification() != (reqs[0].ID == nil) {
			t.Errorf("%s: notification %v", body, reqs[0].Notification())
		}
	}
}

func TestParseRPCRefusals(t *testing.T) {
	for body, want := range map[string]struct {
		code int
		id   string
	}{
		``:                    {fault.RPCParse, ""},
		`{`:                   {fault.RPCParse, ""},
		`{"jsonrpc":"2.0"} x`: {fault.RPCParse, ""},
		"{\"a\":\"\xff\"}":    {fault.RPCParse, ""},
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`: {fault.RPCParse, ""},
		`[{"jsonrpc":"2.0","method":"m"},`:             {fault.RPCParse, ""},
		`[1,]`:                                         {fault.RPCParse, ""},
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): {fault.RPCParse, ""},
		`[]`:                                     {fault.RPCInvalidRequest, ""},
		`1`:                                      {fault.RPCInvalidRequest, ""},
		`"x"`:                                    {fault.RPCInvalidRequest, ""},
		`null`:                                   {fault.RPCInvalidRequest, ""},
		`{}`:                                     {fault.RPCInvalidRequest, ""},
		`{"jsonrpc":"1.0","id":7,"method":"m"}`:  {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":2.0,"id":7,"method":"m"}`:    {fault.RPCInvalidRequest, "7"},
		`{"id":7,"method":"m"}`:                  {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7}`:               {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7,"method":""}`:   {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7,"method":1}`:    {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7,"method":null}`: {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":{},"method":"m"}`: {fault.RPCInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":[1],"method":"m"}`:            {fault.RPCInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":true,"method":"m"}`:           {fault.RPCInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":7,"method":"m","params":1}`:   {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7,"method":"m","params":"x"}`: {fault.RPCInvalidRequest, "7"},
		`{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}`: {fault.RPCInvalidParams, "7"},
		`{"jsonrpc":"2.0","id":7,"result":1}`:                {fault.RPCInvalidRequest, "7"},
		`[` + strings.Repeat(`{},`, MaxBatch) + `{}]`:        {fault.RPCInvalidRequest, ""},
	} {
		reqs, _, err := ParseRPC([]byte(body))
		id := ""
		if err == nil {
			if len(reqs) != 1 {
				t.Errorf("%.80s: %d requests", body, len(reqs))
				continue
			}
			err, id = reqs[0].Err, string(reqs[0].ID)
			if reqs[0].Notification() {
				t.Errorf("%.80s: a message that is no request gets no answer", body)
			}
		}
		if err == nil || err.Code != want.code || id != want.id || err.Data == nil || err.Message == "" {
			t.Errorf("%.80s: got %v with the id %q, want %d with %q", body, err, id, want.code, want.id)
		}
	}
}

func TestParseRPCBatch(t *testing.T) {
	reqs, batch, err := ParseRPC([]byte(`[{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","method":"b"}, []]`))
	if err != nil || !batch || len(reqs) != 4 {
		t.Fatalf("%+v, %v, %v", reqs, batch, err)
	}
	if reqs[0].Method != "a" || reqs[1].Err == nil || reqs[2].Method != "b" || !reqs[2].Notification() || reqs[3].Err == nil {
		t.Errorf("got %+v", reqs)
	}
}

func TestRPCMessagesRoundTrip(t *testing.T) {
	read := func(b []byte) *RPCMessage {
		t.Helper()
		m, err := DecodeRPCMessage(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		return m
	}
	if m := read(AppendRPCResult(nil, json.RawMessage(`"a"`), json.RawMessage(`{"x":1}`))); string(m.ID) != `"a"` || string(m.Result) != `{"x":1}` {
		t.Errorf("got %+v", m)
	}
	if b := AppendRPCResult(nil, json.RawMessage(`1`), nil); string(b) != `{"jsonrpc":"2.0","id":1,"result":null}` {
		t.Errorf("got %s", b)
	}
	sent := fault.Param("options.model", "%s is unknown", "x")
	m := read(AppendRPCError(nil, json.RawMessage(`7`), RPCErrorOf(sent)))
	if m.Error == nil || m.Error.Code != fault.RPCInvalidParams || m.Error.Err().Param != "options.model" || string(m.ID) != "7" {
		t.Errorf("got %+v", m.Error)
	}
	if b := AppendRPCError(nil, nil, MethodNotFound("x")); !strings.Contains(string(b), `"id":null`) || !strings.Contains(string(b), "-32601") {
		t.Errorf("got %s", b)
	}
	if m := read(AppendRPCNotification(nil, `e"v`, json.RawMessage(`{"sequence":1}`))); m.Method != `e"v` || m.ID != nil || string(m.Params) != `{"sequence":1}` {
		t.Errorf("got %+v", m)
	}
	reqs, _, err := ParseRPC(AppendRPCRequest(nil, json.RawMessage(`3`), "submit_turn", json.RawMessage(`{}`)))
	if err != nil || reqs[0].Method != "submit_turn" || string(reqs[0].ID) != "3" {
		t.Errorf("%+v, %v", reqs, err)
	}
	for _, body := range []string{``, `[]`, `{}`, `{"jsonrpc":"1.0","id":1,"result":2}`} {
		if _, err := DecodeRPCMessage([]byte(body)); err == nil {
			t.Errorf("%q was taken", body)
		}
	}
}

func TestRPCErrorsOfOthersAreFaults(t *testing.T) {
	for code, want := range map[int]fault.Kind{
		fault.RPCParse: fault.InvalidParams, fault.RPCInvalidRequest: fault.InvalidParams, fault.RPCInvalidParams: fault.InvalidParams,
		fault.RPCMethodNotFound: fault.NotFound, fault.RPCServer: fault.Internal, -32603: fault.Internal,
	} {
		if got := (&RPCError{Code: code, Message: "m"}).Err(); got.Kind != want || got.Detail != "m" {
			t.Errorf("%d is %v, want %s", code, got, want)
		}
	}
	for _, d := range fault.Table() {
		if e := RPCErrorOf(fault.New(d.Kind, "x")); e.Code != d.RPC || e.Err().Kind != d.Kind {
			t.Errorf("%s: %+v", d.Kind, e)
		}
	}
}

func FuzzParseRPC(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, `[{"jsonrpc":"2.0","method":"m"},1]`, `[]`, `{"id":{}}`, "\xff", `[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reqs, batch, err := ParseRPC(body)
		if err != nil {
			if !json.Valid(AppendRPCError(nil, nil, err)) {
				t.Fatalf("%q: the answer isn't JSON", body)
			}
			return
		}
		if len(reqs) == 0 || (!batch && len(reqs) != 1) {
			t.Fatalf("%q: %d requests", body, len(reqs))
		}
		for _, r := range reqs {
			answer := AppendRPCResult(nil, r.ID, r.Params)
			if r.Err != nil {
				answer = AppendRPCError(nil, r.ID, r.Err)
			}
			if _, err := DecodeRPCMessage(answer); err != nil {
				t.Fatalf("%q: the answer %q: %v", body, answer, err)
			}
		}
	})
}
