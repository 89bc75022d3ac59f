package evidence_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"agentd/evidence"
)

// Whatever a pack is, it is verified, found changed or refused; and what passes
// passes whoever writes it down again.
func FuzzVerify(f *testing.F) {
	for _, doc := range sealedDocs(f) {
		f.Add(doc)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"evidenceId":"e","events":[],"integrity":{"algorithm":"sha256","head":"00","signature":"AA=="}}`))
	f.Add([]byte(`{"format":"agentd.evidence/1","facts":[{"sequence":1}],"integrity":{"sections":{"facts":{"count":1}}}}`))
	f.Add([]byte(`{"integrity":null}{"integrity":1}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := evidence.Verify(bytes.NewReader(data), evidence.VerifyOptions{})
		if err == nil && v == nil {
			t.Errorf("%q: neither a finding nor an error", data)
		}
		if err != nil || v.Finding != nil {
			return
		}
		again, err := json.Marshal(parsed(data))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := evidence.Verify(bytes.NewReader(again), evidence.VerifyOptions{}); err != nil || v.Finding != nil {
			t.Errorf("%q passes, and %q doesn't: %+v, %v", data, again, v, err)
		}
	})
}

// Whatever a pack or a case is, writing it in its other form ends.
func FuzzSibling(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"format":"agentd.evidence/1","events":[{"sequence":1,"type":"turn.submitted"}],"turns":[{}]}`))
	f.Add([]byte(`{"format":"agentd.replay/1","turns":[{"answers":[]}],"expected":[1]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = evidence.WriteSibling(bytes.NewReader(data), "ref", io.Discard)
		_ = evidence.WriteSiblingReplay(bytes.NewReader(data), "ref", io.Discard)
	})
}
