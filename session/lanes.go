package session

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
	// turn holds one token while a call is in the lane.
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
	if c, ok := p.(command.Creating); ok {
		if noun, id := c.NewID(); id != "" {
			out = append(out, noun+"/"+id)
		}
	}
	return out
}

// enter waits until all of the lanes are free. A caller that entered must call leave.
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
			l.release(name, at)
		}, nil
	case <-ctx.Done():
		l.release(name, at)
		return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "the same call is still being carried out")
	}
}

// release forgets a lane once the last call is out of it.
func (l *lanes) release(name string, at *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.users--; at.users == 0 {
		delete(l.names, name)
	}
}
