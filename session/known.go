package session

import "agentd/store"

// maxKnown bounds the entries that a writer remembers.
const maxKnown = 32

// knownRefs are entries for references that a writer put. The facts of each turn refer to the
// same instructions and tools as those of the turn before, and to put again what is there
// costs the store nearly as much as something new. An entry counts as put before it is
// durable: batches of a session become durable in their order or not at all, and a writer
// whose batch failed is out of service.
type knownRefs struct {
	put map[store.IndexKey]string
	// all says that these are all that the session ever had.
	all bool
}

// leaveOut returns the operations without those that put what is known, and says of which others
// there is no entry yet. All that removes such entries goes through the session's writer.
func (k *knownRefs) leaveOut(ops []store.IndexOp) []store.IndexOp {
	left := ops[:0]
	for _, op := range ops {
		if !k.isKnown(&op) {
			left = append(left, op)
		}
	}
	clear(ops[len(left):])
	return left
}

// isKnown reports whether an operation puts what is known, and notes what it does.
func (k *knownRefs) isKnown(op *store.IndexOp) bool {
	if op.Kind != kindRef && op.Kind != kindKept {
		return false
	}
	id, value := op.Entry.ID(), string(op.Value)
	if op.Delete {
		delete(k.put, id)
		return false
	}
	known, ok := k.put[id]
	if ok && known == value {
		return true
	}
	op.Fresh = k.all && !ok
	if k.put == nil || len(k.put) >= maxKnown {
		k.all = k.all && k.put == nil
		k.put = map[store.IndexKey]string{}
	}
	k.put[id] = value
	return false
}
