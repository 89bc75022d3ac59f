package evidence_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"agentd/evidence"
)

// bundleMutations are the ways in which somebody might change the files of a bundle.
var bundleMutations = map[string]func(r *rand.Rand, files fstest.MapFS, path string){
	"flip": func(r *rand.Rand, f fstest.MapFS, path string) {
		d := f[path].Data
		d[r.IntN(len(d))] ^= 1 << r.IntN(8)
	},
	"drop some": func(r *rand.Rand, f fstest.MapFS, path string) {
		d := f[path].Data
		at := r.IntN(len(d))
		f[path].Data = slices.Delete(d, at, min(at+1+r.IntN(40), len(d)))
	},
	"insert": func(r *rand.Rand, f fstest.MapFS, path string) {
		d := f[path].Data
		f[path].Data = slices.Insert(d, r.IntN(len(d)), []byte("planted")[:1+r.IntN(7)]...)
	},
	"drop it": func(_ *rand.Rand, f fstest.MapFS, path string) { delete(f, path) },
	"swap two": func(r *rand.Rand, f fstest.MapFS, path string) {
		paths := pathsOf(f)
		other := paths[r.IntN(len(paths))]
		f[path].Data, f[other].Data = f[other].Data, f[path].Data
	},
	"reorder lines": func(r *rand.Rand, f fstest.MapFS, path string) {
		lines := bytes.Split(f[path].Data, []byte("\n"))
		i, j := r.IntN(len(lines)), r.IntN(len(lines))
		lines[i], lines[j] = lines[j], lines[i]
		f[path].Data = bytes.Join(lines, []byte("\n"))
	},
}

func pathsOf(f fstest.MapFS) []string {
	var out []string
	for path := range f {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// TestMutationsOfBundlesAreFound changes the files of a bundle at random.
func TestMutationsOfBundlesAreFound(t *testing.T) {
	m := bundled(t)
	r := rand.New(rand.NewPCG(11, 12)) // a test repeats itself
	whole := m.fs()
	found := 0
	for range 26 {
		for _, path := range pathsOf(whole) {
			for _, name := range slices.Sorted(maps.Keys(bundleMutations)) {
				files := m.fs()
				bundleMutations[name](r, files, path)
				if sameFiles(whole, files) {
					continue
				}
				if v := evidence.VerifyBundle(files, evidence.VerifyOptions{}); v.Finding == nil {
					t.Errorf("%s %s: not found", name, path)
				}
				found++
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d mutations changed something", found)
	}
	t.Logf("%d mutations found", found)
}

// sameFiles reports whether nothing was changed, but for how JSON is laid out.
func sameFiles(a, b fstest.MapFS) bool {
	if len(a) != len(b) {
		return false
	}
	for path, f := range a {
		switch {
		case b[path] == nil:
			return false
		case path == "manifest.json" && reflect.DeepEqual(parsed(f.Data), parsed(b[path].Data)):
		case !bytes.Equal(f.Data, b[path].Data):
			return false
		}
	}
	return true
}
