package httpstream

import "golang.org/x/sys/unix"

// writeMore hands bytes to the kernel and says that more will follow. It returns how
// many were taken: none if that fails, and then the plain way says why.
func (s socket) writeMore(b []byte) (n int) {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	failed := raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
		return true
	})
	if failed != nil || err != nil {
		return 0
	}
	return n
}
