package stage

import (
	"errors"
	"syscall"
)

// conn is the stage's end of the socket.
type conn struct{ fd int }

// receiveSpec reads the first message, and the descriptors that come with it.
func (c conn) receiveSpec() (*Spec, []int, error) {
	var head [HeaderSize]byte
	oob := make([]byte, syscall.CmsgSpace(4*maxRights))
	n, oobn, _, _, err := syscall.Recvmsg(c.fd, head[:1], oob, syscall.MSG_CMSG_CLOEXEC)
	for errors.Is(err, syscall.EINTR) {
		n, oobn, _, _, err = syscall.Recvmsg(c.fd, head[:1], oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n != 1 || head[0] != MsgSpec {
		return nil, nil, errCodec
	}
	if n, err := c.full(head[1:]); n != HeaderSize-1 || err != nil {
		return nil, nil, errCodec
	}
	payload, err := c.payload(head)
	if err != nil {
		return nil, nil, err
	}
	spec, err := DecodeSpec(payload)
	if err != nil {
		return nil, nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return spec, nil, err
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	return spec, fds, err
}

// maxRights bounds the descriptors that come with a message.
const maxRights = 16

// receive reads one message; a kind of zero is the end of the socket.
func (c conn) receive() (kind byte, payload []byte, err error) {
	var head [HeaderSize]byte
	if n, err := c.full(head[:]); n == 0 || err != nil {
		return 0, nil, err
	}
	payload, err = c.payload(head)
	return head[0], payload, err
}

// payload reads what follows a header.
func (c conn) payload(head [HeaderSize]byte) ([]byte, error) {
	size := int(head[1]) | int(head[2])<<8 | int(head[3])<<16 | int(head[4])<<24
	if size < 0 || size > MaxMessage {
		return nil, errCodec
	}
	payload := make([]byte, size)
	if n, err := c.full(payload); n != size || err != nil {
		return nil, errCodec
	}
	return payload, nil
}

// full fills b; it returns fewer bytes only at the end of the socket.
func (c conn) full(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m, err := syscall.Read(c.fd, b[n:])
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return n, err
		case m == 0:
			return n, nil
		default:
			n += m
		}
	}
	return n, nil
}

// send writes one message, with a descriptor beside it unless that is negative.
func (c conn) send(kind byte, payload []byte, fd int) {
	b := Message(kind, payload)
	var rights []byte
	if fd >= 0 {
		rights = syscall.UnixRights(fd)
	}
	for len(b) > 0 {
		n, err := syscall.SendmsgN(c.fd, b, rights, nil, syscall.MSG_NOSIGNAL)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return // the parent is gone; the end of the socket says so too
		}
		b, rights = b[n:], nil
	}
}
