package evidence_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"agentd/evidence"
)

// repeated yields a text so many times.
func repeated(text string, times int) io.Reader {
	block := strings.Repeat(text, max(1, 64<<10/len(text)))
	return io.LimitReader(&loopReader{block: block}, int64(len(text))*int64(times))
}

type loopReader struct {
	block string
	at    int
}

func (e *loopReader) Read(p []byte) (int, error) {
	n := copy(p, e.block[e.at:])
	e.at = (e.at + n) % len(e.block)
	return n, nil
}

// bomb packs files whose contents are made while they are packed.
func bomb(t testing.TB, files map[string]io.Reader) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for name, content := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.Copy(f, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// around puts something between two texts.
func around(before string, middle io.Reader, after string) io.Reader {
	return io.MultiReader(strings.NewReader(before), middle, strings.NewReader(after))
}

// bombs are archives whose weight is in one place each; n is the size that they
// claim, in MiB.
func bombs(n int) map[string]map[string]io.Reader {
	some := func(text string) io.Reader { return repeated(text, n<<20/len(text)) }
	return map[string]map[string]io.Reader{
		"one long string":       {"evidence.json": around(`{"format":"`, some("x"), `"}`), "events.jsonl": strings.NewReader("")},
		"white space":           {"evidence.json": around(`{"format":`, some(" "), `1}`), "events.jsonl": strings.NewReader("")},
		"many sections":         {"evidence.json": around(`{"a":0`, numbered(n/16), `}`), "events.jsonl": strings.NewReader("")},
		"many items":            {"evidence.json": around(`{"redactions":[0`, some(`,{}`), `]}`), "events.jsonl": strings.NewReader("")},
		"one long fact":         {"evidence.json": around(`{"events":[{"data":"`, some("x"), `"}]}`), "events.jsonl": strings.NewReader("")},
		"deep":                  {"evidence.json": around(`{"scope":`, some("["), ``), "events.jsonl": strings.NewReader("")},
		"a long manifest":       {"evidence.json": strings.NewReader(`{}`), "events.jsonl": strings.NewReader(""), "manifest.json": some("x")},
		"a long line of events": {"evidence.json": strings.NewReader(`{}`), "events.jsonl": some("x")},
		"a long sibling":        {"export-manifest.json": strings.NewReader(`{}`), "agentd-evidence.json": around(`{"format":"`, some("x"), `"}`)},
	}
}

// numbered yields sections with names of their own.
func numbered(mib int) io.Reader {
	r, w := io.Pipe()
	go func() {
		var err error
		for i, n := 0, 0; err == nil && n < mib<<20; i++ {
			var m int
			m, err = fmt.Fprintf(w, `,"s%d":0`, i)
			n += m
		}
		w.CloseWithError(err)
	}()
	return r
}

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestBombsCostLittle verifies archives of some hundred kilobytes that claim to hold
// many megabytes. What they cost must not grow with what they claim.
func TestBombsCostLittle(t *testing.T) {
	const most = 300 << 20 // a value may have 32 MiB, and the decoder's buffer doubles
	for name, small := range bombs(36) {
		t.Run(name, func(t *testing.T) {
			archive := bomb(t, small)
			double := bomb(t, bombs(72)[name])
			verify := func(b []byte) uint64 {
				var v *evidence.Verification
				n := allocated(func() { v = evidence.VerifyArchive(bytes.NewReader(b), int64(len(b)), evidence.VerifyOptions{}) })
				if v.Finding == nil {
					t.Error("nothing was found")
				}
				return n
			}
			one, two := verify(archive), verify(double)
			t.Logf("%d kB packed: %d MiB; %d kB packed: %d MiB", len(archive)>>10, one>>20, len(double)>>10, two>>20)
			if two > most {
				t.Errorf("an archive of %d kB made %d MiB", len(double)>>10, two>>20)
			}
			if two > one+one/2+(16<<20) {
				t.Errorf("twice the claim made %d MiB of %d MiB", two>>20, one>>20)
			}
		})
	}
}

// TestManyHeadersAreUnpackedOnce puts many headers into one packed file: whoever
// unpacked from each to the end would never be done.
func TestManyHeadersAreUnpackedOnce(t *testing.T) {
	one := bomb(t, map[string]io.Reader{"a": repeated("x", 8<<20)})
	header := one[:bytes.Index(one[4:], []byte("PK"))+4]
	var archive []byte
	for range 2000 {
		archive = append(archive, header[:31]...)
	}
	archive = append(archive, header...)
	v := evidence.VerifyArchive(bytes.NewReader(archive), int64(len(archive)), evidence.VerifyOptions{})
	if v.Finding == nil {
		t.Error("nothing was found")
	}
}
