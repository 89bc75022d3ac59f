package process

import (
	"fmt"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openPTY opens a terminal: our end, which can be closed and given deadlines while
// it is read, and the process's.
func openPTY(rows, cols int) (ours, theirs *os.File, err error) {
	blocking, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	defer blocking.Close() // ours is a copy
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
		ours = os.NewFile(uintptr(fd), blocking.Name())
	}
	if err == nil {
		err = setSize(ours, rows, cols)
	}
	if err != nil {
		_ = theirs.Close()
		_ = ours.Close() // nil is fine
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	return ours, theirs, nil
}

// setSize tells a terminal its size.
func setSize(tty *os.File, rows, cols int) error {
	conn, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = conn.Control(func(fd uintptr) {
		set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
	})
	if err == nil {
		err = set
	}
	if err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}
