//go:build !darwin && !windows

package keyring

// systemKeyring is the Secret Service on the user's session bus.
func systemKeyring(getenv func(string) string) native { return &secretService{getenv} }
