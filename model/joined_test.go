package model_test

import (
	"fmt"
	"testing"

	"agentd/model"
)

// TestJoinedGrows shows that only new messages are added, and that a conversation
// that is another one is joined from its beginning.
func TestJoinedGrows(t *testing.T) {
	var added int
	join := func(r *model.Request, by string) string {
		added = 0
		return string(r.Joined(by, func(dst []byte, i int) []byte {
			added++
			return fmt.Appendf(dst, "%s%s ", by, r.Messages[i].Text)
		}))
	}
	message := func(text string) *model.Message { return &model.Message{Role: model.RoleUser, Text: text} }
	a, b, c, d := message("a"), message("b"), message("c"), message("d")
	for _, step := range []struct {
		messages []*model.Message
		by, want string
		adds     int
	}{
		{[]*model.Message{a, b}, "x", "xa xb ", 2},
		{[]*model.Message{a, b}, "x", "xa xb ", 0},
		{[]*model.Message{a, b, c}, "x", "xa xb xc ", 1},
		{[]*model.Message{a, d}, "x", "xa xd ", 2}, // taken back, and another one said
		{[]*model.Message{a}, "x", "xa ", 1},       // taken back
		{[]*model.Message{a, d}, "y", "ya yd ", 2}, // another form
		{[]*model.Message{a, d, b, c}, "y", "ya yd yb yc ", 2},
		{nil, "y", "", 0},
	} {
		got := join(&model.Request{Messages: step.messages}, step.by)
		if got != step.want || added != step.adds {
			t.Errorf("%q after %d additions, want %q after %d", got, added, step.want, step.adds)
		}
	}
}

// TestJoinedIsNotChanged shows that what an earlier request holds stays as it was.
func TestJoinedIsNotChanged(t *testing.T) {
	var messages []*model.Message
	var held [][]byte
	var copies []string
	for i := range 100 {
		messages = append(messages, &model.Message{Text: fmt.Sprint(i)})
		r := &model.Request{Messages: messages}
		b := r.Joined("x", func(dst []byte, i int) []byte { return append(append(dst, r.Messages[i].Text...), ',') })
		held, copies = append(held, b), append(copies, string(b))
	}
	for i := range held {
		if string(held[i]) != copies[i] {
			t.Fatalf("request %d was changed", i)
		}
	}
}
