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
	OutputRef    string    `json:"outputRef"`
	ThreadID     string    `json:"threadId,omitempty"`
	TurnID       string    `json:"turnId,omitempty"`
	ToolCallID   string    `json:"toolCallId,omitempty"`
	ProcessID    string    `json:"processId,omitempty"`
	MediaType    string    `json:"mediaType"`
	Encoding     string    `json:"encoding,omitempty"`
	SizeBytes    int64     `json:"sizeBytes"`
	DroppedBytes int64     `json:"droppedBytes,omitempty"`
	Truncated    bool      `json:"truncated,omitempty"`
	Preview      string    `json:"preview,omitempty"`
	Owner        string    `json:"owner,omitempty"`
	Redactions   int64     `json:"redactions,omitempty"`
	ExpiresAt    time.Time `json:"expiresAt,omitzero"`
	// Expired says that the bytes are gone, ExpiredReason why.
	Expired       bool      `json:"expired,omitempty"`
	ExpiredReason string    `json:"expiredReason,omitempty"`
	At            time.Time `json:"at"`
	Sequence      uint64    `json:"sequence"`
}

// Redaction says that secrets were taken out before storing.
type Redaction struct {
	OutputRef  string    `json:"outputRef,omitempty"`
	ThreadID   string    `json:"threadId,omitempty"`
	TurnID     string    `json:"turnId,omitempty"`
	ToolCallID string    `json:"toolCallId,omitempty"`
	Count      int64     `json:"count"`
	Rules      []string  `json:"rules,omitempty"`
	Where      string    `json:"where,omitempty"`
	At         time.Time `json:"at"`
	Sequence   uint64    `json:"sequence"`
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
