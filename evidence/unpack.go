package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// An archive comes from outside, and a small one can claim to hold very much. What
// is unpacked is bounded as a whole and passes through memory in pieces; what must
// be in memory at once is bounded for itself.
const (
	// unpackAtLeast may be unpacked of any archive, and unpackTimes its own size of a
	// large one. A file that is read again counts again.
	unpackAtLeast = 512 << 20
	unpackTimes   = 400
	// maxEntries bounds the files of an archive.
	maxEntries = 100_000
	// maxValue bounds one value of a packed pack: a fact, an item of a list.
	maxValue = 32 << 20
	// maxSections bounds the sections of a pack.
	maxSections = 1000
	// maxManifest bounds a manifest that is only asked for a place.
	maxManifest = 16 << 20
	// maxListed bounds the entries of a pack that are held at once.
	maxListed = 1_000_000
)

// allowance is what may still be unpacked of an archive.
type allowance struct{ limit, left int64 }

func newAllowance(size int64) *allowance {
	n := max(unpackAtLeast, unpackTimes*size)
	return &allowance{limit: n, left: n}
}

func (a *allowance) spent() error {
	return fmt.Errorf("the archive unpacks to more than %d MiB, which is too much for its size", a.limit>>20)
}

// countUnpacked counts unpacked bytes.
func (a *allowance) countUnpacked(n int) error {
	if a.left -= int64(n); a.left < 0 {
		return a.spent()
	}
	return nil
}

// boundedFiles are the files of an archive, of which only so much is unpacked.
type boundedFiles struct {
	files fs.FS
	left  *allowance
}

// Open implements [fs.FS].
func (b *boundedFiles) Open(name string) (fs.File, error) {
	f, err := b.files.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	return &boundedFile{f, b.left}, nil
}

type boundedFile struct {
	fs.File
	left *allowance
}

// Read implements [io.Reader].
func (f *boundedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if over := f.left.countUnpacked(n); over != nil {
		return 0, over
	}
	return n, err
}

// valueGuard feeds a JSON decoder, and ends it when one value is too large: the
// decoder holds a value as a whole.
type valueGuard struct {
	r    io.Reader
	dec  *json.Decoder
	most int64 // 0 is no bound
	fed  int64
}

var errLargeValue = errors.New("a value is larger than it may be in an archive")

// Read implements [io.Reader].
func (g *valueGuard) Read(p []byte) (int, error) {
	if g.most > 0 && g.fed-g.dec.InputOffset() > g.most {
		return 0, errLargeValue
	}
	n, err := g.r.Read(p)
	g.fed += int64(n)
	return n, err
}

// readAtMost reads a file that must not be larger.
func readAtMost(files fs.FS, path string, most int64) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return b, err
}

// rereader is a file that can be read again from its beginning, which a packed file
// can only by being opened again.
type rereader struct {
	files fs.FS
	path  string
	now   fs.File
	at    int64
}

// Read implements [io.Reader].
func (r *rereader) Read(p []byte) (int, error) {
	if r.now == nil {
		f, err := r.files.Open(r.path)
		if err != nil {
			return 0, err
		}
		r.now = f
	}
	n, err := r.now.Read(p)
	r.at += int64(n)
	return n, err
}

// Seek implements [io.Seeker], for where it is and for the beginning.
func (r *rereader) Seek(offset int64, whence int) (int64, error) {
	switch {
	case whence == io.SeekCurrent && offset == 0:
		return r.at, nil
	case whence == io.SeekStart && offset == 0:
		return 0, r.Close()
	}
	return 0, errors.New("evidence: a packed file is read from its beginning")
}

// Close implements [io.Closer].
func (r *rereader) Close() error {
	f := r.now
	r.now, r.at = nil, 0
	if f == nil {
		return nil
	}
	return f.Close()
}
