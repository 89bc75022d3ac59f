package permission

import "fmt"

// maxMatching bounds what matching the rules against one call may cost: the bytes that
// each rule reads, times the rules. It is about a second of processor time.
const maxMatching = 32 << 20

// matchingCost says why a call isn't held against the rules; empty if it is. A policy may
// have thousands of rules and a line a megabyte of words, and only both together are too
// much: neither has to be bounded for that.
func matchingCost(q *Question, f *facts, rules []rule) string {
	n := 0
	for i := range rules {
		if r := &rules[i]; r.Match != "" && r.concerns(q, f) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	most := maxMatching / n
	if f.weight(most) <= most {
		return ""
	}
	return fmt.Sprintf("it is too long to be held against %d rules", n)
}

// concerns says that the rule is matched against the call: it is about the tool, or about
// files that a line may name.
func (r *rule) concerns(q *Question, f *facts) bool {
	if r.applies(q.Tool.ToolName) || f.shows {
		return true
	}
	return f.kind == kindShell && r.aboutFiles()
}

// weight is how many bytes a rule reads of a call, or more than most.
func (f *facts) weight(most int) int {
	if f.line == nil {
		return len(f.text)
	}
	return f.line.weight(most)
}

// weight is how many bytes of a line a rule reads, or more than most. What stands in
// several commands, as behind wrappers, counts in each.
func (l *Line) weight(most int) int {
	n := 0
	for i := range l.Commands {
		c := &l.Commands[i]
		n += wordsWeight(c.Words)
		for _, words := range c.scripts.words[:min(len(c.scripts.words), maxScriptMatches)] {
			n += wordsWeight(words)
		}
		for _, inner := range c.inner {
			if n += len(inner.text); n <= most {
				n += inner.weight(most - n)
			}
		}
		if n > most {
			return n
		}
	}
	return n
}

// wordsWeight counts each word once more than its bytes, so that empty ones count too.
func wordsWeight(words []string) int {
	n := 0
	for _, w := range words {
		n += len(w) + 1
	}
	return n
}
