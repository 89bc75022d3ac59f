package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"agentd/event"
)

// Scopes of an approval.
const (
	// GrantOnce answers for the call that was asked about, and no other.
	GrantOnce = "once"
	// GrantSession answers for the same thing until the session ends or the grant
	// expires.
	GrantSession = "session"
)

// Grant is an approval that a person gave.
//
// It covers exactly what was approved, never more: the same tool with the same
// [Decision.Key]. The key is
//
//   - of a shell call: the line to the letter, its working directory, and
//     whether it runs in the background; outside of the sandbox also the content
//     of the files that the line names;
//   - of a file tool: the path, where it leads, and for a tool that searches the
//     folder; what is written may differ, unless the file bounds the agent;
//   - of another tool: the whole input.
//
// A call that asks to run outside of the sandbox has another key than the same
// call inside. A grant answers an ask, of a mode, a rule or a hook. It never
// answers a denial. To allow more than that, write a rule.
type Grant struct {
	// ID is what facts name it by.
	ID string
	// Tool is the tool's name.
	Tool string
	// Key of the decision that was approved.
	Key string
	// Scope is once or session; empty is session.
	Scope string
	// ToolCallID is the call that a grant for once is for.
	ToolCallID string
	// ExpiresAt ends it; zero is never.
	ExpiresAt time.Time
}

// GrantFrom makes a grant for the session of an approved action's scope, which is
// that of the decision ([event.PermissionEvaluated.Scope]). It reports false for
// a scope that has no key.
func GrantFrom(id, tool string, scope event.Raw, expires time.Time) (Grant, bool) {
	var s struct {
		Grant string `json:"grant"`
	}
	if json.Unmarshal(scope, &s) != nil || s.Grant == "" {
		return Grant{}, false
	}
	return Grant{ID: id, Tool: tool, Key: s.Grant, Scope: GrantSession, ExpiresAt: expires}, true
}

func (g *Grant) describe() string {
	if g.Scope == GrantOnce {
		return "once"
	}
	if g.ExpiresAt.IsZero() {
		return "for the session"
	}
	return "for the session, until " + g.ExpiresAt.UTC().Format(time.RFC3339)
}

// granted returns the grant that covers the call, or nil. The first in the order
// of ids, so that the order in which grants are given is irrelevant.
func (q *Question) granted(key string) *Grant {
	var found *Grant
	for i := range q.Grants {
		g := &q.Grants[i]
		if key == "" || g.Key != key || g.Tool != q.Tool.ToolName {
			continue
		}
		if !g.ExpiresAt.IsZero() && !g.ExpiresAt.After(q.Now) {
			continue
		}
		if g.Scope == GrantOnce && (g.ToolCallID == "" || g.ToolCallID != q.ToolCallID) {
			continue
		}
		if found == nil || g.ID < found.ID {
			found = g
		}
	}
	return found
}

// grantKey names what is approved. It is a hash, so that a scope tells no more
// than its other fields do, and redaction leaves it as it is.
func grantKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		for i, n := 0, len(p); n > 0; i, n = i+1, n>>8 {
			size[i] = byte(n)
		}
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
