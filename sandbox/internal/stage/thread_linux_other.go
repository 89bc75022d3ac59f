//go:build linux && !amd64

package stage

// threadPointer isn't known here: the launcher keeps its memory.
func threadPointer() (uintptr, bool) { return 0, false }
