//go:build !race

// Logs are damaged at hundreds of places and opened, in one goroutine: no work for the
// race detector.

package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"agentd/store"
	"agentd/store/pebble"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// image is a store as bytes, with what must be in it.
type image struct {
	files map[string][]byte
	k     *book
	blob  []byte
	ref   string
}

// takeImage fills a store so that it has tables, several logs and a blob. If
// clean, it is closed before its files are taken, otherwise they are those of a
// process that is killed.
func takeImage(t *testing.T, clean bool) *image {
	t.Helper()
	mem := vfs.NewMem()
	s := mustOpen(t, "store", small(mem))
	im := &image{files: map[string][]byte{}, k: newBook(t, s), blob: bytes.Repeat([]byte("blob "), 200_000)}
	info, err := s.PutBlob(context.Background(), bytes.NewReader(im.blob))
	if err != nil {
		t.Fatal(err)
	}
	im.ref = info.Ref
	for s.Metrics().Flush.Count < 4 {
		im.k.must(3, 600, "a", "b", "c")
	}
	// Small records: Pebble tries all single bits of a damaged chunk, which takes
	// time that grows with its square.
	for i := range 60 {
		im.k.must(1, 90+10*i, []string{"a", "b"}[:1+i%2]...)
	}
	if clean {
		mustClose(t, s)
	} else {
		waitQuiet(t, s)
	}
	for _, path := range listing(t, mem, "store") {
		im.files[path] = readAll(t, mem, path)
	}
	if !clean {
		mustClose(t, s)
	}
	return im
}

// waitQuiet waits until nothing changes files in the background, so that the
// files are those of one moment.
func waitQuiet(t *testing.T, s *pebble.Store) {
	t.Helper()
	for {
		m := s.Metrics()
		if m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0 && m.MemTable.Count == 1 && m.Table.ObsoleteCount == 0 {
			return
		}
	}
}

func readAll(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// withFile returns a file system with the image, one file changed. Nil removes it.
func (im *image) withFile(t *testing.T, path string, content []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("store/db", 0o700); err != nil {
		t.Fatal(err)
	}
	for p, data := range im.files {
		if p == path {
			if data = content; data == nil {
				continue
			}
		}
		f, err := fs.Create(p, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		// MemFS keeps the slice of the first write, and the image is shared.
		_, err = f.Write(slices.Clone(data))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// The outcomes that damage may have.
const (
	intact   = "intact"
	refused  = "refused at open"
	detected = "detected on read"
	reported = "reported in Recovery"
	silent   = "SILENT LOSS"
)

// outcome opens the image with one file changed and reads everything.
func (im *image) outcome(t *testing.T, path string, content []byte) (what, detail string) {
	t.Helper()
	s, err := pebble.Open("store", small(im.withFile(t, path, content)))
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: Open: %v, want ErrCorrupt", path, err)
		}
		return refused, err.Error()
	}
	defer mustClose(t, s)
	err = im.check(s)
	notes := strings.Join(recovery(t, s), " ")
	switch {
	case errors.Is(err, store.ErrCorrupt):
		return detected, err.Error()
	case err == nil && notes == "":
		return intact, ""
	case notes != "":
		return reported, notes
	}
	return silent, err.Error()
}

func (im *image) check(s *pebble.Store) error {
	if err := im.k.check(s, false); err != nil {
		return err
	}
	got, err := readBlob(s, im.ref)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, im.blob) {
		return errors.New("the blob is not what was stored")
	}
	return nil
}

// offsets returns n places spread over size bytes, the ends among them.
func offsets(size, n int) []int {
	var at []int
	for i := range n {
		at = append(at, i*(size-1)/(n-1))
	}
	for i := 1; i <= 12 && i < size; i++ {
		at = append(at, size-i)
	}
	slices.Sort(at)
	return slices.Compact(at)
}

func flip(data []byte, at int) []byte {
	c := slices.Clone(data)
	c[at] ^= 1 << (at % 8)
	return c
}

// damages yields each way to damage a file that is tried.
func damages(data []byte, n int) func(yield func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		if !yield("missing", nil) {
			return
		}
		if len(data) == 0 {
			return
		}
		for _, at := range offsets(len(data), n) {
			if !yield(fmt.Sprintf("bit flipped in byte %d of %d", at, len(data)), flip(data, at)) {
				return
			}
			if !yield(fmt.Sprintf("cut to %d of %d bytes", at, len(data)), slices.Clone(data[:at])) {
				return
			}
		}
	}
}

func (im *image) lastLog() string {
	var last string
	for p := range im.files {
		if isLog(p) {
			last = max(last, p)
		}
	}
	return last
}

// lastRecord returns where the newest record lies in the last log. Behind it may
// be what is left of an older log in the same file.
func (im *image) lastRecord(t *testing.T) (from, to int) {
	t.Helper()
	acked := im.k.acked["a"]
	record := acked[len(acked)-1]
	from = bytes.Index(im.files[im.lastLog()], record)
	if from < 0 {
		t.Fatal("the newest record is not in the last log")
	}
	return from, from + len(record)
}

// TestDamagedTail flips a bit in each byte of the frame of the newest record in the
// log of a killed process, and in many of its data. All were
// acknowledged, so each must be reported, whichever part of the log's own
// structure is hit.
func TestDamagedTail(t *testing.T) {
	im := takeImage(t, false)
	path := im.lastLog()
	data := im.files[path]
	from, to := im.lastRecord(t)
	for at := max(0, from-90); at < to; at++ { // the log may have begun with it
		if at > from && at%16 != 0 {
			continue // one place in the data is like another
		}
		if what, detail := im.outcome(t, path, flip(data, at)); what != refused && what != reported {
			t.Errorf("bit flipped in byte %d, record at %d to %d: %s: %s", at, from, to, what, detail)
		}
	}
	if what, detail := im.outcome(t, path, data[:(from+to)/2]); what != reported {
		t.Errorf("cut inside the record: %s: %s", what, detail)
	}
}

// TestSalvage opens what Open refuses, and says so.
func TestSalvage(t *testing.T) {
	im := takeImage(t, true)
	path := im.lastLog()
	from, _ := im.lastRecord(t)
	fs := im.withFile(t, path, im.files[path][:from])
	if _, err := pebble.Open("store", small(fs)); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("Open: %v, want ErrCorrupt", err)
	}
	o := small(fs)
	o.Salvage = true
	s := mustOpen(t, "store", o)
	defer mustClose(t, s)
	if r := recovery(t, s); len(r) == 0 {
		t.Error("Recovery says nothing about the loss")
	}
	h, err := s.Head(context.Background(), "a")
	if err != nil || h.Sequence == 0 || h.Sequence >= uint64(len(im.k.acked["a"])) {
		t.Errorf("Head: %d %v, want a part of %d records", h.Sequence, err, len(im.k.acked["a"]))
	}
}
