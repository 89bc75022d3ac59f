package state

import (
	"time"

	"agentd/event"
)

// Outputs are the large outputs that live behind references.
type Outputs struct {
	// Recent holds the last stored ones, oldest first.
	Recent []*Output `json:"recent,omitempty"`
	// Redactions holds the last ones; RedactedCount counts all that was taken out.
	Redactions []Redaction `json:"redactions,omitempty"`
	// Spilled, Truncated, Redacted and Expired count the facts of each kind.
	Spilled       int64 `json:"spilled,omitempty"`
	Truncated     int64 `json:"truncated,omitempty"`
	Redacted      int64 `json:"redacted,omitempty"`
	Expired       int64 `json:"expired,omitempty"`
	StoredBytes   int64 `json:"storedBytes,omitempty"`
	DroppedBytes  int64 `json:"droppedBytes,omitempty"`
	RedactedCount int64 `json:"redactedCount,omitempty"`
}

// Output is one stored output.
type Output struct {
	// OutputRef is where the bytes are.
	OutputRef string `json:"outputRef"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// ProcessID is the process that it belongs to, if it belongs to one.
	ProcessID string `json:"processId,omitempty"`
	// MediaType of the content.
	MediaType string `json:"mediaType"`
	// Encoding of the bytes, if it is not that of the media type.
	Encoding string `json:"encoding,omitempty"`
	// SizeBytes is the size of the content.
	SizeBytes int64 `json:"sizeBytes"`
	// DroppedBytes counts the bytes that were not stored.
	DroppedBytes int64 `json:"droppedBytes,omitempty"`
	// Truncated says that not all of the output was stored.
	Truncated bool `json:"truncated,omitempty"`
	// Preview is the beginning of the output.
	Preview string `json:"preview,omitempty"`
	// Owner is the tool call or the process whose output it is.
	Owner string `json:"owner,omitempty"`
	// Redactions counts the secrets that were taken out.
	Redactions int64 `json:"redactions,omitempty"`
	// ExpiresAt is when the bytes go; absent if they stay.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Expired says that the bytes are gone.
	Expired bool `json:"expired,omitempty"`
	// ExpiredReason says why the bytes are gone.
	ExpiredReason string `json:"expiredReason,omitempty"`
	// At is when it was stored.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// Redaction says that secrets were taken out before storing.
type Redaction struct {
	// OutputRef is the output that they were taken out of.
	OutputRef string `json:"outputRef,omitempty"`
	// ThreadID is the thread that it belongs to.
	ThreadID string `json:"threadId,omitempty"`
	// TurnID is the turn that it belongs to.
	TurnID string `json:"turnId,omitempty"`
	// ToolCallID is the tool call that it belongs to, if it belongs to one.
	ToolCallID string `json:"toolCallId,omitempty"`
	// Count counts the secrets that were taken out.
	Count int64 `json:"count"`
	// Rules are the rules that found them.
	Rules []string `json:"rules,omitempty"`
	// Where says where they were.
	Where string `json:"where,omitempty"`
	// At is when it happened.
	At time.Time `json:"at"`
	// Sequence of the fact that says so.
	Sequence uint64 `json:"sequence"`
}

// output folds the facts of stored outputs.
func (f *fold) output() {
	switch p := f.e.Payload.(type) {
	case *event.OutputStored:
		f.outputStored(p)
	case *event.OutputRedacted:
		f.outputRedacted(p)
	case *event.OutputExpired:
		f.s.Outputs.Expired++
		if o := f.s.Outputs.find(p.OutputRef); o != nil {
			o.Expired, o.ExpiredReason = true, p.Reason
		}
	}
}

func (o *Outputs) find(ref string) *Output {
	if i := indexWhere(o.Recent, func(x *Output) bool { return x.OutputRef == ref }); i >= 0 {
		return o.Recent[i]
	}
	return nil
}

// outputStored notes an output. References name content, so the same one can be
// stored again: it is listed once.
func (f *fold) outputStored(p *event.OutputStored) {
	all := &f.s.Outputs
	all.DroppedBytes += p.DroppedBytes
	truncated := f.e.Type == event.TypeOutputTruncated
	if truncated {
		all.Truncated++
	} else {
		all.Spilled++
		all.StoredBytes += p.SizeBytes
	}
	o := &Output{OutputRef: p.OutputRef}
	if i := indexWhere(all.Recent, func(x *Output) bool { return x.OutputRef == p.OutputRef }); i >= 0 {
		o = all.Recent[i]
		all.Recent = removed(all.Recent, i)
	}
	o.ThreadID, o.TurnID, o.ToolCallID, o.ProcessID = f.e.ThreadID, f.e.TurnID, f.e.ToolCallID, f.e.ProcessID
	o.MediaType, o.Encoding, o.SizeBytes = p.MediaType, p.Encoding, p.SizeBytes
	o.DroppedBytes, o.Truncated = p.DroppedBytes, o.Truncated || truncated
	o.Preview, o.Owner, o.ExpiresAt = preview(p.Preview), p.Owner, journalTime(p.ExpiresAt)
	o.Expired, o.ExpiredReason = false, ""
	o.At, o.Sequence = f.e.Time, f.e.Sequence
	all.Recent = recent(all.Recent, o, keepRecent)
}

func (f *fold) outputRedacted(p *event.OutputRedacted) {
	all := &f.s.Outputs
	all.Redacted++
	all.RedactedCount += p.Count
	if o := all.find(p.OutputRef); o != nil {
		o.Redactions += p.Count
	}
	all.Redactions = recent(all.Redactions, Redaction{
		OutputRef: p.OutputRef, ThreadID: f.e.ThreadID, TurnID: f.e.TurnID, ToolCallID: f.e.ToolCallID,
		Count: p.Count, Rules: firstN(p.Rules, keepItems), Where: p.Where, At: f.e.Time, Sequence: f.e.Sequence,
	}, keepRecent)
}
