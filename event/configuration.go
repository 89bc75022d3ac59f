package event

// ConfigurationOf returns the reference to the configuration that decisions are made
// under from a fact on; empty if the fact changes nothing about that.
func ConfigurationOf(p Payload) string {
	switch p := any(p).(type) { // the generator compiles this before payloads are encodable
	case *TurnStarted:
		return p.ConfigurationRef
	case *RoutingCandidates:
		return p.ConfigurationRef
	case *RoutingDecision:
		return p.ConfigurationRef
	case *ModelRequested:
		return p.ConfigurationRef
	case *PermissionEvaluated:
		return p.ConfigurationRef
	case *TurnCompleted:
		return p.ConfigurationRef
	case *TurnFailed:
		return p.ConfigurationRef
	}
	return ""
}
