package redact

import "slices"

// Rules lists the names of the built-in rules, sorted.
func Rules() []string {
	names := []string{RuleValue, ruleKey}
	for _, e := range builtin() {
		names = append(names, e.rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
