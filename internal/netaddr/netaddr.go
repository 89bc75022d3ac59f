// Package netaddr says which addresses belong to the public internet.
//
// # Contract
//
// [Public] is the one list for everything that dials an address chosen by someone
// else: the proxy of sandboxed commands, the dialler of A2A peers, push
// notifications. When in doubt it says no: a network that IANA's special-purpose
// registries don't call globally reachable is not public, and an IPv6 address that
// carries an IPv4 address is public at most if that one is.
//
// [LoopbackHost] says which hosts are this machine.
//
// # Concurrency
//
// All functions are pure.
package netaddr

import (
	"net/netip"
	"slices"
)

// Public reports whether an address belongs to the public internet. An address
// with a zone never does: it means something on one of this machine's links.
func Public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	if a.Is4() {
		return !slices.ContainsFunc(special4, contains)
	}
	return unicast6.Contains(a) && !slices.ContainsFunc(special6, contains)
}

// LoopbackHost reports whether the host of an address, a name or an IP address, is this
// machine.
func LoopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && a.Unmap().IsLoopback())
}

var (
	// nat64 carries an IPv4 address in its last four bytes. In networks without
	// IPv4, every host that has only IPv4 is reached through it.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// unicast6 is what is assigned for global unicast. Outside of it lie loopback,
	// unique local, link-local, site-local and multicast addresses, and the forms
	// ::a.b.c.d, ::ffff:0:a.b.c.d and 64:ff9b:1::/48, which carry an IPv4 address
	// and are not routed between networks.
	unicast6 = netip.MustParsePrefix("2000::/3")
	// special6 are the networks within unicast6 that are not public.
	special6 = []netip.Prefix{
		netip.MustParsePrefix("2001::/23"),     // protocol assignments; Teredo
		netip.MustParsePrefix("2001:db8::/32"), // documentation
		netip.MustParsePrefix("2002::/16"),     // 6to4: its relays are withdrawn
		netip.MustParsePrefix("3fff::/20"),     // documentation
	}
	special4 = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),        // this network
		netip.MustParsePrefix("10.0.0.0/8"),       // private
		netip.MustParsePrefix("100.64.0.0/10"),    // shared space of carriers
		netip.MustParsePrefix("127.0.0.0/8"),      // loopback
		netip.MustParsePrefix("168.63.129.16/32"), // the platform service of a cloud, reached from its machines alone
		netip.MustParsePrefix("169.254.0.0/16"),   // link-local; metadata services of clouds
		netip.MustParsePrefix("172.16.0.0/12"),    // private
		netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments
		netip.MustParsePrefix("192.0.2.0/24"),     // documentation
		netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relays
		netip.MustParsePrefix("192.168.0.0/16"),   // private
		netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"),  // documentation
		netip.MustParsePrefix("203.0.113.0/24"),   // documentation
		netip.MustParsePrefix("224.0.0.0/4"),      // multicast
		netip.MustParsePrefix("240.0.0.0/4"),      // reserved; broadcast
	}
)
