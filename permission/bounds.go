package permission

import "path"

// bounded returns the path of Question.Bounds that writing at a place would change: one
// at the place, above it or below it, by its name or by where it leads.
func (q *Question) bounded(pl place) string {
	for _, b := range q.Bounds {
		b = path.Clean(b)
		ends := []string{b}
		if q.Resolve != nil {
			if r := q.Resolve(b); r != "" && r != b {
				ends = append(ends, path.Clean(r))
			}
		}
		for _, end := range ends {
			for _, p := range []string{pl.abs, pl.real} {
				if within(p, end) || within(end, p) {
					return b
				}
			}
		}
	}
	return ""
}

// askAboutBound is the voice for what bounds the agent. It is as strong as an ask rule:
// a policy that an agent may rewrite holds nothing.
func (f *facts) askAboutBound() outcome {
	return outcome{
		decision: Ask, source: sourceMode,
		reason: "it changes " + f.bound + ", which bounds what agents may do; that asks in every mode, whatever is allowed otherwise",
	}
}
