//go:build linux || darwin

package rundir

import (
	"errors"
	"net"
	"os"
)

// checkPeer refuses a connection to another user's process.
func checkPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var uid uint32
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peerUser(int(fd)) }); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if int(uid) != os.Geteuid() {
		return ErrForeign
	}
	return nil
}
