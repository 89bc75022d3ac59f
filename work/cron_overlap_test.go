package work_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/storetest"
)

// story tells the facts of a session's schedules, with the time since a moment.
func (k *crew) story(sessionID string, since time.Time) []string {
	k.Helper()
	var out []string
	for _, e := range k.facts(sessionID) {
		at := e.Time.Sub(since).Round(time.Second)
		switch p := e.Payload.(type) {
		case *event.ScheduleFired:
			out = append(out, fmt.Sprintf("%s fired %s", at, p.DueAt.Sub(since).Round(time.Second)))
		case *event.ScheduleQueued:
			out = append(out, fmt.Sprintf("%s queued %s", at, p.DueAt.Sub(since).Round(time.Second)))
		case *event.ScheduleMissed:
			out = append(out, fmt.Sprintf("%s missed %d %s", at, p.Count, p.Reason))
		case *event.SchedulePaused:
			out = append(out, fmt.Sprintf("%s paused", at))
		case *event.ScheduleResumed:
			out = append(out, fmt.Sprintf("%s resumed", at))
		}
	}
	return out
}

// runsFor is a crew whose runs take that long.
func runsFor(t *testing.T, long time.Duration) *crew {
	t.Helper()
	return runsOn(t, storetest.NewMem(), long)
}

func runsOn(t *testing.T, s store.Store, long time.Duration) *crew {
	t.Helper()
	k := &crew{TB: t, store: s, script: &script.Script{Repeat: true, Answers: []script.Answer{{Text: "ok", Stall: long}}}}
	k.started()
	k.session("sess_a")
	return k
}

// TestOverlapQueueLetsOneRunWait has runs of 25 minutes every 10: one waits for the
// end of the run before, those that are due in the meantime are missed, and a restart
// changes nothing of that. The end of a run starts the next at once.
func TestOverlapQueueLetsOneRunWait(t *testing.T) {
	for kind, p := range map[string]command.CreateSchedule{
		"task": {Task: event.Raw(`{"objective":"x"}`)}, "job": {Job: event.Raw(`{"instruction":"x","items":[{"input":"y"}]}`)},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := runsOn(t, newCrewStore(t), 25*time.Minute)
				begin := time.Now()
				p.ScheduleID, p.SessionID, p.EveryMs, p.Overlap = "schedule_a", "sess_a", 600_000, "queue"
				ask[command.ScheduleResult](k, &p)
				time.Sleep(21 * time.Minute)
				x := ask[command.ListSchedulesResult](k, &command.ListSchedules{}).Schedules[0]
				if x.QueuedDueAt.Sub(begin) != 20*time.Minute || x.Fired != 1 || x.NextAt.Sub(begin) != 30*time.Minute {
					t.Errorf("the schedule: %+v", x)
				}
				k.restart()
				time.Sleep(41 * time.Minute)
				synctest.Wait()
				// The restart asks the model anew, so the first run takes until minute 46.
				want := []string{"10m0s fired 10m0s", "20m0s queued 20m0s", "30m0s missed 1 overlap", "40m0s missed 1 overlap", "46m0s fired 20m0s", "50m0s queued 50m0s", "1h0m0s missed 1 overlap"}
				if got := k.story("sess_a", begin); !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			})
		})
	}
}

// TestMissedRunsAreStartedOneAfterTheOther is down for an hour with run_all: each
// missed run is started when the one before has ended.
func TestMissedRunsAreStartedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runsFor(t, 4*time.Minute)
		begin := time.Now()
		ask[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_a", EveryMs: 1_200_000, Missed: "run_all", Task: event.Raw(`{"objective":"x"}`)})
		k.close()
		time.Sleep(65 * time.Minute)
		k.open()
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		want := []string{"1h5m0s fired 20m0s", "1h9m0s fired 40m0s", "1h13m0s fired 1h0m0s", "1h20m0s fired 1h20m0s"}
		if got := k.story("sess_a", begin); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestMissedRunsOfAShortIntervalAreCounted is down for a year: the missed runs are
// counted, not walked through.
func TestMissedRunsOfAShortIntervalAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runsFor(t, 0)
		no := `{"instruction":"x","items":[{"input":"y"}],"start":false}`
		ask[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_a", EveryMs: 100, Missed: "skip", Overlap: "allow", Job: event.Raw(no)})
		k.close()
		time.Sleep(365 * 24 * time.Hour)
		k.open()
		synctest.Wait()
		for _, e := range k.facts("sess_a") {
			if p, ok := e.Payload.(*event.ScheduleMissed); ok {
				if want := int64(365 * 24 * 3600 * 10); p.Count < want-10 || p.Count > want+10 || p.Reason != "down" {
					t.Errorf("missed: %+v", p)
				}
				return
			}
		}
		t.Error("no run was missed")
	})
}

func TestAScheduleIsPausedAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newCrew(t, script.Answer{Text: "ok"})
		k.session("sess_a")
		begin := time.Now()
		ask[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_a", EveryMs: 600_000, Missed: "skip", Task: event.Raw(`{"objective":"x"}`)})
		time.Sleep(11 * time.Minute)
		for range 2 { // pausing what is paused changes nothing
			if res := ask[command.ScheduleResult](k, &command.PauseSchedule{ScheduleID: "schedule_a", Reason: "lunch"}); res.Status != "paused" {
				t.Errorf("paused: %+v", res)
			}
		}
		time.Sleep(30 * time.Minute)
		k.restart()
		x := ask[command.ListSchedulesResult](k, &command.ListSchedules{}).Schedules[0]
		if x.Status != "paused" || x.StatusReason != "lunch" || x.Fired != 1 {
			t.Errorf("the schedule: %+v", x)
		}
		for range 2 {
			if res := ask[command.ScheduleResult](k, &command.ResumeSchedule{ScheduleID: "schedule_a"}); res.Status != "active" {
				t.Errorf("resumed: %+v", res)
			}
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []string{"10m0s fired 10m0s", "11m0s paused", "41m0s resumed", "41m0s missed 3 paused", "50m0s fired 50m0s"}
		if got := k.story("sess_a", begin); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		k.refuse(fault.NotFound, &command.PauseSchedule{ScheduleID: "schedule_none"}, "schedule_none")
		stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
		k.refuseTo(stranger, fault.NotFound, &command.PauseSchedule{ScheduleID: "schedule_a"}, "schedule_a")
		ask[command.ScheduleResult](k, &command.DeleteSchedule{ScheduleID: "schedule_a"})
		k.refuse(fault.Conflict, &command.ResumeSchedule{ScheduleID: "schedule_a"}, "deleted")
	})
}

// TestRunsFollowTheClocksOfTheirZone lets a schedule run over both changes of the
// clocks in Paris.
func TestRunsFollowTheClocksOfTheirZone(t *testing.T) {
	if _, err := time.LoadLocation("Europe/Paris"); err != nil {
		t.Skipf("no time zones on this machine, changes of the clocks are not checked: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		k := runsFor(t, 0)
		// over returns what is due on the days around a change of the clocks.
		over := func(name string, from time.Time) map[string][]string {
			time.Sleep(time.Until(from)) // a bubble begins in 2000
			k.session("sess_" + name)
			for what, cron := range map[string]string{"six": "0 6 * * *", "night": "30 2 * * *", "hour": "30 * * * *"} {
				ask[command.ScheduleResult](k, &command.CreateSchedule{
					ScheduleID: name + "_" + what, SessionID: "sess_" + name, Cron: cron, TimeZone: "Europe/Paris", Overlap: "allow",
					Job: event.Raw(`{"instruction":"x","items":[{"input":"y"}]}`),
				})
			}
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			out := map[string][]string{}
			for _, e := range k.facts("sess_" + name) {
				switch p := e.Payload.(type) {
				case *event.ScheduleFired:
					out[p.ScheduleID] = append(out[p.ScheduleID], p.DueAt.UTC().Format("01-02T15:04"))
				case *event.ScheduleMissed:
					t.Errorf("missed: %+v", p)
				}
			}
			for _, what := range []string{"six", "night", "hour"} {
				ask[command.ScheduleResult](k, &command.DeleteSchedule{ScheduleID: name + "_" + what})
			}
			return out
		}
		// On 26 March 2000 the clocks go from 02:00 to 03:00, on 29 October from 03:00 to
		// 02:00.
		spring := over("spring", time.Date(2000, 3, 25, 12, 0, 0, 0, time.UTC))
		if !slices.Equal(spring["spring_six"], []string{"03-26T04:00"}) || len(spring["spring_night"]) != 0 || len(spring["spring_hour"]) != 24 {
			t.Errorf("in spring: %v", spring)
		}
		autumn := over("autumn", time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC))
		if !slices.Equal(autumn["autumn_six"], []string{"10-29T05:00"}) || !slices.Equal(autumn["autumn_night"], []string{"10-29T00:30"}) || len(autumn["autumn_hour"]) != 24 {
			t.Errorf("in autumn: %v", autumn)
		}
	})
}

// TestRunScheduleStartsOneNow asks for runs between those that are due: one starts at
// once, one waits for its end, a third is the one that waits, and none moves the times.
func TestRunScheduleStartsOneNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runsOn(t, newCrewStore(t), 2*time.Minute)
		begin := time.Now()
		ask[command.ScheduleResult](k, &command.CreateSchedule{ScheduleID: "schedule_a", SessionID: "sess_a", EveryMs: 3_600_000, Task: event.Raw(`{"objective":"x"}`)})
		time.Sleep(time.Minute)
		for range 3 {
			if res := ask[command.ScheduleResult](k, &command.RunSchedule{ScheduleID: "schedule_a"}); res.Status != "active" || res.NextAt.Sub(begin) != time.Hour {
				t.Errorf("run: %+v", res)
			}
			time.Sleep(10 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := []string{"1m0s queued 1m0s", "1m0s fired 1m0s", "1m10s queued 1m10s", "3m0s fired 1m10s"}
		if got := k.story("sess_a", begin); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		ask[command.ScheduleResult](k, &command.PauseSchedule{ScheduleID: "schedule_a"})
		k.refuse(fault.Conflict, &command.RunSchedule{ScheduleID: "schedule_a"}, "paused")
		k.refuse(fault.NotFound, &command.RunSchedule{ScheduleID: "schedule_none"}, "schedule_none")
		stranger := command.Caller{Account: "stranger", Actor: event.Actor{Kind: "user"}}
		k.refuseTo(stranger, fault.NotFound, &command.RunSchedule{ScheduleID: "schedule_a"}, "schedule_a")
	})
}
