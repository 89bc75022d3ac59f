package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/evidence"
	"agentd/model/provider/script"
)

// mutation changes a pack; what it returns must not verify.
type mutation struct {
	name string
	// bytes says that it knows no JSON, and may happen to change nothing.
	bytes bool
	do    func(r *rand.Rand, pack []byte) []byte
}

// mutations are the ways in which somebody might change a pack.
func mutations(t testing.TB, k *kit) []mutation {
	t.Helper()
	return []mutation{
		{"flip a bit", true, func(r *rand.Rand, pack []byte) []byte {
			pack[r.IntN(len(pack))] ^= 1 << r.IntN(8)
			return pack
		}},
		{"drop bytes", true, func(r *rand.Rand, pack []byte) []byte {
			at := r.IntN(len(pack))
			return slices.Delete(pack, at, min(len(pack), at+1+r.IntN(40)))
		}},
		{"insert bytes", true, func(r *rand.Rand, pack []byte) []byte {
			return slices.Insert(pack, r.IntN(len(pack)), []byte("fact")[r.IntN(4):]...)
		}},
		{"cut the end off", true, func(r *rand.Rand, pack []byte) []byte { return pack[:r.IntN(len(pack)-3)] }},
		{"drop an item", false, onList(func(r *rand.Rand, list []any) []any {
			at := r.IntN(len(list))
			return slices.Delete(list, at, at+1)
		})},
		{"swap two items", false, onList(func(r *rand.Rand, list []any) []any {
			i := r.IntN(len(list))
			j := (i + 1 + r.IntN(max(1, len(list)-1))) % len(list)
			list[i], list[j] = list[j], list[i]
			return list
		})},
		{"repeat an item", false, onList(func(r *rand.Rand, list []any) []any {
			return slices.Insert(list, r.IntN(len(list)+1), list[r.IntN(len(list))])
		})},
		{"change a fact", false, onEvent(func(r *rand.Rand, e map[string]any) {
			data := []byte(e["data"].(string))
			at := r.IntN(len(data))
			if data[at]++; data[at] > '~' {
				data[at] = '0'
			}
			e["data"] = string(data)
		})},
		{"renumber a fact", false, onEvent(func(r *rand.Rand, e map[string]any) {
			e["sequence"] = json.Number(fmt.Sprint(1000 + r.IntN(1000)))
		})},
		{"drop a section", false, onDocument(func(r *rand.Rand, doc map[string]any) { delete(doc, pick(r, doc)) })},
		{"add a section", false, onDocument(func(r *rand.Rand, doc map[string]any) { doc[fmt.Sprint("extra", r.IntN(100))] = "note" })},
		{"sign the rest with another key", false, func(_ *rand.Rand, pack []byte) []byte { return reSigned(t, k, pack) }},
	}
}

// onDocument changes the parsed pack.
func onDocument(change func(*rand.Rand, map[string]any)) func(*rand.Rand, []byte) []byte {
	return func(r *rand.Rand, pack []byte) []byte {
		doc := parsed(pack)
		change(r, doc)
		out, err := json.Marshal(doc)
		if err != nil {
			panic(err)
		}
		return out
	}
}

func parsed(pack []byte) map[string]any {
	dec := json.NewDecoder(bytes.NewReader(pack))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil
	}
	return doc
}

func pick(r *rand.Rand, doc map[string]any) string {
	var names []string
	for n := range doc {
		names = append(names, n)
	}
	slices.Sort(names)
	return names[r.IntN(len(names))]
}

// onList changes a list with at least two items.
func onList(change func(*rand.Rand, []any) []any) func(*rand.Rand, []byte) []byte {
	return onDocument(func(r *rand.Rand, doc map[string]any) {
		for {
			name := pick(r, doc)
			if list, ok := doc[name].([]any); ok && len(list) > 1 {
				doc[name] = change(r, list)
				return
			}
		}
	})
}

func onEvent(change func(*rand.Rand, map[string]any)) func(*rand.Rand, []byte) []byte {
	return onDocument(func(r *rand.Rand, doc map[string]any) {
		list := doc["events"].([]any)
		change(r, list[r.IntN(len(list))].(map[string]any))
	})
}

