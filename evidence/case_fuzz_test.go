package evidence_test

import (
	"encoding/json"
	"testing"

	"agentd/evidence"
	"agentd/replay"
)

// Whatever a case is, a walk ends: with a report or with an error, and what it finds
// is said.
func FuzzCase(f *testing.F) {
	for _, doc := range sealedDocs(f) {
		f.Add(doc)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"format":"agentd-replay-1","turns":[null]}`))
	f.Add([]byte(`{"format":"agentd-replay-2","scope":{"sessionId":"sess_a"},"facts":[{}]}`))
	f.Add([]byte(`{"format":"agentd-replay-2","base":{"version":2},"facts":[],"configuration":{"limits":{}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c evidence.Case
		if json.Unmarshal(data, &c) != nil {
			return
		}
		rec, err := replay.OfCase(&c)
		if err != nil {
			return
		}
		report, err := replay.Walk(rec, replay.Options{All: true})
		if err != nil {
			return
		}
		for _, d := range report.Differences {
			if d.Says == "" || d.Sequence == 0 {
				t.Errorf("%q: a difference that says nothing: %+v", data, d)
			}
		}
	})
}
