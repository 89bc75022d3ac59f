package transfer_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"agentd/store"
	"agentd/transfer"
)

// key is one that the tests make from a fixed seed.
func key() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// file returns a session of three facts and two outputs, one of many pieces.
func file(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := transfer.NewWriter(&b, transfer.Header{SessionID: "sess_a", RuntimeID: "runtime_a", ExportedAt: time.Unix(1, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := w.Event(fmt.Appendf(nil, `{"sequence":%d,"text":"fact"}`, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, content := range []string{"short", strings.Repeat("0123456789abcdef", 20_000), ""} {
		if err := w.Output(refOf(content), "text/plain", strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Output(refOf("gone"), "", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(key()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func refOf(content string) string { return store.RefOf(sha256.Sum256([]byte(content))) }

func TestRoundTrip(t *testing.T) {
	var facts, outputs, missing []string
	sum, err := transfer.Read(bytes.NewReader(file(t)), transfer.Visitor{
		Event: func(r store.Record) error {
			facts = append(facts, fmt.Sprint(r.Sequence, string(r.Data)))
			return nil
		},
		Output: func(ref, mediaType string, content io.Reader) error {
			b, err := io.ReadAll(content)
			if ref != refOf(string(b)) || mediaType != "text/plain" {
				t.Errorf("output %s (%s) has another content", ref, mediaType)
			}
			outputs = append(outputs, ref)
			return err
		},
		Missing: func(ref string) error { missing = append(missing, ref); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(facts) != 3 || facts[2] != `3{"sequence":3,"text":"fact"}` || len(outputs) != 3 || len(missing) != 1 {
		t.Fatalf("facts %v, %d outputs, missing %v", facts, len(outputs), missing)
	}
	if sum.SessionID != "sess_a" || sum.Events != 3 || sum.Outputs != 3 || sum.Missing != 1 {
		t.Fatalf("summary %+v", sum)
	}
}

// TestChangesAreFound changes a file in every way that a line can be changed.
func TestChangesAreFound(t *testing.T) {
	good := strings.Split(strings.TrimSuffix(string(file(t)), "\n"), "\n")
	end := len(good) - 1
	edit := func(f func(l []string) []string) string {
		l := f(append([]string(nil), good...))
		return strings.Join(l, "\n") + "\n"
	}
	for name, c := range map[string]struct{ text, says string }{
		"a fact changed":    {edit(func(l []string) []string { l[2] = strings.Replace(l[2], "fact", "lie", 1); return l }), "hash chain"},
		"a fact dropped":    {edit(func(l []string) []string { return append(l[:2:2], l[3:]...) }), "3 facts were written but 2"},
		"facts swapped":     {edit(func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }), "hash chain"},
		"a fact added":      {edit(func(l []string) []string { return append(append(l[:2:2], l[1]), l[2:]...) }), "3 facts were written but 4"},
		"a fact behind":     {edit(func(l []string) []string { l[1], l[5] = l[5], l[1]; return l }), "after the outputs"},
		"an output changed": {edit(func(l []string) []string { l[4] = strings.Replace(l[4], `"data":"`, `"data":"AAAA`, 1); return l }), "was changed"},
		"a piece dropped":   {edit(func(l []string) []string { return append(l[:6:6], l[7:]...) }), "before"},
		"an output dropped": {edit(func(l []string) []string { return append(l[:4:4], l[5:]...) }), "not those"},
		"a media type":      {edit(func(l []string) []string { l[4] = strings.Replace(l[4], "text/plain", "text/html", 1); return l }), "not those"},
		"another runtime":   {edit(func(l []string) []string { l[0] = strings.Replace(l[0], "runtime_a", "runtime_b", 1); return l }), "signature"},
		"another session":   {edit(func(l []string) []string { l[0] = strings.Replace(l[0], "sess_a", "sess_b", 1); return l }), "hash chain"},
		"no end":            {edit(func(l []string) []string { return l[:end] }), "cut off"},
		"cut in a line":     {strings.TrimSuffix(edit(func(l []string) []string { return l }), "\n"), "cut off"},
		"more behind":       {edit(func(l []string) []string { return append(l, l[1]) }), "after the last line"},
		"no header":         {edit(func(l []string) []string { return l[1:] }), "not an exported session"},
		"other format":      {edit(func(l []string) []string { l[0] = strings.Replace(l[0], "session-1", "session-9", 1); return l }), "format"},
		"empty":             {"", "cut off"},
		"huge format": {edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], "session-1", strings.Repeat("x", 1<<20), 1)
			return l
		}), "format"},
		"huge runtime": {edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], "runtime_a", strings.Repeat("x", 1<<20), 1)
			return l
		}), "too long"},
		"shown runtime": {edit(func(l []string) []string { l[0] = strings.Replace(l[0], "runtime_a", `\u001b[2J`, 1); return l }), "not printable"},
		"huge reference": {edit(func(l []string) []string {
			l[4] = strings.Replace(l[4], "sha256:", "sha256:"+strings.Repeat("0", 1<<20), 1)
			return l
		}), "not an output"},
		"shown media type": {edit(func(l []string) []string { l[4] = strings.Replace(l[4], "text/plain", `text/\r\nplain`, 1); return l }), "not an output"},
		"not base64":       {edit(func(l []string) []string { l[4] = strings.Replace(l[4], `"data":"`, `"data":"*`, 1); return l }), "can't be read"},
		"unknown line":     {edit(func(l []string) []string { l[4] = `{"agentd.other":{}}`; return l }), "not written as"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := transfer.Read(strings.NewReader(c.text), transfer.Visitor{})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want an error that says %q", err, c.says)
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestFlippedBits flips one bit after another: each is found.
func TestFlippedBits(t *testing.T) {
	good := file(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		bad := bytes.Clone(good)
		at := random.IntN(len(bad))
		bad[at] ^= 1 << random.IntN(8)
		_, err := transfer.Read(bytes.NewReader(bad), transfer.Visitor{})
		if err == nil && !harmless(good, at) {
			t.Fatalf("a flipped bit at %d was not found: %q", at, around(bad, at))
		}
	}
}

// harmless are bits of the time of the export and of the name of a missing output,
// on which nothing depends.
func harmless(good []byte, at int) bool {
	from := bytes.LastIndexByte(good[:at], '\n') + 1
	to := bytes.IndexByte(good[from:], '\n') + from
	return from == 0 && at > bytes.Index(good, []byte(`"exportedAt"`)) || bytes.Contains(good[from:to], []byte(`"missing":true`))
}

func around(b []byte, at int) []byte { return b[max(0, at-40):min(len(b), at+40)] }

// TestVisitorStops shows that an error of the visitor comes back and that nobody waits.
func TestVisitorStops(t *testing.T) {
	stop := fmt.Errorf("enough")
	for name, v := range map[string]transfer.Visitor{
		"header": {Header: func(*transfer.Header) error { return stop }},
		"event":  {Event: func(store.Record) error { return stop }},
		"output": {Output: func(string, string, io.Reader) error { return stop }},
	} {
		if _, err := transfer.Read(bytes.NewReader(file(t)), v); err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"agentd.session":{"format":"agentd-session-1","sessionId":"s"}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sum, err := transfer.Read(bytes.NewReader(data), transfer.Visitor{}); err == nil && sum.Signature == nil {
			t.Fatal("a file without a signature was taken")
		}
	})
}

// TestRemovedBeginning writes a session without its first facts: the file says so, its
// facts have their own sequences, and nobody can change that unnoticed.
func TestRemovedBeginning(t *testing.T) {
	chain := store.NewChain(store.Genesis("sess_a"))
	var facts [][]byte
	for i := range 5 {
		facts = append(facts, fmt.Appendf(nil, `{"sequence":%d,"text":"fact"}`, i+1))
	}
	for _, f := range facts[:3] {
		chain.Next(f)
	}
	at := chain.Last()
	var b bytes.Buffer
	w, err := transfer.NewWriter(&b, transfer.Header{SessionID: "sess_a", RuntimeID: "runtime_a", RemovedThrough: 3, RemovedHash: fmt.Sprintf("%x", at)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts[3:] {
		if err := w.Event(f); err != nil {
			t.Fatal(err)
		}
		chain.Next(f)
	}
	if err := w.Close(key()); err != nil {
		t.Fatal(err)
	}
	var last store.Record
	sum, err := transfer.Read(bytes.NewReader(b.Bytes()), transfer.Visitor{Event: func(r store.Record) error { last = r; return nil }})
	if err != nil || sum.RemovedThrough != 3 || sum.Events != 2 || last.Sequence != 5 || last.Hash != chain.Last() {
		t.Errorf("got %+v, %v, last fact %d", sum, err, last.Sequence)
	}
	for old, replacement := range map[string]string{
		`"removedThrough":3`: `"removedThrough":2`,
		fmt.Sprintf(`,"removedThrough":3,"removedHash":"%x"`, at): "",
		fmt.Sprintf("%x", at):                 strings.Repeat("0", 64),
		fmt.Sprintf(`"removedHash":"%x"`, at): `"removedHash":"00"`,
	} {
		changed := bytes.Replace(b.Bytes(), []byte(old), []byte(replacement), 1)
		if bytes.Equal(changed, b.Bytes()) {
			t.Fatalf("the file has no %s", old)
		}
		if _, err := transfer.Read(bytes.NewReader(changed), transfer.Visitor{}); err == nil {
			t.Errorf("%s was changed to %s, and nobody noticed", old, replacement)
		}
	}
}
