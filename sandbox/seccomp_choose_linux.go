package sandbox

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// cases are what a filter does about system calls; all others are allowed.
type cases []filterCase

// filterCase is about the calls from first to last. Its code ends with an action
// whatever it finds.
type filterCase struct {
	first, last uint32
	code        []byte
}

// answerCalls gives calls an action.
func (c *cases) answerCalls(action uint32, calls ...uint32) {
	var f filter
	f.ret(action)
	for _, nr := range calls {
		c.inspectCall(nr, f.b)
	}
}

// inspectCall has code look at the arguments of a call.
func (c *cases) inspectCall(nr uint32, code []byte) {
	*c = append(*c, filterCase{nr, nr, code})
}

// joinCases sorts, and makes one of neighbours that are treated alike. Of two for the same
// call the first counts.
func joinCases(c cases) cases {
	slices.SortStableFunc(c, func(x, y filterCase) int { return cmp.Compare(x.first, y.first) })
	var out cases
	for _, x := range c {
		n := len(out)
		switch {
		case n > 0 && x.first <= out[n-1].last:
		case n > 0 && x.first == out[n-1].last+1 && slices.Equal(x.code, out[n-1].code):
			out[n-1].last = x.last
		default:
			out = append(out, x)
		}
	}
	return out
}

// choose decides by the number of the call, which is loaded. It halves what is left
// until it is little: the kernel runs a new filter once for each call that there is,
// with interrupts off, and a list of some seventy comparisons makes that 0.1 ms for
// every command.
func (f *filter) choose(c cases) { f.halve(joinCases(c)) }

// maxCompared is how many cases are compared one after the other.
const maxCompared = 3

func (f *filter) halve(c cases) {
	if len(c) <= maxCompared {
		for _, x := range c {
			f.only(x)
		}
		f.ret(unix.SECCOMP_RET_ALLOW)
		return
	}
	var lower, upper filter
	lower.halve(c[:len(c)/2])
	upper.halve(c[len(c)/2:])
	f.emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, 1, c[len(c)/2].first)
	f.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(len(lower.b)/filterSize))
	f.b = slices.Concat(f.b, lower.b, upper.b)
}

// filterSize is the size of an instruction.
const filterSize = 8

// only runs the code of a case for its calls.
func (f *filter) only(x filterCase) {
	size := uint8(len(x.code) / filterSize)
	if x.first == x.last {
		f.emit(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, size, x.first)
	} else {
		f.emit(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, 0, size+1, x.first)
		f.emit(unix.BPF_JMP|unix.BPF_JGT|unix.BPF_K, size, 0, x.last)
	}
	f.b = append(f.b, x.code...)
}
