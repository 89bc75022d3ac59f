package stage

import (
	"strconv"
	"syscall"
	"unsafe"
)

// devices that are harmless to everyone.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// deviceAttr keeps a device's mode and owner: the node is the machine's own. What
// is written to the device doesn't pass through the mount. The folder of the devices gets
// it together with them.
const deviceAttr = attrReadOnly | attrNoSuid | attrNoExec

// mounts builds the view of the file system. Trees that stay are cloned first and
// attached last, so that their own flags (a read-only volume in a workspace) are
// never changed.
func (b *builder) mounts(s *Spec) {
	b.step(StepPrivate)
	b.mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	b.step(StepClone)
	trees, nodes := b.cloneTrees(s)
	if s.ReadOnly {
		b.step(StepReadOnly)
		b.setAttr(cwd, "/", atRecursive, attrReadOnly|attrNoSuid|attrNoDev)
	}
	b.step(StepTmpfs)
	for _, path := range s.Private {
		b.tmpfs(path, 0, privateOptions(s)).except(0, syscall.ENOENT)
	}
	if s.Dev {
		b.step(StepDev)
		b.mountDev(s, nodes)
	}
	if s.Proc {
		b.step(StepProc)
		b.mountProc(s)
	}
	b.step(StepAttach)
	for i, t := range s.Keep {
		b.attach(trees[i], t.Path)
	}
	b.step(StepPin)
	for _, path := range s.Pinned {
		b.overItself(path, 0)
	}
	b.step(StepProtect)
	for _, path := range s.Protected {
		b.overItself(path, attrReadOnly|attrNoSuid|attrNoDev)
	}
	b.step(StepHide)
	for _, f := range s.Hidden {
		b.hide(f)
	}
}

func (b *builder) mount(source, target, kind string, flags uintptr, options string) *op {
	return b.call(syscall.SYS_MOUNT, b.text(source), b.text(target), b.text(kind), value(flags), b.text(options))
}

// tmpfs mounts an empty file system.
func (b *builder) tmpfs(path string, flags uintptr, options string) *op {
	return b.mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV|flags, options)
}

// openTree keeps a tree, or a clone of it, in a cell.
func (b *builder) openTree(path string, flags uintptr) (*op, uint32) {
	fd := b.cell()
	return b.call(sysOpenTree, cwd, b.text(path), value(flags)).into(fd), fd
}

// setAttr changes the flags of a mount, or with a path of "" those of a tree.
func (b *builder) setAttr(at argument, path string, flags uintptr, set uint64) {
	attr := place(b, mountAttr{set: set})
	b.call(sysMountSetattr, at, b.text(path), value(flags), address(attr), value(mountAttrSize))
}

func (b *builder) moveMount(fd uint32, path string) *op {
	return b.call(sysMoveMount, load(fd), b.text(""), cwd, b.text(path), value(moveEmptyPath))
}

// cloneTrees clones what stays, and the devices. A container may lack one of those.
func (b *builder) cloneTrees(s *Spec) (trees, nodes []uint32) {
	for _, t := range s.Keep {
		attr := uint64(attrNoSuid | attrNoDev)
		if t.ReadOnly {
			attr |= attrReadOnly
		}
		found := b.openPath(t.Path)
		b.same(t.File)
		fd := b.cell()
		b.call(sysOpenTree, load(found), b.text(""), value(openTreeClone|openTreeCloexec|atRecursive|atEmptyPath)).into(fd)
		b.closeCell(found)
		b.setAttr(load(fd), "", atEmptyPath|atRecursive, attr)
		trees = append(trees, fd)
	}
	if !s.Dev {
		return trees, nil
	}
	for _, name := range devices {
		o, fd := b.openTree("/dev/"+name, openTreeClone|openTreeCloexec)
		o.except(0, anyError)
		nodes = append(nodes, fd)
	}
	return trees, nodes
}

// create makes an empty file.
func (b *builder) create(path string, mode int) {
	b.call(syscall.SYS_MKNODAT, cwd, b.text(path), value(syscall.S_IFREG|mode), value(0))
}

