package work

import "agentd/event"

// givenProfile is a task's profile as its caller gave it. It says whose it is, so that it
// isn't taken for one that the runtime worked out.
func givenProfile(p *event.TaskProfile) *event.TaskProfile {
	if p == nil || (p.Source != "" && p.Source != event.ProfileFromRuntime) {
		return p
	}
	given := *p
	given.Source = event.ProfileFromTask
	return &given
}
