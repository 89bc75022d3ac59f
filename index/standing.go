package index

import (
	"context"

	"agentd/store"
)

// Standing says how a projection stands to the facts.
type Standing struct {
	// Name of the projection.
	Name string `json:"name"`
	// Status is complete, behind or building. What is behind, or is being built, is
	// completed by the next runtime that opens the store.
	Status string `json:"status"`
	// Changes counts the writes that are not in the index yet.
	Changes int64 `json:"changes,omitempty"`
}

// The values of [Standing.Status].
const (
	// StatusComplete: every fact is in the index.
	StatusComplete = "complete"
	// StatusBehind: the index is whole up to some fact, and goes on from there.
	StatusBehind = "behind"
	// StatusBuilding: the index is being built from all facts.
	StatusBuilding = "building"
)

// Standings says how the projections that a store has stand to its facts.
func Standings(ctx context.Context, s store.Store) ([]Standing, error) {
	out := []Standing{}
	for e, err := range s.Scan(ctx, store.Scan{Kind: kindState}) {
		if err != nil {
			return nil, err
		}
		st, err := storedProgress(ctx, s, e.Key)
		if err != nil {
			return nil, err
		}
		standing := Standing{Name: e.Key, Status: StatusComplete}
		if st == nil || st.Build != nil || st.Overlap {
			standing.Status = StatusBuilding
			out = append(out, standing)
			continue
		}
		for _, err := range s.Changes(ctx, st.Position) {
			if err != nil {
				return nil, err
			}
			standing.Changes++
		}
		if standing.Changes > 0 {
			standing.Status = StatusBehind
		}
		out = append(out, standing)
	}
	return out, nil
}
