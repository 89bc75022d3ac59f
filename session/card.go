package session

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/internal/clip"
	"agentd/state"
	"agentd/store"
)

// A card is what lists know of a thing: enough to filter, order and count, and no more.
// Cards are index entries, written with the facts that change them, under the account
// and the session of the thing. So a list reads the cards that its caller may see, and
// the records of one page.

// CardKind is a kind of things that have cards.
type CardKind string

// Kinds of things that have cards, and so lists.
const (
	TaskCards     CardKind = "task"
	ActionCards   CardKind = "action"
	JobCards      CardKind = "job"
	ProcessCards  CardKind = "process"
	ArtifactCards CardKind = "artifact"
	TrialCards    CardKind = "trial"
	ExportCards   CardKind = "export"
	// PendingCards are those of the actions that wait for an answer.
	PendingCards CardKind = "pending"
)

// cardKinds are all kinds of cards.
func cardKinds() []CardKind {
	return []CardKind{TaskCards, ActionCards, PendingCards, JobCards, ProcessCards, ArtifactCards, TrialCards, ExportCards}
}

// entryKind is the kind of the index entries: account, session and id → the card.
func (k CardKind) entryKind() string { return "card_" + string(k) }

// isCard reports whether a kind of index entries holds cards.
func isCard(kind string) bool { return strings.HasPrefix(kind, "card_") }

// Card is a thing in a session as lists know it.
type Card struct {
	// Account and SessionID are whose thing it is and where, ID is its own.
	Account, SessionID, ID string
	// Status, Type and Tool are what lists filter by; what a type is depends on the
	// thing. Parent and Group name things that it belongs to.
	Status, Type, Tool, Parent, Group string
	// Workspace is the folder that the session worked in when the card was written.
	Workspace string
	// Created and Updated are keys of [command.TimeKey].
	Created, Updated string
	// Figure is what the thing can be ordered by beside times: a cost or a size.
	Figure float64
	// Title is for people, Text is searched with it.
	Title, Text string
	// Record is the whole record of a thing that is kept nowhere else.
	Record event.Raw
}

const (
	maxCardTitle = 200
	maxCardText  = 300
)

func cardPrefix(account, sessionID string) string {
	return accountPrefix(account) + sessionID + "/"
}

func accountPrefix(account string) string { return url.PathEscape(account) + "/" }

// cardOp writes a card. Its fields are lines, because a list reads many of them.
func cardOp(kind CardKind, c *Card) store.IndexOp {
	fields := []string{
		c.Status, c.Type, c.Tool, c.Parent, c.Group, c.Workspace, c.Created, c.Updated,
		strconv.FormatFloat(c.Figure, 'g', -1, 64), clip.Text(c.Title, maxCardTitle), clip.Text(c.Text, maxCardText),
	}
	for i, f := range fields {
		if strings.Contains(f, "\n") {
			fields[i] = strings.ReplaceAll(f, "\n", " ")
		}
	}
	value := append([]byte(strings.Join(fields, "\n")+"\n"), c.Record...)
	return putOp(kind.entryKind(), cardPrefix(c.Account, c.SessionID)+c.ID, value)
}

func removeCardOp(kind CardKind, c *Card) store.IndexOp {
	return removeOp(kind.entryKind(), cardPrefix(c.Account, c.SessionID)+c.ID)
}

// cardLines is how many fields a card has before its record.
const cardLines = 11

// readCard reads a card; false if the entry isn't one.
func readCard(e *store.Entry) (*Card, bool) {
	account, rest, ok := strings.Cut(e.Key, "/")
	sessionID, id, ok2 := strings.Cut(rest, "/")
	fields := strings.SplitN(string(e.Value), "\n", cardLines+1)
	if !ok || !ok2 || len(fields) != cardLines+1 {
		return nil, false
	}
	account, err := url.PathUnescape(account)
	if err != nil {
		return nil, false
	}
	c := &Card{
		Account: account, SessionID: sessionID, ID: id, Status: fields[0], Type: fields[1], Tool: fields[2], Parent: fields[3], Group: fields[4],
		Workspace: fields[5], Created: fields[6], Updated: fields[7], Title: fields[9], Text: fields[10], Record: event.Raw(fields[11]),
	}
	c.Figure, err = strconv.ParseFloat(fields[8], 64)
	return c, err == nil
}

