package workspace

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"

	"agentd/internal/place"
)

// node is an entry of a workspace as it was last seen.
type node struct {
	st fileStat
	// children of a folder, by name.
	children map[string]*node
	// target of a symbolic link.
	target string
	// sum and pos of a file's content, where it is held: why is empty then.
	sum [sha256.Size]byte
	pos int64
	// why says that a file's content isn't held, and the reason.
	why string
	// racy says that the file changed so recently, or while it was read, that it
	// may change again without a trace.
	racy bool
	// ignored says whether, and how, a .gitignore ignores the entry, as of the
	// rules' generation.
	ignored  ignored
	rulesGen uint32
	// rules of a folder's .gitignore and those above, as of rulesAt.
	rules   *ignoreRules
	rulesAt fileStat
	// seen is the last look that saw the entry.
	seen uint32
}

type ignored uint8

const (
	notIgnored ignored = iota
	// ignoredItself: a rule names the entry.
	ignoredItself
	// ignoredAbove: it is in an ignored folder.
	ignoredAbove
)

// was is a state of a path, with what is needed to keep its content.
type was struct {
	state State
	// note says why the content isn't known.
	note string
	// open returns the content, size its length.
	open func() (*bytes.Reader, error)
	size int64
	// at is where the content is kept already.
	at *location
}

// index remembers a workspace between looks.
type index struct {
	root place.Place
	opt  *Options
	// exclude is not looked at.
	exclude *exclusion
	// holders counts recorders; guarded by the Vault's mutex.
	holders int

	mu      sync.Mutex
	closed  bool
	spool   *spool
	top     *node
	count   int // entries outside ignored folders
	below   int // entries in them
	held    int64
	look    uint32
	rules   uint32
	cut     bool
	windows map[*window]struct{}
}

func newIndex(root place.Place, opt *Options, exclude []string) *index {
	return &index{
		root: root, opt: opt, exclude: newExclusion(root.Path, exclude, opt.Places), windows: map[*window]struct{}{},
		top: &node{st: fileStat{kind: kindDir}, children: map[string]*node{}},
	}
}

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.spool == nil {
		return nil
	}
	err := x.spool.close()
	x.spool = nil
	return err
}

var errClosed = errors.New("workspace: closed")

// ignoredFolder returns the topmost ignored folder on the way to a path.
func (x *index) ignoredFolder(path string) string {
	n, at := x.top, 0
	for {
		i := strings.IndexByte(path[at:], '/')
		if i < 0 {
			return path
		}
		if n = n.children[path[at:at+i]]; n == nil || n.ignored == ignoredItself {
			return path[:at+i]
		}
		at += i + 1
	}
}

// findNode returns the entry at a path, or nil.
func (x *index) findNode(path string) *node {
	n := x.top
	for name := range strings.SplitSeq(path, "/") {
		if n = n.children[name]; n == nil {
			return nil
		}
	}
	return n
}

// hasContent says whether a file's content is in the spool.
func (n *node) hasContent() bool { return n.st.kind == kindFile && n.why == "" }

func (n *node) state() State {
	switch {
	case n.hasContent():
		return State{Hash: fileHash(n.sum), Mode: n.st.mode}
	case n.st.kind == kindLink:
		return linkState(n.target)
	default:
		return n.st.state()
	}
}

// was returns an entry's state and its content. A nil node was nothing.
func (x *index) was(n *node) was {
	if n == nil {
		return was{}
	}
	w := was{state: n.state()}
	switch n.st.kind {
	case kindFile:
		w.note = n.why
		if n.hasContent() {
			spool, pos, size, sum := x.spool, n.pos, n.st.size, n.sum
			w.size = size
			w.open = func() (*bytes.Reader, error) { return spool.read(pos, size, sum) }
		}
	case kindLink:
		w.setTarget(n.target)
	case kindOther:
		w.note = noteSpecial
	}
	return w
}

func (w *was) setTarget(target string) {
	w.size = int64(len(target))
	w.open = func() (*bytes.Reader, error) { return bytes.NewReader([]byte(target)), nil }
}

// Notes that people read.
const (
	noteSpecial  = "neither a file, a folder nor a symbolic link: not kept"
	noteIgnored  = "ignored by .gitignore: its earlier content is not kept"
	noteTooLarge = "too large: its earlier content is not kept"
	noteBudget   = "beyond the bytes that are held of the workspace: its earlier content is not kept"
	noteUnread   = "its earlier content could not be read"
	noteName     = "its name is not UTF-8: it can't be restored"
	noteShared   = "another command ran at the same time: it may be its change"
	noteOther    = "another call changed it at the same time"
)
