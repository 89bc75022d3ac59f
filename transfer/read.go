package transfer

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"unicode"

	"agentd/store"
)

// maxLine bounds a line, and so the memory of a reader.
const maxLine = 64 << 20

// Visitor receives the contents of a file, in order. An error ends the reading.
type Visitor struct {
	// Header comes first.
	Header func(*Header) error
	// Event is a fact with its sequence and the chain's hash through it. The data
	// is the visitor's.
	Event func(r store.Record) error
	// Output is an output's content, which the visitor reads to the end. Its sum is
	// known to be right only when Read returned.
	Output func(ref, mediaType string, content io.Reader) error
	// Missing is an output that the writing runtime had no more.
	Missing func(ref string) error
}

// Summary says what a file held.
type Summary struct {
	Header
	End
	// Missing counts the outputs that were not there.
	Missing int
	// Fingerprint names the key that signed.
	Fingerprint string
}

// Read reads a file and checks all of it. Every error names the line.
func Read(from io.Reader, v Visitor) (*Summary, error) {
	r := &reader{from: bufio.NewReaderSize(from, 64<<10), visit: v, names: sha256.New()}
	s, err := r.read()
	if r.open != nil { // the reader of the output must learn of the end
		err = r.open.end(err)
	}
	if err != nil {
		return nil, fmt.Errorf("transfer: line %d: %w", r.number, err)
	}
	return s, nil
}

type reader struct {
	from   *bufio.Reader
	visit  Visitor
	number int
	sum    Summary
	chain  *store.Chain
	names  hash.Hash
	// open is the output whose pieces are being read.
	open *content
	done bool
}

func (r *reader) read() (*Summary, error) {
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		if err != nil {
			return nil, err
		}
		if err := r.readLine(l); err != nil {
			return nil, err
		}
	}
}

