//go:build !linux && !darwin

package rundir

import "net"

// checkPeer has nothing to ask on this system: the owner and the mode of the socket's
// folder decide.
func checkPeer(net.Conn) error { return nil }
