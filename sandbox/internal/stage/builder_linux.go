package stage

import (
	"syscall"
	"unsafe"
)

// builder writes a program. Offsets of data are marked and made good at the end,
// when the number of instructions is known.
type builder struct {
	ops   []op
	data  []byte
	name  uint16
	group uint16
	bad   bool // a text holds a zero, where the kernel would end it
	// texts are those that are in the data: no call changes one.
	texts map[string]uint32
}

// newBuilder makes one with room for the usual.
func newBuilder() *builder {
	return &builder{ops: make([]op, 0, 384), data: make([]byte, 0, 12<<10)}
}

// align makes the data end where the next value can begin.
func (b *builder) align() {
	for len(b.data)%8 != 0 {
		b.data = append(b.data, 0)
	}
}

// inData marks an offset as one in the data of the program.
const inData = 1 << 31

// argument of a system call.
type argument struct {
	kind  uint32
	value uint64
}

func value[T ~int | ~uint64 | ~uintptr | ~uint32](v T) argument {
	return argument{argValue, uint64(v)}
}
func address(offset uint32) argument { return argument{argAddress, uint64(offset)} }
func load(offset uint32) argument    { return argument{argLoad, uint64(offset)} }

// cwd is what relative paths would be relative to; all are absolute.
var cwd = value(atFdcwd)

// text is a path or another text for the kernel.
func (b *builder) text(s string) argument { return address(b.ended(s)) }

// ended puts a text into the data, with the zero that ends it, unless it is there.
func (b *builder) ended(s string) uint32 {
	if at, ok := b.texts[s]; ok {
		return at
	}
	p := append([]byte(s), 0)
	for _, c := range p[:len(s)] {
		b.bad = b.bad || c == 0
	}
	if b.texts == nil {
		b.texts = map[string]uint32{}
	}
	b.texts[s] = b.bytes(p)
	return b.texts[s]
}

// bytes puts bytes into the data.
func (b *builder) bytes(p []byte) uint32 {
	b.align()
	at := uint32(len(b.data))
	b.data = append(b.data, p...)
	return at | inData
}

// place puts a value into the data as the kernel wants it.
func place[T any](b *builder, v T) uint32 {
	return b.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

// cell makes room for a result.
func (b *builder) cell() uint32 { return place(b, int32(-1)) }

// step begins a step: what follows is reported by its name.
func (b *builder) step(name string) {
	b.group++
	b.rename(name)
}

// rename goes on with the same step under another name.
func (b *builder) rename(name string) { b.name = numberOf(name) }

// call adds a system call.
func (b *builder) call(nr uintptr, args ...argument) *op {
	o := op{code: opCall, nr: uint32(nr), name: b.name, group: b.group, until: b.group}
	for i, a := range args {
		o.kinds |= a.kind << (4 * i)
		o.args[i] = a.value
	}
	b.ops = append(b.ops, o)
	return &b.ops[len(b.ops)-1]
}

// into keeps the result.
func (o *op) into(cell uint32) *op {
	o.store = cell
	return o
}

// except takes errors for none, and leaves out what follows.
func (o *op) except(skip int, errnos ...syscall.Errno) {
	for i, errno := range errnos {
		o.on[i] = reaction{errno: uint16(errno), skip: uint16(skip)}
	}
}

// compute adds an instruction that is no system call.
func (b *builder) compute(code uint32, args ...uint64) {
	o := op{code: code, name: b.name, group: b.group}
	copy(o.args[:], args)
	b.ops = append(b.ops, o)
}

// branch adds an instruction that may leave out what follows; over says how much.
func (b *builder) branch(code uint32, v uint64) (at int) {
	b.compute(code, v)
	return len(b.ops) - 1
}

func (b *builder) unlessMode(mode uint64) (at int) { return b.branch(opUnlessMode, mode) }
func (b *builder) jump() (at int)                  { return b.branch(opJump, 0) }

// over makes the branch at lead to here.
func (b *builder) over(at int) { b.ops[at].args[1] = uint64(len(b.ops) - at - 1) }

// closeCell closes what a cell holds.
func (b *builder) closeCell(cell uint32) { b.call(syscall.SYS_CLOSE, load(cell)) }

// codeAt is where a program's instructions begin in the stage's memory.
const codeAt = payloadAt + (uint32(unsafe.Sizeof(header{}))+7)&^7

// finish returns a program of one part, whose spans count instructions.
func (b *builder) finish(h header) []byte {
	for _, s := range []*span{&h.prepare, &h.restrict, &h.start} {
		s.from, s.to = codeAt+s.from*opSize, codeAt+s.to*opSize
	}
	return joinProgram(h, b.render(codeAt))
}

// joinProgram puts a header before what was rendered.
func joinProgram(h header, parts ...[]byte) []byte {
	size := int(codeAt - payloadAt)
	for _, p := range parts {
		size += len(p)
	}
	out := make([]byte, codeAt-payloadAt, size)
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)))
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// render returns the instructions and the data behind them as they lie in the stage's
// memory, where they begin at an offset. Another part can follow.
func (b *builder) render(at uint32) []byte {
	b.align()
	data := at + uint32(len(b.ops))*opSize
	out := make([]byte, 0, len(b.ops)*int(opSize)+len(b.data))
	for _, o := range b.ops {
		o.settle(data)
		out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&o)), opSize)...)
	}
	return append(out, b.data...)
}

// settle makes offsets in the data those of the stage's memory.
func (o *op) settle(data uint32) {
	fix := func(v *uint64) {
		if *v&inData != 0 {
			*v = *v&^inData + uint64(data)
		}
	}
	if o.store&inData != 0 {
		o.store = o.store&^inData + data
	}
	for i := range o.args {
		if o.code == opCall && o.kinds>>(4*i)&15 != argValue {
			fix(&o.args[i])
		}
	}
	if o.code == opClear || o.code == opRelocate || o.code == opUnlessOpen {
		fix(&o.args[0])
	}
	if o.code == opRelocate {
		o.args[2] = uint64(data)
	}
}

// addresses puts a list of offsets that become addresses, with a zero at its end.
func (b *builder) addresses(texts []string) uint32 {
	offsets := make([]uintptr, len(texts)+1)
	for i, s := range texts {
		offsets[i] = uintptr(b.ended(s) &^ inData)
	}
	at := b.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&offsets[0])), uintptr(len(offsets))*wordSize))
	b.compute(opRelocate, uint64(at), uint64(len(texts)))
	return at
}
