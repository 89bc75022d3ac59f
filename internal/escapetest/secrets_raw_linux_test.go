package escapetest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"agentd/store"
)

// image copies the data directory as a crash would leave it just now.
func (a *agentServer) image() {
	a.Helper()
	a.must(os.CopyFS(a.dir+"/image", os.DirFS(a.data)))
}

// readRaw reads every version of every key that the engine's files hold, also those
// that a later one hides: in the logs and tables of the image, in those that the server
// left, and in the tables that are made of the image's logs.
func (a *agentServer) readRaw() {
	a.Helper()
	tables, logs := 0, 0
	count := func(t, l int) { tables, logs = tables+t, logs+l }
	count(a.rawFiles(a.dir + "/image"))
	count(a.rawFiles(a.data))
	db, err := pdb.Open(a.dir+"/image/db", &pdb.Options{FormatMajorVersion: pdb.FormatNewest, Logger: quiet{}, DisableAutomaticCompactions: true})
	a.must(err)
	a.must(db.Flush())
	a.must(db.Close())
	count(a.rawFiles(a.dir + "/image"))
	if tables == 0 || logs == 0 {
		a.Errorf("%d tables and %d logs were read: nothing was shown about one kind", tables, logs)
	}
}

func (a *agentServer) rawFiles(dir string) (tables, logs int) {
	a.Helper()
	var all bytes.Buffer
	add := func(key, value []byte) {
		all.Write(key)
		all.Write(value)
		if content, err := store.DecodeChunk(value); err == nil {
			all.Write(content)
		}
		all.WriteByte('\n')
	}
	a.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.Type().IsRegular():
			return err
		case strings.HasSuffix(path, ".sst"):
			tables++
			return readTable(path, add)
		case strings.HasSuffix(path, ".log"):
			logs++
			return readLog(path, add)
		}
		return nil
	}))
	a.found["every version in the engine's files"] = append(a.found["every version in the engine's files"], all.Bytes()...)
	return tables, logs
}

// readTable hands on each version of each key of a table.
func readTable(path string, add func(key, value []byte)) error {
	f, err := vfs.Default.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return err
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return err
		}
		add(kv.K.UserKey, value)
	}
	return it.Error()
}

// Chunks of a log: where a block ends, and how long the header of each encoding is.
const logBlock = 32 << 10

func chunkHeader(encoding byte) int {
	switch {
	case encoding >= 1 && encoding <= 4:
		return 7
	case encoding >= 5 && encoding <= 8:
		return 11
	case encoding >= 9 && encoding <= 12:
		return 19
	}
	return 0
}

// readLog hands on what the batches of a log hold, also those of an older log whose
// file it reuses: the chunks' log numbers are not looked at.
func readLog(path string, add func(key, value []byte)) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var record []byte
	for start := 0; start < len(b); start += logBlock {
		block := b[start:min(start+logBlock, len(b))]
		for len(block) > 7 {
			head, size := chunkHeader(block[6]), int(binary.LittleEndian.Uint16(block[4:]))
			if head == 0 || head+size > len(block) {
				break
			}
			part := (block[6] - 1) % 4 // full, first, middle, last
			if part < 2 {
				record = nil
			}
			record = append(record, block[head:head+size]...)
			if part == 0 || part == 3 {
				readBatch(record, add)
			}
			block = block[head+size:]
		}
	}
	return nil
}

func readBatch(record []byte, add func(key, value []byte)) {
	add(nil, record)
	if len(record) < batchrepr.HeaderLen {
		return
	}
	for r := batchrepr.Read(record); ; {
		_, key, value, ok, err := r.Next()
		if !ok || err != nil {
			return // what isn't whole was looked at as bytes
		}
		add(key, value)
	}
}

// expand is a content with everything that is packed in it: archives, compressed
// streams, base64 and JSON strings, some levels deep.
func expand(content []byte, depth int) [][]byte {
	all := [][]byte{content}
	if depth == 0 || len(content) == 0 {
		return all
	}
	for _, inner := range unpack(content) {
		all = append(all, expand(inner, depth-1)...)
	}
	return all
}

var gzipMagic = []byte{0x1f, 0x8b, 0x08}

// base64Runs are the parts of a content that may be base64, of either alphabet. Regular
// expressions take ten times as long, and there are hundreds of megabytes to look through.
func base64Runs(content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		from := 0
		for i := 0; i <= len(content); i++ {
			if i < len(content) && inBase64[content[i]] {
				continue
			}
			if i-from >= 24 && !yield(content[from:i]) {
				return
			}
			from = i + 1
		}
	}
}

var inBase64 = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-") {
		in[c] = true
	}
	return in
}()

// escapedStrings are the strings of JSON in a content that have an escape. Where each begins
// isn't known: a quote that ends one may begin the next.
func escapedStrings(content []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			from := bytes.IndexByte(content, '"')
			if from < 0 {
				return
			}
			content = content[from:]
			end, escaped := 1, false
			for end < len(content) && content[end] != '"' {
				if content[end] == '\\' {
					escaped = true
					end++
				}
				end++
			}
			switch {
			case end >= len(content): // not closed
				content = content[1:]
			case !escaped:
				content = content[end:]
			case !yield(content[:end+1]):
				return
			default:
				content = content[end+1:]
			}
		}
	}
}

func unpack(content []byte) (inner [][]byte) {
	if z, err := zip.NewReader(bytes.NewReader(content), int64(len(content))); err == nil {
		for _, f := range z.File {
			if r, err := f.Open(); err == nil {
				inner = append(inner, upTo(r))
				_ = r.Close() // it was only read
			}
		}
	}
	for t := tar.NewReader(bytes.NewReader(content)); ; {
		if _, err := t.Next(); err != nil {
			break
		}
		inner = append(inner, upTo(t))
	}
	for rest := content; ; {
		i := bytes.Index(rest, gzipMagic)
		if i < 0 {
			break
		}
		if r, err := gzip.NewReader(bytes.NewReader(rest[i:])); err == nil {
			inner = append(inner, upTo(r))
		}
		rest = rest[i+len(gzipMagic):]
	}
	var texts bytes.Buffer
	for run := range base64Runs(content) {
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if b, err := e.DecodeString(string(run)); err == nil {
				texts.Write(b)
				texts.WriteByte('\n')
			}
		}
	}
	for run := range escapedStrings(content) {
		var s string
		if json.Unmarshal(run, &s) == nil {
			texts.WriteString(s)
			texts.WriteByte('\n')
		}
	}
	if texts.Len() > 0 {
		inner = append(inner, texts.Bytes())
	}
	return inner
}

// upTo reads what can be read of a stream, up to a bound.
func upTo(r io.Reader) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, 64<<20)) // a damaged end has nothing more to show
	return b
}
