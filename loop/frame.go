package loop

import (
	"context"
	"strings"

	"agentd/event"
	"agentd/model"
	"agentd/state"
)

// instructions stand above every conversation.
const instructions = `You are an agent that works for a person in a workspace of files. You act through tools and you are done when you answer without calling one.

- Look before you act: read what is there instead of guessing.
- Do what was asked, no more. Say what you did, what you could not do, and what you are not sure of.
- Prefer the file tools to the shell for reading and changing files. Paths are relative to the workspace.
- When a tool call is denied, do not try the same thing in another way: say what you need and why.
- When a tool call fails, read the message; it says what to do next.
`

// framed is the part of a request that stands above the conversation. It is kept
// while what it is made of stays the same.
type framed struct {
	context uint64
	digest  string
	schema  bool
	system  string
	tools   []model.ToolSpec
}

// fillRequest fills in a request: instructions, tools and messages.
func (l *Loop) fillRequest(ctx context.Context, r *model.Request, conv *conversation, info model.Info, resolved *state.ResolvedContext, inv *state.ToolInventory) error {
	r.Messages = conv.messages
	want := framed{schema: len(conv.schema) > 0 && len(r.OutputSchema) == 0}
	if resolved != nil {
		want.context = resolved.Sequence
	}
	if inv != nil {
		want.digest = inv.Digest
	}
	if f := conv.framed; f == nil || f.context != want.context || f.digest != want.digest || f.schema != want.schema {
		if err := l.buildMessages(ctx, &want, conv.schema, resolved, inv); err != nil {
			return err
		}
		conv.framed = &want
	}
	r.System = conv.framed.system
	if info.Can(model.CapTools) {
		r.Tools = conv.framed.tools
	}
	return nil
}

func (l *Loop) buildMessages(ctx context.Context, f *framed, schema event.Raw, resolved *state.ResolvedContext, inv *state.ToolInventory) error {
	var b strings.Builder
	b.WriteString(l.opt.Instructions)
	if resolved != nil {
		for _, item := range resolved.Items {
			b.WriteString(roleText(item))
			if item.Kind != "file" || item.Ref == "" {
				continue
			}
			text, err := readBlob(ctx, l.opt.Store, item.Ref, maxContextFile)
			if err != nil {
				return err
			}
			b.WriteString("\n# " + item.Title + "\n\n" + text + "\n")
		}
	}
	if f.schema {
		b.WriteString("\nYour final answer must be one JSON value that satisfies this JSON Schema, without any other text:\n" + string(schema) + "\n")
	}
	f.system = b.String()
	if inv == nil {
		return nil
	}
	var clients map[string]event.ToolInfo
	f.tools = make([]model.ToolSpec, 0, len(inv.Tools))
	for _, t := range inv.Tools {
		if t.Policy == "denied" || t.Policy == "unavailable" {
			continue
		}
		if t.RuntimeOwner == "client" {
			if clients == nil {
				var err error
				if clients, err = l.clientSpecs(ctx, inv); err != nil {
					return err
				}
			}
			if i, ok := clients[t.ToolName]; ok {
				f.tools = append(f.tools, model.ToolSpec{Name: i.ToolName, Description: i.Description, Schema: i.InputSchema})
			}
			continue
		}
		if x, ok := l.opt.Tools.Get(t.ToolName); ok {
			i := x.Offer(t.Escalates)
			f.tools = append(f.tools, model.ToolSpec{Name: i.ToolName, Description: i.Description, Schema: i.InputSchema})
		}
	}
	return nil
}
