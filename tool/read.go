package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/tool/toolkind"
)

const (
	// defaultLines is how many lines are read if the call doesn't say.
	defaultLines = 2000
	// maxLine is how much of one line is shown.
	maxLine = 2000
	// maxImage is the largest picture that is handed to a model.
	maxImage = 5 << 20
	// maxCount is how far a file is read to tell how many lines it has.
	maxCount = 64 << 20
)

const readFileSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "The file, relative to the working folder or absolute within the workspace."},
		"offset": {"type": "integer", "minimum": 0, "description": "The first line to read; the file begins with line 1, which is the default."},
		"limit": {"type": "integer", "minimum": 1, "description": "How many lines to read at most; 2000 by default."}
	},
	"required": ["path"],
	"additionalProperties": false
}`

// FileRead is the structured result of read_file.
type FileRead struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"sizeBytes"`
	// FirstLine and LastLine are what the output shows; 0 if it shows no line.
	FirstLine int64 `json:"firstLine,omitempty"`
	LastLine  int64 `json:"lastLine,omitempty"`
	// Lines of the whole file; 0 if it is too long to count.
	Lines int64 `json:"lines,omitempty"`
	// LineEnding is lf, crlf or mixed; none if there is no line end.
	LineEnding string `json:"lineEnding,omitempty"`
	// BOM says that the file begins with a byte order mark, which isn't shown.
	BOM       bool   `json:"bom,omitempty"`
	Binary    bool   `json:"binary,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

func newReadFile(f *files) *builtin {
	return define(toolkind.ReadFile, event.ToolInfo{
		Description: "Reads a file of the workspace and returns its text as it is, without line numbers. " +
			"Long files are returned in parts: a note in square brackets at the end says which lines you got and " +
			"with which offset to go on. Pictures are shown to you; other binary files are only described.",
		Capabilities:      []string{CapFilesRead},
		IsReadOnly:        true,
		IsConcurrencySafe: true,
		InterruptBehavior: interruptCancel,
	}, readFileSchema, f.read)
}

type readInput struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

func (f *files) read(ctx context.Context, call *Call) (*Result, error) {
	var in readInput
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	t, err := f.open(call)
	if err != nil {
		return nil, err
	}
	defer t.close()
	file, fi, rel, err := t.openRead(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	about := FileRead{Path: rel, SizeBytes: fi.Size()}
	r, giveBack := readerFor(&stopReader{ctx: ctx, r: file}, fi.Size())
	defer giveBack()
	sample, err := r.Peek(binarySample)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, callError(ctx, err, "read "+quoteName(in.Path))
	}
	if IsBinary(sample) || imageType(sample) != "" {
		return readBinary(ctx, file, fi, sample, &about)
	}
	return readText(ctx, r, &in, call.maxOutput(), &about)
}

// smallReaders are for files that fit into the sample by which binary files are known.
var smallReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, binarySample) }}

// readerFor returns a buffered reader for a file of a size. It must be given back.
func readerFor(r io.Reader, size int64) (_ *bufio.Reader, giveBack func()) {
	if size >= binarySample {
		return bufio.NewReaderSize(r, int(min(size+1, 64<<10))), func() {}
	}
	small := smallReaders.Get().(*bufio.Reader)
	small.Reset(r)
	return small, func() {
		small.Reset(nil)
		smallReaders.Put(small)
	}
}

// stopReader ends with its context.
type stopReader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one read
	r   io.Reader
}

func (s *stopReader) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// readText returns the lines that were asked for.
func readText(ctx context.Context, r *bufio.Reader, in *readInput, limit int64, about *FileRead) (*Result, error) {
	first := max(in.Offset, 1)
	lines := in.Limit
	if lines == 0 {
		lines = defaultLines
	}
	if bom, _ := r.Peek(len(utf8BOM)); bytes.Equal(bom, utf8BOM) {
		about.BOM = true
		_, _ = r.Discard(len(utf8BOM)) // they are in the buffer
	}
	p := page{r: r, first: first, last: first + lines - 1, room: limit}
	if err := p.read(); err != nil {
		return nil, callError(ctx, err, "read "+quoteName(in.Path))
	}
	if first > 1 && p.line < first {
		e := Errorf(InvalidInput, "offset: %s has %s, there is no line %d", quoteName(in.Path), countText(int(p.line), "line"), first)
		e.Advice = "Lines are counted from 1."
		return nil, e
	}
	about.FirstLine, about.LastLine, about.LineEnding = p.shownFirst, p.shownLast, p.ending()
	if !p.uncounted {
		about.Lines = p.line
	}
	text := validUTF8(p.out.Bytes())
	notes := p.notes(about)
	if len(text) < p.out.Len() || !bytes.Equal(text, p.out.Bytes()) {
		notes = append(notes, "bytes that are not UTF-8 are shown as \uFFFD")
	}
	return &Result{Output: withNotes(text, notes), Dropped: p.dropped, Structured: encodeStructured(about)}, nil
}

// withNotes puts notes on a line of their own after a text.
func withNotes(text []byte, notes []string) []byte {
	if len(notes) == 0 {
		return text
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, "["+strings.Join(notes, "; ")+"]\n"...)
}

var utf8BOM = []byte("\xEF\xBB\xBF")

// page reads the lines first to last of a text, in bounded memory.
type page struct {
	r           *bufio.Reader
	first, last int64
	room        int64

	out                   bytes.Buffer
	line                  int64 // that was begun last
	shownFirst, shownLast int64
	full                  bool // the output has no room for a next line
	clipped               int64
	dropped               int64
	crlf, lf              int64
	uncounted             bool
}

func (p *page) read() error {
	var seen int64
	for begin, shown := true, 0; ; {
		chunk, err := p.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return err
		}
		if seen += int64(len(chunk)); seen > maxCount && (p.full || p.line > p.last) {
			p.uncounted = true
			return nil
		}
		if len(chunk) > 0 {
			if begin {
				p.line++
				shown = 0
			}
			shown += p.addToLine(chunk, shown)
			begin = chunk[len(chunk)-1] == '\n'
			if begin {
				p.countEnding(chunk)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

func (p *page) countEnding(chunk []byte) {
	if bytes.HasSuffix(chunk, []byte("\r\n")) {
		p.crlf++
	} else {
		p.lf++
	}
}

// addToLine keeps a piece of the current line if it is one to show, of which shown
// bytes are there already, and returns how many it added to the line.
func (p *page) addToLine(chunk []byte, shown int) int {
	if p.line < p.first || p.line > p.last {
		return 0
	}
	if shown == 0 {
		p.full = p.full || p.out.Len() > 0 && int64(p.out.Len()+min(len(chunk), maxLine)) > p.room
	}
	if p.full {
		p.dropped += int64(len(chunk))
		return 0
	}
	if p.shownLast = p.line; p.shownFirst == 0 {
		p.shownFirst = p.line
	}
	p.out.Write(p.clipLine(chunk, shown))
	return len(chunk)
}

// clipLine returns what of chunk is shown of a line that has shown bytes already.
func (p *page) clipLine(chunk []byte, shown int) []byte {
	room := max(min(maxLine, int(p.room))-shown, 0)
	body := bytes.TrimRight(chunk, "\r\n")
	if len(body) <= room {
		if shown > maxLine {
			return chunk[len(body):] // the line's end alone
		}
		return chunk
	}
	keep := clip.RuneStart(body, room)
	p.dropped += int64(len(body) - keep)
	mark := ""
	if shown <= maxLine {
		p.clipped++
		mark = "…"
	}
	return append(append(bytes.Clone(body[:keep]), mark...), chunk[len(body):]...)
}

func (p *page) ending() string {
	switch {
	case p.crlf > 0 && p.lf > 0:
		return "mixed"
	case p.crlf > 0:
		return "crlf"
	case p.lf > 0:
		return "lf"
	default:
		return "none"
	}
}

// notes say what the output doesn't show.
func (p *page) notes(about *FileRead) []string {
	var notes []string
	if p.line == 0 {
		notes = append(notes, "the file is empty")
	}
	if p.shownLast > 0 && (p.shownLast < p.line || p.shownFirst > 1) {
		of := fmt.Sprintf("of %d", p.line)
		if about.Lines == 0 {
			of = "of a file of " + sizeText(about.SizeBytes)
		}
		note := fmt.Sprintf("lines %d to %d %s", p.shownFirst, p.shownLast, of)
		if p.shownLast < p.line {
			note += fmt.Sprintf("; go on with offset %d", p.shownLast+1)
		}
		notes = append(notes, note)
	}
	if p.clipped > 0 {
		notes = append(notes, fmt.Sprintf("%s longer than %d bytes cut at …", countText(int(p.clipped), "line"), maxLine))
	}
	return notes
}

// readBinary describes a file that isn't text, and hands over a picture.
func readBinary(ctx context.Context, file *os.File, fi fs.FileInfo, sample []byte, about *FileRead) (*Result, error) {
	about.Binary, about.MediaType = true, mediaType(sample)
	text := fmt.Sprintf("%s is a binary file: %s, %s.", quoteName(about.Path), about.MediaType, sizeText(fi.Size()))
	res := &Result{Structured: nil}
	switch kind := imageType(sample); {
	case kind == "":
		text += " Its content is not shown."
	case fi.Size() > maxImage:
		text += fmt.Sprintf(" Pictures of more than %s are not shown.", sizeText(maxImage))
	default:
		data, err := io.ReadAll(io.LimitReader(&stopReader{ctx: ctx, r: io.NewSectionReader(file, 0, maxImage+1)}, maxImage+1))
		if err != nil {
			return nil, callError(ctx, err, "read "+quoteName(about.Path))
		}
		if len(data) > maxImage {
			text += " It grew while it was read."
			break
		}
		res.Media = []Media{{MediaType: kind, Data: data}}
	}
	res.Output, res.Structured = []byte(text+"\n"), encodeStructured(about)
	return res, nil
}

// sizeText writes a number of bytes for people.
func sizeText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	default:
		return countText(int(n), "byte")
	}
}
