package sandbox

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// wordSize is the size of an address on the architectures that have a filter.
const wordSize = 8

// foreignMemory reads another process's memory, a piece at a time: texts mostly lie behind
// each other.
type foreignMemory struct {
	pid   int
	base  uint64
	piece []byte
	room  [4096]byte
}

// at returns what can be read at an address, one byte at least.
func (m *foreignMemory) at(addr uint64) ([]byte, error) {
	if addr >= m.base && addr-m.base < uint64(len(m.piece)) {
		return m.piece[addr-m.base:], nil
	}
	// Not beyond the page: the next one may not be there.
	size := uint64(len(m.room)) - addr%uint64(len(m.room))
	local := []unix.Iovec{{Base: &m.room[0], Len: size}}
	n, err := unix.ProcessVMReadv(m.pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: int(size)}}, 0)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, unix.EFAULT
	}
	m.base, m.piece = addr, m.room[:n]
	return m.piece, nil
}

// readWord reads an address.
func (m *foreignMemory) readWord(addr uint64) (uint64, error) {
	var b [wordSize]byte
	for i := 0; i < wordSize; {
		p, err := m.at(addr + uint64(i))
		if err != nil {
			return 0, err
		}
		i += copy(b[i:], p)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// text reads up to a zero. More than most is refused, as the kernel does.
func (m *foreignMemory) text(addr uint64, most int) (string, error) {
	var out []byte
	for {
		p, err := m.at(addr + uint64(len(out)))
		if err != nil {
			return "", err
		}
		if text, _, ended := bytes.Cut(p, []byte{0}); ended {
			return string(append(out, text...)), nil
		}
		if out = append(out, p...); len(out) > most {
			return "", unix.ENAMETOOLONG
		}
	}
}
