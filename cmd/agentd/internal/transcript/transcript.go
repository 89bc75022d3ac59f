// Package transcript writes down a conversation: what was said, called, asked and
// answered, turn by turn.
//
// # Contract
//
// [Read] gathers a [Transcript] from the facts of a session, which have no secrets in
// them. It changes nothing and records nothing. Turns that were taken back aren't part
// of it, nor is what subagents did beyond what they handed back; a turn that still runs is
// there as far as it has come. A fork begins with the turns that it continues. What is
// long is read from where it is kept, up to [MaxText] for each output.
// [Write] writes it for people, without live control sequences, or for programs. It reads
// the facts twice: first for the order of the turns and for those that were taken back,
// then to write each turn when its last fact was read. So it keeps a turn at a time in
// memory, without what is long in it, however long the conversation is.
package transcript

import (
	"context"
	"time"

	"agentd/cmd/agentd/internal/facts"
	"agentd/event"
)

// Format names the shape of a transcript as JSON.
const Format = "agentd.transcript/1"

// MaxText is how much of the output of a tool is written down.
const MaxText = 256 << 10

// Transcript is the conversation of a session.
type Transcript struct {
	// Format is [Format].
	Format    string `json:"format"`
	SessionID string `json:"sessionId"`
	Title     string `json:"title,omitempty"`
	// Workspace is the folder that the session works in.
	Workspace string    `json:"workspace,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	// ThroughSequence is the last fact that was read.
	ThroughSequence uint64  `json:"throughSequence"`
	Turns           []*Turn `json:"turns"`
	// Incomplete says what is missing; empty if nothing is.
	Incomplete string `json:"incomplete,omitempty"`
}

// Turn is one turn of a conversation.
type Turn struct {
	TurnID string `json:"turnId"`
	// Status is queued, running, completed, failed or cancelled.
	Status      string    `json:"status"`
	SubmittedAt time.Time `json:"submittedAt"`
	EndedAt     time.Time `json:"endedAt,omitzero"`
	Model       string    `json:"model,omitempty"`
	Mode        string    `json:"permissionMode,omitempty"`
	CostUSD     float64   `json:"costUSD,omitempty"`
	// Error says why it failed.
	Error    string     `json:"error,omitempty"`
	Messages []*Message `json:"messages"`
}

// Message is something that was said, called or asked.
type Message struct {
	At time.Time `json:"at"`
	// Role is user, assistant, tool, question or note.
	Role string `json:"role"`
	Text string `json:"text,omitempty"`
	// Tool is the call of a tool, Question what a person was asked.
	Tool     *Call     `json:"tool,omitempty"`
	Question *Question `json:"question,omitempty"`

	// later reads what is kept elsewhere, when the message is written.
	later func()
}

// Call is the call of a tool.
type Call struct {
	ToolCallID string    `json:"toolCallId"`
	Name       string    `json:"name"`
	Arguments  event.Raw `json:"arguments,omitempty"`
	// Status is running, ok, error, background or failed.
	Status     string `json:"status"`
	Output     string `json:"output,omitempty"`
	DurationMs int64  `json:"durationMs,omitempty"`
	// Cut says that the output goes on; all of it is at OutputRef.
	Cut          bool     `json:"cut,omitempty"`
	OutputRef    string   `json:"outputRef,omitempty"`
	ChangedFiles []string `json:"changedFiles,omitempty"`

	later []func()
}

// Question is what a person was asked, and the answer.
type Question struct {
	ActionID string `json:"actionId"`
	Kind     string `json:"kind"`
	Tool     string `json:"tool,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
	// Decision is empty until the question is answered; Answer is the value that was asked for.
	Decision string    `json:"decision,omitempty"`
	Scope    string    `json:"scope,omitempty"`
	Answer   event.Raw `json:"answer,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	// By is who decided: human, timeout, host_policy, runtime or peer.
	By string `json:"by,omitempty"`
}

// maxForks bounds how many forks of forks are followed.
const maxForks = 32

// part is a session, or the beginning of one that a fork continues.
type part struct {
	session string
	// through is the last fact that belongs to it, 0 for all.
	through uint64
}

// origins lists a session behind those that it was forked from, the oldest first.
func (p *plan) origins(ctx context.Context, src facts.Source, sessionID string) ([]part, error) {
	chain := []part{{session: sessionID}}
	for len(chain) < maxForks {
		page, _, err := src.Page(ctx, chain[0].session, 0, 1)
		if err != nil && len(chain) == 1 {
			return nil, err
		}
		if err != nil || len(page) == 0 {
			return chain, nil //nolint:nilerr // reading that session says so
		}
		e, err := event.Decode(page[0].Data)
		if err != nil {
			return chain, nil //nolint:nilerr // a fact of a newer server: what it continues isn't known
		}
		created, ok := e.Payload.(*event.SessionCreated)
		if !ok {
			p.head.Incomplete = "older turns were removed"
			return chain, nil
		}
		from := created.ForkedFrom
		if from == nil || from.Sequence == 0 {
			return chain, nil
		}
		chain = append([]part{{session: from.SessionID, through: from.Sequence}}, chain...)
	}
	return chain, nil
}
