package stage

import "errors"

// Marker is the variable of the environment that makes our binary a stage.
const Marker = "AGENTD_SANDBOX_STAGE"

// ControlFD is the descriptor of the stage's end of the socket.
const ControlFD = 3

// Kinds of messages. The parent sends spec, go and signal; the stage answers
// ready or failed, and at the end exited; one that was forked is ready without a word,
// unless it has a listener to hand over.
const (
	MsgSpec   = 'S'
	MsgGo     = 'G'
	MsgSignal = 'K'
	MsgReady  = 'R'
	// MsgSupervise carries the listener that is asked before each start of a program.
	MsgSupervise = 'N'
	MsgFailed    = 'E'
	MsgExited    = 'X'
	// To a stage that was forked a program is sent instead of a spec, and it names
	// the one step that failed by a number.
	MsgProgram = 'P'
	MsgStopped = 'F'
)

// HeaderSize is the size of a message's header: its kind and its length.
const HeaderSize = 5

// MaxMessage bounds a message. The kernel takes at most 2 MiB of arguments and
// environment by default.
const MaxMessage = 8 << 20

// Spec says what the stage does.
type Spec struct {
	// Path is the program, Argv its arguments with its name first.
	Path string
	Argv []string
	Env  []string
	Dir  string
	// TTY makes standard input the controlling terminal.
	TTY bool
	// Probe tries each step, reports every one that fails, and runs nothing.
	Probe bool

	// MountNS, PidNS and NetNS say which namespaces the stage finds itself in.
	MountNS, PidNS, NetNS bool

	// ReadOnly makes every mount read-only but those of Keep and Private.
	ReadOnly bool
	// Keep are trees that stay as they are on top of all that.
	Keep []Tree
	// Private are directories that get an empty file system of their own.
	Private []string
	// PrivateBytes bounds each of them.
	PrivateBytes uint64
	// Pinned are directories that can't be renamed or removed, each after those that
	// hold it: what is covered below them stays below their names.
	Pinned []string
	// Protected are files and directories that become read-only and can't be
	// replaced. One that isn't there, or is a link, is left out.
	Protected []string
	// Hidden are directories and files that nothing inside can read.
	Hidden []File
	// Dev replaces /dev by its harmless devices, Proc mounts the /proc of the
	// pid namespace.
	Dev, Proc bool
	// PidMax bounds the pids of the pid namespace; zero leaves it.
	PidMax uint64

	// Loopback brings up the loopback device of the network namespace. ProxyPort,
	// if not zero, is listened on there, and the listener is handed to the parent.
	Loopback  bool
	ProxyPort uint64

	// KeepFiles lets descriptors that weren't meant for the command reach it, because
	// this kernel can't mark them all at once.
	KeepFiles bool
	// Tasks counts the descriptors that come after those of standard input, output
	// and error: files of control groups that the command's thread enters itself
	// into.
	Tasks uint64
	// Limits are resource limits, soft and hard.
	Limits []Limit
	// OpenFiles are the soft and the hard limit of open files that the command gets
	// if Limits doesn't say it. A stage that was executed needs no word about it: Go
	// gives a new process the limits from before it raised its own.
	OpenFiles [2]uint64
	// EnterNet says that the descriptor after those of Tasks is a network namespace to
	// enter. It is the number of the system call setns; zero is none. Only a stage that
	// was forked is told so.
	EnterNet uint64
	// Watch says that the filter hands the making of sockets to a listener, at which
	// the stage itself notes that it was done; see [Exited]. It is the number of the
	// system call seccomp. Only a stage that was forked is told so.
	Watch uint64
	// NoNewPrivs, DropCaps, Landlock and Seccomp restrict the command.
	NoNewPrivs, DropCaps bool
	// KeepCover drops only the capabilities by which root could look below what
	// covers the hidden paths.
	KeepCover      bool
	LandlockFS     uint64
	LandlockNet    uint64
	LandlockScoped uint64
	Rules          []Rule
	Seccomp        []byte
	// Supervise says that the filter hands starts of programs to a listener, which
	// is sent to the parent before the command starts. It is the number of the
	// system call seccomp, which package syscall doesn't know; zero is no listener.
	Supervise uint64
}

// File is a path, and what it was when it was resolved. A path without an inode
// wasn't there then.
type File struct {
	Path     string
	Dev, Ino uint64
}

// Tree is a part of the file system that is carried into the sandbox.
type Tree struct {
	File
	ReadOnly bool
}

// Limit is a resource limit.
type Limit struct {
	Resource uint64
	Value    uint64
}

// Rule allows access beneath a path. A path that isn't there is left out.
type Rule struct {
	Path   string
	Access uint64
}

// Exited is what the stage reports when the command ended and its tree is gone.
type Exited struct {
	// WaitStatus as wait4 gave it.
	WaitStatus uint64
	// CPUMicros and MaxRSSKiB are those of the whole tree, as far as it was
	// waited for.
	CPUMicros uint64
	MaxRSSKiB uint64
	// NoSockets is 1 if the making of sockets was watched, and nothing that the
	// command started ever made one.
	NoSockets uint64
}

// Failed is a step that could not be done.
type Failed struct {
	Step  string
	Errno uint64
}

