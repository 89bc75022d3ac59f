package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"agentd/channel"
	"agentd/command"
	"agentd/event"
	"agentd/fault"
)

// Model is one that a session can choose.
type Model struct {
	// ID as turns name it, "provider/model".
	ID string
	// Default says that it is used where none was chosen.
	Default bool
}

// Options configure an [Agent]. Runtime is required.
type Options struct {
	// Runtime carries out what the client asks for.
	Runtime command.Runtime
	// Caller is the identity that commands run as.
	Caller command.Caller
	// Version of the program.
	Version string
	// Models lists what can be chosen; nil offers no choice.
	Models func(ctx context.Context) ([]Model, error)
	// Root is the folder of sessions that have no workspace of their own.
	Root string
	// TakeUp, if set, has the runtime go on with what an earlier process left
	// unfinished in a session; it is called when one is loaded or resumed.
	TakeUp func(ctx context.Context, sessionID string) error
	// StopWait is how long Serve, once it is stopping, waits for a client that
	// doesn't read; default 2 s.
	StopWait time.Duration
	// IDs makes the ids of turns; it defaults to a source of its own.
	IDs *event.IDs
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Agent answers one client.
type Agent struct {
	opt  Options
	wire *wire
	work sync.WaitGroup
	// ctx is the connection's.
	ctx context.Context

	mu          sync.Mutex
	closed      bool
	initialized bool
	client      clientCapabilities
	sessions    map[string]*session
	// running holds how to cancel each request that is being answered.
	running map[string]context.CancelFunc
}

// New returns an agent for one connection.
func New(opt Options) *Agent {
	if opt.IDs == nil {
		opt.IDs = event.NewIDs(nil, nil)
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.StopWait <= 0 {
		opt.StopWait = 2 * time.Second
	}
	return &Agent{opt: opt, sessions: map[string]*session{}, running: map[string]context.CancelFunc{}}
}

// Serve answers until the input ends, the output can't be written any more or ctx
// ends. The end of the input is no error. What was under way is given up, not
// undone: turns go on. A reader that can't be ended is left behind when ctx ends,
// and so is a goroutine that waits for a client that doesn't read.
func (a *Agent) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.ctx = ctx
	a.wire = &wire{out: out, lost: stop, waiting: map[string]chan received{}}
	ended := make(chan error, 1)
	go func() { ended <- a.readMessages(ctx, in) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
	}
	stop(nil)
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.waitForRequests()
	return err
}

// waitForRequests waits for running requests. A write into a full pipe can't
// be ended: then it is left to the end of the process.
func (a *Agent) waitForRequests() {
	done := make(chan struct{})
	go func() {
		a.work.Wait()
		close(done)
	}()
	timer := time.NewTimer(a.opt.StopWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		a.opt.Logger.Warn("the client stopped reading; not waiting for it")
	}
}

// spawn does something beside the reading. Serve waits for it; once it waits,
// nothing new begins, and spawn returns false.
func (a *Agent) spawn(f func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.work.Go(f)
	}
	return !a.closed
}

