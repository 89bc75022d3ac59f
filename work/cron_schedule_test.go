package work_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/state"
)

const smallJob = `{"instruction":"Do it.","items":[{"input":"word 1"}]}`

func (k *stage) schedule(p command.CreateSchedule) *command.ScheduleResult {
	k.Helper()
	if p.Job == nil && p.Task == nil {
		p.Job = event.Raw(smallJob)
	}
	return must[command.ScheduleResult](k, &p)
}

func TestScheduleStartsJobs(t *testing.T) {
	k := newStage(t)
	k.session("sess_s")
	p := command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_s", EveryMs: 100}
	first := k.schedule(p)
	if first.Status != "active" || first.NextAt.IsZero() {
		t.Errorf("created: %+v", first)
	}
	if again := k.schedule(p); again.ScheduleID != "schedule_a" {
		t.Errorf("created again: %+v", again)
	}
	var jobs []string
	k.until("sess_s", func(e *event.Event) bool {
		if f, ok := e.Payload.(*event.ScheduleFired); ok {
			jobs = append(jobs, f.JobID)
		}
		return len(jobs) == 2
	})
	if jobs[0] == jobs[1] || !strings.HasPrefix(jobs[0], "schedule_a.") {
		t.Errorf("jobs: %v", jobs)
	}
	k.jobEnd("sess_s", jobs[0], 1)
	list := must[command.ListSchedulesResult](k, &command.ListSchedules{SessionID: "sess_s"})
	if len(list.Schedules) != 1 || list.Schedules[0].Fired < 2 || list.Schedules[0].NextAt.IsZero() || list.Schedules[0].LastJobID == "" {
		t.Errorf("listed: %+v", list.Schedules)
	}
	if res := must[command.ScheduleResult](k, &command.DeleteSchedule{ScheduleID: "schedule_a"}); res.Status != "deleted" {
		t.Errorf("deleted: %+v", res)
	}
	if list := must[command.ListSchedulesResult](k, &command.ListSchedules{}); len(list.Schedules) != 0 {
		t.Errorf("listed after the end: %+v", list.Schedules)
	}
	k.until("sess_s", ofType(event.TypeScheduleDeleted))
}

func TestMissedRunsAreFacts(t *testing.T) {
	// It is ten minutes after an hour: no hour ends while the test works.
	shift := time.Until(time.Now().Truncate(time.Hour).Add(70 * time.Minute))
	k := newStageAt(t, func() time.Time { return time.Now().Add(shift) })
	k.session("sess_m")
	k.schedule(command.CreateSchedule{ScheduleID: "schedule_skip", SessionID: "sess_m", Cron: "0 * * * *", TimeZone: "UTC", Missed: "skip"})
	k.schedule(command.CreateSchedule{ScheduleID: "schedule_once", SessionID: "sess_m", Cron: "0 * * * *", TimeZone: "UTC", Missed: "run_once"})
	k.schedule(command.CreateSchedule{ScheduleID: "schedule_all", SessionID: "sess_m", Cron: "0 * * * *", TimeZone: "UTC", Missed: "run_all", Overlap: "allow"})
	k.clock = func() time.Time { return time.Now().Add(shift + 4*time.Hour) } // as long the runtime is down
	k.restart()
	fired, missed := map[string]int{}, map[string]int64{}
	k.until("sess_m", func(e *event.Event) bool {
		switch p := e.Payload.(type) {
		case *event.ScheduleFired:
			fired[p.ScheduleID]++
		case *event.ScheduleMissed:
			missed[p.ScheduleID] += p.Count
		}
		return fired["schedule_all"] == 4 && fired["schedule_once"] == 1 && missed["schedule_skip"] == 4
	})
	if missed["schedule_once"] != 3 || missed["schedule_all"] != 0 || fired["schedule_skip"] != 0 {
		t.Errorf("fired %v, missed %v", fired, missed)
	}
	k.view("sess_m", func(s *state.Session) {
		for _, x := range s.Schedules.Open {
			if want := k.clock().Truncate(time.Hour).Add(time.Hour); !x.NextAt.Equal(want) {
				t.Errorf("%s is next due at %s, not at %s", x.ScheduleID, x.NextAt, want)
			}
		}
	})
}

