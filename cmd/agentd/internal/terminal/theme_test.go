package terminal

import (
	"math"
	"testing"
)

func TestThemes(t *testing.T) {
	for _, tt := range []struct {
		theme string
		env   map[string]string
		want  Ink
	}{
		{"", map[string]string{"TERM": "xterm-256color"}, Dark},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "0;15"}, Light},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "0;default;15"}, Light},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "15;0"}, Dark},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "15;8"}, Dark},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "15"}, Dark},
		{"auto", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "what;ever"}, Dark},
		{"dark", map[string]string{"TERM": "xterm-256color", "COLORFGBG": "0;15"}, Dark},
		{"light", map[string]string{"TERM": "xterm-256color"}, Light},
		{"light", map[string]string{"TERM": "foot"}, Light},
		{"light", map[string]string{"TERM": "linux"}, Dark},
		{"light", map[string]string{"TERM": "xterm-256color", "NO_COLOR": "1"}, NoColour},
		{"light", map[string]string{"TERM": "dumb"}, NoColour},
		{"none", map[string]string{"TERM": "xterm-256color"}, NoColour},
	} {
		if got := ThemeInk(tt.theme, tt.env); got != tt.want {
			t.Errorf("%q with %v is %d, want %d", tt.theme, tt.env, got, tt.want)
		}
	}
	for ink, want := range map[Ink]string{NoColour: "x", Dark: "\x1b[1;36mx\x1b[0m", Light: "\x1b[1;38;5;24mx\x1b[0m"} {
		if got := ink.Paint(Bold+";"+Cyan, "x"); got != want {
			t.Errorf("ink %d paints %q, want %q", ink, got, want)
		}
	}
}

// TestLightColoursAreReadable wants the contrast that the guidelines for accessible texts
// ask for, on white and on the light grey that many use.
func TestLightColoursAreReadable(t *testing.T) {
	luminance := func(r, g, b float64) float64 {
		part := func(c float64) float64 {
			if c /= 255; c <= 0.04045 {
				return c / 12.92
			}
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return 0.2126*part(r) + 0.7152*part(g) + 0.0722*part(b)
	}
	steps := []float64{0, 95, 135, 175, 215, 255}
	for code, n := range lightColours {
		var colour float64
		if n >= 232 {
			grey := float64(8 + 10*(n-232))
			colour = luminance(grey, grey, grey)
		} else {
			colour = luminance(steps[(n-16)/36], steps[(n-16)/6%6], steps[(n-16)%6])
		}
		for _, background := range []float64{255, 238} {
			if contrast := (luminance(background, background, background) + 0.05) / (colour + 0.05); contrast < 4.5 {
				t.Errorf("colour %d for %s has a contrast of %.1f", n, code, contrast)
			}
		}
	}
}
