package server

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is a content coding of HTTP. The zero value stands for identity.
type coding string

const (
	codingZstd coding = "zstd"
	codingGzip coding = "gzip"
)

// smallestCoded is the size from which on an answer is compressed: a smaller one fits
// into one packet as it is.
const smallestCoded = 1024

// zstdWindow is how far back a reader must look. It bounds what a client needs to
// unpack an answer; RFC 9659 allows 8 MiB.
const zstdWindow = 1 << 20

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	// It fails for options that contradict each other, and these are constants.
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
	return e
})

var gzipWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // a level that exists
	return w
}}

// acceptedCoding decides how an answer is compressed, by RFC 9110, 12.5.3. must says
// that the client refuses answers that aren't compressed.
//
// A client that says nothing gets what every client can read. One that refuses
// everything that the server could send gets the answer uncompressed: it can do more
// with that than with an error.
func acceptedCoding(h http.Header) (c coding, must bool) {
	listed := codingQualities(h)
	anyOther, hasAny := listed["*"]
	identity, named := listed["identity"]
	if !named && hasAny && anyOther == 0 {
		identity, named = 0, true
	}
	best := 0.0
	for _, candidate := range []coding{codingZstd, codingGzip} {
		q, ok := listed[string(candidate)]
		if !ok && candidate == codingGzip {
			q = anyOther // what "any" certainly includes
		}
		if q > best {
			c, best = candidate, q
		}
	}
	if c != "" && named && identity > best {
		return "", false
	}
	return c, c != "" && named && identity == 0
}

// codingQualities reads how much a client likes each coding that it names.
func codingQualities(h http.Header) map[string]float64 {
	var listed map[string]float64
	for _, v := range h.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(v, ",") {
			name, params, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" {
				continue
			}
			if name == "x-gzip" {
				name = string(codingGzip)
			}
			if listed == nil {
				listed = map[string]float64{}
			}
			listed[name] = quality(params)
		}
	}
	return listed
}

// compress returns a body in a coding.
func (c coding) compress(body []byte) []byte {
	if c == codingZstd {
		return zstdEncoder().EncodeAll(body, make([]byte, 0, len(body)/4))
	}
	var out bytes.Buffer
	w := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(w)
	w.Reset(&out)
	_, _ = w.Write(body) // a buffer in memory takes everything
	_ = w.Close()
	return out.Bytes()
}

// codingFor returns the coding in which a body of a size goes to a client.
func codingFor(w http.ResponseWriter, size int) coding {
	rec, ok := w.(*recorder)
	if !ok || rec.secret || (size < smallestCoded && !rec.mustCode) {
		return ""
	}
	return rec.coding
}

// writeBody sends a whole answer with the headers that are set, compressed if the
// client accepts that. Streams and outputs don't come here: a stream would need a
// compressor of its own for as long as it lasts, and ranges count the bytes of an
// output as it is.
func writeBody(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if c := codingFor(w, len(body)); c != "" {
		h.Set("Content-Encoding", string(c))
		body = c.compress(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err := w.Write(body) //nolint:gosec // JSON or text of ours, and nosniff is set
	return ignoreGone(err)
}

// keepSecret has an answer that shows a secret sent as it is: beside what the caller
// sent, the length of a compressed secret tells how much of it was guessed.
func keepSecret(w http.ResponseWriter, secret bool) {
	if rec, ok := w.(*recorder); ok && secret {
		rec.secret = true
	}
}