// next returns the next line without its end.
func (r *reader) next() ([]byte, error) {
	r.number++
	var whole []byte
	for {
		part, err := r.from.ReadSlice('\n')
		if len(whole)+len(part) > maxLine {
			return nil, fmt.Errorf("it is longer than %d bytes", maxLine)
		}
		whole = append(whole, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(whole, []byte("\n")), nil
		case errors.Is(err, io.EOF) && len(whole) > 0:
			return nil, errors.New("it is cut off: the file ends in the middle of a line")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (r *reader) readLine(data []byte) error {
	switch {
	case r.done:
		return errors.New("there is more data after the last line")
	case r.number == 1:
		return r.begin(data)
	case !bytes.HasPrefix(data, mark):
		return r.event(data)
	}
	l, err := decodeLine(data)
	if err != nil {
		return err
	}
	switch {
	case l.Output != nil:
		return r.output(l.Output)
	case l.End != nil:
		return r.end(l.End)
	}
	return errors.New("it is neither a fact nor an output")
}

func (r *reader) begin(data []byte) error {
	l, err := decodeLine(data)
	if err != nil || l.Session == nil {
		return errors.New("this is not an exported session: the first line doesn't name one")
	}
	switch {
	case l.Session.Format != Format:
		return fmt.Errorf("the format is %.40q; this agentd reads %s", l.Session.Format, Format)
	case !isName(l.Session.SessionID) || !isName(l.Session.RuntimeID):
		return errors.New("the first line contains a name that is too long or not printable")
	}
	origin, err := l.Session.origin()
	if err != nil {
		return err
	}
	r.sum.Header = *l.Session
	r.chain = store.NewChain(origin)
	if r.visit.Header == nil {
		return nil
	}
	return r.visit.Header(l.Session)
}

// maxName bounds names and media types, which are shown and kept.
const maxName = 256

// isName reports whether a text can be a name: it is shown to people.
func isName(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// decodeLine reads a line that isn't a fact. It must be written as [Writer] writes
// it, to the byte: what has two forms could be changed unnoticed.
func decodeLine(data []byte) (*line, error) {
	l := &line{}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("it can't be read: %w", err)
	}
	if again, err := json.Marshal(l); err != nil || !bytes.Equal(again, data) {
		return nil, errors.New("it is not written as agentd writes it")
	}
	return l, nil
}

func (r *reader) event(data []byte) error {
	if r.sum.Outputs > 0 || r.open != nil || r.sum.Missing > 0 {
		return errors.New("a fact comes after the outputs")
	}
	r.sum.Events++
	hash := r.chain.Next(data)
	if r.visit.Event == nil {
		return nil
	}
	return r.visit.Event(store.Record{Sequence: r.sum.RemovedThrough + r.sum.Events, Data: data, Hash: hash})
}

// content gives a visitor the pieces of an output while they are read.
type content struct {
	ref  string
	sum  hash.Hash
	in   *io.PipeWriter
	done chan error
}

func (r *reader) output(o *Output) error {
	if _, err := store.ParseRef(o.Ref); err != nil || !isName(o.MediaType) {
		return errors.New("it is not an output: its reference or its media type is invalid")
	}
	if o.Missing {
		r.sum.Missing++
		if r.visit.Missing == nil {
			return nil
		}
		return r.visit.Missing(o.Ref)
	}
	data, err := base64.StdEncoding.DecodeString(o.Data)
	if err != nil {
		return fmt.Errorf("the content can't be read: %w", err)
	}
	if r.open == nil {
		r.open = r.newContent(o)
		r.sum.Outputs++
		nameOutput(r.names, o.Ref, o.MediaType)
	}
	if r.open.ref != o.Ref {
		return fmt.Errorf("output %s begins before %s ended", o.Ref, r.open.ref)
	}
	r.open.sum.Write(data)
	if _, err := r.open.in.Write(data); err != nil {
		return err
	}
	if !o.Last {
		return nil
	}
	return r.closeOutput()
}

func (r *reader) newContent(o *Output) *content {
	out, in := io.Pipe()
	c := &content{ref: o.Ref, sum: sha256.New(), in: in, done: make(chan error, 1)}
	visit := r.visit.Output
	if visit == nil {
		visit = func(_, _ string, from io.Reader) error {
			_, err := io.Copy(io.Discard, from)
			return err
		}
	}
	ref, media := o.Ref, o.MediaType
	go func() {
		err := visit(ref, media, out)
		_ = out.CloseWithError(err) // a visitor that stopped reading delays no one
		c.done <- err
	}()
	return c
}

// end closes the pieces and returns what the visitor said, or why.
func (c *content) end(why error) error {
	_ = c.in.CloseWithError(why)
	if err := <-c.done; err != nil {
		return err
	}
	return why
}

func (r *reader) closeOutput() error {
	c := r.open
	if got := store.RefOf([sha256.Size]byte(c.sum.Sum(nil))); got != c.ref {
		return fmt.Errorf("output %s was changed: its content is %s", c.ref, got)
	}
	r.open = nil
	_ = c.in.Close()
	return <-c.done
}

func (r *reader) end(e *End) error {
	head := r.chain.Last()
	switch {
	case r.open != nil:
		return fmt.Errorf("output %s is cut off", r.open.ref)
	case e.Events != r.sum.Events:
		return fmt.Errorf("%d facts were written but %d were found", e.Events, r.sum.Events)
	case e.Head != hex.EncodeToString(head[:]):
		return errors.New("a fact was changed, or facts were moved: the head of the hash chain doesn't match")
	case e.Outputs != r.sum.Outputs, e.OutputsHash != hex.EncodeToString(r.names.Sum(nil)):
		return errors.New("the outputs are not those that were written")
	}
	if s := e.Signature; s == nil || s.Algorithm != "ed25519" || len(s.PublicKey) != ed25519.PublicKeySize ||
		!ed25519.Verify(s.PublicKey, signedMessage(&r.sum.Header, e), s.Value) {
		return errors.New("the signature is not valid")
	}
	r.sum.End, r.done = *e, true
	sum := sha256.Sum256(e.Signature.PublicKey)
	r.sum.Fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

func (r *reader) finish() (*Summary, error) {
	if r.open != nil {
		return nil, fmt.Errorf("output %s is cut off", r.open.ref)
	}
	if !r.done {
		return nil, errors.New("the file is cut off: its last line is missing")
	}
	return &r.sum, nil
}
