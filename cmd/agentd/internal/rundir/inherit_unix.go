//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Inherited returns a descriptor that this process was started with. Its own children
// don't get it.
func Inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// firstInherited is the first descriptor that a service manager hands over.
const firstInherited = 3

// Activated returns the socket that the service manager listens on for this process;
// nil if there is none.
func Activated(getenv func(string) string) (net.Listener, error) {
	if getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil //nolint:nilnil // that there is none is an answer
	}
	if n := getenv("LISTEN_FDS"); n != "1" {
		return nil, fmt.Errorf("the service manager handed over %s sockets, expected one", n)
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name) // no child is to take them for its own
	}
	f := Inherited(firstInherited, "socket")
	l, err := net.FileListener(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("the socket of the service manager: %w", err)
	}
	if l.Addr().Network() != "unix" {
		return nil, errors.Join(errors.New("the service manager handed over a socket that isn't a Unix socket"), l.Close())
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it is the service manager's
	return l, nil
}
