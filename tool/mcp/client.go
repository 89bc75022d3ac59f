package mcp

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"agentd/tool"
)

// Client holds the connections to a set of servers.
type Client struct {
	servers []*server
	cancel  context.CancelCauseFunc
	done    sync.WaitGroup
}

// Open begins to connect to the servers and returns at once; see [Client.Settle].
// The connections end with ctx or with Close, whichever comes first; Close must
// be called in any case.
func Open(ctx context.Context, servers []Server, opts Options) *Client {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Client{cancel: cancel}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Version == "" {
		opts.Version = "dev"
	}
	if opts.pause == nil {
		opts.pause = retryDelay
	}
	for _, cfg := range servers {
		c.servers = append(c.servers, newServer(cfg, opts))
	}
	for _, s := range c.servers {
		c.done.Go(func() { s.runConnection(ctx) })
	}
	return c
}

// Settle waits until the first attempt to reach each server ended, whatever came
// of it, or until ctx ends.
func (c *Client) Settle(ctx context.Context) error {
	for _, s := range c.servers {
		select {
		case <-s.settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Tools returns the tools that the servers offer, sorted by name. Those of a
// server that can't be had at the moment are among them: they are an
// [tool.Availability] that says no.
func (c *Client) Tools() []tool.Tool {
	var all []tool.Tool
	for _, s := range c.servers {
		for _, t := range s.snapshot() {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b tool.Tool) int {
		return strings.Compare(a.(*remote).info.ToolName, b.(*remote).info.ToolName)
	})
	// Names are unique a server by construction, and over servers but for equal
	// hashes: then the first one wins.
	return slices.CompactFunc(all, func(a, b tool.Tool) bool {
		return a.(*remote).info.ToolName == b.(*remote).info.ToolName
	})
}

// Status returns what is known about each server, in the order of Open.
func (c *Client) Status() []Status {
	list := make([]Status, 0, len(c.servers))
	for _, s := range c.servers {
		list = append(list, s.status())
	}
	return list
}

// Close ends all calls, connections and processes and waits until they ended.
func (c *Client) Close() {
	c.cancel(errClosed)
	c.done.Wait()
}
