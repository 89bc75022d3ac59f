package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/internal/clip"
	"agentd/permission"
	"agentd/tool/toolkind"
)

const (
	// maxAsked bounds the different questions and the different denials that are kept for
	// a suggestion, which bounds its memory and its time.
	maxAsked = 5000
	// maxExamples is how many calls a suggestion shows.
	maxExamples = 3
)

// suggestPolicy finds the rules that would have saved most questions. It writes nothing.
func (l *Loop) suggestPolicy(ctx context.Context, caller command.Caller, p *command.SuggestPolicy) (*command.SuggestPolicyResult, error) {
	sessions, err := l.pastSessions(ctx, caller, p.SessionID)
	if err != nil {
		return nil, err
	}
	s := &policySuggestion{l: l, res: &command.SuggestPolicyResult{Suggestions: []command.PolicySuggestion{}}, asked: map[string]*pastQuestion{}, denied: map[string]*pastQuestion{}}
	for _, id := range sessions {
		if s.res.Truncated {
			break
		}
		if err := s.session(ctx, id, p.Workspace); err != nil {
			return nil, err
		}
	}
	if err := s.choose(ctx, p.Size()); err != nil {
		return nil, err
	}
	return s.res, nil
}

// pastQuestion is a call that was asked about, or denied, as often as it was.
type pastQuestion struct {
	question permission.Question
	count    int64
	sessions map[string]bool
	// rules would have let it run by themselves.
	rules []event.PolicyRule
	shown string
}

// policySuggestion gathers past questions and chooses rules.
type policySuggestion struct {
	l    *Loop
	seen int
	res  *command.SuggestPolicyResult
	// asked are questions that a person allowed, denied the calls that must not run; both
	// by what was asked.
	asked, denied map[string]*pastQuestion
	// open are questions that aren't answered yet, by tool call.
	open map[string]*pastQuestion
}

func (s *policySuggestion) session(ctx context.Context, id, workspace string) error {
	r, err := s.l.pastDecisions(ctx, id)
	if err != nil {
		return err
	}
	s.open = map[string]*pastQuestion{}
	r.enough = func() bool { return s.res.Truncated }
	r.decided = func(e *event.Event, p *event.PermissionEvaluated) {
		if workspace == "" || r.root() == workspace {
			s.meetDecision(r, e, p)
		}
	}
	r.answered = func(e *event.Event, p *event.PermissionResolved) {
		if q := s.open[e.ToolCallID]; q != nil && p.Decision != "allow" {
			// Whoever said no, or nothing, did not mean yes.
			s.countQuestion(s.denied, q)
		}
	}
	if err := r.walk(ctx, id); err != nil {
		return err
	}
	s.res.Sessions++
	return nil
}

// meetDecision notes a question that today's policy would ask again, and what was
// denied.
func (s *policySuggestion) meetDecision(r *pastDecisions, e *event.Event, p *event.PermissionEvaluated) {
	if s.seen++; s.seen > maxReconsidered || len(s.asked)+len(s.denied) > 2*maxAsked {
		s.res.Truncated = true
		return
	}
	if len(p.SafeArgs) == 0 {
		if p.Decision == permission.Ask {
			s.res.Unknown++
		}
		return
	}
	q := &pastQuestion{question: r.question(e, p), count: 1, sessions: map[string]bool{e.SessionID: true}, shown: shownCall(p)}
	q.question.Rules = append(slices.Clone(s.l.Configuration().Rules), r.ownRules()...)
	q.question.Grants = nil
	switch p.Decision {
	case permission.Deny:
		s.countQuestion(s.denied, q)
	case permission.Ask:
		if permission.Decide(q.question).Decision != permission.Ask {
			return // today it wouldn't be asked
		}
		s.open[e.ToolCallID] = q
		s.countQuestion(s.asked, q)
	}
}

// countQuestion counts a question among those that are the same.
func (s *policySuggestion) countQuestion(in map[string]*pastQuestion, q *pastQuestion) {
	x := &q.question
	key := strings.Join([]string{x.Mode, x.Tool.ToolName, x.Root, x.Cwd, string(x.Input)}, "\x00")
	known := in[key]
	if known == nil {
		copied := *q
		copied.sessions = maps.Clone(q.sessions)
		in[key] = &copied
		return
	}
	known.count++
	maps.Copy(known.sessions, q.sessions)
}

