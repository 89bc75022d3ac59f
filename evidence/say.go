package evidence

import (
	"cmp"
	"fmt"
	"strings"

	"agentd/event"
)

// describeFact puts a fact into words. Key says that the answer needs it; a fact without
// words adds nothing to an explanation.
func describeFact(e *event.Event) (says string, key bool) {
	for _, part := range []func(*event.Event) (string, bool){sayTurn, sayRouting, sayModel, sayPermission, sayHook, sayTool, sayProcess, sayTask, saySubagent, sayJob, saySchedule} {
		if says, key := part(e); says != "" {
			return endOnce(says), key
		}
	}
	return "", false
}

// endOnce takes away the full stop of a sentence that ends with a quoted one.
func endOnce(says string) string {
	if strings.HasSuffix(says, "..") && !strings.HasSuffix(says, "...") {
		return strings.TrimSuffix(says, ".")
	}
	return says
}

func sayTurn(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.TurnSubmitted:
		return fmt.Sprintf("%s submitted the turn: %q; it was %s.", actor(p.SubmittedBy, p.Source), clipText(p.Preview), p.Status), true
	case *event.TurnStarted:
		return "The turn left the queue and ran.", false
	case *event.TurnSteered:
		return fmt.Sprintf("%s added to the running turn: %q.", actor(p.SubmittedBy, "user"), clipText(p.Preview)), true
	case *event.TurnInterruptRequested:
		return fmt.Sprintf("%s wanted the turn stopped%s.", actor(p.RequestedBy, "user"), becauseClause(p.Reason)), true
	case *event.TurnCompleted:
		return fmt.Sprintf("The turn completed after %d model call%s (%s).", p.Steps, plural(p.Steps), p.Outcome), true
	case *event.TurnFailed:
		return fmt.Sprintf("The turn ended as %s: %s (%s).", p.Status, p.Error.Message, p.FailureCategory), true
	case *event.RuntimeNotice:
		return p.Message, true
	}
	return "", false
}

func sayRouting(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.RoutingCandidates:
		var out []string
		for _, x := range p.Excluded {
			out = append(out, x.Model+" ("+x.Reason+")")
		}
		says := fmt.Sprintf("%d model%s could do the work", p.CandidateCount, plural(p.CandidateCount))
		if len(out) > 0 {
			says += "; excluded were " + strings.Join(out, ", ")
		}
		if e.Type == event.TypeRoutingNotPossible {
			return "No model can do the work: " + p.DecisionReason + ". " + says + ".", true
		}
		return says + ".", false
	case *event.RoutingDecision:
		if e.Type == event.TypeRoutingFallbackApplied {
			return fmt.Sprintf("After %s failed (%s) the runtime fell back to %s/%s: %s.", p.FromModel, p.Cause, p.SelectedProvider, p.SelectedModel, p.DecisionReason), true
		}
		return fmt.Sprintf("The model %s/%s was chosen (%s): %s.", p.SelectedProvider, p.SelectedModel, p.DecisionSource, p.DecisionReason), true
	case *event.RateLimitHit:
		switch {
		case p.LimitName == "rest": // model.LimitRest: the provider asked for it
			return fmt.Sprintf("%s had asked to wait, so the request did.", p.Provider), true
		case p.Source == "client":
			return fmt.Sprintf("The configured limit of %s made the request wait.", p.Provider), true
		}
		return fmt.Sprintf("The limit of %s made the request wait.", p.Provider), true
	case *event.QuotaState:
		if e.Type == event.TypeQuotaBlocked {
			return "Nothing is left of the budget or quota " + p.QuotaName + becauseClause(p.Reason) + ".", true
		}
		return "Little is left of the budget or quota " + p.QuotaName + becauseClause(p.Reason) + ".", false
	}
	return "", false
}

func sayModel(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.ModelRequested:
		return fmt.Sprintf("The model %s/%s was asked (step %d, try %d).", p.Provider, p.Model, p.Step, p.Attempt), false
	case *event.ModelCompleted:
		return fmt.Sprintf("It answered (%s).", p.StopReason), false
	case *event.ModelFailed:
		return fmt.Sprintf("The model call failed: %s: %s.", p.ErrorCategory, clipText(p.Message)), true
	case *event.ContextResolved:
		return fmt.Sprintf("The context was made of %d item%s.", len(p.Items), plural(len(p.Items))), false
	case *event.CompactionCompleted:
		return fmt.Sprintf("Earlier turns were replaced by a summary (%s): %d tokens became %d.", p.Trigger, p.TokensBefore, p.TokensAfter), false
	case *event.CompactionFailed:
		return "A compaction failed: " + p.Error.Message + ".", false
	}
	return "", false
}

