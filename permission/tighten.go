package permission

import (
	"fmt"
	"slices"
	"strings"

	"agentd/event"
)

// Tighten is what applies when known rules are found changed by no one
// knows whom. What narrows counts at once: a new deny or ask, an allow that is gone.
// What widens doesn't: a deny or ask that is gone or weaker stays in force, a new
// allow is left out. Held says each of these, for people; it is empty if what was
// found counts as it is. It is a pure function; the result shares nothing with its
// arguments but the rules' texts.
func Tighten(known, found []event.PolicyRule) (rules []event.PolicyRule, held []string) {
	for _, r := range found {
		if r.Decision == Allow && !covered(r, known) {
			held = append(held, "new: "+sayRule(r))
			continue
		}
		rules = append(rules, r)
	}
	for _, r := range known {
		if r.Decision == Allow || covered(r, found) {
			continue
		}
		rules = append(rules, r)
		held = append(held, "gone: "+sayRule(r))
	}
	return rules, held
}

// covered tells whether one of the rules says the same, or for a deny or ask
// something stricter, about the same calls.
func covered(r event.PolicyRule, rules []event.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(x event.PolicyRule) bool {
		return x.Tool == r.Tool && x.Match == r.Match && (x.Decision == r.Decision || r.Decision == Ask && x.Decision == Deny)
	})
}

func sayRule(r event.PolicyRule) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Decision, r.Tool, r.Match))
}
