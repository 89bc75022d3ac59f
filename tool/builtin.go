package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentd/event"
	"agentd/internal/place"
	"agentd/tool/toolkind"
)

// Capabilities that the built-in tools name in their Info.
const (
	CapFilesRead  = "files.read"
	CapFilesWrite = "files.write"
	CapProcess    = "process.run"
	CapPlan       = "plan.update"
	CapPlanHand   = "plan.present"
	CapAsk        = "user.ask"
	CapSubagent   = "subagent.spawn"
)

// How a running tool takes an interrupt; values of Info's InterruptBehavior.
const (
	interruptCancel = "cancel"
	interruptBlock  = "block"
)

// ownerLocal is the runtimeOwner of what runs in this process.
const ownerLocal = "local"

// Options of the built-in tools. Nil and the zero value are usable.
type Options struct {
	// Hidden lists absolute paths that the file tools neither read, write nor
	// list, by whatever name they are reached: the runtime's own data directory,
	// which may well lie in the workspace.
	Hidden []string
	// Places keeps workspaces and hidden paths by identity. It should be the one of
	// the whole runtime; default a new one.
	Places *place.Places
	// Peers are the other agents that spawn_agent may give work to, by their ids.
	Peers []string
}

// builtin is a tool of this package: what it is, and a function.
type builtin struct {
	info event.ToolInfo
	// more is what it is where calls may ask to leave the sandbox; nil if that makes
	// no difference.
	more *event.ToolInfo
	// planning says that it is offered only where plans are made.
	planning bool
	run      func(ctx context.Context, call *Call) (*Result, error)
}

// Info implements Tool.
func (b *builtin) Info() event.ToolInfo { return b.info }

// Run implements Tool.
func (b *builtin) Run(ctx context.Context, call *Call) (*Result, error) {
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	return b.run(ctx, call)
}

// Builtins returns the tools that every runtime has, sorted as the reference
// lists them.
func Builtins(o *Options) []Tool {
	if o == nil {
		o = &Options{}
	}
	return builtins(newFiles(o.Places, o.Hidden), o.Peers...)
}

func builtins(f *files, peers ...string) []Tool {
	return []Tool{
		newReadFile(f), newWriteFile(f), newEditFile(f), newListFiles(f), newSearchFiles(f),
		newShell(f), newUpdatePlan(), newRequestInput(), newSpawnAgent(peers),
		newPresentPlan(),
	}
}

// define returns the built-in tool of a kind. The schema is written for people in the
// source and kept without its blanks.
func define(kind toolkind.Kind, info event.ToolInfo, schema string, run func(context.Context, *Call) (*Result, error)) *builtin {
	info.ToolName = string(kind)
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(schema)); err != nil {
		panic(fmt.Sprintf("tool: schema of %s: %v", info.ToolName, err))
	}
	info.InputSchema = b.Bytes()
	info.RuntimeOwner = ownerLocal
	return &builtin{info: info, run: run}
}

// decodeInput reads a call's input, which was validated before.
func decodeInput(call *Call, into any) error {
	if err := json.Unmarshal(call.Input, into); err != nil {
		return Errorf(InvalidInput, "the input doesn't match the schema: %v", err)
	}
	return nil
}

// contextError says why a context ended, as a failed call.
func contextError(ctx context.Context) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Category: Timeout, Message: "the time limit of the call was reached", Retryable: true}
	}
	return &Error{Category: Interrupted, Message: "the call was interrupted", Retryable: true}
}

// callError turns an error into one that a call may end with. What already is one,
// or wraps one, keeps its category.
func callError(ctx context.Context, err error, doing string) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return contextError(ctx)
	default:
		return Errorf(Execution, "%s: %v", doing, err)
	}
}

// maxOutput is the bound of a call's output; callers that give none get 256 KiB.
func (c *Call) maxOutput() int64 {
	if c.MaxOutput > 0 {
		return c.MaxOutput
	}
	return 256 << 10
}

// encodeStructured encodes a result whose type always can be.
func encodeStructured(v any) event.Raw {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("tool: encode a structured result: %v", err))
	}
	return b
}
