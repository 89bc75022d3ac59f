package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"agentd"
	"agentd/cmd/agentd/internal/rundir"
	"agentd/command"
	"agentd/store"
)

// takeOver has a server that someone starts take the user's data over from the one in
// the background, which lets its running steps end. Until unlock is called commands wait
// for this one, and start no other.
func (s *serving) takeOver(ctx context.Context) (unlock func(), err error) {
	c := s.loaded.Config
	if s.background || c.DataChosen() || !rundir.Supported {
		return func() {}, nil // who started it in the background has the lock
	}
	if err := s.claimData(c); err != nil {
		return nil, err
	}
	if unlock, err = rundir.Lock(ctx, filepath.Join(c.Local(), startLock)); err != nil {
		return nil, err
	}
	n, err := s.liveNote(ctx, c)
	if err == nil && n != nil && n.Background {
		s.log.Info("taking over from the server in the background")
		err = stopNoted(ctx, n)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// openFreed opens the store of the user's own directory as soon as the server before
// has let it go.
func (s *serving) openFreed(ctx context.Context) (store.Store, error) {
	c := s.loaded.Config
	wait, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		opened, err := s.openStore(ctx, c, node{}, s.log)
		if !errors.Is(err, store.ErrLocked) || c.DataChosen() || !s.freedSoon(wait) {
			return opened, err
		}
	}
}

// freedSoon waits a moment for another process to let the data go; false if it is in
// the hands of a server that isn't about to.
func (s *serving) freedSoon(ctx context.Context) bool {
	if n, err := s.liveNote(ctx, s.loaded.Config); err == nil && n != nil && !n.Background {
		return false
	}
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// watchIdle ends a server in the background that has had no clients and no work for as
// long as the configuration says.
func (s *serving) watchIdle(ctx context.Context, end func()) {
	after := time.Duration(s.loaded.Config.Daemon.Idle)
	if after <= 0 {
		return
	}
	tick := time.NewTicker(max(after/20, 10*time.Millisecond))
	defer tick.Stop()
	used, facts := time.Now(), s.runtime.Figures().Facts
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.runtime.Figures().Facts
		if s.door.Connections() > 0 || now != facts {
			used, facts = time.Now(), now
			continue
		}
		if time.Since(used) < after {
			continue
		}
		if work := s.workLeft(ctx); work != "" {
			s.log.Debug("no clients, but work", "work", work)
			used = time.Now()
			continue
		}
		s.log.Info("idle: no clients and no work", "for", after.String())
		end()
		return
	}
}

// workLeft names work that only a running server does; empty if there is none. What
// waits for a person doesn't need one: the answer starts it.
func (s *serving) workLeft(ctx context.Context) string {
	one := command.Page{Limit: 1}
	var sessions command.ListSessionsResult
	var tasks command.ListTasksResult
	var processes command.ListProcessesResult
	for _, q := range []struct {
		what  string
		ask   command.Params
		into  any
		found func() bool
	}{
		{"a turn", &command.ListSessions{Page: one, Status: "running"}, &sessions, func() bool { return len(sessions.Sessions) > 0 }},
		{"a task", &command.ListTasks{Page: one, Status: "running"}, &tasks, func() bool { return len(tasks.Tasks) > 0 }},
		{"a process", &command.ListProcesses{Page: one, Status: "running"}, &processes, func() bool { return len(processes.Processes) > 0 }},
	} {
		if err := doInto(ctx, s.runtime, q.ask, q.into); err != nil {
			return "unknown: " + err.Error()
		}
		if q.found() {
			return q.what
		}
	}
	switch due, err := hasDue(ctx, s.runtime); {
	case err != nil:
		return "unknown: " + err.Error()
	case due:
		return "a schedule"
	}
	return ""
}

// hasDue reports whether a schedule will start something by itself.
func hasDue(ctx context.Context, rt *agentd.Runtime) (due bool, err error) {
	p := &command.ListSchedules{}
	err = command.EachPage(p, func() (string, error) {
		var page command.ListSchedulesResult
		if err := doInto(ctx, rt, p, &page); err != nil {
			return "", err
		}
		if due = slices.ContainsFunc(page.Schedules, func(x command.ScheduleRecord) bool { return x.Status == "active" }); due {
			return "", nil
		}
		return page.NextCursor, nil
	})
	return due, err
}

// doInto carries out a command of the program itself and reads its result.
func doInto(ctx context.Context, rt *agentd.Runtime, p command.Params, result any) error {
	res, err := rt.Do(ctx, command.Local(), p)
	if err != nil {
		return err
	}
	data, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("result of %s: %w", p.Command(), err)
	}
	return json.Unmarshal(data, result)
}
