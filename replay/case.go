package replay

import (
	"encoding/json"
	"fmt"

	"agentd/event"
	"agentd/evidence"
	"agentd/loop"
	"agentd/state"
)

// OfCase returns the recording of a case.
func OfCase(c *evidence.Case) (*Recording, error) {
	if c.Format != evidence.ReplayFormat {
		return nil, fmt.Errorf("replay: the case has the format %q and holds no facts, so nothing can be decided again: export it again, or submit its inputs with --live", c.Format)
	}
	events, err := c.Events()
	if err != nil {
		return nil, err
	}
	r := &Recording{SessionID: c.Scope.SessionID, Content: c.Content, Has: c.Scope.Has}
	if len(c.Base) > 0 {
		if r.Base, err = state.DecodeBase(c.Base); err != nil {
			return nil, fmt.Errorf("replay: the base of the case: %w", err)
		}
	}
	if len(c.Configuration) > 0 {
		r.Configuration = &loop.Configuration{}
		if err := json.Unmarshal(c.Configuration, r.Configuration); err != nil { //nolint:musttag // as the loop stores it
			return nil, fmt.Errorf("replay: the configuration of the case: %w", err)
		}
	}
	r.Facts = func(yield func(*event.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
	return r, nil
}
