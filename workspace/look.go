package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

const (
	maxDepth  = 100
	nameBatch = 1024
	// tempPrefix begins the names of files that Apply is writing.
	tempPrefix = ".agentd-undo-"
)

// excluded says which names are never looked at.
func excluded(name string) bool {
	return name == ".git" || name == "node_modules" || strings.HasPrefix(name, tempPrefix)
}

// look is one walk over a workspace that brings its index up to date.
type look struct {
	x    *index
	root *dirHandle
	// dirty are the files to read, later the folders that are ignored.
	dirty []dirtyFile
	later []laterDir
	buf   []byte
}

type dirtyFile struct {
	dir  *node
	n    *node
	name string
	path string
	st   fileStat
	old  was
	// quiet files didn't change; their content is to be held from now on.
	quiet bool
}

type laterDir struct {
	n     *node
	path  string
	depth int
}

// refresh looks at the workspace. The caller holds mu.
func (x *index) refresh(ctx context.Context) error {
	if x.closed {
		return errClosed
	}
	root, err := openDir(x.root)
	if err != nil {
		return fmt.Errorf("workspace: look: %w", err)
	}
	defer root.close()
	if x.spool == nil {
		if x.spool, err = newSpool(x.opt.SpoolDir); err != nil {
			return fmt.Errorf("workspace: look: %w", err)
		}
	}
	x.look++
	x.cut = false
	l := &look{x: x, root: root}
	if err := l.walkAll(ctx); err != nil {
		return fmt.Errorf("workspace: look: %w", err)
	}
	return x.compact(ctx)
}

func (l *look) walkAll(ctx context.Context) error {
	if err := l.walkFolder(ctx, l.x.top, l.root, "", nil, 0, notIgnored); err != nil {
		return err
	}
	for len(l.later) > 0 {
		d := l.later[0]
		l.later = l.later[1:]
		if err := l.descendPath(ctx, d); err != nil {
			return err
		}
	}
	return l.read(ctx)
}

// descendPath walks an ignored folder from the root on.
func (l *look) descendPath(ctx context.Context, d laterDir) error {
	at := l.root
	for name := range strings.SplitSeq(d.path, "/") {
		sub, err := at.sub(name)
		if at != l.root {
			at.close()
		}
		if err != nil {
			return nil // a folder that can't be opened is not looked at
		}
		at = sub
	}
	defer at.close()
	return l.walkFolder(ctx, d.n, at, d.path+"/", nil, d.depth, ignoredAbove)
}

// walkFolder brings a folder and what is below it up to date.
func (l *look) walkFolder(ctx context.Context, dir *node, h *dirHandle, prefix string, rules *ignoreRules, depth int, above ignored) error {
	if above == notIgnored {
		rules = l.rules(dir, h, prefix, rules)
	}
	seen := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := h.names(nameBatch)
		for _, name := range names {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			n := l.entry(dir, h, prefix, name, rules, above)
			if n == nil {
				continue
			}
			seen++
			if n.st.kind == kindDir {
				if err := l.descend(ctx, n, h, prefix+name, name, rules, depth+1, above); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) || len(names) == 0 {
			break
		}
		if err != nil {
			return nil //nolint:nilerr // what can't be listed to its end is taken as it was
		}
	}
	if seen < len(dir.children) {
		l.sweep(dir, prefix)
	}
	return nil
}

func (l *look) descend(ctx context.Context, n *node, h *dirHandle, path, name string, rules *ignoreRules, depth int, above ignored) error {
	if depth >= maxDepth {
		l.x.cut = true
		return nil
	}
	if above == notIgnored && n.ignored == ignoredItself {
		l.later = append(l.later, laterDir{n: n, path: path, depth: depth})
		return nil
	}
	sub, err := h.sub(name)
	if err != nil {
		return nil // a folder that can't be opened is not looked at
	}
	defer sub.close()
	return l.walkFolder(ctx, n, sub, path+"/", rules, depth, above)
}

// rules returns the rules that hold in a folder. Its .gitignore is read only if
// it changed.
func (l *look) rules(dir *node, h *dirHandle, prefix string, above *ignoreRules) *ignoreRules {
	const file = ".gitignore"
	st, err := h.stat(file)
	if err != nil || st.kind != kindFile {
		if dir.rulesAt != (fileStat{}) {
			dir.rulesAt = fileStat{}
			l.x.rules++
		}
		dir.rules = above
		return above
	}
	if st != dir.rulesAt || dir.rules == nil {
		f, err := l.root.open(prefix + file)
		if err != nil {
			dir.rules = above
			return above
		}
		text, _ := io.ReadAll(io.LimitReader(f, maxIgnoreBytes)) // what could be read
		_ = f.Close()
		dir.rules = &ignoreRules{prefix: prefix, rules: parseIgnore(string(text))}
		dir.rulesAt = st
		l.x.rules++
	}
	if dir.rules.above != above {
		dir.rules = &ignoreRules{above: above, prefix: prefix, rules: dir.rules.rules}
	}
	return dir.rules
}

