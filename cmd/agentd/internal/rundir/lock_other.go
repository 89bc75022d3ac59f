//go:build !unix

package rundir

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// Supported says whether servers can be started in the background here.
const Supported = false

var errUnsupported = errors.New("servers in the background are not supported on this system")

// Lock is not supported here.
func Lock(context.Context, string) (func(), error) { return nil, errUnsupported }

// Detached is not supported here.
func Detached() *syscall.SysProcAttr { return nil }

// Terminate is not supported here.
func Terminate(int) error { return errUnsupported }

// Inherited is not supported here.
func Inherited(int, string) *os.File { return nil }

// Activated is not supported here.
func Activated(func(string) string) (net.Listener, error) {
	return nil, nil //nolint:nilnil // there is none
}

// Presence is not supported here.
type Presence struct{}

// Attend is not supported here.
func Attend(string) (*Presence, error) { return nil, errUnsupported }

// Leave does nothing here.
func (*Presence) Leave() {}

// Others is not supported here.
func (*Presence) Others(string) (int, error) { return 0, errUnsupported }
