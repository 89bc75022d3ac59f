package hook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"agentd/event"
)

// Point is a moment at which hooks run.
type Point string

// The points.
const (
	SessionStart      Point = "session_start"
	UserPromptSubmit  Point = "user_prompt_submit"
	PreToolUse        Point = "pre_tool_use"
	PermissionRequest Point = "permission_request"
	PostToolUse       Point = "post_tool_use"
	PostToolFailure   Point = "post_tool_failure"
	PostSampling      Point = "post_sampling"
	Stop              Point = "stop"
)

// Points returns the points in the order of a turn.
func Points() []Point {
	return []Point{SessionStart, UserPromptSubmit, PreToolUse, PermissionRequest, PostToolUse, PostToolFailure, PostSampling, Stop}
}

// Decisions of a hook, from the weakest to the strictest.
const (
	Continue = "continue"
	Allow    = "allow"
	Ask      = "ask"
	Deny     = "deny"
	Block    = "block"
)

// What a failed hook means.
const (
	FailOpen   = "open"
	FailClosed = "closed"
)

// Bounds of a hook.
const (
	// MaxAnswer is how many bytes an answer may have.
	MaxAnswer = 64 << 10
	// DefaultTimeout ends a hook that sets no timeout.
	DefaultTimeout = 30 * time.Second
	// MaxTimeout is the longest that a hook may ask for.
	MaxTimeout = 10 * time.Minute
)

// Hook is one hook as it is configured. It has a Command or a URL.
type Hook struct {
	// Name is what facts call it; made of the command or the URL if empty.
	Name string
	// Point at which it runs.
	Point Point
	// Match narrows it.
	Match Match
	// Command to run, with its arguments.
	Command []string
	// URL to post to, http or https.
	URL string
	// Timeout ends it; DefaultTimeout if zero.
	Timeout time.Duration
	// Failure is open or closed. If empty it is closed at the points before
	// something happens (user_prompt_submit, pre_tool_use, permission_request) and
	// open at the others.
	Failure string
	// Env are variables for a command, NAME=value.
	Env []string
	// Profile names the sandbox of a command, for [Exec]; empty is the usual one.
	Profile string
}

// Match narrows a hook to some calls.
type Match struct {
	// Tool is a glob over the names of tools; empty is every call, and every point
	// that has no tool.
	Tool string
}

// Exec runs a command and waits for it. It returns soon after the context ends,
// and then nothing that it started is left. An error means that the command
// didn't run; how it ended is in [Exit].
type Exec func(ctx context.Context, c Command) (Exit, error)

// Failure is an error of [Exec] that says what kind of failure it is, for one that
// knows: it plays a run again that failed. Any other error is one to start.
type Failure struct {
	Category, Message string
	Retryable         bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Category + ": " + f.Message }

// Command is a command for [Exec].
type Command struct {
	Argv []string
	// Env are the variables that the hook asks for; the runner adds what every
	// process gets, and nothing of its own environment.
	Env   []string
	Cwd   string
	Stdin []byte
	// Profile is that of the hook.
	Profile string
	// Confined gets the boundary of the process before anything of the command
	// runs. If it fails, nothing runs.
	Confined func(*event.SandboxApplied) error
	// MaxOutput bounds what is kept of stdout and of stderr. One byte more is kept
	// of stdout, so that an answer that is too long can be detected.
	MaxOutput int
}

// Exit is how a command ended.
type Exit struct {
	Stdout, Stderr []byte
	// Code is the exit status; 128+n after signal n.
	Code int
}

