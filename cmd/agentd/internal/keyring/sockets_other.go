//go:build darwin || windows

package keyring

// Sockets returns nothing here: the keyring isn't reached by a socket.
func Sockets(func(string) string) []string { return nil }
