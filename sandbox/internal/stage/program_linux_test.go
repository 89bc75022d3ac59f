package stage

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// loaded puts a program into memory, as a stage has it.
func loaded(b *builder) (*area, span) {
	program := b.finish(header{prepare: span{0, uint32(len(b.ops))}})
	memory := make([]uint64, (payloadAt+len(program)+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(memory)*8)[payloadAt:], program)
	a := (*area)(unsafe.Pointer(&memory[0]))
	return a, (*header)(unsafe.Add(unsafe.Pointer(a), payloadAt)).prepare
}

// fails adds a step that fails with EBADF.
func (b *builder) fails(name string) *op {
	b.step(name)
	return b.call(syscall.SYS_CLOSE, value(-1))
}

// names are those of the steps that failed.
func (a *area) names() (out []string) {
	for _, f := range a.failed[:a.failures] {
		out = append(out, stepName(f.name))
	}
	return out
}

func TestProgramStopsAtAFailure(t *testing.T) {
	for _, c := range []struct {
		name  string
		probe bool
		build func(b *builder)
		want  []string
	}{
		{"the first ends it", false, func(b *builder) { b.fails(StepDev); b.fails(StepHide) }, []string{StepDev}},
		{"a probe goes on", true, func(b *builder) { b.fails(StepDev); b.fails(StepHide) }, []string{StepDev, StepHide}},
		{"with the next step", true, func(b *builder) {
			b.fails(StepDev)
			b.call(syscall.SYS_CLOSE, value(-1))
			b.fails(StepHide)
		}, []string{StepDev, StepHide}},
		{"but not with one that needs it", true, func(b *builder) {
			o := b.fails(StepProc)
			o.until = 2
			b.fails(StepPidMax)
			b.fails(StepHide)
		}, []string{StepProc, StepHide}},
		{"an error that is none", false, func(b *builder) {
			b.fails(StepDev).except(0, syscall.EBADF)
			b.fails(StepHide)
		}, []string{StepHide}},
		{"leaves out what follows", false, func(b *builder) {
			b.fails(StepDev).except(1, syscall.ENOENT, syscall.EBADF)
			b.fails(StepHide)
			b.fails(StepCaps)
		}, []string{StepCaps}},
		{"another error is one", false, func(b *builder) { b.fails(StepDev).except(0, syscall.ENOENT, syscall.EPERM) }, []string{StepDev}},
		{"any error", false, func(b *builder) { b.fails(StepDev).except(0, anyError) }, nil},
	} {
		b := newBuilder()
		c.build(b)
		a, part := loaded(b)
		a.run(part, c.probe)
		if diff := cmp.Diff(c.want, a.names()); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// TestProgramWithoutProcLeavesPidsAlone: the bound of a machine that has no /proc of
// its own namespace would be the machine's.
func TestProgramWithoutProcLeavesPidsAlone(t *testing.T) {
	b := newBuilder()
	b.step(StepProc)
	b.mountProc(&Spec{PidMax: 300})
	last := b.group
	if b.ops[0].nr != syscall.SYS_MOUNT || b.ops[0].until != last || last != 3 {
		t.Errorf("%+v of %d steps", b.ops[0], last)
	}
}

func TestProgramComputes(t *testing.T) {
	b := newBuilder()
	b.step(StepHide)
	cell, none := b.cell(), b.cell()
	b.call(syscall.SYS_DUP3, value(-1), value(0)).except(0, anyError)
	b.call(syscall.SYS_OPENAT, cwd, b.text("/"), value(oPath|syscall.O_CLOEXEC), value(0)).into(cell)
	b.call(sysFstat, load(cell), address(atStat))
	file := b.unlessMode(syscall.S_IFREG)
	b.fails(StepDev) // left out: it is a directory
	b.over(file)
	dir := b.unlessMode(syscall.S_IFDIR)
	b.closeCell(cell)
	b.over(dir)
	open := b.branch(opUnlessOpen, uint64(none))
	b.fails(StepDev)
	b.over(open)
	bits := place(b, uint32(0xff))
	b.compute(opClear, uint64(bits), 0x0f)
	words := b.addresses([]string{"one", "two"})
	a, part := loaded(b)
	a.run(part, false)
	if a.failures != 0 {
		t.Fatalf("%v", a.names())
	}
	at := func(offset uint32) unsafe.Pointer {
		data := uint32(len(b.ops))*opSize + (uint32(unsafe.Sizeof(header{}))+7)&^7
		return unsafe.Add(unsafe.Pointer(a), payloadAt+data+offset&^inData)
	}
	if got := *(*uint32)(at(bits)); got != 0xf0 {
		t.Errorf("%#x", got)
	}
	list := unsafe.Slice((*uintptr)(at(words)), 3)
	if list[1]-list[0] != 8 || list[2] != 0 || list[0] < uintptr(unsafe.Pointer(a)) {
		t.Errorf("%#x", list)
	}
	// It was closed by the program: its cell names a descriptor that is none, or
	// somebody else's.
	if *(*int32)(at(cell)) < 0 {
		t.Error("no descriptor")
	}
}

func TestCompileRefusesZeros(t *testing.T) {
	for _, s := range []Spec{
		{MountNS: true, Hidden: []File{{Path: "/a\x00b"}}}, {Seccomp: make([]byte, 7)}, {Seccomp: make([]byte, 8*4097)},
	} {
		if _, err := new(Compiler).Compile(&s); err == nil {
			t.Errorf("%+v was compiled", s)
		}
	}
	length := func(s Spec) uint32 {
		p, err := new(Compiler).Compile(&s)
		if err != nil {
			t.Fatal(err)
		}
		start := (*header)(unsafe.Pointer(&p[0][0])).start
		return (start.to - start.from) / opSize
	}
	if n := length(Spec{Path: "/bin/true"}); n < 5 {
		t.Errorf("%d instructions start a command", n)
	}
	// Of a command that the kernel would be told wrongly nothing is begun.
	for _, s := range []Spec{{Path: "a\x00b"}, {Argv: []string{"a\x00"}}, {Env: []string{"A=\x00"}}, {Dir: "\x00"}} {
		if n := length(s); n != 1 {
			t.Errorf("%+v: %d instructions", s, n)
		}
	}
}

func TestSpareMemory(t *testing.T) {
	const maps = `00400000-00402000 r--p 00000000 fe:00 1    /a/program (deleted)
00402000-00403000 rw-p 00000000 fe:00 1                       /a/program (deleted)
00403000-00404000 rw-p 00000000 00:00 0 
00500000-00501000 rw-p 00000000 00:00 0                       [heap]
10000000-10100000 rw-p 00000000 00:00 0 
20000000-20100000 rw-p 00000000 00:00 0 
30000000-30001000 r-xp 00000000 fe:00 2                       /lib/libc.so.6
7ffc00000000-7ffc00010000 rw-p 00000000 00:00 0               [stack]
`
	want := []extent{{0x10000000, 0x10100000}, {0x30000000, 0x30001000}}
	got := spare([]byte(maps), "/a/program (deleted)", 0x20000800)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(extent{})); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeStopped(t *testing.T) {
	got, err := DecodeStopped([]byte{byte(stepStart), 0, 0, 0, byte(syscall.ENOENT), 0, 0, 0})
	if err != nil || got != (Failed{StepStart, uint64(syscall.ENOENT)}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := DecodeStopped([]byte{200, 0, 0, 0, 1, 0, 0, 0}); err != nil || got.Step == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := DecodeStopped(nil); err == nil {
		t.Error("nothing was read")
	}
}

// TestTrimKeepsTheProgram: where the kernel calls the program by another name than
// its maps do, its own code would seem spare.
func TestTrimKeepsTheProgram(t *testing.T) {
	maps, err := readAll("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if touches(spare(maps, exe, 0), ownAddresses()) {
		t.Error("the program's own memory is spare")
	}
	for i, address := range ownAddresses() {
		if !touches(spare(maps, "/another/name", 0), []uintptr{address}) {
			t.Errorf("address %d isn't in the program: %x\n%s", i, address, maps)
		}
	}
}
