package stage

// Message frames a payload.
func Message(kind byte, payload []byte) []byte {
	return append(Header(kind, len(payload)), payload...)
}

// Header is what comes before a payload of n bytes.
func Header(kind byte, n int) []byte {
	return append(make([]byte, 0, HeaderSize), kind, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}
