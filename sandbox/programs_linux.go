package sandbox

import (
	"sync"

	"agentd/sandbox/internal/stage"
)

// programs keeps what stages are told of plans. Commands of one plan are confined alike,
// and mostly it is the plan of the command before.
type programs struct {
	compiler stage.Compiler

	mu   sync.Mutex
	kept map[programKind]stage.Confined
}

// programKind is all that a confinement depends on. A plan doesn't change.
type programKind struct {
	plan                           *Plan
	unified                        bool
	tasks                          int
	supervised, watched, entersNet bool
}

// maxPrograms bounds those that are kept, and the plans with them.
const maxPrograms = 64

// confine returns what a stage is told of a plan. Without a mount namespace it isn't
// kept: it depends on what is in folders and on where the command's own one is.
func (k *programs) confine(kind programKind, keep bool, spec func() *stage.Spec) stage.Confined {
	k.mu.Lock()
	confined, ok := k.kept[kind]
	k.mu.Unlock()
	if ok {
		return confined
	}
	confined = k.compiler.Confine(spec())
	if !keep {
		return confined
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil || len(k.kept) >= maxPrograms {
		k.kept = map[programKind]stage.Confined{}
	}
	k.kept[kind] = confined
	return confined
}
