package terminal

import (
	"os"

	"github.com/charmbracelet/x/term"
)

// Width returns how many characters a line of a terminal has, 0 if v isn't one or it
// doesn't say.
func Width(v any) int {
	f, ok := v.(*os.File)
	if !ok || !IsTerminal(f) {
		return 0
	}
	cols, _, err := term.GetSize(f.Fd())
	if err != nil {
		return 0
	}
	return max(cols, 0)
}
