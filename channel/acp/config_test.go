package acp

import (
	"slices"
	"testing"

	"agentd/event"
)

// TestEveryModeIsOffered: an editor can choose each permission mode, and no other.
func TestEveryModeIsOffered(t *testing.T) {
	var offered []string
	for _, m := range modes {
		offered = append(offered, m.ID)
	}
	want := event.EnumValues("@permissionMode")
	slices.Sort(offered)
	slices.Sort(want)
	if !slices.Equal(offered, want) {
		t.Errorf("offered are %v, there are %v", offered, want)
	}
}
