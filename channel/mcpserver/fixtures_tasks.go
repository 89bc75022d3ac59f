//go:build interopfixtures

package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/fault"
	"agentd/internal/wire"
)

// fixtureTask begins the ids of the fixtures' tasks, which are kept in memory.
const fixtureTask = "fixture_"

// fixtureWork is a task that a fixture works on.
type fixtureWork struct {
	cancel context.CancelFunc

	// Guarded by the fixtures' mutex.
	task    task
	open    mcp.InputRequestMap
	answers mcp.InputResponseMap
	changed chan struct{} // closed and replaced when an answer comes
	result  json.RawMessage
	failure *jsonrpc.Error
}

// job does a task's work. An error of the protocol fails the task; what else goes
// wrong is the tool's result.
type job func(ctx context.Context, w *fixtureWork) (*mcp.CallToolResult, error)

// addTasks offers tools that answer with a task.
func (f *fixtures) addTasks(srv *mcp.Server) {
	addFixtureTool(srv, "greet", "greets, at once", anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args := toolArguments[struct {
			Name string `json:"name"`
		}](req)
		return textResult("Hello, " + args.Name + "!"), nil
	})
	addFixtureTool(srv, "slow_compute", "takes a while", anything, f.optional(func(req *mcp.CallToolRequest) job {
		args := toolArguments[struct {
			Seconds float64 `json:"seconds"`
			Label   string  `json:"label"`
		}](req)
		return func(ctx context.Context, _ *fixtureWork) (*mcp.CallToolResult, error) {
			if err := sleepContext(ctx, time.Duration(args.Seconds*float64(time.Second))); err != nil {
				return nil, err
			}
			return textResult(fmt.Sprintf("computed %s in %v s", args.Label, args.Seconds)), nil
		}
	}))
	addFixtureTool(srv, "failing_job", "fails as a tool does", anything, f.required(func(*mcp.CallToolRequest) job {
		return func(ctx context.Context, _ *fixtureWork) (*mcp.CallToolResult, error) {
			res := textResult("the job failed")
			res.IsError = true
			return res, sleepContext(ctx, 200*time.Millisecond)
		}
	}))
	addFixtureTool(srv, "protocol_error_job", "fails as the protocol does", anything, f.required(func(*mcp.CallToolRequest) job {
		return func(context.Context, *fixtureWork) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the job broke"}
		}
	}))
	addFixtureTool(srv, "confirm_delete", "asks before it goes on", anything, f.required(func(*mcp.CallToolRequest) job {
		return f.asking(mcp.InputRequestMap{"confirm": form("Really delete it?", "confirm", "boolean")})
	}))
	addFixtureTool(srv, "multi_input", "asks for two things", anything, f.required(func(*mcp.CallToolRequest) job {
		return f.asking(mcp.InputRequestMap{"first": form("The first name?", "name", "string"), "second": form("The second name?", "name", "string")})
	}))
	addFixtureTool(srv, "test_tool_with_task", "asks first, then becomes a task", anything, f.asksFirst)
}

// asksFirst asks by answering, and becomes a task when it knows enough.
func (f *fixtures) asksFirst(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	content, ok := accepted(req.Params.InputResponses, "user_name")
	if !ok {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"user_name": form("What is your name?", "name", "string")}}, nil
	}
	return f.required(func(*mcp.CallToolRequest) job {
		return func(context.Context, *fixtureWork) (*mcp.CallToolResult, error) {
			return textResult(fmt.Sprint("Hello, ", content["name"], "!")), nil
		}
	})(ctx, req)
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// required answers with a task, or refuses a client that takes none.
func (f *fixtures) required(jobFor func(*mcp.CallToolRequest) job) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if s := slotFrom(ctx); s != nil {
			return s.fill(f.beginTask(jobFor(req)))
		}
		return nil, errNoTasks()
	}
}

// optional answers with a task where the client takes one.
func (f *fixtures) optional(jobFor func(*mcp.CallToolRequest) job) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if s := slotFrom(ctx); s != nil {
			return s.fill(f.beginTask(jobFor(req)))
		}
		return jobFor(req)(ctx, nil)
	}
}

// beginTask starts a task.
func (f *fixtures) beginTask(do job) task {
	ctx, cancel := context.WithCancel(f.stop)
	now := time.Now()
	w := &fixtureWork{
		cancel: cancel, changed: make(chan struct{}), answers: mcp.InputResponseMap{},
		task: task{TaskID: fixtureTask + f.ids.New(""), Status: taskWorking, CreatedAt: now, LastUpdatedAt: now, PollIntervalMs: 100},
	}
	f.mu.Lock()
	f.tasks[w.task.TaskID] = w
	f.mu.Unlock()
	created := w.task
	f.running.Go(func() {
		defer cancel()
		res, err := do(ctx, w)
		f.endTask(ctx, w, res, err)
	})
	return created
}

// endTask records how a task ended.
func (f *fixtures) endTask(ctx context.Context, w *fixtureWork, res *mcp.CallToolResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.open, w.task.LastUpdatedAt = nil, time.Now()
	failure, ok := err.(*jsonrpc.Error) //nolint:errorlint // a job returns it as it is
	switch {
	case ok:
		w.task.Status, w.task.StatusMessage, w.failure = taskFailed, failure.Message, failure
	case ctx.Err() != nil || err != nil:
		w.task.Status = taskCancelled
	default:
		w.task.Status, w.result = taskCompleted, encodeJSON(res)
	}
}

// asking puts requests to the client and completes when all are answered.
func (f *fixtures) asking(requests mcp.InputRequestMap) job {
	return func(ctx context.Context, w *fixtureWork) (*mcp.CallToolResult, error) {
		f.mu.Lock()
		w.open, w.task.Status, w.task.LastUpdatedAt = maps.Clone(requests), taskInput, time.Now()
		f.mu.Unlock()
		for {
			f.mu.Lock()
			left, changed, answers := len(w.open), w.changed, maps.Clone(w.answers)
			f.mu.Unlock()
			if left == 0 {
				return textResult("answered: " + string(encodeJSON(answers))), nil
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-changed:
			}
		}
	}
}

// lockTask returns a task, locked.
func (f *fixtures) lockTask(taskID string) (*fixtureWork, error) {
	if w, ok := f.tasks[taskID]; ok {
		return w, nil
	}
	return nil, fault.New(fault.NotFound, "there is no task %s", wire.Clip(taskID))
}

func (f *fixtures) getTask(_ context.Context, _ *Identity, taskID string) (*taskResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.lockTask(taskID)
	if err != nil {
		return nil, err
	}
	res := newResult(w.task)
	res.InputRequests, res.Result, res.Error = maps.Clone(w.open), w.result, w.failure
	return res, nil
}

func (f *fixtures) update(_ context.Context, _ *Identity, taskID string, responses map[string]*mcp.ElicitResult) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.lockTask(taskID)
	if err != nil {
		return err
	}
	for key, r := range responses {
		if _, asked := w.open[key]; asked {
			delete(w.open, key)
			w.answers[key] = r
		}
	}
	if len(w.open) == 0 && w.task.Status == taskInput {
		w.task.Status = taskWorking
	}
	w.task.LastUpdatedAt = time.Now()
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

func (f *fixtures) cancel(_ context.Context, _ *Identity, taskID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.lockTask(taskID)
	if err != nil {
		return err
	}
	w.cancel()
	return nil
}
