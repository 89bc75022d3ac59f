// Package dial reaches addresses that a peer names without reaching what is
// not theirs: the networks behind the runtime.
//
// # Contract
//
// [Guarded] returns a transport that dials public addresses, and any address of a
// host that the caller allows by name. The address that is really dialled is what
// counts. [Private] tells hosts that are not public by their name alone, so that
// they can be refused early, with a clear word.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"agentd/internal/netaddr"
)

// ErrRefused says that an address must not be dialled.
var ErrRefused = errors.New("a2a: the address is not public")

// Private reports whether a host is no public one by its name alone. What a name
// resolves to is looked at when it is dialled.
func Private(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return !netaddr.Public(ip)
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		!strings.Contains(host, ".") || strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".local") || numeric(host)
}

// numeric reports whether a name is an address in one of the forms that resolvers
// take beside the usual one, such as 0x7f.1 or 2130706433.
func numeric(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && (strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"))
}

// Guarded returns a transport that dials only public addresses, and any address of
// an allowed host, which comes with its port. A name that resolves to another address
// the second time gains nothing. It uses no proxy, which would dial in its place, and
// keeps no connection for another host's request.
func Guarded(allowed func(host string) bool, timeout time.Duration) *http.Transport {
	plain := &net.Dialer{Timeout: timeout}
	guard := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !netaddr.Public(at.Addr()) {
			return fmt.Errorf("%w: %s", ErrRefused, address)
		}
		return nil
	}}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if allowed(address) {
				return plain.DialContext(ctx, network, address)
			}
			return guard.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, IdleConnTimeout: time.Minute,
		MaxIdleConns: 64, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
}
