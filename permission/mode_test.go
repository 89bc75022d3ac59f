package permission

import "testing"

// TestEveryModeHasAWidth: one without would be the widest by accident, and what orders
// modes has to know all of them.
func TestEveryModeHasAWidth(t *testing.T) {
	for _, mode := range Modes() {
		if _, ok := modeWidths[mode]; !ok {
			t.Errorf("%s has no width", mode)
		}
		if IsWider(mode, mode) || IsWider(mode, ModeBypass) || IsWider(ModePlan, mode) || !IsWider("none", mode) {
			t.Errorf("%s is in the wrong place", mode)
		}
	}
	if len(modeWidths) != len(Modes()) {
		t.Errorf("%d widths for %d modes", len(modeWidths), len(Modes()))
	}
	if !IsWider(ModeAuto, ModeNever) || IsWider("", ModeDefault) || IsWider(ModeDefault, "") {
		t.Error("modes are out of order")
	}
}
