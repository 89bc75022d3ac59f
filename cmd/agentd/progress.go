package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"agentd/cmd/agentd/internal/terminal"
	"agentd/session"
)

// progressEvery is how often the line of long work is written anew.
const progressEvery = 100 * time.Millisecond

// progress is a line about long work on a terminal, which is written over; elsewhere,
// and with --json, it is nothing. One goroutine may use it at a time.
type progress struct {
	a     *app
	shown time.Time
	on    bool
}

func (a *app) progress() *progress {
	return &progress{a: a, on: !a.json && a.env["TERM"] != "dumb" && terminal.IsTerminal(a.err)}
}

// sayf writes the line, unless it was written just now.
func (p *progress) sayf(format string, args ...any) {
	if !p.on || time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	text := fmt.Sprintf(format, args...)
	if cols := terminal.Width(p.a.err); cols > 1 {
		text = terminal.Clip(text, cols-1)
	}
	_, _ = fmt.Fprint(p.a.err, "\r\x1b[K"+text)
}

// verified is the line of a verification.
func (p *progress) verified(r session.Report) {
	p.sayf("verifying: %s, %s, %s", terminal.Plural(r.Sessions, "session"), terminal.Plural(r.Events, "fact"), terminal.Plural(len(r.Problems), "problem"))
}

// eraseLine takes the line away.
func (p *progress) eraseLine() {
	if p.on && !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.a.err, "\r\x1b[K")
		p.shown = time.Time{}
	}
}

// counting returns a writer that says how much was written.
func (p *progress) counting(doing string, w io.Writer) io.Writer {
	if !p.on {
		return w
	}
	n := int64(0)
	return writerFunc(func(b []byte) (int, error) {
		k, err := w.Write(b)
		n += int64(k)
		p.sayf("%s: %s", doing, byteSize(n))
		return k, err
	})
}

// reading returns a reader that says how much was read, and of how much if it is a file.
func (p *progress) reading(doing string, r io.Reader) io.Reader {
	if !p.on {
		return r
	}
	of := ""
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			of = " of " + byteSize(info.Size())
		}
	}
	n := int64(0)
	return readerFunc(func(b []byte) (int, error) {
		k, err := r.Read(b)
		n += int64(k)
		p.sayf("%s: %s%s", doing, byteSize(n), of)
		return k, err
	})
}

type writerFunc func([]byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

type readerFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
