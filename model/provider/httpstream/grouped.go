package httpstream

import "agentd/model"

// Grouped is the form of conversations in which the blocks of neighbours with the
// same role stand in one entry, and a tool's result is the user's.
type Grouped struct {
	// Form names the form; see [model.Request.Joined].
	Form string
	// Assistant is the model's role, Blocks the member that holds an entry's blocks.
	Assistant string
	Blocks    string
	// Encode returns a message's blocks, with commas between them. A message without
	// blocks is left out.
	Encode func(*model.Message) []byte
	// Before is a block of the user's that stands before a conversation which the model
	// begins; nil if there is none.
	Before []byte
}

// Join returns the conversation without the end of its last entry, which is
// [GroupedEnd]; nothing if there is no entry.
func (g *Grouped) Join(r *model.Request) []byte {
	return r.Joined(g.Form, func(dst []byte, i int) []byte {
		blocks := g.Encode(r.Messages[i])
		if len(blocks) == 0 {
			return dst
		}
		return append(g.separate(dst, r.Messages, i), blocks...)
	})
}

// GroupedEnd is the end of an entry.
const GroupedEnd = "]}"

// separate appends what stands between the blocks of the i-th message and those
// before.
func (g *Grouped) separate(dst []byte, messages []*model.Message, i int) []byte {
	role := g.role(messages[i])
	if len(dst) > 0 {
		if g.before(messages, i) == role {
			return append(dst, ',')
		}
		dst = append(dst, GroupedEnd+","...)
	} else if g.Before != nil && role == g.Assistant {
		dst = append(append(g.open(dst, user), g.Before...), GroupedEnd+","...)
	}
	return g.open(dst, role)
}

const user = "user"

func (g *Grouped) role(m *model.Message) string {
	if m.Role == model.RoleAssistant {
		return g.Assistant
	}
	return user
}

// before is the role of the entry that the i-th message follows.
func (g *Grouped) before(messages []*model.Message, i int) string {
	for i--; i >= 0; i-- {
		if len(g.Encode(messages[i])) > 0 {
			return g.role(messages[i])
		}
	}
	return ""
}

func (g *Grouped) open(dst []byte, role string) []byte {
	return append(append(append(append(append(dst, `{"role":"`...), role...), `","`...), g.Blocks...), `":[`...)
}

// UserEnds returns where the last n entries of the user's end in what Join
// returned, the last one first.
func (g *Grouped) UserEnds(joined []byte, messages []*model.Message, n int) []int {
	var ends []int
	end, last := len(joined), ""
	for i := len(messages) - 1; i >= 0 && len(ends) < n; i-- {
		blocks := g.Encode(messages[i])
		if len(blocks) == 0 {
			continue
		}
		role := g.role(messages[i])
		if role == user && last != user {
			ends = append(ends, end)
		}
		last = role
		if end -= len(blocks); g.before(messages, i) == role {
			end-- // the comma
		} else {
			end -= len(g.open(nil, role)) + len(GroupedEnd+",")
		}
	}
	return ends
}
