package loop

import (
	"testing"

	"agentd/permission"
)

// TestEveryModeHasAWidth: one without would be the narrowest by accident, and a child
// could widen what its parent may.
func TestEveryModeHasAWidth(t *testing.T) {
	for _, mode := range permission.Modes() {
		if _, ok := modeWidths[mode]; !ok {
			t.Errorf("%s has no width", mode)
		}
	}
	if len(modeWidths) != len(permission.Modes()) {
		t.Errorf("%d widths for %d modes", len(modeWidths), len(permission.Modes()))
	}
}
