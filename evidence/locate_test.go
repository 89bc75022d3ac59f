package evidence_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/evidence"
)

// finding verifies a changed document, which must be found to be.
func finding(t *testing.T, doc []byte) *evidence.Finding {
	t.Helper()
	v, err := evidence.Verify(bytes.NewReader(doc), evidence.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Finding == nil {
		t.Fatal("the change was not found")
	}
	return v.Finding
}

// signedDocuments are one of each kind that is signed.
func signedDocuments(t *testing.T) map[string][]byte {
	t.Helper()
	k, _ := busy(t, nil)
	scope := command.ExportScope{SessionID: "sess_busy"}
	docs := sealedDocs(t)
	docs["evidence pack"] = k.evidenceOf(scope)
	return docs
}

// TestOneChangedByteIsNamed changes single bytes all over: the finding is that byte,
// in every section before the proof and in what the proof says of them.
func TestOneChangedByteIsNamed(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 7))
	for name, doc := range signedDocuments(t) {
		proof := bytes.LastIndex(doc, []byte("\n\"integrity\":"))
		places := []int{bytes.Index(doc, []byte("evidence_")) + 9, bytes.Index(doc, []byte(`"sessionId":"`)) + 14, proof - 3}
		for range 60 {
			places = append(places, 1+r.IntN(proof-1))
		}
		for _, at := range places {
			changed := bytes.Clone(doc)
			if changed[at] ^= 1; spaces(doc[at]) || spaces(changed[at]) {
				continue // white space between values is not content
			}
			if f := finding(t, changed); f.Byte != int64(at) || !f.Exact {
				t.Errorf("%s, seed %d: byte %d (%q) was changed, the finding is %+v", name, seed, at, doc[max(0, at-20):at+5], f)
			}
		}
		for _, part := range []string{`"sums":"`, `"sections":[{"name":"`, `"sha256":"`, `"genesis":"`} {
			at := proof + bytes.Index(doc[proof:], []byte(part)) + len(part) + 5
			changed := bytes.Clone(doc)
			changed[at] = map[bool]byte{true: 'b', false: 'a'}[changed[at] == 'a']
			if f := finding(t, changed); f.Byte != int64(at) || !f.Exact || f.Section != "integrity" {
				t.Errorf("%s: byte %d of the proof (%s) was changed, the finding is %+v", name, at, part, f)
			}
		}
	}
}

// TestAByteThatIsNoTextIsNamed: a JSON decoder would take it for another character.
func TestAByteThatIsNoTextIsNamed(t *testing.T) {
	for name, doc := range signedDocuments(t) {
		at := bytes.Index(doc, []byte(`":"`)) + 3
		changed := bytes.Clone(doc)
		changed[at] = 0xff
		if f := finding(t, changed); f == nil || f.Byte != int64(at) || !strings.Contains(f.Detail, "UTF-8") {
			t.Errorf("%s: byte %d is no text, the finding is %+v", name, at, f)
		}
	}
}

// TestABracketSetFreeIsNamed takes the backslash from quotes that stand before brackets in
// a text: the text ends there, and what were its brackets may end the document.
func TestABracketSetFreeIsNamed(t *testing.T) {
	tried := 0
	for name, doc := range signedDocuments(t) {
		proof := bytes.LastIndex(doc, []byte("\n\"integrity\":"))
		var places []int
		for at := range proof {
			if bytes.HasPrefix(doc[at:], []byte(`\"}`)) {
				places = append(places, at)
			}
		}
		tried += len(places)
		for i := 0; i < len(places); i += 1 + len(places)/100 {
			changed := bytes.Clone(doc)
			changed[places[i]] = ']'
			if f := finding(t, changed); f.Byte != int64(places[i]) || !f.Exact {
				t.Errorf("%s: byte %d (%q) was changed, the finding is %+v", name, places[i], doc[max(0, places[i]-20):places[i]+5], f)
			}
		}
	}
	if tried == 0 {
		t.Error("no quote in a text stands before a bracket")
	}
}

