package evidence

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"
)

// VerifyArchive verifies a bundle, or an export in the sibling standard's shape, that
// is in a zip archive. One whose own directory was damaged is read from its beginning,
// file by file, to find where.
func VerifyArchive(r io.ReaderAt, size int64, opt VerifyOptions) *Verification {
	left := newAllowance(size)
	files, broken := openArchive(r, size, left)
	if broken != nil && files == nil {
		return &Verification{Finding: &Finding{Byte: broken.at, Detail: broken.err.Error()}}
	}
	opt.maxValue = maxValue
	v := VerifyBundle(&boundedFiles{files, left}, opt)
	switch {
	case broken == nil:
	case v.Finding == nil || v.Finding.File == ".":
		v.Finding = &Finding{Byte: broken.at, Detail: "the archive's directory can't be used, and the files in it are as they were: " + broken.err.Error()}
	default:
		v.Finding.Detail += "; the archive's directory can't be used: " + broken.err.Error()
	}
	return v
}

// damage is where something can't be read any more, and why.
type damage struct {
	at  int64
	err error
}

// openArchive opens an archive, or what can be found of it; nothing if it holds more
// than is looked at.
func openArchive(r io.ReaderAt, size int64, left *allowance) (fs.FS, *damage) {
	archive, err := zip.NewReader(r, size)
	if err == nil {
		if n := len(archive.File); n > maxEntries {
			return nil, &damage{0, fmt.Errorf("the archive has %d files; the maximum is %d", n, maxEntries)}
		}
		for _, f := range archive.File {
			if mode := f.Mode(); !mode.IsRegular() && !mode.IsDir() {
				return nil, &damage{0, fmt.Errorf("%.100q in the archive is neither a file nor a folder: other programs would unpack something else than what is verified", f.Name)}
			}
			if _, err = f.DataOffset(); err != nil {
				break
			}
		}
	}
	if err == nil {
		return archive, checkLayout(r, archive.File)
	}
	found := &salvage{r: r, size: size, members: map[string]int64{}}
	at, over := found.scan(left)
	if over != nil {
		return nil, &damage{at, over}
	}
	return found, &damage{at, err}
}

// checkLayout finds where other programs may read an archive otherwise than this one does.
// Some go by the directory at its end, others by the header before each file, so both must
// name the same files, one after the other from the first byte, with nothing in between.
func checkLayout(r io.ReaderAt, files []*zip.File) *damage {
	files = slices.Clone(files)
	begin := func(f *zip.File) int64 { at, _ := f.DataOffset(); return at } // it was found before
	slices.SortFunc(files, func(a, b *zip.File) int { return cmp.Compare(begin(a), begin(b)) })
	at := int64(0)
	for _, f := range files {
		head := make([]byte, max(begin(f)-at, 0))
		if _, err := r.ReadAt(head, at); err != nil || !sameHeader(head, f) {
			return &damage{at, fmt.Errorf("its directory and what stands before %.100q in it disagree: other programs would unpack something else than what is verified", f.Name)}
		}
		at = begin(f) + int64(f.CompressedSize64) + descriptorSize(f)
	}
	next := make([]byte, len(directoryEntry))
	if _, err := r.ReadAt(next, at); len(files) > 0 && (err != nil || string(next) != directoryEntry) {
		return &damage{at, errors.New("it holds something after its last file that its directory doesn't name")}
	}
	return nil
}

// sameHeader reports whether what stands before a file says of it what the directory says.
func sameHeader(head []byte, f *zip.File) bool {
	if len(head) < headerSize || string(head[:4]) != localHeader {
		return false
	}
	short := func(at int) int { return int(binary.LittleEndian.Uint16(head[at:])) }
	long := func(at int) uint32 { return binary.LittleEndian.Uint32(head[at:]) }
	length, extra := short(26), short(28)
	if headerSize+length+extra != len(head) || string(head[headerSize:headerSize+length]) != f.Name ||
		short(6) != int(f.Flags) || short(8) != int(f.Method) || hasSecondName(f.Extra) || hasSecondName(head[headerSize+length:]) {
		return false
	}
	if descriptorSize(f) > 0 {
		return true // the sizes come after the content
	}
	size := func(said uint32, n uint64) bool { return said == math.MaxUint32 || uint64(said) == n }
	return long(14) == f.CRC32 && size(long(18), f.CompressedSize64) && size(long(22), f.UncompressedSize64)
}

// hasSecondName reports whether the further fields of a header have a name in them that
// some programs prefer, or can't be read.
func hasSecondName(fields []byte) bool {
	const unicodePath = 0x7075
	for len(fields) > 0 {
		if len(fields) < 4 || binary.LittleEndian.Uint16(fields) == unicodePath {
			return true
		}
		n := 4 + int(binary.LittleEndian.Uint16(fields[2:]))
		if n > len(fields) {
			return true
		}
		fields = fields[n:]
	}
	return false
}

// descriptorSize is the length of what follows a file whose size wasn't known when its
// header was written.
func descriptorSize(f *zip.File) int64 {
	const afterwards, small, large = 1 << 3, 16, 24
	switch {
	case f.Flags&afterwards == 0:
		return 0
	case f.CompressedSize64 > math.MaxUint32 || f.UncompressedSize64 > math.MaxUint32:
		return large
	default:
		return small
	}
}

// salvage is what is in an archive whose directory can't be used: where the packed
// bytes of each file begin, as its header before them says.
type salvage struct {
	r       io.ReaderAt
	size    int64
	members map[string]int64
}

