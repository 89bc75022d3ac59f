package loop

import (
	"path/filepath"

	"agentd/event"
	"agentd/hook"
	"agentd/process"
	"agentd/redact"
	"agentd/sandbox"
	"agentd/workspace"
)

// Governance are the parts that confine, watch and undo what tools do. Each may
// be absent; what is then not done is not claimed.
type Governance struct {
	// Redact takes secrets out before anything is stored or sent to a model.
	Redact *redact.Redactor
	// Vault keeps what tools change, so that it can be undone.
	Vault *workspace.Vault
	// Processes returns what runs commands, always the same; it is closed with the
	// loop. It is called when the first command is near, because finding out what
	// the kernel offers takes a while. Sandbox is the profile that confines commands;
	// root and folder are those of each call.
	Processes func() *process.Manager
	Sandbox   sandbox.Profile
	// Bounds are the files and folders by which agents are bounded, beside those that
	// every workspace has: configuration, hooks, programs of servers.
	Bounds BoundSet
	// Hooks are asked and told at the points of a turn.
	Hooks *hook.Runner
	// Reviewer is asked about calls before a person is; nil asks the person at once.
	Reviewer *Reviewer
}

func (l *Loop) redactText(s string) string {
	if l.opt.Redact == nil || s == "" {
		return s
	}
	out, _ := l.opt.Redact.Text(s)
	return out
}

func (l *Loop) redactBytes(b []byte) ([]byte, redact.Found) {
	if l.opt.Redact == nil || len(b) == 0 {
		return b, redact.Found{}
	}
	return l.opt.Redact.Bytes(b)
}

func (l *Loop) redactRaw(b []byte) []byte {
	out, _ := l.redactBytes(b)
	return out
}

func (l *Loop) redactJSON(r event.Raw) (event.Raw, redact.Found) {
	if l.opt.Redact == nil || len(r) == 0 {
		return r, redact.Found{}
	}
	return l.opt.Redact.JSON(r)
}

// redactNative is what a provider wants back unchanged, or nothing if there is a secret in
// it: changed it would be of no use.
func (l *Loop) redactNative(r event.Raw) event.Raw {
	if _, found := l.redactJSON(r); found.Any() {
		return nil
	}
	return r
}

// redacted gathers a stream of text and gives out what can't be a part of a
// secret any more.
type redacted struct {
	stream *redact.Stream
	clean  []byte
	// from and to are where in a process's stream lies what wasn't given out yet.
	from, to int64
}

// held is the number of bytes that wait for what follows them.
func (r *redacted) held() int {
	if r.stream == nil {
		return 0
	}
	return r.stream.Held()
}

func (r *redacted) add(l *Loop, s string) {
	if s == "" {
		return
	}
	if l.opt.Redact == nil {
		r.clean = append(r.clean, s...)
		return
	}
	if r.stream == nil {
		r.stream = l.opt.Redact.Stream()
	}
	r.clean = append(r.clean, r.stream.Write([]byte(s))...)
}

// ready is the text that can be given out; at the end all of it.
func (r *redacted) ready(end bool) string {
	if end && r.stream != nil {
		r.clean = append(r.clean, r.stream.Close()...)
		r.stream = nil
	}
	return string(r.clean)
}

// drainText returns the text that was given out and forgets it.
func (r *redacted) drainText(end bool) string {
	s := r.ready(end)
	r.clean = r.clean[:0]
	return s
}

// resolvePath says where a path leads once symbolic links are followed; a path
// that doesn't exist leads where its nearest existing folder does.
func resolvePath(path string) string {
	rest := ""
	for p := path; ; p = filepath.Dir(p) {
		if resolved, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(resolved, rest)
		}
		if p == filepath.Dir(p) {
			return path
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}
