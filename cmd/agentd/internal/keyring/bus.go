//go:build !darwin && !windows

package keyring

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/rundir"
)

// busSockets returns where the user's session bus may be, the likeliest first: where the
// environment says, else where systemd puts it, which also holds for a process that was
// started without a session, such as over SSH. The name of an abstract socket begins
// with @.
func busSockets(getenv func(string) string) ([]string, error) {
	if text := getenv("DBUS_SESSION_BUS_ADDRESS"); text != "" {
		var sockets []string
		for address := range strings.SplitSeq(text, ";") {
			if socket := unixSocket(address, getenv); socket != "" {
				sockets = append(sockets, socket)
			}
		}
		if len(sockets) == 0 {
			return nil, fmt.Errorf("%w: DBUS_SESSION_BUS_ADDRESS names no Unix socket", ErrAbsent)
		}
		return sockets, nil
	}
	return runtimeFiles(getenv, "bus"), nil
}

// runtimeFiles are the files of a name in the folders for what runs as this user.
func runtimeFiles(getenv func(string) string, name string) []string {
	var out []string
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		out = append(out, filepath.Join(dir, name))
	}
	usual := filepath.Join("/run/user/"+strconv.Itoa(os.Geteuid()), name)
	if len(out) == 0 || out[0] != usual {
		out = append(out, usual)
	}
	return out
}

// unixSocket reads one address of a bus; empty if it is of another kind.
func unixSocket(address string, getenv func(string) string) string {
	rest, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return ""
	}
	for pair := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if err != nil || value == "" {
			return ""
		}
		switch key {
		case "path":
			return value
		case "abstract":
			return "@" + value
		case "runtime":
			return runtimeFiles(getenv, "bus")[0]
		}
	}
	return ""
}

// dialBus connects to the user's session bus, and to no other user's.
func dialBus(ctx context.Context, getenv func(string) string) (net.Conn, error) {
	sockets, err := busSockets(getenv)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, socket := range sockets {
		conn, err := rundir.Dial(ctx, socket)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, fmt.Errorf("%w: no session bus can be reached: %w", ErrAbsent, failed)
}

// Sockets returns the files by which a program could get at the keyring, for those that
// must not.
func Sockets(getenv func(string) string) []string {
	sockets, err := busSockets(getenv)
	if err != nil {
		return nil // there are none
	}
	return slices.DeleteFunc(sockets, func(path string) bool { return !filepath.IsAbs(path) })
}
