package agentd

import (
	"context"
	"sync"

	"agentd/command"
	"agentd/fault"
)

// lanes let calls through one after the other that have the same idempotency key or
// name a new thing with the same id. A command may look and write more than once: the
// same call at the same time would find the first one half done, and be refused or do
// it again, instead of being told the first result.
type lanes struct {
	mu    sync.Mutex
	names map[string]*lane
}

type lane struct {
	// turn holds one token while somebody is in the lane.
	turn  chan struct{}
	users int
}

// lanesOf names the lanes of a call: a key's always before an id's, so that two calls
// never wait for each other.
func lanesOf(caller command.Caller, p command.Params) []string {
	var out []string
	if m, ok := p.(command.Mutating); ok && m.Key() != "" {
		out = append(out, "key/"+caller.Account+"/"+m.Key())
	}
	if id := givenID(p); id != "" {
		out = append(out, string(p.Command())+"/"+id)
	}
	return out
}

// givenID is the id that the caller gives to what the command makes.
func givenID(p command.Params) string {
	switch p := p.(type) {
	case *command.CreateSession:
		return p.SessionID
	case *command.SubmitTurn:
		return p.TurnID
	case *command.CreateTask:
		return p.TaskID
	case *command.SpawnSubagent:
		return p.SubagentID
	case *command.CreateJob:
		return p.JobID
	case *command.CreateSchedule:
		return p.ScheduleID
	case *command.ConnectChannel:
		return p.ChannelID
	case *command.StartBenchmarkTrial:
		return p.Benchmark.TrialID
	}
	return ""
}

// enter waits until all of the lanes are free. Whoever entered leaves.
func (l *lanes) enter(ctx context.Context, names []string) (leave func(), err error) {
	if len(names) == 0 {
		return func() {}, nil
	}
	var in []func()
	leave = func() {
		for _, out := range in {
			out()
		}
	}
	for _, name := range names {
		out, err := l.enterOne(ctx, name)
		if err != nil {
			leave()
			return nil, err
		}
		in = append(in, out)
	}
	return leave, nil
}

func (l *lanes) enterOne(ctx context.Context, name string) (leave func(), err error) {
	l.mu.Lock()
	at := l.names[name]
	if at == nil {
		if l.names == nil {
			l.names = map[string]*lane{}
		}
		at = &lane{turn: make(chan struct{}, 1)}
		l.names[name] = at
	}
	at.users++
	l.mu.Unlock()
	select {
	case at.turn <- struct{}{}:
		return func() {
			<-at.turn
			l.gone(name, at)
		}, nil
	case <-ctx.Done():
		l.gone(name, at)
		return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "the same call is still being carried out")
	}
}

// gone forgets a lane that nobody uses any more.
func (l *lanes) gone(name string, at *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(l.names, name)
	}
}
