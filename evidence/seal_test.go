package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// sealedDocs are one signed document of each kind beside packs, by its kind.
func sealedDocs(t testing.TB) map[string][]byte {
	t.Helper()
	k := newKit(t, nil, wants("write_file", map[string]any{"path": "a.txt", "content": "<b> & 1.50"}), script.Answer{Text: "done"}, script.Answer{Text: "again"})
	turn := k.turn("sess_sealed", "write <it>", nil)
	k.turn("sess_sealed", "again", nil)
	out := map[string][]byte{}
	for kind, p := range exports("sess_sealed", "") {
		if kind != "evidence" {
			out[kind] = k.output(runCommand[command.ExportResult](k, p).Ref)
		}
	}
	for kind, p := range exports("sess_sealed", turn) {
		if kind != "evidence" {
			out[kind+" of a turn"] = k.output(runCommand[command.ExportResult](k, p).Ref)
		}
	}
	out["trial"] = trialPackOf(t)
	return out
}

// trialPackOf runs a trial and returns its pack.
func trialPackOf(t testing.TB) []byte {
	t.Helper()
	k := newKit(t, nil, script.Answer{Text: "solved"})
	started := runCommand[command.StartBenchmarkTrialResult](k, &command.StartBenchmarkTrial{
		Input:     event.Raw(`"solve it"`),
		Benchmark: &command.TrialBenchmark{DatasetID: "set", DatasetVersion: "1", TaskID: "task", TrialID: "trial_1", ConfigurationID: "base", Role: "baseline"},
	})
	k.until(started.SessionID, func(e *event.Event) bool { return e.Type == event.TypeBenchmarkTrialCompleted })
	value := 1.0
	runCommand[command.TrialResult](k, &command.RecordBenchmarkReward{TrialID: "trial_1", Reward: &command.Reward{Value: &value}})
	res := runCommand[command.ExportBenchmarkTrialResult](k, &command.ExportBenchmarkTrial{TrialID: "trial_1"})
	return k.output(res.Ref)
}

// TestSealedDocumentsVerify: each kind says what it is, who signed it and which
// facts it was made of; and another program may write it with other white space.
func TestSealedDocumentsVerify(t *testing.T) {
	kinds := map[string]string{"replay": "replay case", "review": "review", "trial": "trial pack"}
	for name, doc := range sealedDocs(t) {
		kind, _, _ := strings.Cut(name, " ")
		v := verified(t, doc)
		if v.Kind != kinds[kind] || v.Events == 0 || v.Through == 0 || v.KeyID == "" || v.Scope.SessionID == "" || v.RuntimeID != "runtime_test" {
			t.Errorf("%s: %+v", name, v)
		}
		var again bytes.Buffer
		if err := json.Indent(&again, doc, "", "\t"); err != nil {
			t.Fatal(err)
		}
		verified(t, again.Bytes())
		sorted, err := json.Marshal(parsed(doc)) // members by name, HTML escaped
		if err != nil {
			t.Fatal(err)
		}
		verified(t, sorted)
		known, err := evidence.Verify(bytes.NewReader(doc), evidence.VerifyOptions{KeyID: v.KeyID})
		if err != nil || known.Finding != nil || !known.KeyKnown {
			t.Errorf("%s: its own key: %+v, %v", name, known, err)
		}
	}
}

// sealedMutations are the ways in which somebody might change a sealed document.
func sealedMutations(t testing.TB) []mutation {
	t.Helper()
	var out []mutation
	for _, m := range mutations(t, nil) {
		switch m.name {
		case "change a fact", "renumber a fact", "sign the rest with another key": // those of packs
		default:
			out = append(out, m)
		}
	}
	return append(out,
		mutation{"change a value", false, onDocument(func(r *rand.Rand, doc map[string]any) { doc[pick(r, doc)] = fmt.Sprint("another ", r.IntN(1000)) })},
		mutation{"change a member inside", false, onDocument(func(r *rand.Rand, doc map[string]any) {
			proof := doc["integrity"].(map[string]any)
			chain := proof["chain"].(map[string]any)
			chain["through"] = json.Number(fmt.Sprint(100 + r.IntN(1000)))
		})},
		mutation{"sign it again", false, func(_ *rand.Rand, doc []byte) []byte { return sealedAgain(t, doc, "") }},
		mutation{"take the proof out", false, onDocument(func(_ *rand.Rand, doc map[string]any) { delete(doc, "integrity") })})
}

