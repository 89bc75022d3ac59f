package main

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"agentd/cmd/agentd/internal/config"
	"agentd/internal/netaddr"
	"agentd/server"
	"agentd/server/oidc"
	"agentd/store/postgres"
)

// pendingFinding says that a database's tables aren't those of this version.
func pendingFinding(e *postgres.PendingError) finding {
	if e.New {
		return ok("store", "the database has no tables yet; \"agentd serve\" makes them")
	}
	return warn("store", "the next node of this version that starts applies them; from then on no node of an earlier one can be started",
		"pending migrations: %s", strings.Join(e.Steps, ", "))
}

// nodeFindings looks at what a node needs beside others.
func (a *app) nodeFindings(ctx context.Context, c *config.Config) []finding {
	if !c.Database() {
		return nil
	}
	var found []finding
	if c.Replica != "" {
		found = append(found, a.replicaFinding(ctx, c))
	}
	if n := &c.Node.TLS; n.CA != "" {
		_, err := server.LoadNodeIdentity(server.NodeFiles{CA: n.CA, Cert: n.Cert, Key: n.Key, Address: c.Advertise})
		if err != nil {
			found = append(found, fail("node.tls", "other nodes would refuse this one; it doesn't start", "%v", err))
		} else {
			found = append(found, ok("node.tls", "%s is signed by %s", n.Cert, n.CA))
		}
	}
	return found
}

// replicaFinding looks at the replica as at the database itself.
func (a *app) replicaFinding(ctx context.Context, c *config.Config) finding {
	const check, advice = "replica", "until it can be read, the database answers everything itself"
	s, err := openData(ctx, c.WithData(c.Replica), a.env, node{reads: true}, nil)
	if err != nil {
		return warn(check, advice, "%s", describe(err))
	}
	meta, err := s.Meta(ctx)
	if err = errors.Join(err, s.Close()); err != nil {
		return warn(check, advice, "%s", describe(err))
	}
	return ok(check, "%s can be read", meta.Location)
}

// oidcFindings asks the identity provider how its tokens are checked, if there is one and it may
// be asked.
func oidcFindings(ctx context.Context, c *config.Config, network bool) []finding {
	const check = "oidc"
	issuer := c.OIDC.Issuer
	if issuer == "" {
		return nil
	}
	if u, err := url.Parse(issuer); err != nil || !network && !netaddr.LoopbackHost(u.Hostname()) {
		return []finding{ok(check, "%s; \"agentd doctor --network\" tries it", config.ShownURL(issuer))}
	}
	if err := oidc.New(oidc.Options{Issuer: issuer}).CheckProvider(ctx); err != nil {
		return []finding{fail(check, "check oidc.issuer and the network: until it answers, its tokens are refused", "%v", errors.Unwrap(err))} // the cause alone: no token was asked about
	}
	return []finding{ok(check, "%s says how its tokens are checked", config.ShownURL(issuer))}
}
