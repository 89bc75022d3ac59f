//go:build !linux

package terminal

import "os"

// discardInput leaves what was typed where it is.
func discardInput(*os.File) {}

// waitingInput can't be told here.
func waitingInput(*os.File) int { return 0 }