// readMessages takes messages until the input ends.
func (a *Agent) readMessages(ctx context.Context, in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for ctx.Err() == nil {
		line, err := readLine(r)
		if errors.Is(err, errTooLong) {
			a.wire.answer(event.Raw("null"), nil, errorf(fault.RPCParse, "the line is longer than %d bytes", maxMessageBytes))
			continue
		}
		if len(line) > 0 {
			a.handleLine(ctx, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("acp: read: %w", err)
		}
	}
	return nil
}

// handleLine handles one line.
func (a *Agent) handleLine(ctx context.Context, line []byte) {
	m, bad := parseMessage(line)
	switch {
	case bad != nil:
		if m.ID == nil {
			m.ID = event.Raw("null")
		}
		a.wire.answer(m.ID, nil, bad)
	case m.Method == nil:
		a.wire.deliverAnswer(m)
	case m.ID == nil:
		a.handleNotification(ctx, *m.Method, m.Params)
	default:
		a.startRequest(ctx, m)
	}
}

// startRequest answers a request beside others. The first one of a connection is answered
// before the next message is read: a client may send both at once.
func (a *Agent) startRequest(ctx context.Context, m received) {
	answered := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	id := string(m.ID)
	a.mu.Lock()
	a.running[id] = cancel
	a.mu.Unlock()
	began := a.spawn(func() {
		defer close(answered)
		defer cancel()
		result, then, err := a.dispatch(ctx, *m.Method, m.Params)
		a.mu.Lock()
		delete(a.running, id)
		a.mu.Unlock()
		a.wire.answer(m.ID, result, err)
		if then != nil {
			then()
		}
	})
	if began && *m.Method == "initialize" {
		select {
		case <-answered:
		case <-ctx.Done():
		}
	}
}

// method answers a request. What it returns beside its result is done once the
// result was sent.
type method func(ctx context.Context, params event.Raw) (result any, then func(), err error)

// methods are those of the protocol that are offered.
func (a *Agent) methods() map[string]method {
	return map[string]method{
		"authenticate":              handleParams(a.authenticate),
		"session/new":               handleParams(a.newSession),
		"session/load":              handleParams(a.loadSession),
		"session/resume":            handleParams(a.resumeSession),
		"session/list":              handleParams(a.listSessions),
		"session/close":             handleParams(a.closeSession),
		"session/prompt":            handleParams(a.prompt),
		"session/set_mode":          handleParams(a.setMode),
		"session/set_config_option": handleParams(a.setConfigOption),
	}
}

// handleParams reads the parameters of a method. What it doesn't know in them is passed
// over, as the protocol wants it.
func handleParams[P any](do func(context.Context, *P) (any, func(), error)) method {
	return func(ctx context.Context, params event.Raw) (any, func(), error) {
		p := new(P)
		if len(params) > 0 {
			if err := json.Unmarshal(params, p); err != nil {
				return nil, nil, errorf(fault.RPCInvalidParams, "the parameters have the wrong form: %s", misfitPath(err))
			}
		}
		return do(ctx, p)
	}
}

// misfitPath says where parameters don't fit, without the words of the decoder.
func misfitPath(err error) string {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is a %s", kind.Field, kind.Value)
	}
	return "they are not an object"
}

func (a *Agent) dispatch(ctx context.Context, name string, params event.Raw) (any, func(), error) {
	if name == "initialize" {
		return handleParams(a.initialize)(ctx, params)
	}
	do, known := a.methods()[name]
	if !known {
		return nil, nil, errorf(fault.RPCMethodNotFound, "there is no method %.80q", name)
	}
	a.mu.Lock()
	ready := a.initialized
	a.mu.Unlock()
	if !ready {
		return nil, nil, errorf(fault.RPCInvalidRequest, "call initialize first")
	}
	return do(ctx, params)
}

// handleNotification takes a notification; one that isn't known is passed over.
func (a *Agent) handleNotification(ctx context.Context, name string, params event.Raw) {
	switch name {
	case "session/cancel":
		var p struct {
			SessionID string `json:"sessionId"`
		}
		if json.Unmarshal(params, &p) == nil {
			a.spawn(func() { a.cancel(ctx, p.SessionID) })
		}
	case "$/cancel_request":
		var p struct {
			RequestID event.Raw `json:"requestId"`
		}
		if json.Unmarshal(params, &p) == nil {
			a.mu.Lock()
			cancel := a.running[string(p.RequestID)]
			a.mu.Unlock()
			if cancel != nil {
				cancel()
			}
		}
	}
}

func (a *Agent) initialize(_ context.Context, p *initializeParams) (any, func(), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.initialized, a.client = true, p.ClientCapabilities
	return &initializeResult{
		ProtocolVersion: protocolVersion,
		AgentCapabilities: agentCapabilities{
			LoadSession:         true,
			PromptCapabilities:  promptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: sessionCapabilities{List: &offered{}, Resume: &offered{}, Close: &offered{}},
		},
		AgentInfo:   implementation{Name: "agentd", Title: "agentd", Version: a.opt.Version},
		AuthMethods: []struct{}{},
	}, nil, nil
}

// authenticate refuses: who may start the program may use it, so no method is
// offered.
func (a *Agent) authenticate(context.Context, *struct{}) (any, func(), error) {
	return nil, nil, errorf(fault.RPCInvalidParams, "authentication is neither supported nor needed")
}

// capabilities returns what the client offers.
func (a *Agent) capabilities() clientCapabilities {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

// runCommand carries out a command and reads its result into R, which may be a part of it.
func runCommand[R any](ctx context.Context, a *Agent, p command.Params) (*R, error) {
	return channel.ResultOf[R](a.opt.Runtime.Do(ctx, a.opt.Caller, p))
}
