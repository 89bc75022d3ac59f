//go:build !unix

package terminal

import (
	"os"
	"time"
)

// inputWithin can't be told here: a console has input for keys that end no line.
func inputWithin(*os.File, time.Duration) bool { return false }
