package a2a

import (
	"context"
	"fmt"
	"net/http"

	"agentd/command"
)

// Server serves the protocol. See the package comment.
type Server struct {
	opt  Options
	card *card
	seal *sealer // nil: no push notifications

	views      *views
	teller     *teller
	operations map[string]operation
}

// New returns a server. [Server.Start] must be called before it tells peers.
func New(opt Options) (*Server, error) {
	opt.setDefaults()
	s := &Server{opt: opt, views: newViews()}
	var err error
	if len(opt.Push.Key) > 0 {
		if s.seal, err = newSealer(opt.Push.Key); err != nil {
			return nil, fmt.Errorf("a2a: %w", err)
		}
	}
	if s.card, err = newCard(&s.opt, s.seal != nil); err != nil {
		return nil, fmt.Errorf("a2a: %w", err)
	}
	s.teller, s.operations = newTeller(s), s.methods()
	return s, nil
}

// Start takes up what an earlier process left to tell, and goes on telling until
// Close or the end of ctx.
func (s *Server) Start(ctx context.Context) { s.teller.start(ctx) }

// TakeUp takes up what another node left to tell in a session that came to this one, or, if
// sessionID is empty, in any: that node is gone. It returns at once.
func (s *Server) TakeUp(sessionID string) { s.teller.leave(sessionID) }

// Close stops push notifications and waits for that. What is left is sent after the next
// start.
func (s *Server) Close() { s.teller.close() }

// CardHandler serves the public agent card.
func (s *Server) CardHandler() http.Handler { return http.HandlerFunc(s.serveCard) }

// RPCHandler serves the JSON-RPC binding at [RPCPath].
func (s *Server) RPCHandler() http.Handler { return http.HandlerFunc(s.serveRPC) }

// RESTHandler serves the HTTP+JSON binding below [RESTPath].
func (s *Server) RESTHandler() http.Handler { return http.HandlerFunc(s.serveREST) }

// RefuseRPC answers a request to [Server.RPCHandler] that could not be passed on to the node
// that owns the session.
func (s *Server) RefuseRPC(w http.ResponseWriter, r *http.Request, err error) {
	req := &rpcRequest{}
	if body, unread := s.readBody(w, r); unread == nil {
		_ = req.read(body) // for its id
	}
	s.refuseRPC(w, r, req, err)
}

// RefuseREST does so for [Server.RESTHandler].
func (s *Server) RefuseREST(w http.ResponseWriter, r *http.Request, err error) {
	s.logFailure(r, err)
	writeREST(w, r, err)
}

// call is one request of a peer.
type call struct {
	caller command.Caller
	role   command.Role
	// extensions that the peer activated.
	extensions []string
}

// runCommand carries out a command for a peer, if its role lets it.
func (s *Server) runCommand(ctx context.Context, c *call, p command.Params) (any, error) {
	if d, ok := command.Lookup(p.Command()); ok && !c.role.Allows(d.Scope) {
		return nil, errorf(forbidden, "this needs a token with the role %s; this one has the role %s", d.Scope, c.role)
	}
	return s.opt.Runtime.Do(ctx, c.caller, p)
}
