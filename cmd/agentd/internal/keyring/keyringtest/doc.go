// Package keyringtest gives tests a session bus of their own, and a Secret Service on it
// that is locked, refuses or stays silent as they want.
//
// # Contract
//
// [StartBus] starts a real dbus-daemon that starts no services by itself, and ends it with
// the test; without that program the test is skipped. [Bus.Offer] puts a [Service] on it,
// which keeps secrets in memory. The user's own bus and keyring are never touched.
//
// # Concurrency
//
// A Service may be changed while it is asked.
package keyringtest
