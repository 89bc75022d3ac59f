package mcp

import (
	"strings"
	"sync"
)

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write implements io.Writer. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > tailBytes {
		p = p[len(p)-tailBytes:]
	}
	t.buf = append(t.buf, p...)
	// Cut rarely: a flood of short writes must not move the whole tail each time.
	if len(t.buf) > 2*tailBytes {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailBytes:]...)
	}
	return n, nil
}

// String returns the end, as text that can be shown.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(cleanText(string(t.buf[max(0, len(t.buf)-tailBytes):]), tailBytes+3))
}

// last returns about the last n bytes, from the beginning of a line.
func (t *tail) last(n int) string {
	s := t.String()
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		s = s[i+1:]
	}
	return strings.ToValidUTF8(s, "")
}
