package storetest

import (
	"fmt"

	"agentd/store"

	"github.com/anishathalye/porcupine"
)

// What the clients of the linearizability check work on.
const (
	linearSessions = 3
	linearKeys     = 4
)

type linearOp int

const (
	opClaim linearOp = iota
	opRelease
	opAppend
	opHead
	opGet
	opRemove
)

// outcome is how a call ended.
type outcome int

const (
	done outcome = iota
	owned
	conflict
	fenced
	exists
	// unknown: the call may have happened, or happen later, or never.
	unknown
)

// request is the input of one call.
type request struct {
	op      linearOp
	session int
	epoch   uint64
	// An append of records that end with last, one after before.
	before uint64
	last   store.Head
	// An index operation in the same batch; -1 for none.
	key    int
	value  string
	remove bool
}

// answer is the output of one call.
type answer struct {
	outcome outcome
	epoch   uint64
	head    store.Head
	value   string
}

// world is the state of the model. It is comparable, and small on purpose: an
// epoch, a head and whether the claim was released say all about a session.
type world struct {
	sessions [linearSessions]struct {
		epoch    uint64
		released bool
		head     store.Head
	}
	keys [linearKeys]string
}

func linearModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{world{}} },
		Step: func(state, in, out any) []any {
			var next []any
			for _, w := range possibleWorlds(state.(world), in.(request), out.(answer)) {
				next = append(next, w)
			}
			return next
		},
		DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	}).ToModel()
}

// possibleWorlds returns the worlds that a call with this answer can lead to; none if the
// answer is wrong.
func possibleWorlds(w world, in request, out answer) []world {
	s := &w.sessions[in.session] // w is a copy
	switch in.op {
	case opClaim:
		return stepClaim(w, in, out)
	case opRelease:
		if s.epoch == in.epoch {
			s.released = true
		}
		return []world{w}
	case opAppend:
		return stepAppend(w, in, out)
	case opHead:
		return onlyIf(out.head == s.head, w)
	case opGet:
		return onlyIf(out.value == w.keys[in.key], w)
	case opRemove:
		after := w
		after.keys[in.key] = ""
		if out.outcome == unknown {
			return []world{w, after}
		}
		return []world{after}
	}
	panic("storetest: an operation that the model doesn't know")
}

func onlyIf(ok bool, w world) []world {
	if ok {
		return []world{w}
	}
	return nil
}

// stepClaim: whether another node's lease still holds is not modelled, so a
// claim may be refused at any time.
func stepClaim(w world, in request, out answer) []world {
	s := &w.sessions[in.session]
	if out.outcome == owned {
		return []world{w}
	}
	if out.epoch <= s.epoch || out.head != s.head {
		return nil
	}
	s.epoch, s.released = out.epoch, false
	return []world{w}
}

func stepAppend(w world, in request, out answer) []world {
	want := judgeCall(w, in)
	after := w
	if want == done {
		after.sessions[in.session].head = in.last
		if in.key >= 0 {
			after.keys[in.key] = in.value
		}
	}
	if out.outcome == unknown {
		return []world{w, after}
	}
	return onlyIf(out.outcome == want, after)
}

func judgeCall(w world, in request) outcome {
	s := w.sessions[in.session]
	switch {
	case s.epoch != in.epoch || s.released:
		return fenced
	case s.head.Sequence != in.before:
		return conflict
	case in.key >= 0 && !in.remove && w.keys[in.key] != "":
		return exists
	}
	return done
}
