package peer

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"agentd/command"
	"agentd/event"
)

// Client gives tasks to peers and follows them there.
type Client struct {
	opt   Options
	peers map[string]*Peer
	rt    command.Runtime

	ctx    context.Context //nolint:containedctx // its life, ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// enrolling guards the opening of channels.
	enrolling sync.Mutex

	mu sync.Mutex
	// early are the tasks that were woken before Start, with their sessions.
	early map[string]string
	// runs are the tasks that something is done about.
	runs map[string]*run
	// tried are the attempts that this process has tried: one that is held is tried
	// again after a restart.
	tried map[string]bool
	state phase
}

// phase of a client's life.
type phase int

const (
	waiting phase = iota
	running
	closed
)

// New returns a client that does nothing until Start.
func New(opt Options) (*Client, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	c := &Client{opt: opt, peers: map[string]*Peer{}, early: map[string]string{}, runs: map[string]*run{}, tried: map[string]bool{}}
	for i := range opt.Peers {
		p := &opt.Peers[i]
		if c.peers[p.ID] != nil {
			return nil, fmt.Errorf("peer: there are two peers named %s", p.ID)
		}
		c.peers[p.ID] = p
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Start begins to work on what was and is woken.
func (c *Client) Start(rt command.Runtime) {
	c.mu.Lock()
	if c.state != waiting {
		c.mu.Unlock()
		return
	}
	c.rt, c.state = rt, running
	early := c.early
	c.early = nil
	c.mu.Unlock()
	for taskID, sessionID := range early {
		c.Wake(sessionID, taskID)
	}
}

// Close stops working and waits. The tasks go on at their peers.
func (c *Client) Close() {
	c.mu.Lock()
	c.state = closed
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Check refuses a peer that nothing can be given to: one that is not configured and
// is no address of a card.
func (c *Client) Check(ref string) error {
	_, err := c.peer(ref)
	return err
}

// peer finds a peer by its id or makes one of the address of its card.
func (c *Client) peer(ref string) (*Peer, error) {
	if p := c.peers[ref]; p != nil {
		return p, nil
	}
	if !strings.Contains(ref, "://") {
		return nil, fmt.Errorf("there is no peer named %q", ref)
	}
	if c.opt.CardsOff {
		return nil, fmt.Errorf("only configured peers can be used")
	}
	if _, err := cardAddress(ref); err != nil {
		return nil, err
	}
	return &Peer{ID: ref, CardURL: ref, Delivery: DeliveryAuto}, nil
}

// Wake says that a task of a peer may have changed. It returns at once.
func (c *Client) Wake(sessionID, taskID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case waiting:
		c.early[taskID] = sessionID
		return
	case closed:
		return
	case running:
	}
	if r := c.runs[taskID]; r != nil {
		signalChan(r.woken)
		return
	}
	r := &run{c: c, taskID: taskID, sessionID: sessionID, woken: make(chan struct{}, 1), told: make(chan struct{}, 1)}
	c.runs[taskID] = r
	c.wg.Go(func() { r.runSteps(c.ctx) })
}

func signalChan(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// leave takes a run out, unless it was woken in the meantime.
func (c *Client) leave(r *run) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-r.woken:
		return false
	default:
	}
	delete(c.runs, r.taskID)
	return true
}

// first reports whether this process sees an attempt for the first time.
func (c *Client) first(runID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.tried[runID]
	c.tried[runID] = true
	return !known
}

// forget drops what is remembered of an attempt that is over.
func (c *Client) forget(runID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tried, runID)
}

// caller is the client itself as the caller of commands.
func caller() command.Caller {
	return command.Caller{Admin: true, Actor: event.Actor{Kind: "runtime", ID: "a2a"}}
}

// work reads what is known of a task.
func (c *Client) work(ctx context.Context, taskID string) (*command.PeerWork, error) {
	res, err := c.rt.Do(ctx, caller(), &command.GetPeerWork{TaskID: taskID})
	if err != nil {
		return nil, fmt.Errorf("peer: task %s: %w", taskID, err)
	}
	w, ok := res.(*command.PeerWork)
	if !ok {
		return nil, fmt.Errorf("peer: task %s: unexpected %T", taskID, res)
	}
	return w, nil
}