// TestAByteMoreOrLessIsNamed puts single bytes in and takes them out: the finding is the
// first byte that isn't what it was.
func TestAByteMoreOrLessIsNamed(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 8))
	for name, doc := range signedDocuments(t) {
		proof := bytes.LastIndex(doc, []byte("\n\"integrity\":"))
		for i := range 80 {
			at := 1 + r.IntN(proof-2)
			changed := slices.Delete(bytes.Clone(doc), at, at+1)
			if i%2 == 0 {
				changed = slices.Insert(bytes.Clone(doc), at, byte('a'+r.IntN(26)))
			}
			first := at
			for first < proof && changed[first] == doc[first] { // one of several that are the same
				first++
			}
			if spaces(doc[at]) || spaces(changed[at]) || spaces(doc[first]) {
				continue // white space between values is not content
			}
			if f := finding(t, changed); f.Byte != int64(first) || !f.Exact {
				t.Errorf("%s, seed %d: byte %d (%q) was changed, the finding is %+v", name, seed, first, doc[max(0, at-20):at+5], f)
			}
		}
	}
}

// TestAProofThatCannotBeReadIsNotMissing: the place is somewhere in the proof, up to
// where it can't be read any more.
func TestAProofThatCannotBeReadIsNotMissing(t *testing.T) {
	for name, doc := range signedDocuments(t) {
		at := bytes.LastIndex(doc, []byte(`"keyId":`))
		changed := bytes.Clone(doc)
		changed[at] = 'x'
		v, err := evidence.Verify(bytes.NewReader(changed), evidence.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if f := v.Finding; v.Unproven || f == nil || f.Section != "integrity" || f.Byte > int64(at) || f.Until != int64(at)+1 {
			t.Errorf("%s: byte %d was changed: %+v %+v", name, at, v, f)
		}
	}
}

func spaces(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// TestThePlaceOfALongerChange: more than a byte was changed, put in or taken out. The
// place is a short piece of the file that begins with the change or shortly before.
func TestThePlaceOfALongerChange(t *testing.T) {
	const wide = 256
	for name, doc := range signedDocuments(t) {
		proof := bytes.LastIndex(doc, []byte("\n\"integrity\":"))
		for _, at := range []int{proof / 3, proof / 2, proof - 200} {
			at += bytes.IndexByte(doc[at:], '"') // where a word can be put in
			for change, changed := range map[string][]byte{
				"put in":    []byte(string(doc[:at+1]) + "and more " + string(doc[at+1:])),
				"taken out": []byte(string(doc[:at+1]) + string(doc[at+4:])),
				"another":   []byte(string(doc[:at+1]) + "zzzz" + string(doc[at+5:])),
			} {
				if f := finding(t, changed); f.Byte > int64(at+1) || f.Byte < int64(at-wide) || f.Until > int64(at+wide) {
					t.Errorf("%s, %s at %d: %+v", name, change, at+1, f)
				}
			}
		}
	}
}

// TestThePlaceInAnotherLayout: the marks are about bytes, so a file that was written
// again and then changed is named by the part that was changed.
func TestThePlaceInAnotherLayout(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	var indented bytes.Buffer
	if err := json.Indent(&indented, pack, "", "  "); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(indented.String(), `"permissionMode": "plan"`, `"permissionMode": "auto"`, 1)
	at := strings.Index(indented.String(), `"permissionMode": "plan"`)
	if f := finding(t, []byte(changed)); f.Section != "threads" || f.Exact || f.Byte > int64(at) {
		t.Errorf("%+v, the change is at %d", f, at)
	}
}

// TestWhereAFileIsCutOff: the first byte that isn't there is named.
func TestWhereAFileIsCutOff(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	for _, size := range []int{len(pack) / 3, len(pack) - 10} {
		if f := finding(t, pack[:size]); f.Byte != int64(size) || !strings.Contains(f.Detail, "cut off") {
			t.Errorf("cut off at %d: %+v", size, f)
		}
	}
}

// TestAStreamIsVerifiedToo: what can't be read twice is verified all the same.
func TestAStreamIsVerifiedToo(t *testing.T) {
	k, _ := busy(t, nil)
	pack := k.evidenceOf(command.ExportScope{SessionID: "sess_busy"})
	at := bytes.Index(pack, []byte(`"runtime":{`)) + 20
	pack[at] ^= 1
	v, err := evidence.Verify(struct{ *bytes.Buffer }{bytes.NewBuffer(pack)}, evidence.VerifyOptions{})
	if err != nil || v.Finding == nil || v.Finding.Section != "runtime" || v.Finding.Exact {
		t.Errorf("%v, %v", v, err)
	}
	if got := fmt.Sprint(v.Finding); !strings.Contains(got, "section runtime") {
		t.Error(got)
	}
}
