package a2a

import (
	"net/http"
	"net/netip"
	"time"

	"agentd/channel/a2a/dial"
)

// errRefused says that an address must not be told.
var errRefused = dial.ErrRefused

// public reports whether an address belongs to the public internet.
func public(ip netip.Addr) bool { return dial.Public(ip) }

// guarded returns a transport that dials only public addresses, and any address of
// an allowed host.
func guarded(allowed func(host string) bool, timeout time.Duration) *http.Transport {
	return dial.Guarded(allowed, timeout)
}
