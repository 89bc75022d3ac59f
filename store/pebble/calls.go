package pebble

import (
	"context"
	"sync"

	"agentd/store"
)

// calls counts the running calls. It is not a lock: a call may be made inside an
// iteration while another goroutine waits in Close.
type calls struct {
	mu     sync.Mutex
	idle   *sync.Cond
	n      int
	closed bool
}

func (c *calls) init() { c.idle = sync.NewCond(&c.mu) }

// enter counts a call unless ctx has ended; done must be called at its end.
func (c *calls) enter(ctx context.Context) (done func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done, ok := c.join()
	if !ok {
		return nil, store.ErrClosed
	}
	return done, nil
}

// join counts a call. It is false after Close.
func (c *calls) join() (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.n++
	return c.leave, true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 {
		c.idle.Broadcast()
	}
}

// close refuses further calls. It is false if that was done before.
func (c *calls) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.closed
	c.closed = true
	return !was
}

func (c *calls) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.n > 0 {
		c.idle.Wait()
	}
}
