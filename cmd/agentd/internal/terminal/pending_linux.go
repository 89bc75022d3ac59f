package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// discardInput throws away what a terminal has read and nobody has taken.
func discardInput(tty *os.File) {
	_ = unix.IoctlSetInt(int(tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) // it stays where it is
}

// waitingInput is how many bytes of whole lines a terminal has that nobody has taken.
func waitingInput(tty *os.File) int {
	n, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
