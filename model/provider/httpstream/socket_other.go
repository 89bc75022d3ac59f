//go:build !linux

package httpstream

// writeMore takes nothing where the kernel can't be told that more will follow.
func (socket) writeMore([]byte) int { return 0 }
