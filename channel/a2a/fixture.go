//go:build interopfixtures

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
	fixtureDirect   = "tck-message-response"
	fixtureComplete = "tck-complete-task"
)

// fixtures are the prefixes; the longest that fits counts.
var fixtures = []string{
	fixtureComplete, "tck-artifact-text", "tck-artifact-file", "tck-artifact-file-url", "tck-artifact-data",
	fixtureDirect, "tck-input-required", "tck-reject-task",
	"tck-stream-001", "tck-stream-002", "tck-stream-003", "tck-stream-ordering-001",
	"tck-stream-artifact-text", "tck-stream-artifact-file", "tck-stream-artifact-chunked",
	"test-resubscribe-message-id",
}

// fixtureOptions are the part of [Options] that only builds for the test kit have.
type fixtureOptions struct {
	// Fixtures makes the server behave as the protocol's test kit expects, by the
	// prefix of the message id.
	Fixtures bool
}

// fixture is the behaviour that a message asks for, or "".
func (o fixtureOptions) fixture(messageID string) string {
	if !o.Fixtures {
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

// isFixture reports whether a message asks for a behaviour.
func (o fixtureOptions) isFixture(messageID string) bool { return o.fixture(messageID) != "" }

// fixtureMark is the mark of the behaviour that a message asks for, or "".
func (o fixtureOptions) fixtureMark(messageID string) string {
	f := o.fixture(messageID)
	if f == "" {
		return ""
	}
	return markBegin + f + markEnd
}

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

// isFixtureAnswer reports whether a text is, or may become, such an answer.
func (o fixtureOptions) isFixtureAnswer(text string) bool {
	if !o.Fixtures {
		return false
	}
	n := min(len(text), len(answerBegin))
	return text[:n] == answerBegin[:n]
}

// fixtureParts returns the parts of such an answer, or nil.
func (o fixtureOptions) fixtureParts(answer string) proto.ContentParts {
	rest, ok := strings.CutPrefix(answer, answerBegin)
	var parts proto.ContentParts
	if !ok || !o.Fixtures || json.Unmarshal([]byte(rest), &parts) != nil {
		return nil
	}
	return parts
}

// fixtureMessage is the answer without a task that a message asks for, or nil.
func (o fixtureOptions) fixtureMessage(m *proto.Message, account string) *proto.Message {
	if o.fixture(m.ID) != fixtureDirect {
		return nil
	}
	contextID := m.ContextID
	if contextID == "" {
		contextID = contextOf(account, m.ID)
	}
	return &proto.Message{
		ID: random(), Role: proto.MessageRoleAgent, ContextID: contextID, Parts: textParts("Direct message response"),
	}
}