func TestOverlapIsSkipped(t *testing.T) {
	k := newStage(t, when("word 1", script.Answer{Stall: time.Hour}))
	k.session("sess_o")
	k.schedule(command.CreateSchedule{ScheduleID: "schedule_o", SessionID: "sess_o", EveryMs: 100})
	missed := k.until("sess_o", ofType(event.TypeScheduleMissed)).Payload.(*event.ScheduleMissed)
	if missed.Reason != "overlap" || missed.Count != 1 {
		t.Errorf("missed: %+v", missed)
	}
	n := 0
	for _, e := range k.events("sess_o") {
		if e.Type == event.TypeScheduleFired {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d runs at once", n)
	}
}

func TestBadInputOfScheduleCommands(t *testing.T) {
	k := newStage(t)
	k.session("sess_x")
	k.schedule(command.CreateSchedule{ScheduleID: "schedule_x", SessionID: "sess_x", Cron: "0 0 1 1 *"})
	admin, job := command.Local(), event.Raw(smallJob)
	for _, p := range []command.Params{
		&command.CreateSchedule{SessionID: "sess_x", Job: job},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily", EveryMs: 1000, Job: job},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily"},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily", Job: job, Task: event.Raw(`{"objective":"x"}`)},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily", Job: event.Raw(`{"items":[]}`)},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily", Job: event.Raw(`{"nonsense":1}`)},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "61 * * * *", Job: job},
		&command.CreateSchedule{SessionID: "sess_x", Cron: "@daily", TimeZone: "Middle/Earth", Job: job},
		&command.CreateSchedule{SessionID: "sess_x", EveryMs: 5, Job: job},
		&command.CreateSchedule{SessionID: event.RuntimeSession, Cron: "@daily", Job: job},
	} {
		k.refusedAs(admin, fault.InvalidParams, p)
	}
	k.refusedAs(admin, fault.Conflict, &command.CreateSchedule{ScheduleID: "schedule_x", SessionID: "sess_x", Cron: "@daily", Job: job})
	k.refusedAs(admin, fault.NotFound, &command.CreateSchedule{SessionID: "sess_none", Cron: "@daily", Job: job})
	k.refusedAs(admin, fault.NotFound, &command.DeleteSchedule{ScheduleID: "schedule_none"})
	stranger := command.Caller{Account: "acct_other", Actor: event.Actor{Kind: "user"}}
	k.refusedAs(stranger, fault.NotFound, &command.DeleteSchedule{ScheduleID: "schedule_x"})
	if res, err := k.runCommand(stranger, &command.ListSchedules{}); err != nil || len(res.(*command.ListSchedulesResult).Schedules) != 0 || res.(*command.ListSchedulesResult).Total != 0 {
		t.Errorf("a stranger sees %v, %v", res, err)
	}
}

// Schedules of several sessions are listed in pages, each of which counts all that the
// caller may see.
func TestSchedulesComeInPages(t *testing.T) {
	k := newStage(t)
	for i := range 3 {
		k.session(fmt.Sprintf("sess_%d", i))
	}
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("schedule_%d", i)
		want = append(want, id)
		k.schedule(command.CreateSchedule{ScheduleID: id, SessionID: fmt.Sprintf("sess_%d", i%3), Cron: "@yearly"})
	}
	pages := func(p *command.ListSchedules, total int64) (got []string) {
		t.Helper()
		p.Limit = 2
		for {
			res := must[command.ListSchedulesResult](k, p)
			for _, x := range res.Schedules {
				got = append(got, x.ScheduleID)
			}
			if res.Total != total {
				t.Errorf("a page counts %d schedules, not %d", res.Total, total)
			}
			if p.Cursor = res.NextCursor; p.Cursor == "" {
				return got
			}
		}
	}
	if got := pages(&command.ListSchedules{}, 7); !slices.Equal(got, want) {
		t.Errorf("the pages have %v", got)
	}
	if got := pages(&command.ListSchedules{SessionID: "sess_1"}, 2); !slices.Equal(got, []string{"schedule_1", "schedule_4"}) {
		t.Errorf("the pages of one session have %v", got)
	}
	must[command.ScheduleResult](k, &command.DeleteSchedule{ScheduleID: "schedule_4"})
	if got := pages(&command.ListSchedules{}, 6); slices.Contains(got, "schedule_4") || len(got) != 6 {
		t.Errorf("after a deletion the pages have %v", got)
	}
}
