package netaddr_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"agentd/internal/netaddr"
)

// The first and the last address of each network, and their neighbours where
// those are public.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"0.0.0.0": false, "0.255.255.255": false, "1.0.0.0": true,
		"9.255.255.255": true, "10.0.0.0": false, "10.255.255.255": false, "11.0.0.0": true,
		"100.63.255.255": true, "100.64.0.0": false, "100.127.255.255": false, "100.128.0.0": true,
		"126.255.255.255": true, "127.0.0.0": false, "127.255.255.255": false, "128.0.0.0": true,
		"169.253.255.255": true, "169.254.0.0": false, "169.254.169.254": false, "169.254.255.255": false, "169.255.0.0": true,
		"172.15.255.255": true, "172.16.0.0": false, "172.31.255.255": false, "172.32.0.0": true,
		"191.255.255.255": true, "192.0.0.0": false, "192.0.0.255": false, "192.0.1.0": true,
		"192.0.2.0": false, "192.0.2.255": false, "192.0.3.0": true,
		"192.88.98.255": true, "192.88.99.0": false, "192.88.99.255": false, "192.88.100.0": true,
		"192.167.255.255": true, "192.168.0.0": false, "192.168.255.255": false, "192.169.0.0": true,
		"198.17.255.255": true, "198.18.0.0": false, "198.19.255.255": false, "198.20.0.0": true,
		"198.51.99.255": true, "198.51.100.0": false, "198.51.100.255": false, "198.51.101.0": true,
		"203.0.112.255": true, "203.0.113.0": false, "203.0.113.255": false, "203.0.114.0": true,
		"223.255.255.255": true, "224.0.0.0": false, "239.255.255.255": false, "240.0.0.0": false, "255.255.255.255": false,

		"::": false, "::1": false, "::2": false, "100::1": false, "1fff::1": false,
		"2000::1": true, "2001::1": false, "2001:1ff:ffff::1": false, "2001:200::1": true,
		"2001:db7:ffff::1": true, "2001:db8::1": false, "2001:db9::1": true,
		"2002::1": false, "2003::1": true, "2606:4700:4700::1111": true, "2a00:1450:4001::1": true,
		"3ffe:ffff::1": true, "3fff::1": false, "3fff:fff::1": false, "3fff:1000::1": true, "4000::1": false,
		"5f00::1": false, "fc00::1": false, "fd12::1": false, "fe80::1": false, "febf::1": false, "fec0::1": false, "ff02::1": false, "ff0e::1": false,

		"::ffff:8.8.8.8": true, "64:ff9b::8.8.8.8": true, "64:ff9b:1::8.8.8.8": false, "::8.8.8.8": false, "::ffff:0:8.8.8.8": false,
		"64:ff9b:0:1::8.8.8.8": false,
		"2606:4700::1%eth0":    false, "fe80::1%1": false, "::ffff:8.8.8.8%1": false,
	} {
		if got := netaddr.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) = %v", text, got)
		}
	}
	if netaddr.Public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}

// Whatever form carries an address that isn't public, the form isn't public.
func TestNoFormHidesAnAddress(t *testing.T) {
	forms := map[string]func(v4 [4]byte, rest [16]byte) netip.Addr{
		"mapped":         embed(netip.MustParsePrefix("::ffff:0:0/96"), 12),
		"translated":     embed(netip.MustParsePrefix("::ffff:0:0:0/96"), 12),
		"compatible":     embed(netip.MustParsePrefix("::/96"), 12),
		"NAT64":          embed(netip.MustParsePrefix("64:ff9b::/96"), 12),
		"local NAT64":    embed(netip.MustParsePrefix("64:ff9b:1::/48"), 12),
		"local NAT64/48": embed(netip.MustParsePrefix("64:ff9b:1::/48"), 6),
		"6to4":           embed(netip.MustParsePrefix("2002::/16"), 2),
		"Teredo server":  embed(netip.MustParsePrefix("2001::/32"), 4),
		"Teredo client":  embed(netip.MustParsePrefix("2001::/32"), 12),
	}
	rapid.Check(t, func(t *rapid.T) {
		var v4 [4]byte
		binary.BigEndian.PutUint32(v4[:], rapid.Uint32().Draw(t, "v4"))
		if rapid.Bool().Draw(t, "well known") {
			v4 = rapid.SampledFrom([][4]byte{{127, 0, 0, 1}, {10, 1, 2, 3}, {169, 254, 169, 254}, {192, 168, 0, 1}, {0, 0, 0, 0}, {100, 64, 1, 1}}).Draw(t, "address")
		}
		rest := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "rest"))
		if netaddr.Public(netip.AddrFrom4(v4)) {
			return
		}
		for name, form := range forms {
			if a := form(v4, rest); netaddr.Public(a) {
				t.Fatalf("%s of %v is public: %v", name, netip.AddrFrom4(v4), a)
			}
		}
	})
}

// embed returns the form that has an IPv4 address at a place behind a prefix, and
// arbitrary bytes elsewhere.
func embed(p netip.Prefix, at int) func([4]byte, [16]byte) netip.Addr {
	return func(v4 [4]byte, rest [16]byte) netip.Addr {
		base := p.Addr().As16()
		n := copy(rest[:], base[:p.Bits()/8])
		copy(rest[max(at, n):], v4[:])
		return netip.AddrFrom16(rest)
	}
}
