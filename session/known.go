package session

import (
	"slices"

	"agentd/store"
)

// maxKnown bounds the entries that a writer remembers.
const maxKnown = 32

// knownRefs are entries for references that a writer put. The facts of each turn refer to the
// same instructions and tools as those of the turn before, and to put again what is there
// costs the store nearly as much as something new. An entry counts as put before it is
// durable: batches of a session become durable in their order or not at all, and a writer
// whose batch failed is out of service.
type knownRefs map[store.IndexKey]string

// leaveOut returns the operations without those that put what is known. All that removes such
// entries goes through the session's writer.
func (k *knownRefs) leaveOut(ops []store.IndexOp) []store.IndexOp {
	return slices.DeleteFunc(ops, func(op store.IndexOp) bool {
		if op.Kind != kindRef && op.Kind != kindKept {
			return false
		}
		id, value := op.Entry.ID(), string(op.Value)
		if op.Delete {
			delete(*k, id)
			return false
		}
		if known, ok := (*k)[id]; ok && known == value {
			return true
		}
		if *k == nil || len(*k) >= maxKnown {
			*k = knownRefs{}
		}
		(*k)[id] = value
		return false
	})
}
