// Package transfer reads and writes the file that moves a whole session from one
// runtime to another, and the form in which its facts go to systems that speak
// CloudEvents.
//
// # Contract
//
// The file has one JSON object per line. The first line names the session and the
// runtime that wrote it; then each fact as it is stored, byte for byte, in order
// and from the first; then the outputs that the facts refer to, in pieces; the
// last line has the chain's head and the runtime's signature over it:
//
//	{"agentd.session":{"format":"agentd-session-1","sessionId":…,"runtimeId":…,"exportedAt":…}}
//	{…fact 1…}
//	{…fact 2…}
//	{"agentd.output":{"ref":"sha256:…","mediaType":…,"size":…,"last":true,"data":"base64"}}
//	{"agentd.end":{"events":2,"outputs":1,"head":"hex","signature":{…}}}
//
// [Read] computes the chain and the sums of the outputs again while it reads; a
// changed, missing, added or moved line is an error that names the line. An output
// that the exporting runtime no longer had is a line with "missing":true.
//
// A session whose first facts were removed by retention says so in the first line
// ("removedThrough" and the chain's hash there, "removedHash"), which the signature
// covers; its facts begin after them.
//
// Contents that were kept for undo are not in the file: they are sealed with a key
// of their runtime.
package transfer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"agentd/store"
)

// Format names the file's form.
const Format = "agentd-session-1"

// signedAs stands before what is signed, so that a signature means this and
// nothing else.
const signedAs = "agentd session 1\n"

// piece is the most bytes of an output in one line.
const piece = 256 << 10

// Header is the first line.
type Header struct {
	Format     string    `json:"format"`
	SessionID  string    `json:"sessionId"`
	RuntimeID  string    `json:"runtimeId"`
	ExportedAt time.Time `json:"exportedAt"`
	// RemovedThrough is the last fact that retention removed before the export, 0 if
	// none was; RemovedHash is the chain's hash there, in hexadecimal.
	RemovedThrough uint64 `json:"removedThrough,omitempty"`
	RemovedHash    string `json:"removedHash,omitempty"`
}

// origin returns the hash that the chain of the file's facts begins with.
func (h *Header) origin() (store.Hash, error) {
	if h.RemovedThrough == 0 && h.RemovedHash == "" {
		return store.Genesis(h.SessionID), nil
	}
	var out store.Hash
	b, err := hex.DecodeString(h.RemovedHash)
	if err != nil || len(b) != len(out) || h.RemovedThrough == 0 {
		return out, errors.New("its entry about removed facts can't be read")
	}
	copy(out[:], b)
	return out, nil
}

// Output is a piece of an output.
type Output struct {
	Ref       string `json:"ref"`
	MediaType string `json:"mediaType,omitempty"`
	// Last marks an output's last piece; Missing one that is not there any more.
	Last    bool   `json:"last,omitempty"`
	Missing bool   `json:"missing,omitempty"`
	Data    string `json:"data,omitempty"`
}

// End is the last line.
type End struct {
	Events  uint64 `json:"events"`
	Outputs int    `json:"outputs"`
	// Head is the hash of the session's chain, OutputsHash the sum over the
	// references and media types of the outputs in their order.
	Head        string     `json:"head"`
	OutputsHash string     `json:"outputsHash"`
	Signature   *Signature `json:"signature"`
}

// Signature is the writing runtime's, over what the last line and the first say.
type Signature struct {
	Algorithm string `json:"algorithm"`
	PublicKey []byte `json:"publicKey"`
	Value     []byte `json:"value"`
}

// signedMessage is what is signed.
func signedMessage(h *Header, e *End) []byte {
	m := fmt.Appendf(nil, "%s%q\n%q\n%d\n%s\n%d\n%s\n", signedAs, h.SessionID, h.RuntimeID, e.Events, e.Head, e.Outputs, e.OutputsHash)
	if h.RemovedThrough > 0 {
		m = fmt.Appendf(m, "removed %d\n%s\n", h.RemovedThrough, h.RemovedHash)
	}
	return m
}

// line is any line but a fact.
type line struct {
	Session *Header `json:"agentd.session,omitempty"`
	Output  *Output `json:"agentd.output,omitempty"`
	End     *End    `json:"agentd.end,omitempty"`
}

// mark is how every line begins that isn't a fact.
var mark = []byte(`{"agentd.`)

// Writer writes a session. It is for one goroutine.
type Writer struct {
	to      io.Writer
	header  Header
	chain   *store.Chain
	events  uint64
	outputs int
	names   hash.Hash
}

// NewWriter writes the first line.
func NewWriter(to io.Writer, h Header) (*Writer, error) {
	h.Format = Format
	origin, err := h.origin()
	if err != nil {
		return nil, fmt.Errorf("transfer: %w", err)
	}
	w := &Writer{to: to, header: h, chain: store.NewChain(origin), names: sha256.New()}
	return w, w.line(&line{Session: &h})
}

func (w *Writer) line(l *line) error {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = w.to.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("transfer: write: %w", err)
	}
	return nil
}

// Event writes the next fact.
func (w *Writer) Event(data []byte) error {
	w.events++
	w.chain.Next(data)
	_, err := w.to.Write(append(slices.Clip(data), '\n'))
	if err != nil {
		return fmt.Errorf("transfer: write: %w", err)
	}
	return nil
}

// Output writes the content behind a reference; without a reader it is written as
// missing.
func (w *Writer) Output(ref, mediaType string, from io.Reader) error {
	if from == nil {
		return w.line(&line{Output: &Output{Ref: ref, Missing: true}})
	}
	w.outputs++
	nameOutput(w.names, ref, mediaType)
	buf := make([]byte, piece)
	for {
		n, err := io.ReadFull(from, buf)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("transfer: read output %s: %w", ref, err)
		}
		out := &Output{Ref: ref, MediaType: mediaType, Last: last, Data: base64.StdEncoding.EncodeToString(buf[:n])}
		if err := w.line(&line{Output: out}); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// nameOutput adds an output to the sum over all of them.
func nameOutput(sum hash.Hash, ref, mediaType string) {
	fmt.Fprintf(sum, "%s %q\n", ref, mediaType)
}

// Close writes the last line, signed with the runtime's key. It doesn't close what
// is written to.
func (w *Writer) Close(key ed25519.PrivateKey) error {
	head := w.chain.Last()
	end := &End{Events: w.events, Outputs: w.outputs, Head: hex.EncodeToString(head[:]), OutputsHash: hex.EncodeToString(w.names.Sum(nil))}
	end.Signature = &Signature{Algorithm: "ed25519", PublicKey: key.Public().(ed25519.PublicKey), Value: ed25519.Sign(key, signedMessage(&w.header, end))}
	return w.line(&line{End: end})
}
