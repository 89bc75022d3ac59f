package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentd/fault"
)

// Table holds the one handler of each command. Those who carry commands out register
// their handlers with [Handle], [HandleKept] or [HandleReadModel] before the first
// call; after that the table may be used by many goroutines.
type Table struct {
	opt      TableOptions
	handlers map[Name]func(context.Context, Caller, Params) (any, error)
}

// TableOptions configure a [Table].
type TableOptions struct {
	// Repeats recognizes calls that were made before. Required.
	Repeats Repeats
	// Redact takes secrets out of parameters before anything else sees them; nil
	// leaves parameters as they are.
	Redact func(Params) (Params, error)
}

// Repeats recognizes calls that were made before.
type Repeats interface {
	// Enter waits until no other call with the same idempotency key, or with the same
	// id for something new, is being carried out. The caller must call leave when its
	// own call is done.
	Enter(ctx context.Context, c Caller, p Params) (leave func(), err error)
	// First reads what was kept of the first call with the same idempotency key into
	// kept, a pointer, and reports whether there was one. It is a conflict if that call
	// had other parameters.
	First(ctx context.Context, c Caller, p Params, kept any) (found bool, err error)
	// Admit refuses a first call that refers to content that its caller may not read.
	Admit(ctx context.Context, c Caller, p Params) error
	// Overtaken reports whether an error says that another node used an id or a key first
	// which was free when the call began. Nothing of the call was written.
	Overtaken(err error) bool
}

// maxOvertaken is how often a call is carried out that other nodes overtake. What it finds
// the second time is what a call that came later would have found.
const maxOvertaken = 3

// NewTable returns a table without handlers.
func NewTable(opt TableOptions) *Table {
	return &Table{opt: opt, handlers: map[Name]func(context.Context, Caller, Params) (any, error){}}
}

// Handle registers the handler of a command. The result is kept with the command's
// facts, under the idempotency key if there is one: a repeated call gets it again
// without reaching the handler.
//
// Handle panics if the command isn't in the catalogue or has a handler already.
func Handle[P Returning[R], R any](t *Table, do func(context.Context, Caller, P) (*R, error)) {
	registerHandler(t, do, func(_ context.Context, _ Caller, _ P, kept *R) (*R, error) { return kept, nil })
}

// HandleKept is [Handle] for a command that is answered in two steps. The first one
// changes the state and returns what is kept of the call, the second one makes the
// answer of it; a repeated call begins with the second one.
func HandleKept[P Returning[R], K, R any](t *Table, do func(context.Context, Caller, P) (*K, error), answer func(context.Context, Caller, P, *K) (*R, error)) {
	registerHandler(t, do, answer)
}

// HandleReadModel is [Handle] for a command that reads: it is answered with M, a read
// model of which the catalogue's result R is the part that callers may rely on.
func HandleReadModel[P Returning[R], R, M any](t *Table, do func(context.Context, Caller, P) (*M, error)) {
	registerHandler(t, do, func(_ context.Context, _ Caller, _ P, kept *M) (*M, error) { return kept, nil })
}

func registerHandler[P Params, K, A any](t *Table, do func(context.Context, Caller, P) (*K, error), answer func(context.Context, Caller, P, *K) (*A, error)) {
	var none P
	name := none.Command()
	if _, ok := Lookup(name); !ok {
		panic(fmt.Sprintf("command: %s is registered but is not in the catalogue", name))
	}
	if t.handlers[name] != nil {
		panic(fmt.Sprintf("command: %s is registered twice; every command has one handler", name))
	}
	t.handlers[name] = func(ctx context.Context, c Caller, params Params) (any, error) {
		p, ok := params.(P)
		if !ok {
			return nil, fault.New(fault.Internal, "the parameters of %s are a %T", name, params)
		}
		kept, err := firstOr(ctx, t, c, p, do)
		for tries := 1; tries < maxOvertaken && err != nil && t.opt.Repeats.Overtaken(err); tries++ {
			kept, err = firstOr(ctx, t, c, p, do)
		}
		if err != nil {
			return nil, err
		}
		res, err := answer(ctx, c, p, kept)
		if err != nil {
			return nil, err
		}
		return res, nil
	}
}

// firstOr returns what was kept of the first call with the same idempotency key; if
// there was none, this is the first.
func firstOr[P Params, K any](ctx context.Context, t *Table, c Caller, p P, do func(context.Context, Caller, P) (*K, error)) (*K, error) {
	if m, ok := Params(p).(Mutating); ok && m.Key() != "" {
		kept := new(K)
		if found, err := t.opt.Repeats.First(ctx, c, p, kept); err != nil || found {
			return kept, err
		}
	}
	if err := t.opt.Repeats.Admit(ctx, c, p); err != nil {
		return nil, err
	}
	return do(ctx, c, p)
}

// Do carries out a command: its parameters are redacted and validated, and its
// handler is called unless the same call was made before. The result is a pointer.
// Errors are faults.
func (t *Table) Do(ctx context.Context, c Caller, p Params) (any, error) {
	handle := t.handlers[p.Command()]
	if handle == nil {
		return nil, fault.New(fault.Unavailable, "%s is not available in this build", p.Command())
	}
	if t.opt.Redact != nil {
		var err error
		if p, err = t.opt.Redact(p); err != nil {
			return nil, err
		}
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	leave, err := t.opt.Repeats.Enter(ctx, c, p)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, wrote := withWritten(ctx)
	return inPages(p, func() (any, error) {
		res, err := handle(ctx, c, p)
		return res, wrote.settle(p, err)
	})
}

// CheckComplete reports the commands of the catalogue that are available and have no
// handler.
func (t *Table) CheckComplete() error {
	var missing []string
	for _, d := range catalog() {
		if d.Available && t.handlers[d.Name] == nil {
			missing = append(missing, string(d.Name))
		}
	}
	if missing == nil {
		return nil
	}
	slices.Sort(missing)
	return fmt.Errorf("command: no handler is registered for %s", strings.Join(missing, ", "))
}
