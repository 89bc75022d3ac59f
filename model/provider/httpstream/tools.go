package httpstream

import (
	"bytes"
	"slices"

	"agentd/model"
)

// encodedTools is the list of tools in a vendor's form, as it was sent last.
type encodedTools struct {
	form  string
	specs []model.ToolSpec
	data  []byte
}

// Tools returns the list of tools in the vendor's form. Threads offer the same
// tools again and again, so the last list is kept. Form tells apart ways to encode
// the same list.
func (c *Conn) Tools(form string, specs []model.ToolSpec, encode func([]model.ToolSpec) []byte) []byte {
	if e := c.tools.Load(); e != nil && e.form == form && slices.EqualFunc(e.specs, specs, sameTool) {
		return e.data
	}
	e := &encodedTools{form: form, specs: slices.Clone(specs), data: encode(specs)}
	c.tools.Store(e)
	return e.data
}

func sameTool(a, b model.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
}
