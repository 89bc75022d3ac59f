package command

import (
	"time"

	"agentd/event"
)

// StartReplay begins to decide again what was recorded.
type StartReplay struct {
	// SessionID is the session whose decisions are made again.
	SessionID string `json:"sessionId,omitempty" check:"id"`
	// Ref is a case that export_replay returned, instead of a session.
	Ref string `json:"ref,omitempty" max:"512"`
	// EvidenceID is an export, instead of a session: a case is replayed as it was exported,
	// a pack as far as its facts go. A review holds nothing that could be.
	EvidenceID string `json:"evidenceId,omitempty" check:"id"`
	// With is what is tried instead of what was; absent, it is checked that the same is
	// decided.
	With *ReplayChange `json:"with,omitempty"`
	// Edited accepts a case that was changed since its export as a what-if.
	Edited bool `json:"edited,omitempty"`
}

// ReplayChange is what a replay tries.
type ReplayChange struct {
	// Mode of every call.
	Mode string `json:"mode,omitempty" enum:"@permissionMode"`
	// Rules take the place of the host's.
	Rules []event.PolicyRule `json:"rules,omitzero" max:"10000"`
	// MaxSteps bounds the model calls of a turn.
	MaxSteps int64 `json:"maxSteps,omitempty"`
	// Models are all that there are, of those that there were, each as provider/model.
	Models []string `json:"models,omitempty" max:"1000"`
}

// Command implements [Params].
func (*StartReplay) Command() Name         { return "start_replay" }
func (*StartReplay) returns(*ReplayRecord) {}

// Validate implements [Params].
func (p *StartReplay) Validate() error {
	return firstError(check(p), oneChoice("sessionId", "sessionId, ref or evidenceId", p.SessionID != "", p.Ref != "", p.EvidenceID != ""))
}

// GetReplay returns how far a replay is.
type GetReplay struct {
	// ReplayID is the replay's id.
	ReplayID string `json:"replayId" check:"id"`
}

// Command implements [Params].
func (*GetReplay) Command() Name         { return "get_replay" }
func (*GetReplay) returns(*ReplayRecord) {}

// Validate implements [Params].
func (p *GetReplay) Validate() error { return check(p) }

// CancelReplay ends a replay.
type CancelReplay struct {
	// ReplayID is the replay's id.
	ReplayID string `json:"replayId" check:"id"`
}

// Command implements [Params].
func (*CancelReplay) Command() Name         { return "cancel_replay" }
func (*CancelReplay) returns(*ReplayRecord) {}

// Validate implements [Params].
func (p *CancelReplay) Validate() error { return check(p) }

// ReplayRecord is a replay, its progress and its result.
type ReplayRecord struct {
	// ReplayID is the replay's id.
	ReplayID string `json:"replayId"`
	// SessionID whose decisions are made again.
	SessionID string `json:"sessionId"`
	// EvidenceID is the export that is replayed, if it was named by its id.
	EvidenceID string `json:"evidenceId,omitempty"`
	// Status of the replay.
	Status string `json:"status" enum:"running completed failed cancelled"`
	// StartedAt is when it began.
	StartedAt time.Time `json:"startedAt"`
	// EndedAt is when it ended; absent while it runs.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// Facts counts those that were walked so far.
	Facts int64 `json:"facts"`
	// Total counts those that there are.
	Total int64 `json:"total"`
	// Decisions counts those that were compared; known at the end.
	Decisions int64 `json:"decisions"`
	// Same says that the same would be decided; absent before the end.
	Same *bool `json:"same,omitempty"`
	// Differences are the first 100 decisions that would be others, in the order of the
	// facts; without a change only the first.
	Differences []ReplayDifference `json:"differences"`
	// DifferenceCount counts all of them.
	DifferenceCount int64 `json:"differenceCount"`
	// Missing says what decisions depended on and can't be read any more; those were not
	// compared.
	Missing []string `json:"missing"`
	// Integrity of a case: verified, changed or unsigned; absent for a session.
	Integrity string `json:"integrity,omitempty" enum:"verified changed unsigned"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
}

// ReplayDifference is a decision that would be another one.
type ReplayDifference struct {
	// Sequence of the recorded fact.
	Sequence uint64 `json:"sequence"`
	// EventID of the recorded fact.
	EventID string `json:"eventId"`
	// Type of the recorded fact.
	Type string `json:"type"`
	// Of says what the fact belongs to: "turn 1", or "turn 1, call 2".
	Of string `json:"of"`
	// Expected is what is decided now.
	Expected string `json:"expected"`
	// Found is what was recorded.
	Found string `json:"found"`
	// Says is for people.
	Says string `json:"says"`
}

// replayDefs are the catalogue's entries for replays.
func replayDefs() []Def {
	return []Def{
		{
			Name: "start_replay", Noun: "replay", Form: formOf[StartReplay, ReplayRecord](),
			Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Begins to decide again what was recorded, as it was or with a change.",
			Doc:     "Nothing is asked, executed or written. It returns at once; get_replay, on the same node, shows how far it is and what came out. Four run at a time for each runtime, two of them for one account, and it ends with the runtime. Rules and limits are tried as agentd replay --with does.",
			Example: `{"sessionId":"sess_docs","with":{"mode":"plan"}}`,
		},
		{
			Name: "get_replay", Noun: "replay", Form: formOf[GetReplay, ReplayRecord](),
			Scope: RoleObserver, Available: true, Since: "0.2",
			Means:   "Returns the progress and the result of a replay.",
			Doc:     "The last 100 replays of each account are kept while the process runs. Those of other accounts are not found.",
			Example: `{"replayId":"replay_1"}`,
		},
		{
			Name: "cancel_replay", Noun: "replay", Form: formOf[CancelReplay, ReplayRecord](),
			Scope: RoleClient, Available: true, Since: "0.2",
			Means:   "Ends a replay that runs.",
			Doc:     "One that has ended stays as it is.",
			Example: `{"replayId":"replay_1"}`,
		},
	}
}
