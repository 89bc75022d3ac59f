package loop

import (
	"errors"
	"testing"
	"time"
)

// An alarm that goes off while it is taken back finds something else under way, such
// as the model call that follows what it was set for, and must not stop that.
func TestAnAlarmStopsOnlyWhatItWasSetFor(t *testing.T) {
	k, now := key{"sess_a", "thread_a"}, time.Now()
	var stopped error
	l := &Loop{
		alarms: map[key]*alarm{}, runners: map[key]*runner{k: {interrupt: func(cause error) { stopped = cause }}},
		opt: Options{Clock: func() time.Time { return now }},
	}
	l.setAlarm(k, now.Add(time.Hour))
	before := l.alarms[k]
	l.setAlarm(k, now.Add(time.Hour))
	if l.ringAlarm(k, before); stopped != nil {
		t.Fatal("an alarm that was replaced stopped what was under way")
	}
	l.setAlarm(k, now.Add(time.Hour))
	late := l.alarms[k]
	l.setAlarm(k, time.Time{})
	if l.ringAlarm(k, late); stopped != nil {
		t.Fatal("an alarm that was taken back stopped what was under way")
	}
	l.setAlarm(k, now.Add(time.Hour))
	if l.ringAlarm(k, l.alarms[k]); !errors.Is(stopped, errDeadline) {
		t.Fatal("an alarm stopped nothing")
	}
}
