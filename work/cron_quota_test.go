package work_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/quota"
)

// TestSchedulesThatRunTooOftenAreRefused asks for schedules on both sides of the
// shortest interval, in both forms.
func TestSchedulesThatRunTooOftenAreRefused(t *testing.T) {
	k := newStage(t)
	k.session("sess_s")
	for _, c := range []struct {
		cron  string
		every int64
		least time.Duration
		ok    bool
	}{
		{every: 100, least: time.Second},
		{every: 999, least: time.Second},
		{every: 1000, least: time.Second, ok: true},
		{every: 100, ok: true},
		{cron: "* * * * *", least: time.Minute, ok: true},
		{cron: "* * * * *", least: 2 * time.Minute},
		{cron: "0,3 12 * * *", least: 5 * time.Minute},
		{cron: "*/5 * * * *", least: 5 * time.Minute, ok: true},
		{cron: "@yearly", least: time.Hour, ok: true},
		{cron: "0 0 29 2 *", least: time.Hour, ok: true},
	} {
		k.m.SetQuotas(quota.Policy{Operator: quota.Limits{ScheduleMinInterval: c.least}})
		_, err := k.runCommand(command.Local(), &command.CreateSchedule{SessionID: "sess_s", Cron: c.cron, EveryMs: c.every, Job: event.Raw(smallJob)})
		switch {
		case c.ok && err != nil:
			t.Errorf("%q %d ms at least %v: %v", c.cron, c.every, c.least, err)
		case !c.ok && (fault.KindOf(err) != fault.InvalidParams || !strings.Contains(err.Error(), fmt.Sprint(c.least))):
			t.Errorf("%q %d ms at least %v: %v", c.cron, c.every, c.least, err)
		}
	}
}
