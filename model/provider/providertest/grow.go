package providertest

import (
	"bytes"
	"encoding/json"
	"testing"

	"agentd/event"
	"agentd/model"
)

// BodiesGrow sends a conversation again and again while it grows: each request is
// the same as one that was never sent before. It returns the last one.
func BodiesGrow(t *testing.T, name string, body func(*model.Request) []byte) (last []byte) {
	t.Helper()
	picture := []model.Media{{MediaType: "image/png", Data: []byte{4}}}
	call := func(ids ...string) *model.Message {
		m := &model.Message{Role: model.RoleAssistant}
		for _, id := range ids {
			m.ToolCalls = append(m.ToolCalls, model.ToolCall{ProviderID: id, Name: "shell", Arguments: event.Raw(`{}`)})
		}
		return m
	}
	result := func(id string, media []model.Media) *model.Message {
		return &model.Message{Role: model.RoleTool, ToolCallID: id, ToolName: "shell", Text: "r " + id, Media: media}
	}
	all := []*model.Message{
		{Role: model.RoleUser, Text: "a"},
		call("1", "2"), result("1", picture), result("2", picture), call("3"), result("3", nil),
		call("4"), result("4", picture),
		{Role: model.RoleUser, Text: "b", Media: picture},
		{Role: model.RoleAssistant, Text: "c"},
		{Role: model.RoleUser, Text: "d"},
		{Role: model.RoleAssistant}, // says nothing
		{Role: model.RoleUser, Text: "e"},
	}
	for _, messages := range [][]*model.Message{all, all[1:]} { // begun by the user, and by the model
		for _, system := range []string{"", "Be kind."} {
			for n := range len(messages) + 1 {
				var fresh []*model.Message
				for _, m := range messages[:n] {
					fresh = append(fresh, &model.Message{Role: m.Role, Text: m.Text, Media: m.Media, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, ToolName: m.ToolName})
				}
				got := body(&model.Request{Model: name, System: system, Messages: messages[:n]})
				want := body(&model.Request{Model: name, System: system, Messages: fresh})
				if !json.Valid(got) || !bytes.Equal(got, want) {
					t.Fatalf("%d messages: %s\nwant %s", n, got, want)
				}
				last = got
			}
		}
	}
	return last
}
