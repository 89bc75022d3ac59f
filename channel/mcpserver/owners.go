package mcpserver

import (
	"net/http"
	"sync"
)

// sessionOwners says who opened the sessions of the older revisions, so that no
// identity can have all of them.
type sessionOwners struct {
	mu sync.Mutex
	// users by session, and how many sessions each user is opening.
	users   map[string]string
	opening map[string]int
}

// openSession lets a user open a session; done is told its id, empty if none was
// opened. Where the bounds forbid it, done is nil, and why and status are the answer.
func (s *Server) openSession(user string) (done func(id string), why string, status int) {
	o := &s.owners
	o.mu.Lock()
	defer o.mu.Unlock()
	all, mine := s.countSessions(user)
	switch {
	case mine >= s.opt.MaxSessionsPerUser:
		return nil, "this token has too many sessions open; end some", http.StatusTooManyRequests
	case all >= s.opt.MaxSessions:
		return nil, "too many sessions are open", http.StatusServiceUnavailable
	}
	if o.opening == nil {
		o.users, o.opening = map[string]string{}, map[string]int{}
	}
	o.opening[user]++
	return func(id string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.opening[user]--; o.opening[user] == 0 {
			delete(o.opening, user)
		}
		if id != "" {
			o.users[id] = user
		}
	}, "", 0
}

// isOthers reports whether a session is known to be another user's. Its existence is hidden
// from everyone else: the answer is that of an unknown session.
func (s *Server) isOthers(id, user string) bool {
	s.owners.mu.Lock()
	defer s.owners.mu.Unlock()
	owner, known := s.owners.users[id]
	return known && owner != user
}

// countSessions counts the sessions of all and of a user, those that are being opened
// included, and forgets the owners of those that ended. The caller holds the lock.
func (s *Server) countSessions(user string) (all, mine int) {
	s.mu.Lock()
	built := s.built
	s.mu.Unlock()
	open := map[string]string{}
	for _, srv := range built {
		for session := range srv.Sessions() {
			all++
			if owner, known := s.owners.users[session.ID()]; known {
				open[session.ID()] = owner
			}
		}
	}
	for _, owner := range open {
		if owner == user {
			mine++
		}
	}
	if s.owners.users != nil {
		s.owners.users = open
	}
	for owner, n := range s.owners.opening {
		all += n
		if owner == user {
			mine += n
		}
	}
	return all, mine
}
