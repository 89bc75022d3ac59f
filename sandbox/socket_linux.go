package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"

	"agentd/sandbox/internal/stage"

	"golang.org/x/sys/unix"
)

// socketPair makes the socket between us and the stage.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return connectPair(fds)
}

// connectPair makes a connection of one end of a pair, and a file of the other.
func connectPair(fds [2]int) (ours *net.UnixConn, theirs *os.File, err error) {
	theirs = os.NewFile(uintptr(fds[1]), "stage")
	mine := os.NewFile(uintptr(fds[0]), "stage")
	defer mine.Close() // FileConn has a copy
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// receive reads one message and the descriptor that may come with it.
func (c *Child) receive() (kind byte, payload []byte, file *os.File, err error) {
	head := make([]byte, stage.HeaderSize)
	oob := make([]byte, unix.CmsgSpace(4))
	for n := 0; n < len(head); {
		m, o, _, _, err := c.conn.ReadMsgUnix(head[n:], oob)
		if err != nil {
			return 0, nil, nil, err
		}
		if m == 0 && o == 0 {
			return 0, nil, nil, net.ErrClosed
		}
		if o > 0 {
			file = rights(oob[:o])
		}
		n += m
	}
	size := int(head[1]) | int(head[2])<<8 | int(head[3])<<16 | int(head[4])<<24
	if size > stage.MaxMessage {
		return 0, nil, file, errors.New("message too large")
	}
	payload = make([]byte, size)
	for n := 0; n < size; {
		m, err := c.conn.Read(payload[n:])
		if err != nil {
			return 0, nil, file, err
		}
		n += m
	}
	return head[0], payload, file, nil
}

// rights takes the descriptor out of a control message.
func rights(oob []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "of the stage")
}
