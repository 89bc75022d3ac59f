// Package rundir finds the socket of a user's server, and lets no one else in between.
//
// # Contract
//
// [Socket] names the socket of the server that holds a data directory. It is in a
// folder that belongs to this user, that no one else can enter, and that is no
// symbolic link; what isn't so is refused, never repaired. [Dial] connects to a socket
// and hands the connection out only if this user's process is at the other end.
// [Lock] is held by whoever starts or replaces a server; it goes with its process.
// [Attend] lets others count the processes that use a server, which a server that was
// just started can't: its clients have yet to find it.
//
// # Concurrency
//
// Everything may be called by many goroutines and processes at the same time.
package rundir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"agentd/cmd/agentd/internal/datadir"
)

// maxSocket is the longest path that every system takes for a socket.
const maxSocket = 100

// ErrForeign says that a socket, or the process behind it, belongs to another user.
var ErrForeign = errors.New("it belongs to another user")

// Socket returns the path of the socket for a data directory. Its folder is made if it
// isn't there: in $XDG_RUNTIME_DIR, or else in the folder for temporary files.
func Socket(getenv func(string) string, data string) (string, error) {
	sum := sha256.Sum256([]byte(data))
	name := hex.EncodeToString(sum[:6]) + ".sock"
	var problems []error
	for _, dir := range folders(getenv) {
		path := filepath.Join(dir, name)
		if len(path) > maxSocket {
			problems = append(problems, fmt.Errorf("%s: the path is too long for a socket", path))
			continue
		}
		if err := private(dir); err != nil {
			problems = append(problems, err)
			continue
		}
		return path, nil
	}
	return "", fmt.Errorf("no folder for the server's socket: %w; set XDG_RUNTIME_DIR to a folder of yours with mode 0700", errors.Join(problems...))
}

// folders are the candidates, the best first.
func folders(getenv func(string) string) []string {
	var out []string
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		out = append(out, filepath.Join(dir, "agentd"))
	}
	own := "agentd-" + strconv.Itoa(os.Geteuid())
	if dir := getenv("TMPDIR"); filepath.IsAbs(dir) {
		out = append(out, filepath.Join(dir, own))
	}
	return append(out, "/tmp/"+own)
}

// private makes a folder, or checks that the one that is there is this user's alone.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case !datadir.Mine(info):
		return fmt.Errorf("%s: %w", dir, ErrForeign)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be entered by other users; chmod 700 %s", dir, dir)
	}
	return nil
}

// Dial connects to a socket of this user's. A path that begins with @ names a socket that
// is no file, as Linux has them.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if !strings.HasPrefix(path, "@") {
		info, err := os.Lstat(path)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSocket == 0 {
			return nil, fmt.Errorf("%s is not a socket", path)
		}
		if !datadir.Mine(info) {
			return nil, fmt.Errorf("%s: %w", path, ErrForeign)
		}
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), c.Close())
	}
	return c, nil
}
