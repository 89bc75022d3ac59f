// Package dial reaches addresses that somebody else names without reaching what is
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
)

// ErrRefused says that an address must not be dialled.
var ErrRefused = errors.New("a2a: the address is not public")

// reserved are the networks that are not the public internet, beside those that
// [netip.Addr] knows by itself.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("3fff::/20"),
	netip.MustParsePrefix("5f00::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// Public reports whether an address belongs to the public internet. Forms that
// carry another address inside count as not public.
func Public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return false
	}
	for _, n := range reserved {
		if n.Contains(ip) {
			return false
		}
	}
	return true
}

// Private reports whether a host is no public one by its name alone. What a name
// resolves to is looked at when it is dialled.
func Private(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return !Public(ip)
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
		if err != nil || !Public(at.Addr()) {
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
