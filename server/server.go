package server

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"agentd/admission"
)

// Server is agentd's doors over one backend.
type Server struct {
	backend Backend
	opt     Options
	hosts   hostList
	routes  []route
	docs    documents
	metrics metrics
	// nodes talks to the other nodes of a shared store.
	nodes *http.Client
	// browsers is nil without a console.
	browsers *browsers

	mutations, reads *admission.Slots
	perToken         quota
	readsPerToken    quota
	requestsPerToken quota
	streams          atomic.Int64
	streamsPerToken  quota
	bodies           *budget
	answers          answers
	conns            conns
	// passed are requests that other nodes passed on.
	passed passedOn
	// strangers are the nodes that refused a token which is known here.
	strangers sync.Map
	// readiness is what was said last about it, empty if all is well.
	readiness atomic.Pointer[string]

	mu      sync.Mutex
	stopped bool
	// open holds how to end each stream and WebSocket connection.
	open   map[uint64]context.CancelFunc
	nextID uint64
	// sockets counts WebSocket connections, which http.Server doesn't know; idle is
	// closed when the server was stopped and the last of them is gone.
	sockets int
	idle    chan struct{}
}

// patienceParts is how many times a client that stopped reading could be waited
// for while the server stops.
const patienceParts = 4

// New returns a server over a backend. If opt is nil every option has its
// default; then only the addresses without a token answer.
func New(b Backend, opt *Options) *Server {
	s := &Server{backend: b, open: map[uint64]context.CancelFunc{}, idle: make(chan struct{})}
	if opt != nil {
		s.opt = *opt
	}
	s.opt.setDefaults()
	s.hosts = newHostList(s.opt.AllowedHosts)
	s.mutations, s.reads = newShared(s.opt.MaxMutations), newShared(s.opt.MaxReads)
	s.perToken.most, s.streamsPerToken.most = s.opt.MaxMutationsPerToken, s.opt.MaxStreamsPerToken
	s.readsPerToken.most, s.requestsPerToken.most = s.opt.MaxReadsPerToken, s.opt.MaxRequestsPerToken
	s.bodies = newBudget(s.opt.MaxBodies, s.opt.MaxBody)
	s.answers.most = s.opt.MaxAnswers
	s.conns.patience = min(s.opt.WriteTimeout, s.opt.StopTimeout/patienceParts)
	s.metrics.started = time.Now()
	s.docs = newDocuments(s.opt.Documents)
	if s.opt.Console != nil {
		s.browsers = newBrowsers(s.opt.Console)
	}
	s.routes = append(s.routeTable(), s.consoleRoutes()...)
	s.nodes = newNodeClient(&s.opt)
	return s
}

// Handler returns the HTTP handler of all addresses.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// Stop ends all streams and WebSocket connections and waits for the latter until
// ctx ends. Serve calls it; a program that uses only the Handler must call it. It may be
// called twice.
func (s *Server) Stop(ctx context.Context) error {
	s.endStreams()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// untilStop returns a context that ends with the parent or when the server stops.
func (s *Server) untilStop(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		cancel()
		return ctx, cancel
	}
	id := s.nextID
	s.nextID++
	s.open[id] = cancel
	return ctx, func() {
		cancel()
		s.mu.Lock()
		delete(s.open, id)
		s.mu.Unlock()
	}
}

// endStreams cancels all contexts of untilStop, those to come included.
func (s *Server) endStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	if s.sockets == 0 {
		close(s.idle)
	}
	for _, cancel := range s.open {
		cancel()
	}
}

// isStopping reports whether the server was told to stop.
func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// addSocket counts a WebSocket connection; false means that the server stops.
func (s *Server) addSocket() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.sockets++
	return true
}

func (s *Server) removeSocket() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sockets--; s.sockets == 0 && s.stopped {
		close(s.idle)
	}
}
