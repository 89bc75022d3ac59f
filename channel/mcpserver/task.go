package mcpserver

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentd/fault"
)

// tasksExtension lets a tool answer with a task that the client asks about later.
const tasksExtension = "io.modelcontextprotocol/tasks"

// The methods of the extension.
const (
	methodGet    = "tasks/get"
	methodUpdate = "tasks/update"
	methodCancel = "tasks/cancel"
)

func isTaskMethod(method string) bool {
	return method == methodGet || method == methodUpdate || method == methodCancel
}

// The statuses of a task. Failed is for errors of the protocol; a tool that failed
// has completed.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// pollEvery is how often clients are asked to look.
const pollEvery = time.Second

// task is what both a new and an older task say of themselves.
type task struct {
	TaskID        string    `json:"taskId"`
	Status        string    `json:"status"`
	StatusMessage string    `json:"statusMessage,omitempty"`
	CreatedAt     time.Time `json:"createdAt"`
	LastUpdatedAt time.Time `json:"lastUpdatedAt"`
	// TTLMs is null: a task is kept as long as its session.
	TTLMs          *int64 `json:"ttlMs"`
	PollIntervalMs int64  `json:"pollIntervalMs,omitempty"`
}

// createTaskResult is a tool's answer that is a task.
type createTaskResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	task
}

// detailedTask is a task with all that its status brings: what an answer and a
// notification say of it.
type detailedTask struct {
	task
	InputRequests mcp.InputRequestMap `json:"inputRequests,omitempty"`
	Result        json.RawMessage     `json:"result,omitempty"`
	Error         *jsonrpc.Error      `json:"error,omitempty"`
}

// taskResult is how a task stands.
type taskResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	detailedTask
}

// taskAck says that a request was taken, and no more.
type taskAck struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// taskParams are those of all methods.
type taskParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitempty"`
}

// newResult returns a task's answer, ready to be sent.
func newResult(t task) *taskResult {
	t.CreatedAt, t.LastUpdatedAt = t.CreatedAt.UTC(), t.LastUpdatedAt.UTC()
	if t.PollIntervalMs == 0 {
		t.PollIntervalMs = pollEvery.Milliseconds()
	}
	return &taskResult{ResultType: "complete", detailedTask: detailedTask{task: t}}
}

// taskSource knows tasks.
type taskSource interface {
	getTask(ctx context.Context, id *Identity, taskID string) (*taskResult, error)
	update(ctx context.Context, id *Identity, taskID string, responses map[string]*mcp.ElicitResult) error
	cancel(ctx context.Context, id *Identity, taskID string) error
}

// taskSourceOf returns who knows a task.
func (s *Server) taskSourceOf(taskID string) taskSource {
	if known := s.fixtures.source(taskID); known != nil {
		return known
	}
	return turnTasks{s}
}

// addTaskMethods offers the extension's methods.
func (s *Server) addTaskMethods(srv *mcp.Server) {
	type handler = func(context.Context, *mcp.ServerSession, *taskParams) (mcp.Result, error)
	for method, h := range map[string]handler{methodGet: s.getTask, methodUpdate: s.updateTask, methodCancel: s.cancelTask} {
		if err := mcp.AddReceivingCustomMethod(srv, method, h); err != nil {
			panic(err) // the names are none of the SDK's
		}
	}
}

func (s *Server) getTask(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (mcp.Result, error) {
	id, err := taskCaller(ctx, p)
	if err != nil {
		return nil, err
	}
	res, err := s.taskSourceOf(p.TaskID).getTask(ctx, id, p.TaskID)
	if err != nil {
		return nil, protocolError(err, id)
	}
	return res, nil
}

func (s *Server) updateTask(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (mcp.Result, error) {
	id, err := taskCaller(ctx, p)
	if err != nil {
		return nil, err
	}
	responses := map[string]*mcp.ElicitResult{}
	for key, raw := range p.InputResponses {
		r := new(mcp.ElicitResult)
		if json.Unmarshal(raw, r) == nil && r.Action != "" {
			responses[key] = r
		}
	}
	if err := s.taskSourceOf(p.TaskID).update(ctx, id, p.TaskID, responses); err != nil {
		return nil, protocolError(err, id)
	}
	return &taskAck{ResultType: "complete"}, nil
}

func (s *Server) cancelTask(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (mcp.Result, error) {
	id, err := taskCaller(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := s.taskSourceOf(p.TaskID).cancel(ctx, id, p.TaskID); err != nil {
		return nil, protocolError(err, id)
	}
	return &taskAck{ResultType: "complete"}, nil
}

// taskCaller returns the caller, if its client knows the extension.
func taskCaller(ctx context.Context, p *taskParams) (*Identity, error) {
	if p == nil || !declaresTasks(p.GetMeta()) {
		return nil, errNoTasks()
	}
	if p.TaskID == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskId is missing"}
	}
	return identityFrom(ctx), nil
}

// errNoTasks tells a client what it would have to know.
func errNoTasks() error {
	return &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "this needs the extension " + tasksExtension,
		Data: encodeJSON(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}}),
	}
}

// declaresTasks reports whether a request says that its client knows the extension.
// Only the revision in which each request says what its client can do has it.
func declaresTasks(meta map[string]any) bool {
	version, _ := meta[mcp.MetaKeyProtocolVersion].(string)
	caps, _ := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
	extensions, _ := caps["extensions"].(map[string]any)
	_, ok := extensions[tasksExtension]
	return ok && version >= statelessSince
}