func sayPermission(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.PermissionEvaluated:
		word := map[string]string{"allow": "allowed", "deny": "denied", "ask": "to be asked about"}[p.Decision]
		says := fmt.Sprintf("%s was %s by %s: %s", p.ToolName, word, sourceName(p.DecisionSource), p.DecisionReason)
		if len(p.RuleRefs) > 0 {
			says += " [" + strings.Join(p.RuleRefs, ", ") + "]"
		}
		if p.Destructive {
			says += "; it can destroy something"
		}
		return says + ".", true
	case *event.PermissionReviewed:
		return sayReview(p), true
	case *event.PermissionRequested:
		return fmt.Sprintf("A %s was asked%s.", cmp.Or(p.AskedOf, "human"), becauseClause(p.Reason)), false
	case *event.PermissionResolved:
		says := fmt.Sprintf("%s answered: %s%s%s", by(p.ResolvedBy, p.DecisionSource), p.Decision, inScope(p.Scope), becauseClause(p.DecisionReason))
		if p.PermissionMode != "" {
			says += "; it continues in mode " + p.PermissionMode
		}
		return says + ".", true
	case *event.ActionRequired:
		return fmt.Sprintf("The work waited for an answer (%s): %s", p.ActionType, clipText(p.Prompt)), e.ToolCallID == ""
	case *event.ActionResolved:
		return fmt.Sprintf("The action was %s: %s by %s%s.", p.Status, p.Decision, sourceName(p.DecisionSource), becauseClause(p.Reason)), true
	case *event.SandboxApplied:
		who := "It"
		if p.HookRunID != "" {
			who = "The hook's program"
		}
		says := fmt.Sprintf("%s was confined by %s (files: %s, network %s: %s)", who, p.Mode, p.Enforcement.Filesystem, p.Network, p.Enforcement.Network)
		if len(p.NotEnforced) > 0 {
			says += "; not enforced: " + strings.Join(p.NotEnforced, "; ")
		}
		return says + ".", true
	case *event.SandboxViolation:
		return fmt.Sprintf("It hit the %s boundary: %s.", p.Boundary, clipText(p.Detail)), true
	case *event.PolicyChanged:
		return sayPolicy(p), p.ApprovalActionID != ""
	}
	return "", false
}

// sayPolicy says what a policy is, who changed it and by which approval.
func sayPolicy(p *event.PolicyChanged) string {
	says := fmt.Sprintf("The %s's policy changed: mode %s", p.Source, cmp.Or(p.Mode, "unchanged"))
	if p.Source != "turn" {
		says += fmt.Sprintf(", %d rule%s", len(p.Rules), plural(len(p.Rules)))
	}
	if p.ChangedBy != nil {
		says += "; by " + lower(actor(p.ChangedBy, "runtime"))
	}
	says += becauseClause(p.Reason)
	if p.ApprovalActionID != "" {
		says += " (" + p.ApprovalActionID + ")"
	}
	return says + "."
}

func sayHook(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.HookCompleted:
		says := fmt.Sprintf("The hook %s at %s said %s%s", p.HandlerRef, p.Point, p.Decision, becauseClause(p.Reason))
		if p.UpdatedInputRef != "" {
			says += " and rewrote the input (" + p.OriginalInputRef + " became " + p.UpdatedInputRef + ")"
		}
		return says + ".", p.Decision != "continue" || p.UpdatedInputRef != ""
	case *event.HookFailed:
		return fmt.Sprintf("The hook %s at %s failed (%s: %s), and failing is %s.", p.HandlerRef, p.Point, p.ErrorCategory, clipText(p.Message), p.FailureBehavior), true
	}
	return "", false
}

