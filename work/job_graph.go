package work

import (
	"agentd/event"
	"agentd/session"
	"agentd/state"
)

// emitJobEdge records the edge from a task to a job that works for it: a job is a part of
// the task as a subtask is. Without a task there is no edge.
func emitJobEdge(tx *session.Tx, job event.Scope, change, status string) {
	if job.TaskID == "" || tx.State.Tasks.Find(job.TaskID) == nil {
		return
	}
	tx.Emit(event.Event{Type: event.TypeTaskDependencyUpdated, Scope: job, Payload: &event.TaskDependencyUpdated{
		Change: change, Kind: edgeChild, TargetID: job.JobID, Status: status,
	}})
}

// maxBlockers is how many blockers a task's record keeps.
const maxBlockers = 100

// openParts are the first subtasks and jobs of a task that were started and aren't over.
// A part that waits for the task itself comes after it.
func openParts(st *state.Session, t *state.Task) []string {
	var out []string
	for _, c := range children(st, t.TaskID) {
		if c.Status != state.TaskDraft && c.Status != state.TaskAccepted && !dependsOn(st, c, t.TaskID) {
			out = append(out, c.TaskID)
		}
	}
	for _, j := range st.Jobs.Open {
		if j.TaskID == t.TaskID && !j.StartedAt.IsZero() {
			out = append(out, j.JobID)
		}
	}
	return out[:min(len(out), maxBlockers)]
}

// dependsOn reports whether a task waits for another one, at once or through others of
// the session.
func dependsOn(st *state.Session, t *state.Task, on string) bool {
	seen := map[string]bool{}
	for queue := []string{t.TaskID}; len(queue) > 0; queue = queue[1:] {
		next := st.Tasks.Find(queue[0])
		if next == nil || seen[next.TaskID] {
			continue
		}
		seen[next.TaskID] = true
		for _, id := range openDependencies(next) {
			if id == on {
				return true
			}
			queue = append(queue, id)
		}
	}
	return false
}

// itemWhole names what the turn of an item is a part of: its job, and the job's task.
func itemWhole(st *state.Session, j *state.Job, itemID string) event.Scope {
	whole := event.Scope{JobID: j.JobID, JobItemID: itemID}
	if t := st.Tasks.Find(j.TaskID); t != nil {
		whole.ParentTaskID, whole.RootTaskID = t.TaskID, orElse(t.RootTaskID, t.TaskID)
	}
	return whole
}
