package tool

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"agentd/event"
	"agentd/tool/toolkind"
)

const shellSchema = shellSchemaBegin + shellSchemaEnd

// escalatingSchema is that of a shell whose calls may ask to leave the sandbox.
const escalatingSchema = shellSchemaBegin + "," + escalateSchema + shellSchemaEnd

const shellSchemaBegin = `{
	"type": "object",
	"properties": {
		"command": {"type": "string", "minLength": 1, "description": "The command line, as a shell takes it."},
		"cwd": {"type": "string", "minLength": 1, "description": "The folder to run it in; the working folder by default."},
		"timeoutMs": {"type": "integer", "minimum": 1, "maximum": 86400000, "description": "End the command after this many milliseconds."},
		"background": {"type": "boolean", "description": "true: let it run on and return at once, for servers and watchers."},
		"tty": {"type": "boolean", "description": "true: give it a terminal, for programs that need one."}`

const shellSchemaEnd = `
	},
	"required": ["command"],
	"additionalProperties": false
}`

func newShell(f *files) *builtin {
	info := event.ToolInfo{
		Description: "Runs a command line in a sandbox, in the workspace, and returns what it prints (stdout and " +
			"stderr as they came) and its exit code. Nothing answers prompts: use flags such as --yes. " +
			"Use read_file, edit_file, list_files and search_files for files where they can do it. " +
			"Something that doesn't end by itself needs background or timeoutMs.",
		Capabilities:      []string{CapProcess, CapFilesRead, CapFilesWrite},
		IsDestructive:     true,
		InterruptBehavior: interruptCancel,
	}
	b := define(toolkind.Shell, info, shellSchema, f.shell)
	info.Capabilities = append(slices.Clone(info.Capabilities), CapEscalate)
	b.more = &define(toolkind.Shell, info, escalatingSchema, f.shell).info
	return b
}

type shellInput struct {
	Command    string `json:"command"`
	Cwd        string `json:"cwd"`
	TimeoutMs  int64  `json:"timeoutMs"`
	Background bool   `json:"background"`
	TTY        bool   `json:"tty"`
}

func (f *files) shell(ctx context.Context, call *Call) (*Result, error) {
	var in shellInput
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	cwd, err := f.shellCwd(ctx, call, in.Cwd)
	if err != nil {
		return nil, err
	}
	exit, err := call.Host.Command(ctx, &Command{
		Line: in.Command, Cwd: cwd, TTY: in.TTY, Background: in.Background,
		TimeoutMs: in.TimeoutMs, MaxOutput: call.maxOutput(),
	})
	if err != nil {
		return nil, callError(ctx, err, "run the command")
	}
	return shellResult(ctx, exit, &in)
}

// shellCwd returns the folder to run in. It may be outside the workspace only if
// the call may leave the sandbox.
func (f *files) shellCwd(ctx context.Context, call *Call, asked string) (string, error) {
	if call.Outside && asked != "" {
		abs := asked
		if !filepath.IsAbs(abs) {
			abs = filepath.Join(call.Cwd, abs)
		}
		if _, inside := relativeWithin(call.Root, abs); !inside || abs == asked {
			return filepath.Clean(abs), nil
		}
	}
	t, err := f.open(call)
	if err != nil {
		return "", err
	}
	defer t.close()
	if asked == "" {
		asked = t.cwd
	}
	d, rel, err := t.openDir(ctx, asked)
	if err != nil {
		return "", err
	}
	_ = d.Close() // only its place was wanted
	return t.abs(rel), nil
}

// shellResult makes a result of how a command ended. One that its time limit
// ended is a failure that comes with what it had printed.
func shellResult(ctx context.Context, exit *Exit, in *shellInput) (*Result, error) {
	res := &Result{
		Dropped: exit.Dropped, ProcessID: exit.ProcessID, Background: exit.Running, Changed: exit.Changed,
	}
	out := validUTF8(exit.Output)
	res.Preview = string(out)
	var notes []string
	switch {
	case exit.Running:
		notes = append(notes, "runs in the background as "+exit.ProcessID)
	case exit.Signal != "":
		notes = append(notes, "ended by "+exit.Signal)
	case exit.Code != 0:
		notes = append(notes, fmt.Sprintf("exit code %d", exit.Code))
	case len(out) == 0:
		notes = append(notes, "no output, exit code 0")
	}
	if !exit.Running {
		code := exit.Code
		res.ExitCode = &code
	}
	res.Output = withNotes(out, notes)
	if exit.TimedOut {
		return res, timedOut(exit, in)
	}
	if !exit.Running && ctx.Err() != nil {
		return res, contextError(ctx)
	}
	return res, nil
}

func timedOut(exit *Exit, in *shellInput) *Error {
	limit := "its time limit"
	if in.TimeoutMs > 0 {
		limit = "its time limit of " + (time.Duration(in.TimeoutMs) * time.Millisecond).String()
	}
	e := &Error{
		Category: Timeout, Message: "the command did not end within " + limit + " and was stopped",
		Advice: "Give it more time with timeoutMs, or run it with background: true.",
	}
	if last := Preview(string(validUTF8(exit.Output)), 1000); last != "" {
		e.Message += "; it had printed:\n" + last
	}
	return e
}
