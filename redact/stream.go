package redact

// lookBehind is how much of what was given on is kept to look back at: whether a
// token begins within a word.
const lookBehind = 1100

// Stream redacts a text that comes in pieces. What may be the begin of a secret
// is held back until it is decided. At most maxHeld bytes are held; a secret that
// is longer is replaced by what is known of it, and its rest is dropped.
type Stream struct {
	r   *Redactor
	buf []byte
	// from is where buf has what wasn't given on yet.
	from int
	// dropping says that a secret was cut short at the bound and goes on.
	dropping bool
	found    Found
	max      int
}

// maxHeld bounds what a stream holds back; longer values raise it.
const maxHeld = maxBlock + 1024

// Stream returns a stream.
func (r *Redactor) Stream() *Stream { return &Stream{r: r, max: max(maxHeld, 2*r.longest)} }

// Write takes a piece and returns what can be given on, which may be nothing.
// The result is the caller's.
func (s *Stream) Write(p []byte) []byte {
	s.buf = append(s.buf, s.drop(p)...)
	return s.releaseDecided(false)
}

// Text is [Stream.Write] for strings.
func (s *Stream) Text(p string) string { return string(s.Write([]byte(p))) }

// Close returns what was held back. The stream can be used for another text then;
// what was found stays.
func (s *Stream) Close() []byte {
	out := s.releaseDecided(true)
	s.buf, s.from, s.dropping = s.buf[:0], 0, false
	return out
}

// Held is the number of bytes that are held back.
func (s *Stream) Held() int { return len(s.buf) - s.from }

// Found says what was taken out so far.
func (s *Stream) Found() Found { return s.found }

// releaseDecided returns what is decided, and keeps the rest.
func (s *Stream) releaseDecided(final bool) []byte {
	if s.from == len(s.buf) {
		return nil
	}
	text := bytesAsString(s.buf)
	spans, safe := s.r.index.scan(text, s.from, final)
	if !final && safe < len(text) && len(text)-s.from > s.max {
		// Too much is held: decide with what is there. What reaches to the end is
		// taken to go on.
		spans, safe = s.r.index.scan(text, s.from, true)
		s.dropping = len(spans) > 0 && spans[len(spans)-1].end == len(text)
	}
	if safe <= s.from {
		return nil
	}
	out := replaceSpans(nil, text, s.from, safe, spans, &s.found)
	s.trimReleased(safe)
	return out
}

// trimReleased forgets what was given on, but for a bit to look back at. It moves the
// rest only now and then, so that small pieces cost little.
func (s *Stream) trimReleased(safe int) {
	s.from = safe
	if safe < 4*lookBehind {
		return
	}
	low := safe - lookBehind
	n := copy(s.buf, s.buf[low:])
	s.buf, s.from = s.buf[:n], safe-low
}

// drop takes the rest of a secret that was cut short off the begin of p.
func (s *Stream) drop(p []byte) []byte {
	if !s.dropping {
		return p
	}
	i := 0
	for i < len(p) && (keyChars[p[i]] || bearers[p[i]]) {
		i++
	}
	s.dropping = i == len(p)
	return p[i:]
}
