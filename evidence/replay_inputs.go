package evidence

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"agentd/command"
	"agentd/event"
)

// inputsEnd puts what inputs refer to into them: the store of a replay is empty.
func (r *recording) inputsEnd() {
	for _, t := range r.c.Turns {
		t.Input = r.inlined(t.Input)
	}
	for i := range r.c.Acts {
		r.c.Acts[i].Input = r.inlined(r.c.Acts[i].Input)
	}
	if r.c.Parties == nil {
		return
	}
	for _, a := range r.c.Parties.Agents {
		if a.Spawn != nil {
			a.Spawn.Input = r.inlined(a.Spawn.Input)
		}
	}
}

// inlined is an input without references.
func (r *recording) inlined(input event.Raw) event.Raw {
	var parts []command.Part
	if json.Unmarshal(input, &parts) != nil || !slices.ContainsFunc(parts, func(p command.Part) bool { return p.Ref != "" }) {
		return input // a text, or parts that refer to nothing
	}
	for i := range parts {
		if parts[i].Ref == "" {
			continue
		}
		if !r.inline(&parts[i]) {
			r.limit("a part of an input is only there as its reference")
			return input
		}
	}
	out, err := json.Marshal(parts)
	if err != nil {
		return input
	}
	return out
}

// inline puts what a part refers to into it.
func (r *recording) inline(p *command.Part) bool {
	if r.content == nil {
		return false
	}
	b, err := r.content(p.Ref)
	switch {
	case err != nil:
		return false
	case p.Type != "ref":
		p.Ref, p.Data = "", base64.StdEncoding.EncodeToString(b)
	case utf8.Valid(b):
		*p = command.Part{Type: "text", Text: string(b)}
	default:
		return false
	}
	return true
}
