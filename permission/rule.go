package permission

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/internal/pathglob"
	"agentd/tool/toolkind"
)

// maxPattern is how many bytes a pattern may have.
const maxPattern = 4096

// ParseRules checks the rules of a source (host, workspace or session; empty
// leaves the source of each rule as it is) and returns them ready for use. The
// error names every rule that is wrong, by its position.
func ParseRules(source string, rules []event.PolicyRule) ([]event.PolicyRule, error) {
	out := slices.Clone(rules)
	ids := map[string]int{}
	var errs []error
	for i := range out {
		r := &out[i]
		if source != "" {
			r.Source = source
		}
		if err := checkRule(r); err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
		if r.RuleID == "" {
			continue
		}
		if first, twice := ids[r.RuleID]; twice {
			errs = append(errs, fmt.Errorf("rule %d: the id %q is already used by rule %d", i+1, r.RuleID, first))
			continue
		}
		ids[r.RuleID] = i + 1
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}

// checkRule says what is wrong with a rule.
func checkRule(r *event.PolicyRule) error {
	if r.Decision == "" {
		return errors.New("decision is missing: use allow, ask or deny")
	}
	if known := event.EnumValues("@ruleDecision"); !slices.Contains(known, r.Decision) {
		return fmt.Errorf("decision %q is not one of %s", r.Decision, strings.Join(known, ", "))
	}
	if known := event.EnumValues("@ruleSource"); r.Source != "" && !slices.Contains(known, r.Source) {
		return fmt.Errorf("source %q is not one of %s", r.Source, strings.Join(known, ", "))
	}
	if r.Tool == "" {
		return errors.New(`tool is missing: give a tool name, or a glob such as "*"`)
	}
	if len(r.Tool) > maxPattern || len(r.Match) > maxPattern {
		return fmt.Errorf("a pattern is longer than %d bytes", maxPattern)
	}
	tool, err := parseGlob(r.Tool)
	if err != nil {
		return fmt.Errorf("tool %q is not a valid glob: %w", r.Tool, err)
	}
	if onlyFiles(tool) {
		if _, err := pathglob.Compile(r.Match); err != nil {
			return fmt.Errorf("match %q is not a valid path glob: %w", clip.Text(r.Match, 200), err)
		}
		return nil
	}
	if _, err := parseGlob(r.Match); err != nil {
		return fmt.Errorf("match %q is not a valid glob: %w", clip.Text(r.Match, 200), err)
	}
	return nil
}

// fileTools are the names of the tools whose rules are about paths.
var fileTools = toolkind.FileTools()

// onlyFiles says that a glob of tools means file tools and not the shell.
func onlyFiles(tool *glob) bool {
	return tool.match(string(toolkind.Shell)) == misses && slices.ContainsFunc(fileTools, func(n string) bool { return tool.match(n) == matches })
}

// RuleRef is the name of a rule in facts: its source and its id, or what it says
// where it has no id.
func RuleRef(r event.PolicyRule) string {
	source := r.Source
	if source == "" {
		source = "host"
	}
	if r.RuleID != "" {
		return source + ":" + r.RuleID
	}
	if r.Match == "" {
		return source + ":" + r.Decision + " " + r.Tool
	}
	return source + ":" + r.Decision + " " + r.Tool + " (" + clip.Text(r.Match, 200) + ")"
}

// rule is a rule ready to be matched against a call.
type rule struct {
	event.PolicyRule
	ref string
	// tool is nil if the pattern is broken; text and paths are nil if the pattern is
	// broken for commands and inputs, or for paths.
	tool, text *glob
	paths      *pathglob.Glob
}

// coversKind says that the rule is about every call of a tool of that kind. Of paths
// "*" is not every one.
func (r *rule) coversKind(k kind) bool {
	if r.Match == "" {
		return true
	}
	return k != kindFileRead && k != kindFileWrite && r.text != nil && r.text.all
}

// compiledRules are rules as they were given, and what was made of them.
type compiledRules struct {
	given []event.PolicyRule
	rules []rule
}

// lastRules are the rules that were read last. One call asks about the same rules
// several times, and rules change rarely, so most questions find them here.
var lastRules atomic.Pointer[compiledRules]

// readRules prepares the rules, in an order that doesn't depend on the given one. The
// result is shared: it must not be changed.
func readRules(rules []event.PolicyRule) []rule {
	if last := lastRules.Load(); last != nil && slices.Equal(last.given, rules) {
		return last.rules
	}
	c := &compiledRules{slices.Clone(rules), compileRules(rules)}
	lastRules.Store(c)
	return c.rules
}

func compileRules(rules []event.PolicyRule) []rule {
	out := make([]rule, 0, len(rules))
	for _, r := range rules {
		c := rule{PolicyRule: r, ref: RuleRef(r)}
		c.tool, _ = parseGlob(r.Tool)
		c.text, _ = parseGlob(r.Match)
		if c.aboutFiles() {
			c.paths, _ = pathglob.Compile(r.Match)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b rule) int {
		// Two rules may have the same id, and so the same reference.
		return cmp.Or(strings.Compare(a.ref, b.ref), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Decision, b.Decision), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Match, b.Match))
	})
	return out
}

// applies says whether the rule is about a tool. One with a broken glob might be.
func (r *rule) applies(tool string) bool {
	if r.tool == nil {
		return r.Decision != Allow
	}
	return r.tool.match(tool) == matches
}

// aboutFiles says whether the rule is about a file tool.
func (r *rule) aboutFiles() bool { return slices.ContainsFunc(fileTools, r.applies) }

// finding is a rule that speaks, with what it is about.
type finding struct {
	rule *rule
	what string
}

// ruling is what the rules say together.
type ruling struct {
	deny, ask, allow *outcome
}

// matchRules matches all rules against a call.
func matchRules(q *Question, f *facts) *ruling {
	rules := readRules(q.Rules)
	var denies, asks, mays []finding
	var allows []*rule
	for i := range rules {
		// Rules for files count for what a shell line writes, too.
		if r := &rules[i]; r.Decision == Allow && (r.applies(q.Tool.ToolName) || f.kind == kindShell) {
			allows = append(allows, r)
		}
	}
	h := ruleMatcher{q: q, f: f, allows: allows, costly: matchingCost(q, f, rules)}
	for i := range rules {
		r := &rules[i]
		if r.Decision == Allow {
			continue
		}
		switch v, what := h.matchRule(r); {
		case v == may:
			mays = append(mays, finding{r, what})
		case v == misses:
		case r.Decision == Ask:
			asks = append(asks, finding{r, what})
		default:
			denies = append(denies, finding{r, what})
		}
	}
	out := &ruling{deny: outcomeOf(Deny, denies, "a rule denies"), ask: outcomeOf(Ask, asks, "a rule asks about")}
	if out.ask == nil {
		out.ask = outcomeOf(Ask, mays, "a rule may apply to")
	}
	if used := h.cover(); len(used) > 0 {
		out.allow = outcomeOf(Allow, used, "a rule allows")
	}
	return out
}

// outcomeOf makes an outcome of the rules that speak; nil if none does.
func outcomeOf(decision string, found []finding, verb string) *outcome {
	if len(found) == 0 {
		return nil
	}
	o := &outcome{decision: decision, source: sourceRule}
	for _, f := range found {
		o.refs = append(o.refs, f.rule.ref)
	}
	slices.Sort(o.refs)
	o.refs = slices.Compact(o.refs)
	o.reason = fmt.Sprintf("%s %s (%s)", verb, found[0].what, found[0].rule.ref)
	if found[0].rule.Reason != "" {
		o.reason += ": " + found[0].rule.Reason
	}
	return o
}
