package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentd/event"
	"agentd/fault"
)

// AnswerStarting answers on a listener for a node that isn't ready yet: that it runs, to those
// who ask only this, and everything else with 503 and the time to wait. Other nodes, which know
// its address already, and balancers would wait for an answer otherwise. What other nodes passed
// on they try again, as the answer says that nothing was carried out.
//
// End returns once the listener, which stays open, is free for [Server.Serve]. Connections that
// were taken until then are answered here: each ends after one answer, or when its client takes
// too long. The server is never shut down, since it wouldn't answer what it had just read then.
func AnswerStarting(l net.Listener, secure *tls.Config) (end func()) {
	bounded, ok := l.(interface{ SetDeadline(t time.Time) error })
	if !ok {
		return func() {}
	}
	lent := &lentListener{Listener: l}
	srv := &http.Server{
		Handler:           sayStarting(event.NewIDs(nil, nil)),
		ReadHeaderTimeout: startingTimeout,
		ReadTimeout:       startingTimeout,
		WriteTimeout:      startingTimeout,
		MaxHeaderBytes:    maxRawHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // there is nothing here to get wrong
		TLSConfig:         secure,
	}
	srv.SetKeepAlivesEnabled(false) // the next request may get its answer from the server itself
	served := make(chan struct{})
	go func() {
		defer close(served)
		if secure != nil {
			_ = srv.ServeTLS(lent, "", "") // it ends with the loan, or with the listener
		} else {
			_ = srv.Serve(lent)
		}
	}()
	return func() {
		lent.over.Store(true)
		if bounded.SetDeadline(time.Unix(1, 0)) == nil {
			<-served
			_ = bounded.SetDeadline(time.Time{}) // it just worked
		}
	}
}

// startingTimeout is how long a client of a node that starts may take to ask, and to read.
const startingTimeout = 5 * time.Second

// sayStarting answers for a node that isn't ready yet.
func sayStarting(ids *event.IDs) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Request-ID", requestID(r, ids))
		h.Set("X-Content-Type-Options", "nosniff")
		if r.URL.Path == healthPath {
			_ = writeJSON(w, []byte(`{"status":"ok"}`)) // a client that went away needs no answer
			return
		}
		f := fault.New(fault.Unavailable, "this node is starting; try again shortly")
		f.RetryAfter = nodeRetry
		h.Set(elsewhereHeader, "1") // nothing was carried out
		writeProblem(w, f, h.Get("X-Request-ID"))
	}
}

// startingConnections bounds the connections that are open at a time while a node starts.
const startingConnections = 1024

// lentListener is a listener that is given back open, and that has few connections until then.
type lentListener struct {
	net.Listener
	over atomic.Bool
	open atomic.Int64
}

// Accept implements [net.Listener].
func (l *lentListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil && l.over.Load() {
			return nil, errors.Join(net.ErrClosed, err)
		}
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= startingConnections {
			return &lentConn{Conn: c, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = c.Close() // its client tries again, as after a 503
	}
}

// lentConn is counted until it is closed.
type lentConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close implements [net.Conn].
func (c *lentConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Close implements [net.Listener].
func (*lentListener) Close() error { return nil }