// choose picks rules, those that save most first, none of which lets anything run that
// was denied.
func (s *policySuggestion) choose(ctx context.Context, limit int) error {
	for _, q := range s.denied {
		s.res.Denied += q.count
	}
	var left []*pastQuestion
	for key, q := range s.asked {
		s.res.Questions += q.count
		if s.denied[key] != nil {
			continue
		}
		if q.rules = permission.KeepRules(q.question); len(q.rules) > 0 {
			for i := range q.rules {
				q.rules[i].Source = "" // as a policy has them
			}
			left = append(left, q)
		}
	}
	slices.SortFunc(left, func(a, b *pastQuestion) int { return strings.Compare(a.shown, b.shown) })
	var chosen []event.PolicyRule
	refused := map[string]bool{}
	for len(chosen) < limit {
		if err := ctx.Err(); err != nil {
			return err
		}
		best := s.bestRules(left, chosen, refused, limit-len(chosen))
		if best == nil {
			break
		}
		if with := append(slices.Clone(chosen), best...); s.allowsDenied(with) {
			refused[rulesKey(best)] = true
		} else {
			chosen = with
		}
	}
	s.report(chosen)
	return nil
}

// bestRules are the rules that, added to the chosen ones, answer most questions.
func (s *policySuggestion) bestRules(left []*pastQuestion, chosen []event.PolicyRule, refused map[string]bool, room int) []event.PolicyRule {
	gain, rules := map[string]int64{}, map[string][]event.PolicyRule{}
	for _, q := range left {
		var missing []event.PolicyRule
		for _, r := range q.rules {
			if !slices.Contains(chosen, r) {
				missing = append(missing, r)
			}
		}
		key := rulesKey(missing)
		if len(missing) == 0 || len(missing) > room || refused[key] {
			continue
		}
		gain[key] += q.count
		rules[key] = missing
	}
	best := ""
	for _, key := range slices.Sorted(maps.Keys(gain)) {
		if best == "" || gain[key] > gain[best] || gain[key] == gain[best] && len(rules[key]) < len(rules[best]) {
			best = key
		}
	}
	return rules[best]
}

func rulesKey(rules []event.PolicyRule) string {
	var b strings.Builder
	for _, r := range rules {
		b.WriteString(r.Tool + "\x00" + r.Match + "\x01")
	}
	return b.String()
}

// allowsDenied tells whether rules would let something run that was denied.
func (s *policySuggestion) allowsDenied(rules []event.PolicyRule) bool {
	for _, q := range s.denied {
		if q.decideWith(rules) == permission.Allow {
			return true
		}
	}
	return false
}

func (q *pastQuestion) decideWith(rules []event.PolicyRule) string {
	x := q.question
	x.Rules = append(slices.Clone(x.Rules), rules...)
	return permission.Decide(x).Decision
}

// report counts what the chosen rules save.
func (s *policySuggestion) report(chosen []event.PolicyRule) {
	type saved struct {
		command.PolicySuggestion
		sessions map[string]bool
	}
	out := make([]saved, len(chosen))
	for i, r := range chosen {
		out[i] = saved{command.PolicySuggestion{Rule: r, Examples: []string{}}, map[string]bool{}}
	}
	keys := slices.Sorted(maps.Keys(s.asked))
	for _, key := range keys {
		q := s.asked[key]
		if len(chosen) == 0 || q.decideWith(chosen) != permission.Allow {
			continue
		}
		s.res.Saved += q.count
		for i, r := range chosen {
			if !slices.Contains(q.rules, r) {
				continue
			}
			out[i].Saves += q.count
			maps.Copy(out[i].sessions, q.sessions)
			if len(out[i].Examples) < maxExamples {
				out[i].Examples = append(out[i].Examples, s.l.redactText(q.shown))
			}
		}
	}
	for i := range out {
		out[i].PolicySuggestion.Sessions = int64(len(out[i].sessions))
		s.res.Suggestions = append(s.res.Suggestions, out[i].PolicySuggestion)
	}
	slices.SortStableFunc(s.res.Suggestions, func(a, b command.PolicySuggestion) int { return cmp.Compare(b.Saves, a.Saves) })
}

// shownCall is a call in a line, for people.
func shownCall(p *event.PermissionEvaluated) string {
	args, _ := toolkind.ReadArguments(p.SafeArgs) // a tool without these fields shows its whole input
	switch {
	case args.Command != "":
		return clip.Text(strings.Join(strings.Fields(args.Command), " "), 120)
	case args.Path != "":
		return p.ToolName + " " + clip.Text(args.Path, 120)
	}
	return p.ToolName + " " + clip.Text(string(p.SafeArgs), 120)
}
