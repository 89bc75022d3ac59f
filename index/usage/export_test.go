package usage

// SessionHash is the hash by which packs tell where else a session may be.
func SessionHash(session string) uint32 { return sessionHash([]byte(session)) }
