package work

import (
	"testing"
	"time"

	"agentd/event"
	"agentd/state"
)

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	out, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCronNext(t *testing.T) {
	for _, c := range []struct{ cron, zone, after, want string }{
		{"* * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"*/15 * * * *", "UTC", "2026-01-01T00:16:30Z", "2026-01-01T00:30:00Z"},
		{"5/20 * * * *", "UTC", "2026-01-01T00:26:00Z", "2026-01-01T00:45:00Z"},
		{"0 6 * * 1-5", "UTC", "2026-01-02T06:00:00Z", "2026-01-05T06:00:00Z"},
		{"0 6 * * mon-fri", "Europe/Paris", "2026-07-03T03:00:00Z", "2026-07-03T04:00:00Z"},
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"0 0 * * 7", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"30 4 1,15 * *", "UTC", "2026-01-01T05:00:00Z", "2026-01-15T04:30:00Z"},
		{"@daily", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},
		{"0 9 * dec *", "UTC", "2026-01-01T00:00:00Z", "2026-12-01T09:00:00Z"},
		// In Paris 2026-03-29 has no 02:30, and 2026-10-25 has it twice.
		{"30 2 * * *", "Europe/Paris", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"30 2 25 10 *", "Europe/Paris", "2026-10-25T01:30:00Z", "2027-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Paris", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Paris", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		// What is due in every hour is so in both hours that show the same time, and an
		// hour after another where one is skipped.
		{"30 * * * *", "Europe/Paris", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"*/20 * * * *", "Europe/Paris", "2026-10-25T00:40:00Z", "2026-10-25T01:00:00Z"},
		{"30 * * * *", "Europe/Paris", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		{"0 * * * 0", "Europe/Paris", "2026-03-28T12:00:00Z", "2026-03-28T23:00:00Z"},
		// Each day at six by the clocks of the place, which is an hour earlier in summer.
		{"0 6 * * *", "Europe/Paris", "2026-03-28T06:00:00Z", "2026-03-29T04:00:00Z"},
		{"0 6 * * *", "Europe/Paris", "2026-10-24T05:00:00Z", "2026-10-25T05:00:00Z"},
		{"15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:50:00Z", "2026-04-04T15:45:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Skipf("no time zones on this machine, %s is not checked: %v", c.zone, err)
		}
		spec, err := parseCron(c.cron, zone)
		if err != nil {
			t.Errorf("%s: %v", c.cron, err)
			continue
		}
		if got := spec.next(parseTime(t, c.after)); !got.Equal(parseTime(t, c.want)) {
			t.Errorf("%s in %s after %s: %s, want %s", c.cron, c.zone, c.after, got.UTC().Format(time.RFC3339), c.want)
		}
	}
}

func TestBadCron(t *testing.T) {
	for _, c := range []string{"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "x * * * *", "0 0 31 2 *", "@never"} {
		if _, err := parseCron(c, time.UTC); err == nil {
			t.Errorf("%q was taken", c)
		}
	}
}

func TestIntervalsAreCountedFromTheirBeginning(t *testing.T) {
	from := parseTime(t, "2026-01-01T00:00:00Z")
	d := &timing{every: time.Minute, from: from}
	for after, want := range map[time.Duration]time.Duration{0: time.Minute, 59 * time.Second: time.Minute, time.Minute: 2 * time.Minute, 150 * time.Second: 3 * time.Minute} {
		if got := d.next(from.Add(after)); !got.Equal(from.Add(want)) {
			t.Errorf("after %s: %s", after, got.Sub(from))
		}
	}
}

func TestMissedRunsFollowThePolicy(t *testing.T) {
	from := parseTime(t, "2026-01-01T00:00:00Z")
	hourly, often := &timing{every: time.Hour, from: from}, &timing{every: 10 * time.Second, from: from.Add(time.Hour)}
	hour := func(n int) time.Time { return from.Add(time.Duration(n) * time.Hour) }
	for _, c := range []struct {
		policy string
		now    time.Time
		due    time.Time
		missed *event.ScheduleMissed
	}{
		{"skip", hour(1).Add(-time.Second), time.Time{}, nil},
		{"skip", hour(1).Add(time.Second), hour(1), nil},
		{"skip", hour(3).Add(30 * time.Second), time.Time{}, &event.ScheduleMissed{ScheduleID: "s", Reason: "down", Count: 2, FirstDueAt: hour(1), LastDueAt: hour(3), NextAt: hour(3)}},
		{"skip", hour(3).Add(2 * time.Minute), time.Time{}, &event.ScheduleMissed{ScheduleID: "s", Reason: "down", Count: 3, FirstDueAt: hour(1), LastDueAt: hour(3), NextAt: hour(4)}},
		{"run_once", hour(1).Add(30 * time.Minute), hour(1), nil},
		{"run_once", hour(3).Add(time.Minute), time.Time{}, &event.ScheduleMissed{ScheduleID: "s", Reason: "down", Count: 2, FirstDueAt: hour(1), LastDueAt: hour(3), NextAt: hour(3)}},
		{"run_all", hour(3).Add(time.Minute), hour(1), nil},
		{"run_all", hour(maxCatchUp + 5), time.Time{}, &event.ScheduleMissed{ScheduleID: "s", Reason: "down", Count: maxCatchUp + 4, FirstDueAt: hour(1), LastDueAt: hour(maxCatchUp + 5), NextAt: hour(maxCatchUp + 5)}},
	} {
		got := planRuns(&state.Schedule{ScheduleID: "s", Missed: c.policy, NextAt: hour(1)}, hourly, c.now, false)
		if !got.run.Equal(c.due) || (got.missed == nil) != (c.missed == nil) || (c.missed != nil && *got.missed != *c.missed) {
			t.Errorf("%s at %s: due %s, missed %+v", c.policy, c.now, got.run, got.missed)
		}
	}
	// Of several that are due within what counts as in time, one is started.
	last := hour(1).Add(30 * time.Second)
	for _, policy := range []string{"skip", "run_once", "run_all"} {
		x := &state.Schedule{ScheduleID: "s", Missed: policy, Overlap: "allow", NextAt: hour(1)}
		got := planRuns(x, often, last.Add(time.Second), false)
		if policy == "run_all" {
			if !got.run.Equal(hour(1)) {
				t.Errorf("%s: %+v", policy, got)
			}
			continue
		}
		if got.missed == nil || got.missed.Count != 3 || !got.missed.NextAt.Equal(last) {
			t.Errorf("%s: %+v", policy, got)
		}
		x.NextAt = last
		if got := planRuns(x, often, last.Add(time.Second), false); !got.run.Equal(last) || !got.next.Equal(last.Add(10*time.Second)) {
			t.Errorf("%s, the last: %+v", policy, got)
		}
	}
}
