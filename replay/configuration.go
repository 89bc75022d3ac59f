package replay

import (
	"encoding/json"
	"fmt"

	"agentd/loop"
)

// readConfiguration makes what a fact refers to the configuration; nothing if it
// refers to none.
func (w *walk) readConfiguration(ref string) {
	if ref == "" {
		return
	}
	c := &loop.Configuration{}
	if w.configuration = nil; w.decodeRef("configuration", ref, c) {
		w.configuration = w.withChanges(c)
	}
}

// readConfinement does the same for what confines commands.
func (w *walk) readConfinement(ref string) {
	if ref == "" {
		return
	}
	c := &loop.Confinement{}
	if w.confinement = nil; w.decodeRef("confinement", ref, c) {
		w.confinement = c
	}
}

// withChanges is a configuration with what is tried instead.
func (w *walk) withChanges(c *loop.Configuration) *loop.Configuration {
	if c == nil || w.opt.Change == nil {
		return c
	}
	other := *c
	w.opt.Change(&other)
	return &other
}

// decodeRef decodes what is behind a reference; what can't be read is missing.
func (w *walk) decodeRef(what, ref string, into any) bool {
	b, err := w.rec.Content(ref)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		w.missing[fmt.Sprintf("the %s %s: %v", what, ref, err)] = true
	}
	return err == nil
}

// hasConfiguration reports whether there is a configuration to decide under, and counts the
// decision.
func (w *walk) hasConfiguration() bool {
	if w.configuration == nil {
		w.missing["the configuration that decisions were made under"] = true
		return false
	}
	w.report.Decisions++
	return true
}
