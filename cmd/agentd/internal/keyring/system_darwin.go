package keyring

// systemKeyring is the login keychain, by the program that the system has for it.
func systemKeyring(func(string) string) native { return &keychain{"/usr/bin/security"} }
