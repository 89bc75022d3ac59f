package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentd/cmd/agentd/internal/config"
	"agentd/fault"
	"agentd/internal/filelock"
	"agentd/server"
	"agentd/store"
)

// nodesDir holds the names of the nodes that run from a directory of this machine.
const nodesDir = "nodes"

// maxNodesHere bounds the nodes that run from one directory at once.
const maxNodesHere = 64

// nodeName returns the name of the node that this process is. A name that wasn't chosen is
// made once and kept in a file, which is locked for as long as the process lives: the next
// process has the same name and so the sessions of the one before, and two at once have
// two names.
func nodeName(c *config.Config) (name string, release func() error, err error) {
	if c.Node.Name != "" {
		return c.Node.Name, func() error { return nil }, nil
	}
	dir := filepath.Join(c.Local(), nodesDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("node name: %w", err)
	}
	for i := range maxNodesHere {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i+1)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", nil, fmt.Errorf("node name: %w", err)
		}
		if err := tryLockName(f); errors.Is(err, filelock.ErrHeld) {
			_ = f.Close()
			continue
		} else if err != nil {
			return "", nil, errors.Join(fmt.Errorf("node name: %w", err), f.Close())
		}
		name, err := keptName(f)
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("node name: %w", err), f.Close())
		}
		return name, f.Close, nil
	}
	return "", nil, fmt.Errorf("%d nodes run from %s already; give this one another directory with --state-dir, or a name with node.name", maxNodesHere, c.Local())
}

// keptName returns the name in a file, and makes it if the file is empty.
func keptName(f *os.File) (string, error) {
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return "", err
	}
	if name := strings.TrimSpace(string(data)); name != "" {
		return name, nil
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := host + "-" + strings.ToLower(rand.Text()[:8])
	if _, err := f.WriteString(name + "\n"); err != nil {
		return "", err
	}
	return name, f.Sync()
}

// advertised is where other nodes reach this one: what the configuration says, else where
// it listens.
func advertised(c *config.Config, addr net.Addr, secure bool) string {
	if c.Advertise != "" {
		return strings.TrimSuffix(c.Advertise, "/")
	}
	return nodeURL(addr, secure)
}

// servedHosts are the names by which this server may be addressed: those of the
// configuration, and the one under which it told the other nodes that it is reached.
func servedHosts(c *config.Config, address string) []string {
	hosts := append([]string{}, c.AllowedHosts...)
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// nodesSeen is who the nodes of a database are. All that ask within a moment share one look.
type nodesSeen struct {
	shared store.Shared

	mu    sync.Mutex
	at    time.Time
	nodes []store.Node
}

// nodeLook is how long a look at the nodes is good for.
const nodeLook = 400 * time.Millisecond

// lookAtNodes returns the nodes, as they were a moment ago at most.
func (n *nodesSeen) lookAtNodes(ctx context.Context) ([]store.Node, error) {
	return n.lookSince(ctx, time.Now().Add(-nodeLook))
}

// findNode returns a node that fits, or nil. Before it says that there is none it looks anew:
// one that has just started isn't in a look of a moment ago.
func (n *nodesSeen) findNode(ctx context.Context, fits func(store.Node) bool) (*store.Node, error) {
	asked := time.Now()
	for _, since := range []time.Time{asked.Add(-nodeLook), asked} {
		nodes, err := n.lookSince(ctx, since)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(nodes, fits); i >= 0 {
			return &nodes[i], nil
		}
	}
	return nil, nil
}

// lookSince returns the nodes as they were at a moment, or later.
func (n *nodesSeen) lookSince(ctx context.Context, since time.Time) ([]store.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); n.at.Before(since) {
		nodes, err := n.shared.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		n.at, n.nodes = now, nodes
	}
	return n.nodes, nil
}

// warnOfSameAddress says that another node is reached where this one is, as when both are on
// machines of their own and advertise 127.0.0.1.
func (s *serving) warnOfSameAddress(ctx context.Context) {
	nodes, err := s.others.lookAtNodes(ctx)
	if err != nil || s.address == "" {
		return // what is wrong with the database is said elsewhere
	}
	for i := range nodes {
		if n := &nodes[i]; n.Alive && !n.Self && n.Address == s.address {
			s.log.Warn("another node has this one's address, so what is passed on to it comes here; unless it has just ended, set advertise to where other nodes reach this one", "address", s.address, "node", n.ID)
		}
	}
}

// isAlive reports whether one of the nodes lives at an address, which is a scheme and a host.
func (n *nodesSeen) isAlive(ctx context.Context, address string) (bool, error) {
	nodes, err := n.lookAtNodes(ctx)
	return slices.ContainsFunc(nodes, func(x store.Node) bool {
		return x.Alive && (x.Address == address || strings.HasPrefix(x.Address, address+"/"))
	}), err
}

// nodeAlive returns what says whether a node lives, or nil if the store has only one.
func (s *serving) nodeAlive() func(context.Context, string) (bool, error) {
	if s.others == nil {
		return nil
	}
	return s.others.isAlive
}

// nodeMark stands for a node where its name would tell clients more than they need.
func nodeMark(name string) string {
	sum := sha256.Sum256([]byte("node mark\n" + name))
	return hex.EncodeToString(sum[:8])
}

// passToNode has the node of a mark answer a request to a mount, and reports whether there is
// such a node.
func (s *serving) passToNode(r *http.Request, mark string) bool {
	if s.others == nil {
		return false
	}
	n, err := s.others.findNode(r.Context(), func(n store.Node) bool {
		return n.Alive && !n.Self && n.Address != "" && nodeMark(n.ID) == mark
	})
	if err != nil || n == nil {
		return false
	}
	// A client whose session is gone opens another one, here as well.
	f := fault.New(fault.NotFound, "the node that has this session doesn't answer: open another one")
	f.Elsewhere = n.Address
	return server.PassOn(r.Context(), f)
}
