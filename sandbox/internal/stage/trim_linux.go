package stage

import (
	"strconv"
	"syscall"
	"unsafe"
)

// A fork copies what describes the memory of a process, and a Go program describes
// much: heaps, tables, stacks of threads, libraries. The launcher needs none of it,
// so it lets go of all but its code and data, its stack and its area before it forks
// the first stage. Where anything is in doubt it keeps everything.

// extent is a part of the address space.
type extent struct{ from, to uintptr }

func (e extent) holds(address uintptr) bool { return e.from <= address && address < e.to }

// maxExtents bounds the list of what is let go.
const maxExtents = 128

// stackWindow is what is kept of the memory on both sides of the stack's end: more
// than Go lets a function use that checks nothing.
const stackWindow = 64 << 10

// planTrim lists what can be let go, in the area, but what is to be kept. It runs while there is a runtime.
func (a *area) planTrim(keep extent) {
	tls, ok := threadPointer()
	if !ok {
		return
	}
	maps, err := readAll("/proc/self/maps")
	if err != nil {
		return
	}
	exe := make([]byte, 4096)
	n, err := syscall.Readlink("/proc/self/exe", exe)
	if err != nil {
		return
	}
	parts := spare(maps, string(exe[:n]), tls)
	if touches(parts, ownAddresses()) {
		return
	}
	for _, e := range parts {
		// The area may have become one with a neighbour.
		for _, part := range []extent{{e.from, min(e.to, keep.from)}, {max(e.from, keep.to), e.to}} {
			if part.from < part.to && a.extents < maxExtents {
				a.extent[a.extents] = part
				a.extents++
			}
		}
	}
}

// spare returns what of the memory isn't the program's own, special to the kernel,
// or that of the thread.
func spare(maps []byte, exe string, tls uintptr) []extent {
	var out []extent
	var end uintptr // of the program's last part
	for len(maps) > 0 {
		var line []byte
		line, maps = cut(maps, '\n')
		e, path := parseMap(line)
		if path == exe || path == "" && e.from == end {
			end = e.to
			continue
		}
		if e.to == 0 || path != "" && path[0] == '[' || e.holds(tls) {
			continue
		}
		out = append(out, e)
	}
	return out
}

// ownAddresses are in the program's code, its constants and its data: if one of them
// seems spare, then because the kernel calls the program's file by two names.
func ownAddresses() []uintptr {
	const constant = "constant"
	code := **(**uintptr)(unsafe.Pointer(&serveRequests))
	return []uintptr{code, uintptr(unsafe.Pointer(unsafe.StringData(constant))), uintptr(unsafe.Pointer(&serveRequests))}
}

// touches tells whether one of the addresses is in one of the extents.
func touches(extents []extent, addresses []uintptr) bool {
	for _, e := range extents {
		for _, address := range addresses { //nolint:modernize // this package imports as little as it can
			if e.holds(address) {
				return true
			}
		}
	}
	return false
}

// parseMap reads "from-to perms offset device inode path".
func parseMap(line []byte) (e extent, path string) {
	span, rest := cut(line, ' ')
	from, to := cut(span, '-')
	low, err := strconv.ParseUint(string(from), 16, 64)
	if err != nil {
		return extent{}, ""
	}
	high, err := strconv.ParseUint(string(to), 16, 64)
	if err != nil {
		return extent{}, ""
	}
	for range 4 {
		_, rest = cut(rest, ' ')
	}
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return extent{uintptr(low), uintptr(high)}, string(rest)
}

// cut splits at the first sep.
func cut(b []byte, sep byte) (before, after []byte) {
	for i, c := range b {
		if c == sep {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// readAll reads a file to its end.
func readAll(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd) // opened for reading
	var all []byte
	buf := make([]byte, 16<<10)
	for {
		n, err := syscall.Read(fd, buf)
		if err != nil || n == 0 {
			return all, err
		}
		all = append(all, buf[:n]...)
	}
}

// trim lets go of what was listed, but not of the stack.
//
//go:nosplit
//go:norace
func (a *area) trim() {
	var here byte
	sp := uintptr(unsafe.Pointer(&here))
	low, high := (sp-stackWindow)&^(pageSize-1), (sp+stackWindow)&^(pageSize-1)
	for i := range a.extents {
		e := &a.extent[i]
		unmap(e.from, min(e.to, low))
		unmap(max(e.from, high), e.to)
	}
}

// pageSize is the largest that is in use; smaller ones divide it.
const pageSize = 64 << 10

//go:nosplit
//go:norace
func unmap(from, to uintptr) {
	if from < to {
		raw(syscall.SYS_MUNMAP, from, to-from, 0)
	}
}
