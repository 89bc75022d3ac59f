package main

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A wire is whole, or it has one of these faults.
type wireFault int

const (
	wireWhole wireFault = iota
	// wireCut ends all connections and lets none in.
	wireCut
	// wireMute takes everything and delivers nothing; the other two do so in one direction.
	wireMute
	wireMuteBack
	wireMuteThere
	// wireSlow delivers everything, each piece after a while.
	wireSlow
)

// wireDelay is how late a slow wire delivers.
const wireDelay = 15 * time.Millisecond

// faultyWire stands between a node and its database, or between a node and the others.
type faultyWire struct {
	mu     sync.Mutex
	target string
	fault  wireFault
	passed int
	conns  map[net.Conn]struct{}
	// last is what the database says last before the wire is cut, nil if it isn't; heard is
	// closed then.
	last  []byte
	heard chan struct{}
}

// cutAfter cuts the wire once the node was told something with these bytes. The channel is
// closed then.
func (w *faultyWire) cutAfter(last []byte) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.heard = last, make(chan struct{})
	return w.heard
}

// wasLast reports whether a piece is the one after which the wire is to be cut.
func (w *faultyWire) wasLast(piece []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last != nil && bytes.Contains(piece, w.last)
}

// cutNow cuts the wire because what was to be said last was said.
func (w *faultyWire) cutNow() {
	w.set(wireCut)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last != nil {
		w.last = nil
		close(w.heard)
	}
}

// newWire returns a wire that leads to a database or a node, and its URL through it.
func newWire(t *testing.T, target string) (*faultyWire, string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &faultyWire{target: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.set(wireCut)
		running.Wait()
	})
	return w, u.String()
}

// set gives the wire a fault, or mends it.
func (w *faultyWire) set(fault wireFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
	if fault == wireCut {
		for c := range w.conns {
			_ = c.Close()
		}
		clear(w.conns)
	}
}

// mend has connections that were deaf break, and others come in.
func (w *faultyWire) mend() {
	w.set(wireCut)
	w.set(wireWhole)
}

// leadTo has the wire end elsewhere, such as at a node that was started again.
func (w *faultyWire) leadTo(t *testing.T, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.target = u.Host
	w.mu.Unlock()
	w.mend()
}

// carried counts the pieces that came through.
func (w *faultyWire) carried() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed
}

// now returns the wire's fault and where it leads to.
func (w *faultyWire) now() (fault wireFault, target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault, w.target
}

func (w *faultyWire) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_, target := w.now()
	s, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	w.mu.Lock()
	cut := w.fault == wireCut
	if !cut {
		w.conns[c], w.conns[s] = struct{}{}, struct{}{}
	}
	w.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.pass(s, c, wireMuteThere) })
	both.Go(func() { w.pass(c, s, wireMuteBack) })
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	delete(w.conns, s)
}

// pass carries one direction, unless the wire is mute in it.
func (w *faultyWire) pass(to, from net.Conn, mute wireFault) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch fault, _ := w.now(); fault {
		case wireMute, mute:
			_, _ = io.Copy(io.Discard, from)
			return
		case wireSlow:
			time.Sleep(wireDelay)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		w.mu.Lock()
		w.passed++
		w.mu.Unlock()
		if mute == wireMuteBack && w.wasLast(buffer[:n]) {
			w.cutNow()
			return
		}
	}
}