const (
	localHeader    = "PK\x03\x04"
	directoryEntry = "PK\x01\x02"
	descriptor     = "PK\x07\x08"
	headerSize     = 30
	maxName        = 256
)

// scan looks for the files, and returns where the last of them ends. The error says
// that there is more than is looked at.
func (s *salvage) scan(left *allowance) (int64, error) {
	end := int64(0)
	for at := s.next(0); at >= 0; at = s.next(end) {
		name, data, ok := s.header(at)
		if end = at + 1; !ok {
			continue
		}
		if _, known := s.members[name]; !known {
			s.members[name] = data
		}
		if len(s.members) > maxEntries {
			return at, fmt.Errorf("the archive has more than %d files", maxEntries)
		}
		// The end of a damaged file is unknown: the next file is searched for inside it.
		// Packed bytes that were changed can be read without an error, beyond their end
		// and over the files that follow, so the checksum must be right too.
		packed, sum := &section{r: bufio.NewReader(io.NewSectionReader(s.r, data, s.size-data))}, crc32.NewIEEE()
		n, err := io.Copy(sum, io.LimitReader(flate.NewReader(packed), left.left+1))
		if left.left -= n; left.left < 0 {
			return at, left.spent()
		}
		if err == nil && s.hasChecksum(at, data+packed.n, sum.Sum32()) {
			end = data + packed.n
		}
	}
	return end, nil
}

// hasChecksum reports whether a checksum is the one in the header of a file, or the one
// that follows the file.
func (s *salvage) hasChecksum(header, end int64, sum uint32) bool {
	var in, behind [4]byte
	_, err1 := s.r.ReadAt(in[:], header+14)
	_, err2 := s.r.ReadAt(behind[:], end+int64(len(descriptor)))
	return err1 == nil && binary.LittleEndian.Uint32(in[:]) == sum || err2 == nil && binary.LittleEndian.Uint32(behind[:]) == sum
}

// header reads what stands before the packed bytes of a file.
func (s *salvage) header(at int64) (name string, data int64, ok bool) {
	head := make([]byte, headerSize+maxName)
	n, err := s.r.ReadAt(head, at)
	if err != nil && !errors.Is(err, io.EOF) || n < headerSize {
		return "", 0, false
	}
	method, length, extra := binary.LittleEndian.Uint16(head[8:]), int(binary.LittleEndian.Uint16(head[26:])), int(binary.LittleEndian.Uint16(head[28:]))
	if method != zip.Deflate || length == 0 || headerSize+length > n {
		return "", 0, false
	}
	name = string(head[headerSize : headerSize+length])
	return name, at + int64(headerSize+length+extra), fs.ValidPath(name)
}

// next looks for the next header; -1 if there is none.
func (s *salvage) next(from int64) int64 {
	block := make([]byte, 64<<10)
	for from < s.size {
		n, _ := s.r.ReadAt(block, from)
		if i := bytes.Index(block[:n], []byte(localHeader)); i >= 0 {
			return from + int64(i)
		}
		if n < len(block) {
			break
		}
		from += int64(n - len(localHeader) + 1)
	}
	return -1
}

// section counts what the unpacking takes; it takes no byte more than it needs.
type section struct {
	r *bufio.Reader
	n int64
}

func (s *section) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.n++
	}
	return b, err
}

func (s *section) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	return n, err
}

// Open implements [fs.FS]; it knows no folders.
func (s *salvage) Open(name string) (fs.File, error) {
	data, ok := s.members[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &salvaged{name: name, ReadCloser: flate.NewReader(bufio.NewReader(io.NewSectionReader(s.r, data, s.size-data)))}, nil
}

// salvaged is a file of such an archive.
type salvaged struct {
	io.ReadCloser
	name string
}

// Stat implements [fs.File]; of the file only that it is one is known.
func (s *salvaged) Stat() (fs.FileInfo, error) { return s, nil }

// Name and the others implement [fs.FileInfo].
func (s *salvaged) Name() string    { return s.name }
func (*salvaged) Size() int64       { return 0 }
func (*salvaged) Mode() fs.FileMode { return 0o400 }
func (*salvaged) ModTime() time.Time {
	return time.Time{}
}
func (*salvaged) IsDir() bool { return false }
func (*salvaged) Sys() any    { return nil }

// asFar is files that end where they can't be read any more: what an archive's packing
// and its checksums say is less than what the proof says, and must not hide it.
type asFar struct {
	files fs.FS
	// first is the damage that was met first in each file.
	first map[string]*damage
}

// Open implements [fs.FS].
func (a *asFar) Open(name string) (fs.File, error) {
	f, err := a.files.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	return &asFarFile{File: f, name: name, in: a}, nil
}

type asFarFile struct {
	fs.File
	name string
	n    int64
	in   *asFar
}

func (f *asFarFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		if f.in.first[f.name] == nil {
			f.in.first[f.name] = &damage{f.n, err}
		}
		err = io.EOF
	}
	return n, err
}

// explain adds to a finding what was met while reading.
func (a *asFar) explain(found *Finding) *Finding {
	if found == nil {
		for name, d := range a.first { // it takes a checksum that alone is wrong to get here
			return changedFinding(name, d.at, "its content is as it was, but it can't be read without an error: %v", d.err)
		}
		return nil
	}
	if d := a.first[found.File]; d != nil {
		found.Detail += "; it can't be read without an error: " + d.err.Error()
		// Where reading ended is not where the change is.
		found.Exact = found.Exact && found.Byte < d.at
	}
	return found
}
