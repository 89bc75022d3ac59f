package permission

import (
	"path"

	"agentd/event"
	"agentd/tool/toolkind"
)

// Cover says which files deny rules keep from tools, so that the sandbox can keep them
// from programs too.
//
// A Cover may be used by many goroutines.
type Cover struct {
	root  string
	rules []rule
}

// NewCover returns nil if no deny rule with a pattern is about file tools. root is the
// workspace, which relative patterns start from.
func NewCover(rules []event.PolicyRule, root string) *Cover {
	c := &Cover{root: path.Clean(root)}
	for _, r := range readRules(rules) {
		if r.Decision != Deny || r.Match == "" || r.paths == nil {
			continue
		}
		if reading, writing := r.forbids(); reading || writing {
			c.rules = append(c.rules, r)
		}
	}
	if len(c.rules) == 0 {
		return nil
	}
	return c
}

// forbids says whether a deny rule is about reading a file, or about writing one.
func (r *rule) forbids() (reading, writing bool) {
	return r.applies(string(toolkind.ReadFile)), r.applies(string(toolkind.WriteFile)) || r.applies(string(toolkind.EditFile))
}

// Match says what the deny rules demand for an absolute path: that it can't be read at
// all (hidden), or only that it can't be written. ruleRef names the rule that demands
// the most; it is empty if none is about the path.
func (c *Cover) Match(p string) (hidden, readOnly bool, ruleRef string) {
	p = path.Clean(p)
	for i := range c.rules {
		r := &c.rules[i]
		if !r.takesPath(p, c.root) {
			continue
		}
		if reading, _ := r.forbids(); reading {
			return true, false, r.ref
		}
		readOnly = true
		if ruleRef == "" {
			ruleRef = r.ref
		}
	}
	return false, readOnly, ruleRef
}

// Below reports whether a rule may be about something below the folder dir, so that a
// walk can leave out the rest.
func (c *Cover) Below(dir string) bool {
	dir = path.Clean(dir)
	for i := range c.rules {
		if c.rules[i].takesBelow(dir, c.root) {
			return true
		}
	}
	return false
}
