package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/command"
	"agentd/event"
)

// Options of a server.
type Options struct {
	// Runtime carries out what clients ask for.
	Runtime command.Runtime
	// Schema returns a generated JSON Schema by its name, such as
	// "command.submit_turn.params".
	Schema func(name string) ([]byte, bool)
	// Identify says who sent a request over HTTP; false refuses it. It is asked for
	// every request.
	Identify func(*http.Request) (Identity, bool)
	// Version of the program.
	Version string
	// Logger; none by default.
	Logger *slog.Logger
	// IDs makes ids; default random ones.
	IDs *event.IDs
	// MaxWait is the longest that run_turn and wait_turn wait, default 1 hour; a call
	// that asks for less waits less.
	MaxWait time.Duration
	// SessionTimeout ends a session of the older revisions that is idle, default
	// 1 hour. The client opens another one.
	SessionTimeout time.Duration
	// MaxSessions bounds the sessions of the older revisions, default 1000; beyond it a
	// client is asked to come back. MaxSessionsPerUser is the part that one identity
	// may have, default a quarter.
	MaxSessions, MaxSessionsPerUser int
	// Heartbeat is the longest silence of a call's stream, default 15 s.
	Heartbeat time.Duration
	// Node is a mark of this node among several, and PassOn has the node of a mark answer a
	// request: a session of the older revisions is on the node that it was opened on. PassOn
	// reports whether there is such a node. Without them there is one node.
	Node   string
	PassOn func(r *http.Request, node string) bool
	// MaxBody bounds a request's body, default 32 MiB.
	MaxBody int64

	fixtureOptions
}

// Server offers a runtime over the Model Context Protocol.
type Server struct {
	opt      Options
	schemas  schemaSet
	fixtures *fixtures // nil without them
	// stop ends every wait when the server is closed.
	stop     context.Context
	stopNow  context.CancelCauseFunc
	byRole   map[command.Role]func() *mcp.Server
	handler  http.Handler
	sessions sessionCalls
	owners   sessionOwners

	mu sync.Mutex
	// built are the servers whose sessions are ended by Close.
	built []*mcp.Server
}

// errStopping is why waits end when the server is closed.
var errStopping = errors.New("the server is stopping")

// New returns a server, or says which schema of a command is missing.
func New(o Options) (*Server, error) {
	if o.Runtime == nil || o.Schema == nil {
		return nil, errors.New("mcpserver: Runtime and Schemas must be set")
	}
	setDefaults(&o)
	s := &Server{opt: o}
	var err error
	if s.schemas, err = readSchemas(o.Schema); err != nil {
		return nil, err
	}
	s.stop, s.stopNow = context.WithCancelCause(context.Background())
	s.fixtures = newFixtures(s.stop, &o)
	s.byRole = map[command.Role]func() *mcp.Server{}
	for _, role := range []command.Role{command.RoleObserver, command.RoleClient, command.RoleAdmin} {
		s.byRole[role] = sync.OnceValue(func() *mcp.Server { return s.trackServer(s.buildServer(role, nil)) })
	}
	s.handler = s.newHandler()
	return s, nil
}

func setDefaults(o *Options) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IDs == nil {
		o.IDs = event.NewIDs(nil, nil)
	}
	if o.MaxWait <= 0 {
		o.MaxWait = time.Hour
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = time.Hour
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 1000
	}
	if o.MaxSessionsPerUser <= 0 {
		o.MaxSessionsPerUser = max(1, o.MaxSessions/4)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
}

// Handler answers streamable HTTP at one address, in all revisions.
func (s *Server) Handler() http.Handler { return s.handler }

// trackServer remembers a server whose sessions have to be ended.
func (s *Server) trackServer(srv *mcp.Server) *mcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.built = append(s.built, srv)
	return srv
}

// Close ends the waits of all calls, which answer that the server is stopping, and then
// the sessions. Turns go on.
func (s *Server) Close() error {
	s.stopNow(errStopping)
	if s.fixtures != nil {
		s.fixtures.wait()
	}
	s.mu.Lock()
	built := s.built
	s.mu.Unlock()
	for _, srv := range built {
		for session := range srv.Sessions() {
			_ = session.Close() // its client may be gone
		}
	}
	return nil
}

// ServeStdio speaks with one client over a pair of streams, one message per line, as
// the given identity. It returns when in ends or ctx does.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, id Identity) error {
	srv := s.buildServer(id.Role, &id)
	lives, end := context.WithCancel(ctx)
	defer end()
	tasks := newListenPipe(lives, s, &id, in, out)
	streams := newLinger(ctx, tasks, tasks)
	session, err := srv.Connect(ctx, &mcp.IOTransport{Reader: streams, Writer: streams, MaxLineLength: int(s.opt.MaxBody)}, nil)
	if err != nil {
		return fmt.Errorf("mcpserver: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// The reader may sit in a read that can't be ended; its owner ends with
		// the process.
		return nil
	}
	end()
	tasks.running.Wait()
	if err != nil && !clientIsGone(err) {
		return fmt.Errorf("mcpserver: %w", err)
	}
	return nil
}

// clientIsGone reports whether an error says no more than that the client ended.
func clientIsGone(err error) bool {
	for _, end := range []error{io.EOF, io.ErrClosedPipe, os.ErrClosed, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// instructions tell a model how the tools go together.
const instructions = `agentd runs AI agents and keeps every step as a durable fact. ` +
	`run_turn gives an agent a task and returns its answer; pass the sessionId it returns to go on in the same conversation. ` +
	`If a turn waits for an action, answer it with respond_action and call wait_turn. ` +
	`The other tools are agentd's commands; sessions, events and outputs can be read as resources.`

// buildServer returns a server with what a role may do. With local every request is that
// identity's; without, each request over HTTP brings its own.
func (s *Server) buildServer(role command.Role, local *Identity) *mcp.Server {
	caps := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}}
	caps.AddExtension(tasksExtension, nil)
	o := &mcp.ServerOptions{
		Instructions: instructions, Logger: s.sdkLog(), Capabilities: caps,
		CompletionHandler: s.completeAddress, SetCacheable: cacheable, GetSessionID: s.newSessionID,
	}
	if s.fixtures != nil {
		s.fixtures.capabilities(o)
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "agentd", Title: "agentd", Version: s.opt.Version}, o)
	s.addCommands(srv, role)
	s.addTurnTools(srv, role)
	s.addTemplates(srv)
	s.addTaskMethods(srv)
	if s.fixtures != nil {
		s.fixtures.register(srv)
	}
	// The first is the outermost.
	srv.AddReceivingMiddleware(s.identify(local), chosenTools, s.resources, taskAnswers)
	return srv
}

// sdkLog is the log of the SDK, which has a line for every request.
func (s *Server) sdkLog() *slog.Logger { return slog.New(warnings{s.opt.Logger.Handler()}) }

// warnings keeps what is at least a warning.
type warnings struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// cacheable lets a client keep what doesn't change while the program runs. Nothing
// is for others than the caller: what there is depends on its role and account.
func cacheable(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
	c.CacheScope = "private"
	switch req.(type) {
	case *mcp.ListToolsRequest, *mcp.ListPromptsRequest, *mcp.ListResourceTemplatesRequest:
		c.TTLMs = int(5 * time.Minute / time.Millisecond)
	}
}
