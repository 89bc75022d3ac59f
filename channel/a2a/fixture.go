package a2a

import (
	"encoding/json"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
)

// Behaviours that the protocol's test kit expects of an agent under test. It asks
// for one by the prefix of a message id. The agent behind the server learns of it by
// a mark in its input; see [FixtureIn].
const (
	fixtureMessage  = "tck-message-response"
	fixtureComplete = "tck-complete-task"
)

// fixtures are the prefixes; the longest that fits counts.
var fixtures = []string{
	fixtureComplete, "tck-artifact-text", "tck-artifact-file", "tck-artifact-file-url", "tck-artifact-data",
	fixtureMessage, "tck-input-required", "tck-reject-task",
	"tck-stream-001", "tck-stream-002", "tck-stream-003", "tck-stream-ordering-001",
	"tck-stream-artifact-text", "tck-stream-artifact-file", "tck-stream-artifact-chunked",
	"test-resubscribe-message-id",
}

// fixture is the behaviour that a message asks for, or "".
func (s *Server) fixture(messageID string) string {
	if !s.opt.Fixtures {
		return ""
	}
	best := ""
	for _, f := range fixtures {
		if strings.HasPrefix(messageID, f) && len(f) > len(best) {
			best = f
		}
	}
	if best == "" && strings.HasPrefix(messageID, "tck-") {
		return fixtureComplete
	}
	return best
}

const (
	markBegin = "[fixture "
	markEnd   = "]"
	// answerBegin is what an answer begins with that is parts of an artifact.
	answerBegin = "fixture-parts:"
)

func fixtureMark(name string) string { return markBegin + name + markEnd }

// FixtureIn returns the behaviour that the newest mark in a text asks for, or "".
func FixtureIn(text string) string {
	i := strings.LastIndex(text, markBegin)
	if i < 0 {
		return ""
	}
	name, _, _ := strings.Cut(text[i+len(markBegin):], markEnd)
	return name
}

// FixtureAnswer returns an answer of the agent that becomes an artifact with these
// parts.
func FixtureAnswer(parts ...*proto.Part) (string, error) {
	b, err := json.Marshal(parts)
	return answerBegin + string(b), err
}

// fixtureAnswer reports whether a text is, or may become, such an answer.
func fixtureAnswer(text string) bool {
	n := min(len(text), len(answerBegin))
	return text[:n] == answerBegin[:n]
}

// fixtureParts returns the parts of such an answer, or nil.
func fixtureParts(answer string) proto.ContentParts {
	rest, ok := strings.CutPrefix(answer, answerBegin)
	var parts proto.ContentParts
	if !ok || json.Unmarshal([]byte(rest), &parts) != nil {
		return nil
	}
	return parts
}

// directMessage is an answer without a task.
func directMessage(m *proto.Message, account string) *proto.Message {
	contextID := m.ContextID
	if contextID == "" {
		contextID = contextOf(account, m.ID)
	}
	return &proto.Message{
		ID: random(), Role: proto.MessageRoleAgent, ContextID: contextID, Parts: textParts("Direct message response"),
	}
}