// reSigned makes the pack again from changed facts, signed with a new key.
func reSigned(t testing.TB, k *kit, pack []byte) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, err = evidence.Export(t.Context(), k.store, evidence.Scope{SessionID: "sess_busy"}, evidence.Options{
		EvidenceID: view(t, pack).EvidenceID, At: time.Unix(0, 0), Key: key,
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestMutationsAreFound changes packs at random: whatever changes their content
// is found.
func TestMutationsAreFound(t *testing.T) {
	k := newKit(t, nil, wants("list_files", map[string]any{"path": "."}), script.Answer{Text: "nothing"}, script.Answer{Text: "again"})
	turns := []string{k.turn("sess_busy", "look", nil), k.turn("sess_busy", "look again", nil)}
	r := rand.New(rand.NewPCG(7, 8)) // a test repeats itself
	found := map[string]int{}
	for _, scope := range []command.ExportScope{{SessionID: "sess_busy"}, {SessionID: "sess_busy", TurnID: turns[1]}} {
		pack := k.evidenceOf(scope)
		keyID := verified(t, pack).KeyID
		original := parsed(pack)
		for _, m := range mutations(t, k) {
			for range 46 {
				changed := m.do(r, slices.Clone(pack))
				if m.bytes && reflect.DeepEqual(parsed(changed), original) {
					continue // another way to write the same
				}
				v, err := evidence.Verify(bytes.NewReader(changed), evidence.VerifyOptions{KeyID: keyID})
				if err != nil {
					t.Fatal(err)
				}
				if v.Finding == nil {
					t.Errorf("%s: not found in\n%s", m.name, changed)
					continue
				}
				found[m.name]++
			}
		}
	}
	sum := 0
	for _, m := range mutations(t, k) {
		sum += found[m.name]
		if found[m.name] == 0 {
			t.Errorf("%q was never tried", m.name)
		}
	}
	if sum < 1000 {
		t.Errorf("only %d mutations changed something", sum)
	}
	t.Logf("%d mutations found", sum)
}

// TestFindingNamesTheFirstChange: the place is that of the change.
func TestFindingNamesTheFirstChange(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	check := func(name string, changed []byte, section string, sequence uint64, at int) {
		t.Helper()
		v, err := evidence.Verify(bytes.NewReader(changed), evidence.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := v.Finding
		if f == nil || f.Section != section || f.Sequence != sequence {
			t.Errorf("%s: %v, want section %s, fact %d", name, f, section, sequence)
		} else if f.Byte > int64(at) {
			t.Errorf("%s: the finding begins at byte %d, after the change at %d", name, f.Byte, at)
		}
	}
	replaced := func(old, by string) ([]byte, int) {
		at := bytes.Index(pack, []byte(old))
		if at < 0 {
			t.Fatalf("there is no %s", old)
		}
		for i := range min(len(old), len(by)) {
			if old[i] != by[i] {
				return bytes.Replace(pack, []byte(old), []byte(by), 1), at + i
			}
		}
		t.Fatalf("%s and %s begin alike", old, by)
		return nil, 0
	}
	b, at := replaced(`evidence_`, `evidence-`)
	check("id", b, "evidenceId", 0, at)
	b, at = replaced(`"permissionMode":"plan"`, `"permissionMode":"auto"`)
	check("read model", b, "threads", 0, at)
	b, at = replaced(`{\"type\":\"turn.started\"`, `{\"type\":\"turn.submitted\"`)
	check("fact", b, "events", factOf(t, pack, `"type":"turn.started"`), at)
	// Two changes: the first one counts.
	b = bytes.Replace(b, []byte(`"exportedAt":"2`), []byte(`"exportedAt":"1`), 1)
	check("two changes", b, "exportedAt", 0, at)
}

// factOf returns the first fact of a pack whose bytes hold a text.
func factOf(t testing.TB, pack []byte, text string) uint64 {
	t.Helper()
	for _, e := range view(t, pack).Events {
		if strings.Contains(e.Data, text) {
			return e.Sequence
		}
	}
	t.Fatalf("no fact holds %s", text)
	return 0
}

// TestSloppyProofIsFound: what a lenient decoder would take for the same is found.
func TestSloppyProofIsFound(t *testing.T) {
	k, _ := busy(t, nil)
	pack := string(k.evidenceOf(command.ExportScope{SessionID: "sess_busy"}))
	end := strings.Index(pack, `=","sections"`)
	for name, changed := range map[string]string{
		"a name of the proof": strings.Replace(pack, `"headHash"`, `"HeadHash"`, 1),
		"a name of a fact":    strings.Replace(pack, `{"data":"`, `{"Data":"`, 1),
		"a name of the scope": strings.Replace(pack, `"scope":{"sessionId"`, `"scope":{"sessionID"`, 1),
		"the key's last bits": pack[:end-1] + string(rune(pack[end-1]+1)) + pack[end:],
	} {
		if changed == pack {
			t.Errorf("%s: nothing changed", name)
		}
		if v, err := evidence.Verify(strings.NewReader(changed), evidence.VerifyOptions{}); err != nil || v.Finding == nil {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

func TestAnotherKeyIsFound(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	other := reSigned(t, k, pack)
	v := verified(t, other) // it holds in itself
	if v.KeyKnown || v.KeyID == verified(t, pack).KeyID {
		t.Error("the other key passes for the runtime's")
	}
	v, err := evidence.Verify(bytes.NewReader(other), evidence.VerifyOptions{KeyID: verified(t, pack).KeyID})
	if err != nil || v.Finding == nil || !strings.Contains(v.Finding.Detail, "signed with the key") {
		t.Errorf("%v, %v", v.Finding, err)
	}
}
