// Package state folds facts into read models.
//
// # Contract
//
// [Session.Apply] is the only way to change a [Session], and a session is a pure
// function of its facts: applying the same events gives the same state, whether
// they were just decided or are read back from the journal, and
// fold(a+b) = fold(fold(a), b). The package does no I/O, reads no clock, starts
// no goroutine and calls nothing. A Session is for one goroutine at a time.
//
// The state is bounded. What is finished leaves the working set once more than a
// fixed number of its kind is kept ([Bounds]); Apply reports what left, so that
// the session's writer can keep it as a record of its own ([Evicted]). So the
// size of a state depends on the work in progress, not on the length of its
// history.
//
// A section that no fact has touched yet says so: [Unknown], [Unavailable] or
// [NotApplicable], never a made-up default.
//
// The wire forms of the read models (the session snapshot, the thread read
// model and their sections) are built by [Session.Snapshot] and
// [Session.ThreadRead].
package state

import (
	"encoding/json"
	"fmt"
	"time"

	"agentd/event"
)

// Words for what is not known. They are values on the wire.
const (
	// Unknown: the runtime lacks the facts.
	Unknown = "unknown"
	// Unavailable: this build or environment doesn't offer the fact.
	Unavailable = "unavailable"
	// NotApplicable: the signal doesn't apply here.
	NotApplicable = "not_applicable"
	// Stale: the facts may not be current.
	Stale = "stale"
)

// Bounds of what a state keeps of finished things. They are part of the fold:
// changing one changes states, so stored states carry [Version].
const (
	keepTurns     = 20
	keepTasks     = 20
	keepActions   = 20
	keepIncidents = 20
	keepRecent    = 20
)

// Version of the fold. A stored state of another version is not used; the
// session is folded again from its facts. Where retention removed these, the state
// that stands for them is all there is: [DecodeBase] reads those of the versions before.
const (
	Version    = 3
	oldestBase = 2
)

// Session is the folded state of one session.
type Session struct {
	Version   int    `json:"version"`
	RuntimeID string `json:"runtimeId"`
	SessionID string `json:"sessionId"`
	// Sequence of the last fact in the state.
	Sequence  uint64    `json:"sequence"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	Title     string           `json:"title,omitempty"`
	Account   string           `json:"account,omitempty"`
	Status    string           `json:"status,omitempty"`
	Workspace *event.Workspace `json:"workspace,omitempty"`
	// Place is where the session's files are; nil if that is anywhere, or not known.
	Place *event.WorkspacePlace `json:"place,omitempty"`
	// FilesSince is the fact that gave the session another place: what turns changed before
	// is not there. It is 0 if there was none.
	FilesSince     uint64           `json:"filesSince,omitempty"`
	PermissionMode string           `json:"permissionMode,omitempty"`
	Metadata       event.Raw        `json:"metadata,omitempty"`
	CreatedBy      *event.Actor     `json:"createdBy,omitempty"`
	ForkedFrom     *event.ForkPoint `json:"forkedFrom,omitempty"`
	PinnedThreads  []string         `json:"pinnedThreads,omitempty"`
	Tags           []string         `json:"tags,omitempty"`
	Pinned         bool             `json:"pinned,omitempty"`
	// ConfigurationRef and ConfinementRef are what the last decision was made under.
	ConfigurationRef string `json:"configurationRef,omitempty"`
	ConfinementRef   string `json:"confinementRef,omitempty"`

	// Threads that are not archived, in the order in which they started.
	Threads         []*Thread `json:"threads"`
	ArchivedThreads int64     `json:"archivedThreads,omitempty"`

	Actions Actions `json:"actions"`
	// Credentials are the references that were given for credentials, oldest first.
	Credentials []Credential `json:"credentials,omitempty"`

	Tasks     Tasks      `json:"tasks"`
	Incidents []Incident `json:"incidents,omitempty"`

	Permission  Permission  `json:"permission"`
	Environment Environment `json:"environment"`
	Routing     Routing     `json:"routing"`
	Context     Contexts    `json:"context"`
	Artifacts   Artifacts   `json:"artifacts"`
	Evidence    Evidence    `json:"evidence"`
	Subagents   Subagents   `json:"subagents"`
	Jobs        Jobs        `json:"jobs"`
	Schedules   Schedules   `json:"schedules,omitzero"`
	Channels    Channels    `json:"channels"`
	Benchmark   Benchmark   `json:"benchmark"`
	Outputs     Outputs     `json:"outputs"`
	History     History     `json:"history"`
	Telemetry   Telemetry   `json:"telemetry"`
}

// Evicted is the record of something that left the working set. Name is unique
// within the session: the kind, a slash and the id.
type Evicted struct {
	Name string
	Data any
}

// Incident is a failure that people should know of.
type Incident struct {
	// EventID is the event that tells of it.
	EventID string `json:"eventId"`
	// Sequence of that event.
	Sequence uint64 `json:"sequence"`
	// Type of that event.
	Type event.Type `json:"type"`
	// Time of that event.
	Time time.Time `json:"time"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// Code classifies the incident.
	Code string `json:"code"`
	// Message for people.
	Message string `json:"message"`
	// Active incidents still stand in the way of work.
	Active bool `json:"active"`
}