// newCard returns a card of a thing in a session.
func newCard(st *state.Session, id string) *Card {
	return &Card{Account: st.Account, SessionID: st.SessionID, ID: id, Workspace: st.WorkspaceRoot()}
}

// indexCards appends the cards that a fact changes, given the state after it.
func indexCards(ops []store.IndexOp, st *state.Session, e *event.Event) []store.IndexOp {
	switch p := e.Payload.(type) {
	case *event.TaskCreated, *event.TaskStatusChanged, *event.TaskUpdated, *event.TaskProgressed, *event.TaskCompleted,
		*event.TaskDelegated, *event.TaskDependencyUpdated, *event.TaskAttemptStarted, *event.TaskAttemptCompleted, *event.TaskAttemptFailed:
		if t := st.Tasks.Find(e.TaskID); t != nil && t.TaskKind != state.TaskKindTurn {
			return append(ops, cardOp(TaskCards, TaskCard(st, t)))
		}
	case *event.ActionRequired, *event.ActionResolved:
		if a := st.Actions.Find(e.ActionID); a != nil {
			return append(ops, actionCardOps(st, a)...)
		}
	case *event.JobCreated, *event.JobStatusChanged, *event.JobHeld:
		if j := st.Jobs.Find(e.JobID); j != nil {
			return append(ops, cardOp(JobCards, jobCard(st, j)))
		}
	case *event.ProcessStarted, *event.ProcessCompleted, *event.ProcessFailed, *event.ProcessTerminated:
		if x := st.Environment.Find(e.ProcessID); x != nil {
			return append(ops, cardOp(ProcessCards, processCard(st, x)))
		}
	case *event.ArtifactChanged:
		if a := st.Artifacts.Find(e.ArtifactID); a != nil {
			return append(ops, cardOp(ArtifactCards, artifactCard(st, a)))
		}
	case *event.BenchmarkTrialStarted, *event.BenchmarkTrialEnded, *event.BenchmarkRewardRecorded:
		if t := st.Benchmark.Find(e.Benchmark.TrialID); t != nil {
			return append(ops, cardOp(TrialCards, trialCard(st, t)))
		}
	case *event.EvidenceChanged:
		entry := state.EvidenceEntry{
			EvidenceID: e.EvidenceID, Kind: p.Kind, ThreadID: e.ThreadID, TurnID: e.TurnID, TaskID: e.TaskID,
			PackRef: p.PackRef, ReplayRef: p.ReplayRef, ReviewRef: p.ReviewRef, ChainSequence: p.ChainSequence, At: e.Time, Sequence: e.Sequence,
		}
		if c := exportCard(st, &entry); c != nil {
			return append(ops, cardOp(ExportCards, c))
		}
	}
	return ops
}

// TaskCard is the card of a task.
func TaskCard(st *state.Session, t *state.Task) *Card {
	c := newCard(st, t.TaskID)
	c.Status, c.Type, c.Parent, c.Group = t.Status, t.TaskKind, t.ParentTaskID, t.JobID
	c.Created, c.Updated = timeKey(t.CreatedAt), timeKey(t.UpdatedAt)
	c.Figure, c.Title, c.Text = t.CostUSD, t.Title, t.Objective
	return c
}

func actionCard(st *state.Session, a *state.Action) *Card {
	c := newCard(st, a.ActionID)
	c.Status, c.Type, c.Tool, c.Parent, c.Group = a.Status, a.ActionType, a.ToolName, a.TurnID, a.ThreadID
	c.Created, c.Updated = timeKey(a.CreatedAt), timeKey(a.CreatedAt)
	if !a.ResolvedAt.IsZero() {
		c.Updated = timeKey(a.ResolvedAt)
	}
	c.Title, c.Text = a.Prompt, a.ToolName+" "+a.Reason
	return c
}

