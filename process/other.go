//go:build !linux

package process

import (
	"errors"
	"os"
	"strconv"
)

// errNoTerminal is the answer where there is no sandbox to put one into.
var errNoTerminal = errors.New("terminals are only supported on Linux")

func openPTY(int, int) (ours, theirs *os.File, err error) { return nil, nil, errNoTerminal }
func setSize(*os.File, int, int) error                    { return errNoTerminal }

// Reap can't tell anything on this operating system.
func Reap(entries []Entry) []Fate {
	fates := make([]Fate, len(entries))
	for i, e := range entries {
		fates[i] = Fate{e, Unreachable, "processes can't be identified on this operating system"}
	}
	return fates
}

func bootID() string        { return "" }
func startTime(int) string  { return "" }
func nameOf(sig int) string { return "SIG" + strconv.Itoa(sig) }

func openPipe() (r, w *os.File, err error) { return os.Pipe() }