// New returns the state of a session without facts.
func New(sessionID string) *Session {
	return &Session{Version: Version, SessionID: sessionID}
}

// Apply folds one fact. Events must come in sequence, without gaps; an event
// that doesn't follow is a bug of the caller and changes nothing. What left the
// working set is returned.
func (s *Session) Apply(e *event.Event) ([]Evicted, error) {
	if e.Sequence != s.Sequence+1 {
		return nil, fmt.Errorf("state: session %s is at %d, the next fact is %d", s.SessionID, s.Sequence, e.Sequence)
	}
	if e.SessionID != s.SessionID {
		return nil, fmt.Errorf("state: fact %s of session %s in session %s", e.ID, e.SessionID, s.SessionID)
	}
	s.Sequence = e.Sequence
	s.UpdatedAt = e.Time
	if s.RuntimeID == "" {
		s.RuntimeID = e.RuntimeID
	}
	f := fold{s: s, e: e}
	if ref := event.ConfigurationOf(e.Payload); ref != "" {
		s.ConfigurationRef = ref
	}
	f.apply()
	f.followPeers()
	t := s.Thread(e.ThreadID)
	if t != nil {
		t.LastSequence, t.LastAt = e.Sequence, e.Time
	}
	s.Telemetry.apply(e, t)
	return f.evicted, nil
}

// NeedsPayload reports whether the fold of a fact of that type looks at its payload. Most
// facts of a long answer need none, and reading them is most of the work.
func NeedsPayload(t event.Type) bool {
	switch t { //nolint:exhaustive // all others do
	case event.TypeModelDelta, event.TypeReasoningDelta, event.TypeReasoningSummary:
		return false
	}
	return true
}

// Encode returns the state's canonical bytes: equal states have equal bytes.
func (s *Session) Encode() []byte { return s.AppendTo(nil) }

// AppendTo appends the bytes of [Session.Encode].
func (s *Session) AppendTo(dst []byte) []byte { return appendSession(dst, s) }

// Decode returns the state in b. A state of another [Version] is an error.
func Decode(b []byte) (*Session, error) {
	s, err := decode(b)
	if err == nil && s.Version != Version {
		return nil, otherVersion(s)
	}
	return s, err
}

// DecodeBase returns the state in b, which stands for facts that are gone. One of an
// earlier version is taken as it is: what it lacks is not known of that time.
func DecodeBase(b []byte) (*Session, error) {
	s, err := decode(b)
	if err != nil {
		return nil, err
	}
	if s.Version < oldestBase || s.Version > Version {
		return nil, otherVersion(s)
	}
	s.Version = Version // from here on it is folded by this one
	return s, nil
}

func decode(b []byte) (*Session, error) {
	s := &Session{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("state: decode: %w", err)
	}
	return s, nil
}

func otherVersion(s *Session) error {
	return fmt.Errorf("state: stored by fold version %d, this is %d", s.Version, Version)
}

// Thread returns a thread that is not archived, or nil.
func (s *Session) Thread(id string) *Thread {
	for _, t := range s.Threads {
		if t.ThreadID == id {
			return t
		}
	}
	return nil
}

// MainThread returns the thread that takes turns for which no thread is named,
// or nil in a session that has none yet.
func (s *Session) MainThread() *Thread {
	for _, t := range s.Threads {
		if t.Role == "main" || t.Role == "fork" {
			return t
		}
	}
	if len(s.Threads) > 0 {
		return s.Threads[0]
	}
	return nil
}

// HasOpenWork reports whether the session has anything that a restart must look
// at: a turn that isn't finished, a waiting action, unfinished tasks, jobs,
// subagents, trials or processes.
func (s *Session) HasOpenWork() bool {
	for _, t := range s.Threads {
		if t.Active != nil || len(t.Queue) > 0 || (t.Context != nil && t.Context.Running != nil) {
			return true
		}
	}
	return len(s.Actions.Pending) > 0 || len(s.History.RunningRollbacks) > 0 || s.Tasks.open() || s.Jobs.open() || len(s.Schedules.Open) > 0 || s.Benchmark.open() || s.Subagents.open() || s.Environment.open()
}

// recent appends to a bounded list, dropping the oldest.
func recent[T any](list []T, v T, keep int) []T {
	if len(list) < keep {
		return append(list, v)
	}
	copy(list, list[1:])
	list[len(list)-1] = v
	return list
}