// Options configure a [Runner].
type Options struct {
	// Hooks in the order in which they run.
	Hooks []Hook
	// Exec runs commands; required if a hook has one.
	Exec Exec
	// HTTP makes calls; a client of its own if nil. Redirects are decided here.
	HTTP *http.Client
	// NewID makes the id of a run; required.
	NewID func() string
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Recorder records what hooks do. Its methods are called by Run's goroutine.
type Recorder interface {
	// Report records a fact: *event.HookStarted, *event.SandboxApplied for a
	// command, and *event.HookCompleted or *event.HookFailed.
	Report(ctx context.Context, fact event.Payload) error
	// Keep stores a content and returns its reference.
	Keep(ctx context.Context, mediaType string, content []byte) (ref string, err error)
}

// Runner runs hooks.
type Runner struct {
	hooks []Hook
	opt   Options
	http  *http.Client
}

// New checks the hooks and returns a runner. The error names every hook that is
// wrong, by its position.
func New(opt Options) (*Runner, error) {
	r := &Runner{hooks: slices.Clone(opt.Hooks), opt: opt}
	if r.opt.Now == nil {
		r.opt.Now = time.Now
	}
	var errs []error
	if opt.NewID == nil {
		errs = append(errs, errors.New("NewID is missing"))
	}
	for i := range r.hooks {
		if err := r.hooks[i].check(opt.Exec != nil); err != nil {
			errs = append(errs, fmt.Errorf("hook %d: %w", i+1, err))
		}
		r.hooks[i].settle()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	r.http = sameOriginClient(opt.HTTP)
	return r, nil
}

// check says what is wrong with a hook.
func (h *Hook) check(canRun bool) error {
	if !slices.Contains(Points(), h.Point) {
		return fmt.Errorf("point %q is not one of %v", h.Point, Points())
	}
	switch {
	case len(h.Command) == 0 && h.URL == "":
		return errors.New("command or url is missing")
	case len(h.Command) > 0 && h.URL != "":
		return errors.New("give either command or url, not both")
	case len(h.Command) > 0 && h.Command[0] == "":
		return errors.New("command is empty")
	case len(h.Command) > 0 && !canRun:
		return errors.New("commands can't be run here")
	case h.Timeout < 0 || h.Timeout > MaxTimeout:
		return fmt.Errorf("timeout %v is not between 0 and %v", h.Timeout, MaxTimeout)
	case h.Failure != "" && h.Failure != FailOpen && h.Failure != FailClosed:
		return fmt.Errorf("failure %q is not one of open, closed", h.Failure)
	}
	if h.URL != "" {
		u, err := url.Parse(h.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return fmt.Errorf("url %q is not an http or https URL", h.URL)
		}
	}
	if _, err := filepath.Match(h.Match.Tool, ""); err != nil {
		return fmt.Errorf("match.tool %q is not a valid glob: %w", h.Match.Tool, err)
	}
	return nil
}

// settle fills in what was left out.
func (h *Hook) settle() {
	if h.Timeout == 0 {
		h.Timeout = DefaultTimeout
	}
	if h.Failure == "" {
		h.Failure = FailOpen
		if h.Point == PreToolUse || h.Point == PermissionRequest || h.Point == UserPromptSubmit {
			h.Failure = FailClosed
		}
	}
	if h.Name != "" {
		return
	}
	// Arguments and queries may carry secrets that must not be in a fact.
	if len(h.Command) > 0 {
		h.Name = "command:" + h.Command[0]
		return
	}
	if u, err := url.Parse(h.URL); err == nil {
		h.Name = "url:" + u.Scheme + "://" + u.Host + u.EscapedPath()
	}
}

// matches says that the hook runs for a tool; "" is none.
func (h *Hook) matches(point Point, tool string) bool {
	if h.Point != point {
		return false
	}
	if h.Match.Tool == "" {
		return true
	}
	ok, err := filepath.Match(h.Match.Tool, tool)
	return ok && err == nil && tool != ""
}

// Has says whether a hook would run, so that nothing is prepared for none.
func (r *Runner) Has(point Point, tool string) bool {
	return r.anyOf(r.hooks, point, tool)
}

func (r *Runner) anyOf(hooks []Hook, point Point, tool string) bool {
	return slices.ContainsFunc(hooks, func(h Hook) bool { return h.matches(point, tool) })
}
