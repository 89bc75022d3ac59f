package evidence_test

import (
	"encoding/json"
	"testing"

	"agentd"
	"agentd/evidence"
	"agentd/store/storetest"
)

// Whatever a case is, running it again ends: with the same facts, with a difference,
// or with an error.
func FuzzCase(f *testing.F) {
	for _, doc := range sealedDocs(f) {
		f.Add(doc)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"turns":[null],"answers":[{}],"results":[{}],"decisions":[{}],"acts":[{}],"parties":{},"expected":[{}]}`))
	f.Add([]byte(`{"format":"agentd.replay/1","scope":{"sessionId":"sess_a"},"turns":[{"turnId":"turn_1","input":[{"type":"text","text":"hello"}]}],"answers":[{"text":"hi"}],"expected":[{"type":"turn.completed"}]}`))
	f.Add([]byte(`{"turns":[{"turnId":"turn_1","input":"hello"},{"turnId":"turn_1","input":[]}],"answers":[{"toolCalls":[{"name":"shell"}]}],"environment":{"permissionMode":"nonsense","rules":[{}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c evidence.Case
		if json.Unmarshal(data, &c) != nil {
			return
		}
		s := storetest.NewMem()
		d, err := agentd.Replay(t.Context(), s, &c)
		if d != nil && err != nil {
			t.Errorf("%q: both a difference and an error: %+v, %v", data, d, err)
		}
		if d != nil && d.Says == "" {
			t.Errorf("%q: a difference that says nothing: %+v", data, d)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
