package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"agentd/fault"
)

// Whatever a body is, it is a problem with a code, whose error has that kind, or
// none.
func FuzzDecodeProblem(f *testing.F) {
	f.Add([]byte(`{"type":"about:blank","title":"Not found","status":404,"detail":"there is none","code":"not_found","requestId":"req_1"}`))
	f.Add([]byte(`{"code":"rate_limited","retryAfter":5}`))
	f.Add([]byte(`{"code":"","status":-1}`))
	f.Add([]byte(`{"code":{}}`))
	f.Add([]byte(`<html>502</html>`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := DecodeProblem(data)
		if ok != (p.Code != "") {
			t.Fatalf("%q: ok %v with code %q", data, ok, p.Code)
		}
		if !ok {
			return
		}
		err := p.Err()
		if err == nil || err.Error() == "" || fault.KindOf(err) == "" {
			t.Errorf("%q: error %v", data, err)
		}
	})
}

// Whatever a message is, it is read or refused, and what was read is JSON that can
// be passed on.
func FuzzDecodeRPCMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","error":{"code":-32000,"message":"no","data":{"code":"not_found"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"event","params":{"sequence":1}}`))
	f.Add([]byte(`{"jsonrpc":"1.0"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeRPCMessage(data)
		if (m == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", data, m, err)
		}
		if err != nil {
			return
		}
		for name, raw := range map[string][]byte{"id": m.ID, "result": m.Result, "params": m.Params} {
			if len(raw) > 0 && !json.Valid(raw) {
				t.Errorf("%q: %s is %q", data, name, raw)
			}
		}
		if m.Error != nil && m.Error.Err() == nil {
			t.Errorf("%q: an error without an error", data)
		}
		if again := AppendRPCNotification(nil, m.Method, m.Params); !json.Valid(again) || bytes.ContainsRune(again, '\n') != bytes.ContainsRune(m.Params, '\n') {
			t.Errorf("%q is passed on as %q", data, again)
		}
	})
}