func sayTool(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.ToolStarted:
		if !p.Runs() {
			return "", false // what the model asked for is said with its answer
		}
		return fmt.Sprintf("%s ran (%s).", p.ToolName, p.Policy), false
	case *event.ToolProgress:
		switch p.Phase {
		case event.PhaseRunning:
			return fmt.Sprintf("%s ran (%s).", p.ToolName, p.Policy), false
		case event.PhaseLost:
			return fmt.Sprintf("%s was lost and is run again: %s.", p.ToolName, clipText(p.Message)), true
		}
	case *event.ToolResult:
		says := fmt.Sprintf("%s ended with a result (%s) after %d ms", p.ToolName, p.Status, p.DurationMs)
		if p.ExitCode.Present && !p.ExitCode.Null {
			says += fmt.Sprintf(", exit code %d", p.ExitCode.Value)
		}
		if n := len(p.ChangedFiles); n > 0 {
			says += fmt.Sprintf(", and changed %d file%s", n, plural(n))
		}
		return says + ".", true
	case *event.ToolFailed:
		return fmt.Sprintf("%s failed: %s: %s.", p.ToolName, p.ErrorCategory, clipText(p.Message)), true
	case *event.OutputStored:
		return fmt.Sprintf("Its output of %d byte%s is at %s.", p.SizeBytes, plural(p.SizeBytes), p.OutputRef), false
	case *event.OutputRedacted:
		return fmt.Sprintf("%d secrets were taken out of its output (%s).", p.Count, strings.Join(p.Rules, ", ")), false
	}
	return "", false
}

func sayProcess(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.ProcessStarted:
		return fmt.Sprintf("The process %s was started in %s.", p.ProcessID, p.Cwd), false
	case *event.ProcessCompleted:
		return fmt.Sprintf("The process ended with exit code %d.", p.ExitCode), false
	case *event.ProcessTerminated:
		return fmt.Sprintf("The process was ended (%s%s).", p.Reason, colon(p.Detail)), true
	case *event.ProcessFailed:
		return fmt.Sprintf("The process failed: %s: %s.", p.ErrorCategory, clipText(p.Message)), true
	}
	return "", false
}

func sayTask(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.TaskCreated:
		return fmt.Sprintf("%s created the task (%s): %s.", actor(p.RequestedBy, "someone"), p.TaskKind, clipText(p.Objective)), true
	case *event.TaskStatusChanged:
		says := "The task became " + p.Status + becauseClause(p.StatusReason)
		if len(p.Blockers) > 0 {
			says += "; it waits for " + strings.Join(p.Blockers, ", ")
		}
		return says + ".", true
	case *event.TaskAttemptStarted:
		return fmt.Sprintf("Attempt %d began (%s).", p.AttemptCount, p.Reason), false
	case *event.TaskAttemptFailed:
		if p.Late {
			return fmt.Sprintf("The attempt was said to have failed after it had been given up (%s); that changed nothing.", p.Error.Message), false
		}
		return fmt.Sprintf("The attempt ended as %s: %s.", p.Status, p.Error.Message), true
	case *event.TaskAttemptCompleted:
		if p.Late {
			return "The attempt was said to be complete after it had been given up; that changed nothing.", false
		}
		return "The attempt completed.", false
	case *event.TaskDependencyUpdated:
		return sayDependency(p)
	case *event.TaskCompleted:
		return "The task completed.", true
	}
	return "", false
}

// sayDependency says how it stands with a task that another one waits for.
func sayDependency(p *event.TaskDependencyUpdated) (string, bool) {
	if p.Kind != "blocked_by" {
		return "", false
	}
	says := "The task depends on " + p.TargetID
	switch {
	case p.Change == "removed":
		says = "The task no longer depends on " + p.TargetID
	case p.Status == "satisfied":
		says = "The task " + p.TargetID + ", which it depends on, is completed"
	case p.Status == "failed":
		says = "The task " + p.TargetID + ", which it depends on, ended without being completed"
	}
	return says + becauseClause(p.Reason) + ".", true
}

func saySubagent(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.SubagentSpawned:
		says := fmt.Sprintf("%s started the subagent %s", actor(p.SpawnedBy, "agent"), e.SubagentID)
		if p.Role != "" {
			says += " as " + p.Role
		}
		if i := p.Isolation; i != nil && i.PermissionMode != "" {
			says += ", in mode " + i.PermissionMode
		}
		return says + ".", true
	case *event.SubagentStatus:
		return fmt.Sprintf("The subagent became %s%s.", p.Status, becauseClause(p.Reason)), false
	case *event.SubagentEnded:
		says := "The subagent ended as " + p.Status + becauseClause(p.Reason)
		if p.Error != nil {
			says += ": " + clipText(p.Error.Message)
		}
		return says + ".", true
	}
	return "", false
}