// actionCardOps write the cards of an action: one more while it is pending, because the
// few that are pending are asked for often.
func actionCardOps(st *state.Session, a *state.Action) []store.IndexOp {
	c := actionCard(st, a)
	if a.Status == state.ActionPending {
		return []store.IndexOp{cardOp(ActionCards, c), cardOp(PendingCards, c)}
	}
	return []store.IndexOp{cardOp(ActionCards, c), removeCardOp(PendingCards, c)}
}

func jobCard(st *state.Session, j *state.Job) *Card {
	c := newCard(st, j.JobID)
	c.Status, c.Parent = j.Status, j.TaskID
	c.Created = timeKey(j.CreatedAt)
	c.Updated = slices.Max([]string{c.Created, timeKey(j.StartedAt), timeKey(j.EndedAt)})
	c.Figure, c.Title, c.Text = float64(j.ItemCount), j.Title, j.Instruction
	return c
}

func processCard(st *state.Session, x *state.Process) *Card {
	c := newCard(st, x.ProcessID)
	c.Status, c.Parent, c.Group = x.Status, x.TurnID, x.ThreadID
	c.Type = "foreground"
	if x.Background {
		c.Type = "background"
	}
	c.Created = timeKey(x.StartedAt)
	c.Updated = max(c.Created, timeKey(x.EndedAt))
	c.Figure, c.Title, c.Text = float64(x.DurationMs), strings.Join(x.Command, " "), x.Cwd
	return c
}

func artifactCard(st *state.Session, a *state.Artifact) *Card {
	c := newCard(st, a.ArtifactID)
	c.Status, c.Type, c.Parent, c.Group = a.Change, a.Kind, a.TurnID, a.TaskID
	c.Created, c.Updated = timeKey(a.FirstSeenAt), timeKey(a.UpdatedAt)
	c.Figure, c.Title, c.Text = float64(a.SizeBytes), a.Title, a.URI+" "+a.MediaType
	return c
}

func trialCard(st *state.Session, t *state.Trial) *Card {
	c := newCard(st, t.TrialID)
	c.Status, c.Type, c.Parent, c.Group = t.Status, t.Benchmark.Role, t.Benchmark.ConfigurationID, t.Benchmark.DatasetID
	c.Created = timeKey(t.StartedAt)
	c.Updated = max(c.Created, timeKey(t.EndedAt))
	if t.Reward != nil {
		c.Updated = max(c.Updated, timeKey(t.Reward.At))
	}
	if t.CostUSD != nil {
		c.Figure = *t.CostUSD
	}
	c.Title, c.Text = t.Benchmark.TaskID, t.Benchmark.DatasetID+" "+t.Benchmark.ConfigurationID
	return c
}

// exportCard is the card of an export, nil for other evidence. The working set keeps
// only the newest evidence, so the card has the record.
func exportCard(st *state.Session, x *state.EvidenceEntry) *Card {
	record := command.ExportRecord{
		EvidenceID: x.EvidenceID, Type: x.Kind, SessionID: st.SessionID, ThreadID: x.ThreadID, TurnID: x.TurnID, TaskID: x.TaskID,
		ThroughSequence: x.ChainSequence, CreatedAt: x.At,
	}
	switch x.Kind {
	case "evidence", "benchmark_trial":
		record.Ref = x.PackRef
	case "replay":
		record.Ref = x.ReplayRef
	case "review":
		record.Ref = x.ReviewRef
	}
	if record.Ref == "" {
		return nil
	}
	c := newCard(st, x.EvidenceID)
	c.Type, c.Parent, c.Group = x.Kind, x.TurnID, x.TaskID
	c.Created, c.Updated, c.Text = timeKey(x.At), timeKey(x.At), x.Kind
	c.Record, _ = json.Marshal(record) //nolint:errchkjson // it always encodes
	return c
}