// entry brings one name up to date and returns its node, or nil if there is
// nothing, or nothing that is looked at.
func (l *look) entry(dir *node, h *dirHandle, prefix, name string, rules *ignoreRules, above ignored) *node {
	if excluded(name) || l.x.exclude.has(prefix, name) {
		return nil
	}
	n := dir.children[name]
	st, err := h.stat(name)
	if err != nil {
		if n != nil && !errors.Is(err, fs.ErrNotExist) {
			n.seen = l.x.look // it can't be seen, so it is taken as it was
			return n
		}
		return nil
	}
	if l.x.exclude.excludesFile(st) {
		return nil
	}
	if n == nil {
		if !l.room(above) {
			return nil
		}
		n = l.addNode(dir, prefix, name, st.kind == kindDir, rules, above)
	} else if n.ignored != notIgnored && above == notIgnored && n.rulesGen != l.x.rules {
		l.unignore(dir, n, prefix, name, rules)
	}
	n.seen = l.x.look
	if n.st != st || n.racy {
		l.update(dir, n, h, prefix, name, st)
	}
	return n
}

func (l *look) addNode(dir *node, prefix, name string, isDir bool, rules *ignoreRules, above ignored) *node {
	n := &node{ignored: above, rulesGen: l.x.rules}
	if above == notIgnored && rules.ignores(prefix+name, isDir) {
		n.ignored = ignoredItself
	}
	dir.children[name] = n
	*l.x.counter(n)++
	return n
}

// room says whether another entry may be remembered. Entries in ignored folders
// have a bound of their own, so that they never take the others' place.
func (l *look) room(above ignored) bool {
	if above == ignoredAbove {
		return l.x.below < l.x.opt.MaxFiles
	}
	l.x.cut = l.x.cut || l.x.count >= l.x.opt.MaxFiles
	return !l.x.cut
}

// counter returns the count that a node is part of.
func (x *index) counter(n *node) *int {
	if n.ignored == ignoredAbove {
		return &x.below
	}
	return &x.count
}

// unignore asks again whether an ignored entry is ignored, after rules changed.
func (l *look) unignore(dir, n *node, prefix, name string, rules *ignoreRules) {
	n.rulesGen = l.x.rules
	*l.x.counter(n)--
	defer func() { *l.x.counter(n)++ }()
	if rules.ignores(prefix+name, n.st.kind == kindDir) {
		n.ignored = ignoredItself
		return
	}
	n.ignored = notIgnored
	if n.st.kind == kindFile && n.why == noteIgnored {
		l.dirty = append(l.dirty, dirtyFile{dir: dir, n: n, name: name, path: prefix + name, st: n.st, quiet: true})
	}
}

// update takes a new identity over. Files are read later.
func (l *look) update(dir, n *node, h *dirHandle, prefix, name string, st fileStat) {
	x, path := l.x, prefix+name
	if st.kind == kindFile && n.ignored != ignoredAbove && (n.st.kind == kindFile || n.st.kind == "") {
		l.dirty = append(l.dirty, dirtyFile{dir: dir, n: n, name: name, path: path, st: st, old: x.wasKnown(n)})
		return
	}
	old := x.wasKnown(n)
	if n.st.kind == kindDir && st.kind != kindDir {
		l.dropBelow(n, path+"/")
	}
	x.letGo(n)
	n.st, n.racy, n.why = st, false, ""
	switch st.kind {
	case kindDir:
		if n.children == nil {
			n.children = map[string]*node{}
		}
	case kindLink:
		n.target, _ = h.readlink(name) // gone again: the next look sees it
	case kindFile:
		n.why = noteIgnored
		if n.ignored != ignoredAbove { // it took the place of something else
			n.racy = true
			l.dirty = append(l.dirty, dirtyFile{dir: dir, n: n, name: name, path: path, st: st, old: old})
		}
	}
	if n.state() != old.state {
		x.changed(path, old, n.ignored)
	}
}

// wasKnown is was for a node that may be new.
func (x *index) wasKnown(n *node) was {
	if n.st.kind == "" {
		return was{}
	}
	return x.was(n)
}

// sweep removes what this look didn't see.
func (l *look) sweep(dir *node, prefix string) {
	for name, n := range dir.children {
		if n.seen != l.x.look {
			l.dropNode(dir, n, prefix, name)
		}
	}
}

func (l *look) dropNode(dir, n *node, prefix, name string) {
	old := l.x.was(n)
	l.dropBelow(n, prefix+name+"/")
	if n.st.kind != "" {
		l.x.changed(prefix+name, old, n.ignored)
	}
	l.x.letGo(n)
	delete(dir.children, name)
	*l.x.counter(n)--
}

func (l *look) dropBelow(n *node, prefix string) {
	for name, child := range n.children {
		l.dropNode(n, child, prefix, name)
	}
	n.children = nil
}

// letGo counts a node's copy as garbage.
func (x *index) letGo(n *node) {
	if n.hasContent() {
		x.held -= n.st.size
	}
}
