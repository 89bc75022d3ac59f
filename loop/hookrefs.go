package loop

import (
	"fmt"

	"agentd/hook"
	"agentd/state"
)

// hookRefs lead hooks to what they don't get sent. A path is one of the server's own, an
// output reference is read under /v1/outputs.
type hookRefs struct {
	transcript, routing string
	policies            []string
}

// refsOf returns the references of a thread at the moment.
func refsOf(s *state.Session, t *state.Thread) hookRefs {
	refs := hookRefs{transcript: eventsRef(s.SessionID, 0, s.Sequence)}
	if t.Routing != nil {
		refs.routing = eventsRef(s.SessionID, t.Routing.Sequence-1, t.Routing.Sequence)
	}
	if s.ConfigurationRef != "" {
		refs.policies = append(refs.policies, s.ConfigurationRef) // the host's
	}
	for i := range s.Permission.Policies {
		at := s.Permission.Policies[i].Sequence
		refs.policies = append(refs.policies, eventsRef(s.SessionID, at-1, at))
	}
	return refs
}

// eventsRef is where the events of a session after one sequence and through another are
// read.
func eventsRef(sessionID string, after, through uint64) string {
	return fmt.Sprintf("/v1/sessions/%s/events?after=%d&limit=%d", sessionID, after, min(through-after, maxRefEvents))
}

// maxRefEvents is how many events one request returns at most.
const maxRefEvents = 1000

func (r hookRefs) addTo(in *hook.Input) {
	in.TranscriptRef, in.RoutingRef, in.PolicyRefs = r.transcript, r.routing, r.policies
}
