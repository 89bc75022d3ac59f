package a2a

import (
	"net/http"
	"time"

	"agentd/channel/a2a/dial"
)

// errRefused says that an address must not be notified.
var errRefused = dial.ErrRefused

// guarded returns a transport that dials only public addresses, and any address of
// an allowed host.
func guarded(allowed func(host string) bool, timeout time.Duration) *http.Transport {
	return dial.Guarded(allowed, timeout)
}