// mountDev replaces /dev: a device that stayed could be read or written in spite
// of read-only mounts, and with it the disk below every boundary.
func (b *builder) mountDev(s *Spec, nodes []uint32) {
	b.tmpfs("/dev", syscall.MS_NOEXEC, "mode=755,size=64k")
	for i, node := range nodes {
		path := "/dev/" + devices[i]
		there := b.branch(opUnlessOpen, uint64(node))
		b.create(path, 0o644)
		b.moveMount(node, path)
		b.over(there)
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		b.call(syscall.SYS_MKDIRAT, cwd, b.text(dir), value(0o755))
	}
	for _, link := range [][2]string{
		{"ptmx", "pts/ptmx"},
		{"fd", "/proc/self/fd"},
		{"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"},
	} {
		b.call(syscall.SYS_SYMLINKAT, b.text(link[1]), cwd, b.text("/dev/"+link[0]))
	}
	b.setAttr(cwd, "/dev", atRecursive, deviceAttr)
	b.mount("devpts", "/dev/pts", "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	b.tmpfs("/dev/shm", 0, "mode=1777,size="+strconv.FormatUint(max(s.PrivateBytes, 1<<20), 10))
}

// mountProc shows the processes of the namespace alone. It is read-only: for a
// process of root the files of /proc/sys are open without any capability. Without
// the mount the steps after it are left out: what they would change is the
// machine's.
func (b *builder) mountProc(s *Spec) {
	b.mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	mounted := len(b.ops) - 1
	if s.PidMax != 0 {
		b.step(StepPidMax)
		text := strconv.FormatUint(s.PidMax, 10)
		fd := b.cell()
		b.call(syscall.SYS_OPENAT, cwd, b.text("/proc/sys/kernel/pid_max"), value(syscall.O_WRONLY|syscall.O_CLOEXEC), value(0)).into(fd)
		b.call(syscall.SYS_WRITE, load(fd), b.text(text), value(len(text)))
		b.closeCell(fd)
	}
	b.step(StepProc)
	b.setAttr(cwd, "/proc", 0, attrReadOnly)
	b.ops[mounted].until = b.group
}

// attach puts a kept tree back. One that lay below a private directory needs the
// way to it made anew: a directory, or an empty file if the tree is a file.
func (b *builder) attach(tree uint32, path string) {
	b.moveMount(tree, path).except(1, syscall.ENOENT)
	attached := b.jump()
	b.call(sysFstat, load(tree), address(atStat))
	dir := b.unlessMode(syscall.S_IFDIR)
	b.mkdirAll(path)
	made := b.jump()
	b.over(dir)
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			b.mkdirAll(path[:i])
			break
		}
	}
	b.create(path, 0o600)
	b.over(made)
	b.moveMount(tree, path)
	b.over(attached)
}

// mkdirAll makes a directory and those above it.
func (b *builder) mkdirAll(path string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		b.call(syscall.SYS_MKDIRAT, cwd, b.text(path[:i]), value(0o755)).except(0, syscall.EEXIST)
	}
}

// openPath opens a path in which no part is a link, and looks at what it is.
func (b *builder) openPath(path string) (fd uint32) {
	fd = b.cell()
	how := place(b, openHow{flags: oPath | syscall.O_CLOEXEC, resolve: resolveNoSymlinks})
	b.call(sysOpenat2, cwd, b.text(path), address(how), value(unsafe.Sizeof(openHow{}))).into(fd)
	b.call(sysFstat, load(fd), address(atStat))
	return fd
}

// same gives up unless what was looked at last is what the path led to when it was
// resolved: by then a name may have been given to something else.
func (b *builder) same(f File) {
	if f.Ino == 0 {
		return
	}
	step := b.name
	b.rename(StepSame)
	b.compute(opUnlessOther, f.Dev, 0, f.Ino)
	at := len(b.ops) - 1
	b.closeFails()
	b.over(at)
	b.name = step
}

// closeFails is a call that fails.
func (b *builder) closeFails() { b.call(syscall.SYS_CLOSE, value(-1)) }

// overItself puts a file or a directory over itself, with further flags. The name is
// a mount then, which can be neither renamed, removed nor replaced from inside, and
// no hard link leads out of it. What isn't there, or is a link, is left out.
func (b *builder) overItself(path string, attr uint64) {
	at := len(b.ops)
	found := b.openPath(path)
	fd := b.cell()
	b.call(sysOpenTree, load(found), b.text(""), value(openTreeClone|openTreeCloexec|atRecursive|atEmptyPath)).into(fd)
	if attr != 0 {
		b.setAttr(load(fd), "", atEmptyPath|atRecursive, attr)
	}
	b.moveOnto(fd, found)
	b.closeCell(fd)
	b.closeCell(found)
	b.absent(at)
}

// absent makes the find at lead to here if nothing is there, or a link.
func (b *builder) absent(at int) {
	b.ops[at].except(len(b.ops)-at-1, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP)
}

// moveOnto attaches a tree to what another descriptor stands for.
func (b *builder) moveOnto(tree, target uint32) {
	b.call(sysMoveMount, load(tree), b.text(""), load(target), b.text(""), value(moveEmptyPath|moveOntoEmptyPath))
}

// hide covers a path. One that wasn't there when it was resolved needs no cover
// while it isn't; one that was there must be what it was.
func (b *builder) hide(f File) {
	at := len(b.ops)
	if f.Ino == 0 {
		// Most of what people may hide isn't there, and this takes half as long to say so.
		b.call(sysFaccessat2, cwd, b.text(f.Path), value(0), value(atEffective|atNoFollow))
	}
	open := len(b.ops)
	found := b.openPath(f.Path)
	b.same(f)
	dir := b.unlessMode(syscall.S_IFDIR)
	b.tmpfs(f.Path, syscall.MS_NOEXEC|syscall.MS_RDONLY, "mode=000,size=4k")
	done := b.jump()
	b.over(dir)
	b.mount("/dev/null", f.Path, "", syscall.MS_BIND, "")
	b.over(done)
	b.closeCell(found)
	if f.Ino == 0 {
		b.absent(at)
		b.absent(open)
	}
}