func sayJob(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.JobCreated:
		return fmt.Sprintf("%s created the job of %d item%s: %s.", actor(p.CreatedBy, "someone"), p.ItemCount, plural(p.ItemCount), clipText(p.Instruction)), true
	case *event.JobStatusChanged:
		says := "The job became " + p.Status + becauseClause(p.Reason)
		if p.Error != nil {
			says += ": " + clipText(p.Error.Message)
		}
		return says + ".", true
	case *event.JobHeld:
		return "The job was held" + becauseClause(p.Reason) + ".", true
	case *event.JobItemStarted:
		return fmt.Sprintf("The item %s began (attempt %d).", e.JobItemID, p.AttemptCount), false
	case *event.JobItemCompleted:
		return fmt.Sprintf("The item %s ended as %s at attempt %d.", e.JobItemID, p.Status, p.AttemptCount), true
	case *event.JobItemFailed:
		next := "it isn't tried again"
		if p.WillRetry {
			next = "it is tried again"
		}
		return fmt.Sprintf("Attempt %d of the item %s failed: %s; %s.", p.AttemptCount, e.JobItemID, clipText(p.Error.Message), next), true
	}
	return "", false
}

// saySchedule says what a schedule did, and why it didn't.
func saySchedule(e *event.Event) (string, bool) {
	switch p := e.Payload.(type) {
	case *event.ScheduleFired:
		if p.Error != nil {
			return fmt.Sprintf("The schedule %s could not start what was due: %s.", p.ScheduleID, clipText(p.Error.Message)), true
		}
		return fmt.Sprintf("The schedule %s started %s.", p.ScheduleID, cmp.Or(p.JobID, p.TaskID)), true
	case *event.ScheduleMissed:
		why := map[string]string{"down": "the runtime was down", "overlap": "the run before went on", "paused": "it was paused"}[p.Reason]
		return fmt.Sprintf("The schedule %s missed %d run%s%s.", p.ScheduleID, p.Count, plural(p.Count), becauseClause(why)), true
	case *event.ScheduleQueued:
		return fmt.Sprintf("The schedule %s lets a run wait for the end of the one before.", p.ScheduleID), true
	case *event.SchedulePaused:
		return fmt.Sprintf("%s paused the schedule %s%s.", actor(p.PausedBy, "user"), p.ScheduleID, becauseClause(p.Reason)), true
	case *event.ScheduleResumed:
		return fmt.Sprintf("%s resumed the schedule %s%s.", actor(p.ResumedBy, "user"), p.ScheduleID, becauseClause(p.Reason)), true
	}
	return "", false
}

// by names who answered: the one who did, or else where the answer comes from.
func by(a *event.Actor, decisionSource string) string {
	if a != nil && a.Kind != "" && a.Kind != "unknown" {
		return actor(a, "")
	}
	s := sourceName(decisionSource)
	return strings.ToUpper(s[:1]) + s[1:]
}

// lower begins a name in the middle of a sentence.
func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

// actor names who did something.
func actor(a *event.Actor, otherwise string) string {
	switch {
	case a == nil || a.Kind == "" || a.Kind == "unknown":
		return "The " + otherwise
	case a.ID != "":
		return "The " + a.Kind + " " + a.ID
	}
	return "The " + a.Kind
}

// sourceName names where a decision comes from.
func sourceName(s string) string {
	switch s {
	case "mode":
		return "the permission mode"
	case "rule":
		return "a rule"
	case "hook":
		return "a hook"
	case "human":
		return "a person"
	case "peer":
		return "the peer that gave the work"
	case "host_policy":
		return "the host's policy"
	case "default":
		return "the runtime"
	case "classifier":
		return "a classifier"
	case "timeout":
		return "the time limit"
	case "runtime":
		return "the runtime"
	}
	return s
}

func becauseClause(reason string) string {
	if reason == "" {
		return ""
	}
	if strings.HasPrefix(reason, "waits ") { // of a task, which is the subject
		reason = "it " + reason
	}
	return ", because " + clipText(reason)
}

func colon(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func inScope(scope string) string {
	switch scope {
	case "session":
		return " for the whole session"
	case "project":
		return " for the project"
	}
	return ""
}

// sayReview says what a reviewer made of a call.
func sayReview(p *event.PermissionReviewed) string {
	who := "The reviewer"
	if p.Model != "" {
		who += " " + p.Provider + "/" + p.Model
	}
	switch p.Verdict {
	case "allow":
		return who + " would let it run" + becauseClause(p.Reason) + "."
	case "ask":
		return who + " left it to a person" + becauseClause(p.Reason) + "."
	}
	return who + " gave no verdict" + becauseClause(p.Reason) + "; that leaves it to a person."
}

func plural[N int | int64](n N) string {
	if n == 1 {
		return ""
	}
	return "s"
}