// errCodec says that a message isn't what it should be.
var errCodec = errors.New("malformed message")

// codec visits the fields of a message, to write or to read them: one list of
// fields serves both directions.
type codec interface {
	num(v *uint64)
	str(v *string)
}

// EncodeSpec returns the message's payload.
func EncodeSpec(s *Spec) []byte {
	w := &writer{}
	s.visit(w)
	return w.b
}

// DecodeSpec reads what [EncodeSpec] wrote.
func DecodeSpec(b []byte) (*Spec, error) {
	s, r := &Spec{}, &reader{b: b}
	s.visit(r)
	return s, r.end()
}

// EncodeExited returns the message's payload.
func EncodeExited(e Exited) []byte {
	w := &writer{}
	e.visit(w)
	return w.b
}

// DecodeExited reads what [EncodeExited] wrote.
func DecodeExited(b []byte) (Exited, error) {
	var e Exited
	r := &reader{b: b}
	e.visit(r)
	return e, r.end()
}

// EncodeFailed returns the message's payload: all steps that failed.
func EncodeFailed(f []Failed) []byte {
	w := &writer{}
	visitFailed(w, &f)
	return w.b
}

// DecodeFailed reads what [EncodeFailed] wrote.
func DecodeFailed(b []byte) ([]Failed, error) {
	var f []Failed
	r := &reader{b: b}
	visitFailed(r, &f)
	return f, r.end()
}

// DecodeStopped reads the step that a forked stage could not do.
func DecodeStopped(b []byte) (Failed, error) {
	if len(b) != 8 {
		return Failed{}, errCodec
	}
	word := func(b []byte) uint32 {
		return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	}
	return Failed{Step: stepName(word(b)), Errno: uint64(word(b[4:]))}, nil
}

func (s *Spec) visit(c codec) {
	c.str(&s.Path)
	strs(c, &s.Argv)
	strs(c, &s.Env)
	c.str(&s.Dir)
	for _, f := range []*bool{
		&s.TTY, &s.Probe, &s.MountNS, &s.PidNS, &s.NetNS, &s.ReadOnly, &s.Dev, &s.Proc, &s.Loopback,
		&s.NoNewPrivs, &s.DropCaps, &s.KeepCover, &s.KeepFiles,
	} {
		flag(c, f)
	}
	list(c, &s.Keep, func(t *Tree) { t.visit(c); flag(c, &t.ReadOnly) })
	strs(c, &s.Private)
	strs(c, &s.Pinned)
	strs(c, &s.Protected)
	list(c, &s.Hidden, func(f *File) { f.visit(c) })
	for _, n := range []*uint64{
		&s.PrivateBytes, &s.PidMax, &s.ProxyPort, &s.Tasks, &s.LandlockFS, &s.LandlockNet, &s.LandlockScoped, &s.Supervise,
	} {
		c.num(n)
	}
	list(c, &s.Limits, func(l *Limit) { c.num(&l.Resource); c.num(&l.Value) })
	list(c, &s.Rules, func(r *Rule) { c.str(&r.Path); c.num(&r.Access) })
	filter := string(s.Seccomp)
	c.str(&filter)
	s.Seccomp = []byte(filter)
}

func (f *File) visit(c codec) {
	c.str(&f.Path)
	c.num(&f.Dev)
	c.num(&f.Ino)
}

func (e *Exited) visit(c codec) {
	c.num(&e.WaitStatus)
	c.num(&e.CPUMicros)
	c.num(&e.MaxRSSKiB)
	c.num(&e.NoSockets)
}

func visitFailed(c codec, f *[]Failed) {
	list(c, f, func(f *Failed) { c.str(&f.Step); c.num(&f.Errno) })
}

func flag(c codec, v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.num(&n)
	if is := n != 0; is != *v {
		*v = is // only where it is read: others may write the same list out
	}
}

func strs(c codec, v *[]string) { list(c, v, c.str) }

// list visits a list: its length, then each entry.
func list[T any](c codec, v *[]T, visit func(*T)) {
	n := uint64(len(*v))
	c.num(&n)
	if r, ok := c.(*reader); ok {
		// Every entry takes at least eight bytes: a length that lies allocates
		// nothing.
		if n > uint64(len(r.b))/8 {
			r.bad = true
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		visit(&(*v)[i])
	}
}

type writer struct{ b []byte }

func (w *writer) num(v *uint64) {
	for shift := 0; shift < 64; shift += 8 {
		w.b = append(w.b, byte(*v>>shift))
	}
}

func (w *writer) str(v *string) {
	n := uint64(len(*v))
	w.num(&n)
	w.b = append(w.b, *v...)
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) num(v *uint64) {
	if len(r.b) < 8 {
		r.bad, r.b, *v = true, nil, 0
		return
	}
	*v = 0
	for i := range 8 {
		*v |= uint64(r.b[i]) << (8 * i)
	}
	r.b = r.b[8:]
}

func (r *reader) str(v *string) {
	var n uint64
	r.num(&n)
	if n > uint64(len(r.b)) {
		r.bad, r.b, *v = true, nil, ""
		return
	}
	*v, r.b = string(r.b[:n]), r.b[n:]
}

func (r *reader) end() error {
	if r.bad || len(r.b) != 0 {
		return errCodec
	}
	return nil
}