// slot is where a tool leaves a task that it answers with.
type slot struct{ created *createTaskResult }

// slotFrom returns the slot of a call whose client takes tasks, or nil.
func slotFrom(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey).(*slot)
	return s
}

// fill leaves a task. The tool's own result is not used then.
func (s *slot) fill(t task) (*mcp.CallToolResult, error) {
	s.created = &createTaskResult{ResultType: "task", task: newResult(t).task}
	return &mcp.CallToolResult{}, nil
}

// taskAnswers replaces the result of a tool that left a task.
func taskAnswers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if _, ok := req.(*mcp.CallToolRequest); !ok || !declaresTasks(metaOf(req.GetParams())) {
			return next(ctx, method, req)
		}
		s := new(slot)
		res, err := next(context.WithValue(ctx, slotKey, s), method, req)
		if err == nil && s.created != nil {
			return s.created, nil
		}
		return res, err
	}
}

// turnTasks are turns as tasks: a task's id is made of the turn's, and all that it
// says comes from the turn's facts.
type turnTasks struct{ s *Server }

// newTask is the task of a turn that was just accepted.
func (s *Server) newTask(ctx context.Context, id *Identity, ref turnRef) task {
	t := task{TaskID: ref.String(), Status: taskWorking, CreatedAt: ref.Submitted}
	if t.CreatedAt.IsZero() {
		if err := s.readRef(ctx, id, &ref); err == nil {
			t.CreatedAt = ref.Submitted
		} else {
			t.CreatedAt = time.Now() // the fact is there; only its time isn't known now
		}
	}
	t.LastUpdatedAt = t.CreatedAt
	return t
}

func (tt turnTasks) getTask(ctx context.Context, id *Identity, taskID string) (*taskResult, error) {
	ref, err := tt.s.turnOf(ctx, id, taskID)
	if err != nil {
		return nil, err
	}
	t := task{TaskID: taskID, Status: taskWorking, CreatedAt: ref.Submitted, LastUpdatedAt: ref.Submitted}
	open, err := tt.open(ctx, id, ref, &t)
	if err != nil {
		return nil, err
	}
	if open {
		return tt.waiting(ctx, id, ref, t)
	}
	return tt.ended(ctx, id, ref, t)
}

// open reports whether the turn is among those that the session works on, and how it
// stands.
func (tt turnTasks) open(ctx context.Context, id *Identity, ref turnRef, t *task) (bool, error) {
	read, err := runCommandAs[threadRead](ctx, tt.s, id, threadOf(ref))
	if err != nil {
		return false, err
	}
	t.LastUpdatedAt = laterTime(t.LastUpdatedAt, read.UpdatedAt)
	for _, q := range read.QueuedTurns {
		if q.TurnID == ref.Turn {
			t.StatusMessage = "queued"
			return true, nil
		}
	}
	if read.ActiveTurnID != ref.Turn {
		return false, nil
	}
	t.StatusMessage = strings.ReplaceAll(read.Phase, "_", " ")
	if read.Block != nil {
		t.StatusMessage = "blocked: " + read.Block.Reason
	}
	return true, nil
}

// waiting adds what the turn waits for.
func (tt turnTasks) waiting(ctx context.Context, id *Identity, ref turnRef, t task) (*taskResult, error) {
	actions, err := tt.s.pendingActions(ctx, id, ref)
	if err != nil {
		return nil, err
	}
	res := newResult(t)
	if len(actions) > 0 {
		res.Status, res.InputRequests = taskInput, inputRequests(actions)
	}
	return res, nil
}

// ended reads how the turn ended.
func (tt turnTasks) ended(ctx context.Context, id *Identity, ref turnRef, t task) (*taskResult, error) {
	w, err := tt.s.readTurnFacts(ctx, id, ref)
	if err != nil {
		return nil, err
	}
	t.LastUpdatedAt = laterTime(t.CreatedAt, w.updated)
	t.StatusMessage = ""
	switch {
	case w.End == nil:
		return newResult(t), nil // between the queue and its start
	case w.End.Failed != nil && w.End.Failed.Status == "cancelled":
		t.Status, t.StatusMessage = taskCancelled, w.End.Reason()
		return newResult(t), nil
	}
	t.Status = taskCompleted
	if err := tt.s.fetchAnswer(ctx, id, w); err != nil {
		return nil, err
	}
	res := newResult(t)
	if res.Result, err = json.Marshal((&outcome{ref: ref, watch: w}).result()); err != nil {
		return nil, err
	}
	return res, nil
}

func (tt turnTasks) update(ctx context.Context, id *Identity, taskID string, responses map[string]*mcp.ElicitResult) error {
	ref, err := tt.s.turnOf(ctx, id, taskID)
	if err != nil {
		return err
	}
	return tt.s.answerActions(ctx, id, ref, responses)
}

func (tt turnTasks) cancel(ctx context.Context, id *Identity, taskID string) error {
	ref, err := tt.s.turnOf(ctx, id, taskID)
	if err != nil {
		return err
	}
	err = tt.s.stopTurn(ctx, id, ref, "the client cancelled the task")
	if fault.KindOf(err) == fault.NotFound {
		return nil // it is over
	}
	return err
}

func laterTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
