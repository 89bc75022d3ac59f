package sandbox

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces are network namespaces that commands had in which nothing ever made a
// socket. Without one nothing can be left in a namespace or changed in it, as the command
// has no capabilities and sees /proc/sys and /sys read-only: so it is as good as new, and
// making a new one is a quarter of what the kernel does for a short command. Each is used
// by one command at a time.
type namespaces struct {
	mu     sync.Mutex
	free   []*os.File
	closed bool
	// enter tells once whether a namespace can be entered here.
	enter     sync.Once
	enterable bool
}

// maxNamespaces bounds those that are kept. One that waits takes about 0.2 MB.
const maxNamespaces = 16

// keepsNet tells whether a network namespace of the plan's commands can be told to be as
// new. One in a user namespace belongs to that and ends with it; a proxy's has its door.
func (p *Plan) keepsNet() bool {
	u := p.use
	return u.net && u.pid && u.seccomp && !u.user && !u.proxy && !u.supervise && p.report.Supervise.Available && p.report.Inherited == ""
}

func (n *namespaces) takeFree() *os.File {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := len(n.free) - 1
	if last < 0 {
		return nil
	}
	f := n.free[last]
	n.free = n.free[:last]
	return f
}

// takeBack keeps a namespace in which no process is left.
func (n *namespaces) takeBack(f *os.File) {
	n.enter.Do(func() { n.enterable = canEnter(f) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.enterable || n.closed || len(n.free) == maxNamespaces {
		_ = f.Close()
		return
	}
	n.free = append(n.free, f)
}

func (n *namespaces) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	closeAll(n.free)
	n.free = nil
}

// canEnter tries to enter a namespace, in a thread that goes back or ends.
func canEnter(f *os.File) bool {
	entered := make(chan bool)
	go func() {
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer own.Close() // only named a place
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil || unix.Setns(int(own.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		entered <- err == nil
	}()
	return <-entered
}

// takeNet has the stage enter a namespace that is there, instead of being born in a new
// one.
func (c *Child) takeNet(nets *namespaces, sys *syscall.SysProcAttr) {
	c.nets = nets
	if c.net = nets.takeFree(); c.net != nil {
		c.entersNet = true
		sys.Cloneflags &^= unix.CLONE_NEWNET
	}
}

// findNet opens the namespace that the stage was born in.
func (c *Child) findNet() {
	if c.nets != nil && c.net == nil {
		c.net, _ = os.Open("/proc/" + strconv.Itoa(c.proc.Pid) + "/ns/net") // else it isn't used again
	}
}

// returnNet gives the namespace back, when everything in it has ended, if no socket was
// made in it.
func (c *Child) returnNet() {
	switch {
	case c.net == nil:
	case c.noSockets:
		c.nets.takeBack(c.net)
	default:
		_ = c.net.Close()
	}
}
