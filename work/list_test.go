package work_test

import (
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/work"
)

// TestTasksAreListedByWhatTheyAre: filters and orders of tasks, with the tasks of turns
// only in the list of their session, and archived ones only by that name.
func TestTasksAreListedByWhatTheyAre(t *testing.T) {
	k := runtimetest.New(t)
	k.Submit("sess_a", "hello")
	acme := command.Caller{Account: "acme"}
	for _, c := range []struct {
		by           command.Caller
		id, title    string
		kind, parent string
	}{
		{command.Local(), "task_1", "Write the report", "user_request", ""},
		{command.Local(), "task_2", "Check the report", "review", "task_1"},
		{command.Local(), "task_3", "a walk", "review", ""},
		{acme, "task_4", "The report of another account", "review", ""},
	} {
		runtimetest.DoAs[command.TaskResult](k, c.by, &command.CreateTask{
			TaskID: c.id, Objective: "Do it.", TaskKind: c.kind, ParentTaskID: c.parent, Worker: "external", TaskFields: command.TaskFields{Title: c.title},
		})
	}
	runtimetest.Do[command.TaskResult](k, &command.CancelTask{TaskID: "task_3"})
	runtimetest.Do[command.TaskResult](k, &command.ArchiveTask{TaskID: "task_3"})
	for _, c := range []struct {
		name string
		by   command.Caller
		p    command.ListTasks
		want string
	}{
		{"all", command.Local(), command.ListTasks{}, "task_1 task_2 task_4"},
		{"own", acme, command.ListTasks{}, "task_4"},
		{"archived", command.Local(), command.ListTasks{Status: "archived"}, "task_3"},
		{"of a kind", command.Local(), command.ListTasks{Type: "review"}, "task_2 task_4"},
		{"parts", command.Local(), command.ListTasks{ParentTaskID: "task_1"}, "task_2"},
		{"by title", command.Local(), command.ListTasks{Sort: "title"}, "task_2 task_4 task_1"},
		{"by title, down", command.Local(), command.ListTasks{Sort: "title", Narrowing: command.Narrowing{Order: "desc"}}, "task_1 task_4 task_2"},
		{"by text", command.Local(), command.ListTasks{Narrowing: command.Narrowing{Query: "REPORT"}}, "task_1 task_2 task_4"},
		{"of an account", command.Local(), command.ListTasks{Narrowing: command.Narrowing{Account: "acme"}}, "task_4"},
		{"of turns", command.Local(), command.ListTasks{SessionID: "sess_a", Type: "turn"}, "the turn's"},
	} {
		res := runtimetest.DoAs[work.ListTasksResult](k, c.by, &c.p)
		var ids []string
		for _, task := range res.Tasks {
			if task.TaskKind == "turn" {
				task.TaskID = "the turn's"
			}
			ids = append(ids, task.TaskID)
		}
		if strings.Join(ids, " ") != c.want || res.Total != int64(len(ids)) {
			t.Errorf("%s: %v, total %d; want %s", c.name, ids, res.Total, c.want)
		}
	}
}

// TestJobsAreListedByWhatTheyAre, with their records.
func TestJobsAreListedByWhatTheyAre(t *testing.T) {
	k := runtimetest.New(t)
	acme := command.Caller{Account: "acme"}
	for id, title := range map[string]string{"job_1": "Translate", "job_2": "count", "job_3": "Add up"} {
		by := command.Local()
		if id == "job_3" {
			by = acme
		}
		p := &command.CreateJob{JobID: id, Title: title, Instruction: "Do it.", Start: new(false)}
		for range len(title) {
			p.Items = append(p.Items, command.JobItemInput{Input: event.Raw(`"x"`)})
		}
		runtimetest.DoAs[command.JobResult](k, by, p)
	}
	runtimetest.Do[command.JobRecord](k, &command.CancelJob{JobID: "job_2"})
	for _, c := range []struct {
		by   command.Caller
		p    command.ListJobs
		want string
	}{
		{command.Local(), command.ListJobs{}, "job_1 job_2 job_3"},
		{acme, command.ListJobs{}, "job_3"},
		{command.Local(), command.ListJobs{Status: "cancelled"}, "job_2"},
		{command.Local(), command.ListJobs{Sort: "items"}, "job_1 job_3 job_2"},
		{command.Local(), command.ListJobs{Sort: "title"}, "job_3 job_2 job_1"},
		{command.Local(), command.ListJobs{Narrowing: command.Narrowing{Query: "trans"}}, "job_1"},
	} {
		res := runtimetest.DoAs[command.ListJobsResult](k, c.by, &c.p)
		var ids []string
		for i := range res.Jobs {
			ids = append(ids, res.Jobs[i].JobID)
			if len(res.Jobs[i].Items) == 0 {
				t.Errorf("%s has no items", res.Jobs[i].JobID)
			}
		}
		if strings.Join(ids, " ") != c.want || res.Total != int64(len(ids)) {
			t.Errorf("%+v: %v, total %d; want %s", c.p, ids, res.Total, c.want)
		}
	}
}