// sealedAgain seals the content of a document with a new key, as another kind of
// document if one is given.
func sealedAgain(t testing.TB, doc []byte, format string) []byte {
	t.Helper()
	v := verified(t, doc)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if format == "" {
		format = v.Format
	}
	out, err := evidence.Sealed(parsed(doc), evidence.Seal{Format: format, SessionID: v.Scope.SessionID, Through: v.Through, Events: v.Events, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMutationsOfSealedDocumentsAreFound changes replay cases, reviews and trial
// packs at random: whatever changes their content is found.
func TestMutationsOfSealedDocumentsAreFound(t *testing.T) {
	sum := 0
	for _, n := range mutateSealed(t, 24) {
		sum += n
	}
	if sum < 1000 {
		t.Errorf("only %d mutations changed something", sum)
	}
}

// TestLongMutationsOfSealedDocuments: at least a thousand of each document.
func TestLongMutationsOfSealedDocuments(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("skipped: a thousand mutations of each sealed document; AGENTD_TEST_LONG is not set")
	}
	for name, n := range mutateSealed(t, 110) {
		if n < 1000 {
			t.Errorf("%s: only %d mutations changed something", name, n)
		}
	}
}

// mutateSealed tries each mutation so many times on each document, and returns how
// many changed the document; all of them have to be found.
func mutateSealed(t *testing.T, rounds int) map[string]int {
	t.Helper()
	out := map[string]int{}
	r := rand.New(rand.NewPCG(9, 10)) // a test repeats itself
	tried := map[string]bool{}
	docs := sealedDocs(t)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		doc := docs[name]
		keyID, original := verified(t, doc).KeyID, parsed(doc)
		for _, m := range sealedMutations(t) {
			if strings.HasSuffix(m.name, " item") || strings.HasSuffix(m.name, " items") {
				if !hasList(original) {
					continue
				}
			}
			for range rounds {
				changed := m.do(r, slices.Clone(doc))
				if reflect.DeepEqual(parsed(changed), original) {
					continue // another way to write the same, or two equal items swapped
				}
				v, err := evidence.Verify(bytes.NewReader(changed), evidence.VerifyOptions{KeyID: keyID})
				if err != nil {
					t.Fatal(err)
				}
				if v.Finding == nil {
					t.Errorf("%s: %s: not found in\n%s", name, m.name, changed)
				}
				out[name]++
				tried[m.name] = true
			}
		}
		t.Logf("%s: %d mutations found", name, out[name])
	}
	for _, m := range sealedMutations(t) {
		if !tried[m.name] {
			t.Errorf("%q was never tried", m.name)
		}
	}
	return out
}

func hasList(doc map[string]any) bool {
	for _, v := range doc {
		if list, ok := v.([]any); ok && len(list) > 1 {
			return true
		}
	}
	return false
}

// TestSealedAsSomethingElse: a document can't pass for one of another kind, nor
// a part of the one for that of another.
func TestSealedAsSomethingElse(t *testing.T) {
	docs := sealedDocs(t)
	check := func(name string, doc []byte) {
		t.Helper()
		if v, err := evidence.Verify(bytes.NewReader(doc), evidence.VerifyOptions{}); err != nil || v.Finding == nil {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	check("a review as a case", sealedAgain(t, docs["review"], evidence.ReplayFormat))
	check("a case as a trial's pack", sealedAgain(t, docs["replay"], evidence.TrialFormat))
	check("a trial's pack as a review", sealedAgain(t, docs["trial"], evidence.ReviewFormat))
	swapped := parsed(docs["review"])
	swapped["integrity"] = parsed(docs["review of a turn"])["integrity"]
	b, err := json.Marshal(swapped)
	if err != nil {
		t.Fatal(err)
	}
	check("the proof of another", b)
	smuggled, err := evidence.Sealed(map[string]any{"format": evidence.ReviewFormat, "events": []any{}, "scope": map[string]any{"sessionId": "sess_a"}}, evidence.Seal{
		Format: evidence.ReviewFormat, SessionID: "sess_a", Key: ed25519.NewKeyFromSeed(make([]byte, 32)),
	})
	if err != nil {
		t.Fatal(err)
	}
	check("facts that nothing holds", smuggled)
}

// TestUnprovenIsNamed: what carries no proof is said to be what it is.
func TestUnprovenIsNamed(t *testing.T) {
	for doc, says := range map[string]string{
		`{"evidence_pack_id":"evidence_1","schema_version":"0.1.0"}`:        "Agent Evidence",
		`{"replay_id":"evidence_1","schema_version":"0.1.0"}`:               "Agent Evidence",
		`{"schema_version":"ATIF-v1.8","agent":{},"steps":[]}`:              "trajectory",
		`{"specversion":"1.0","id":"evt_1"}`:                                "CloudEvent",
		`{"format":"agentd-replay-1","evidenceId":"evidence_1","turns":[]}`: "before such documents were signed",
		`{"comparison":{},"trials":[]}`:                                     "comparison",
		`{"schema_version":"0.5.0","target_project":"agentd","trials":[]}`:  "Agent QC",
		`{"something":"else"}`:                                              "the proof is missing",
	} {
		v, err := evidence.Verify(strings.NewReader(doc), evidence.VerifyOptions{})
		if err != nil || v.Finding == nil || !v.Unproven || !strings.Contains(v.Finding.Detail, says) {
			t.Errorf("%s: %+v, %v", doc, v, err)
		}
	}
}
