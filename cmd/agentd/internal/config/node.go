package config

import (
	"net"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// minConnections is the smallest budget of connections to the database that a node can
	// work with.
	minConnections = 6
	// minLease is the shortest lease that a busy machine can keep.
	minLease = time.Second
	// maxNodeName is how long a node's name may be for the commands that are about it.
	maxNodeName = 256
)

// checkNode reports what a node can't be, alone or beside others.
func (c *Config) checkNode(add reporter) {
	n := &c.Node
	if lease := time.Duration(n.Lease); lease < minLease {
		add("node.lease", "%v is too short: it must be at least %v, because a node renews it three times in that time", lease, minLease)
	}
	for _, s := range []struct{ path, name string }{{"node.name", n.Name}, {"node.pool", n.Pool}} {
		if s.name != "" && !isNodeName(s.name) {
			add(s.path, "must have at most %d bytes, all of them printable, and no space at either end", maxNodeName)
		}
	}
	if n.Connections != 0 && n.Connections < minConnections {
		add("node.connections", "must be at least %d: one for the lease, one to follow other nodes, and four for the work", minConnections)
	}
	if (n.TLS.CA == "") != (n.TLS.Cert == "") || (n.TLS.CA == "") != (n.TLS.Key == "") {
		add("node.tls", "ca, cert and key must be given together")
	}
	if u, err := url.Parse(c.Advertise); err == nil {
		if u.RawQuery != "" || u.Fragment != "" {
			add("advertise", "must end with the host, its port or a path: requests of other nodes are appended to it")
		}
		if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
			add("advertise", "%s is no address of a machine: name one by which other nodes reach this one", u.Hostname())
		}
	}
	if n.TLS.CA != "" && c.Database() && strings.HasPrefix(strings.ToLower(c.Advertise), "http://") {
		add("advertise", "must begin with https://: nodes with node.tls reach each other over TLS only")
	}
}

// isNodeName reports whether a text can name a node or a pool: it is part of commands, of lines
// of a list and of entries of an index.
func isNodeName(s string) bool {
	return len(s) <= maxNodeName && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
