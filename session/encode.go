package session

import (
	"encoding/json"
	"strconv"
	"time"

	"agentd/command"
	"agentd/event"
)

// Each submission writes a session's summary and a turn's record. They are encoded
// by hand, to the bytes that [json.Marshal] would give without what is zero: its
// reflection took a tenth of the time until a turn is acknowledged.

// appendSummary appends the JSON of a session's summary, without what is zero.
func appendSummary(b []byte, s *command.SessionSummary) []byte {
	b = appendFirstSummary(b, s)
	b = appendOptional(b, `,"workspace":`, s.Workspace)
	if s.CostUSD != 0 {
		b = appendAny(append(b, `,"costUSD":`...), s.CostUSD)
	}
	b = appendCount(b, `,"inputTokens":`, s.InputTokens)
	b = appendCount(b, `,"outputTokens":`, s.OutputTokens)
	b = appendCount(b, `,"pendingActions":`, s.PendingActions)
	if len(s.Tags) > 0 {
		b = appendAny(append(b, `,"tags":`...), s.Tags)
	}
	if s.Pinned {
		b = append(b, `,"pinned":true`...)
	}
	if s.Archived {
		b = append(b, `,"archived":true`...)
	}
	return append(b, '}')
}

// firstSummary returns a summary as the first releases wrote it: an entry that was not
// written again since is still right.
func firstSummary(encoded []byte) []byte {
	var s command.SessionSummary
	if json.Unmarshal(encoded, &s) != nil {
		return nil
	}
	return append(appendFirstSummary(nil, &s), '}')
}

// appendFirstSummary appends what the first releases kept of a session, without its end.
func appendFirstSummary(b []byte, s *command.SessionSummary) []byte {
	b = appendText(append(b, `{"sessionId":`...), s.SessionID)
	b = appendOptional(b, `,"threadId":`, s.ThreadID)
	b = appendOptional(b, `,"title":`, s.Title)
	b = appendOptional(b, `,"account":`, s.Account)
	b = appendText(append(b, `,"status":`...), s.Status)
	b = appendTime(append(b, `,"createdAt":`...), s.CreatedAt)
	b = appendTime(append(b, `,"updatedAt":`...), s.UpdatedAt)
	return strconv.AppendInt(append(b, `,"turnCount":`...), s.TurnCount, 10)
}

func appendCount(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, key...), n, 10)
}

// appendTurn appends the JSON of a turn's record.
func appendTurn(b []byte, r *turnRecord) []byte {
	b = appendText(append(b, `{"threadId":`...), r.ThreadID)
	b = appendText(append(b, `,"taskId":`...), r.TaskID)
	b = appendText(append(b, `,"runId":`...), r.RunID)
	b = appendText(append(b, `,"status":`...), r.Status)
	if r.Position != 0 {
		b = strconv.AppendInt(append(b, `,"position":`...), r.Position, 10)
	}
	b = strconv.AppendUint(append(b, `,"sequence":`...), r.Sequence, 10)
	b = appendTime(append(b, `,"submittedAt":`...), r.Submitted)
	b = appendText(append(b, `,"digest":`...), r.Digest)
	b = appendOptional(b, `,"steers":`, r.Steers)
	return append(b, '}')
}

// appendAsked appends what a submission's digest is made of, each part on a line.
func appendAsked(b []byte, p *event.TurnSubmitted) []byte {
	if _, plain := command.PlainText(p.Input); plain {
		b = append(b, p.Input...)
	} else {
		b = appendAny(b, p.Input)
	}
	b = appendText(append(b, '\n'), p.InputRef)
	b = append(b, '\n')
	if p.Options == nil {
		b = append(b, "null"...)
	} else {
		b = appendAny(b, p.Options)
	}
	b = append(b, '\n')
	if p.Metadata == nil {
		b = append(b, "null"...)
	} else {
		b = appendAny(b, p.Metadata)
	}
	return append(b, '\n')
}

func appendOptional(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(append(b, key...), s)
}

func appendText(b []byte, s string) []byte {
	if !command.NeedsNoEscape(s) {
		return appendAny(b, s)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendTime appends a time; the years of our clocks have four digits.
func appendTime(b []byte, t time.Time) []byte {
	b = t.AppendFormat(append(b, '"'), time.RFC3339Nano)
	return append(b, '"')
}

func appendAny(b []byte, v any) []byte {
	enc, _ := json.Marshal(v) //nolint:errchkjson // these types always encode
	return append(b, enc...)
}
