package server

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// maxRef is the longest reference that is looked up.
const maxRef = 512

// outputPart is about what an output takes in memory while it is sent: a part of
// it and a buffer.
const outputPart = 512 << 10

// serveOutput answers GET /v1/outputs/{ref}.
func (s *Server) serveOutput(w http.ResponseWriter, r *http.Request, q *request) error {
	ref := q.variable
	if !validRef(ref) {
		return fault.New(fault.NotFound, "there is no output %s", wire.Clip(ref))
	}
	leave, err := s.admitCommand(r.Context(), q, false)
	if err != nil {
		return err
	}
	out, err := s.backend.Output(r.Context(), q.caller, ref)
	leave()
	if err != nil {
		return err
	}
	defer func() { _ = out.Content.Close() }() // it was only read
	held := s.chargeFor(q)
	defer held.release()
	h := w.Header()
	media := out.MediaType
	if media == "" {
		media = "application/octet-stream"
	}
	h.Set("Content-Type", media)
	if out.ETag != "" {
		h.Set("ETag", `"`+strings.Trim(out.ETag, `"`)+`"`)
	}
	// The content may be of a model's or a tool's making: no browser runs it here.
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "private, no-cache")
	if q.login.cookie {
		h.Set("Content-Disposition", "attachment")
	}
	tidyRange(r.Header)
	read := &firstRead{ReadSeeker: out.Content}
	pw := &problemWriter{ResponseWriter: w, requestID: q.id, detail: "the range lies outside of the content or can't be read"}
	if r.Method != http.MethodHead {
		pw.admit = func(h http.Header) error {
			n, _ := strconv.Atoi(h.Get("Content-Length")) // it is always there, and ours
			if err := held.chargeAnswer(min(n, outputPart), false); err != nil || n == 0 {
				return err
			}
			return read.begin()
		}
	}
	http.ServeContent(pw, r, "", time.Time{}, read)
	return read.err
}

// firstRead is a content of which something is read before the answer begins: where it can't be
// read, the answer says so, and isn't one that ends in the middle.
type firstRead struct {
	io.ReadSeeker
	// err is the first error of reading.
	err error
}

// begin reads at the position and goes back there. A content keeps the part that it read last.
func (f *firstRead) begin() error {
	if _, err := f.Read(make([]byte, 1)); err != nil {
		return err
	}
	_, err := f.Seek(-1, io.SeekCurrent)
	return err
}

// Read implements [io.Reader].
func (f *firstRead) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && f.err == nil {
		f.err = err
	}
	return n, err
}

// tidyRange prepares a Range for net/http, which is less lenient than RFC 9110: the
// unit may be in any case, one that isn't known here is as if it weren't there, a
// position may have any number of digits, and the last zero bytes are none.
func tidyRange(h http.Header) {
	unit, set, _ := strings.Cut(h.Get("Range"), "=")
	if !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		h.Del("Range")
		return
	}
	specs := strings.Split(set, ",")
	for i, spec := range specs {
		first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
		switch {
		case ok && first == "" && last != "" && strings.Trim(last, "0") == "":
			specs[i] = farAway + "-"
		case ok:
			specs[i] = position(first) + "-" + position(last)
		}
	}
	h.Set("Range", "bytes="+strings.Join(specs, ","))
}

// farAway is a position after the end of every output.
const farAway = "999999999999999999"

// position returns a position in a form that fits into 64 bits.
func position(s string) string {
	if s = strings.TrimSpace(s); len(s) > len(farAway) && strings.Trim(s, "0123456789") == "" {
		return farAway
	}
	return s
}

// validRef refuses what can't be a reference before it is looked up: control
// characters, and names that would lead out of a folder.
func validRef(ref string) bool {
	if ref == "" || len(ref) > maxRef || strings.ContainsFunc(ref, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == 0xfffd }) {
		return false
	}
	for part := range strings.SplitSeq(ref, "/") {
		if part == ".." || part == "." {
			return false
		}
	}
	return true
}
