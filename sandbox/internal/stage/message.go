package stage

// Message frames a payload.
func Message(kind byte, payload []byte) []byte {
	n := len(payload)
	b := make([]byte, 0, HeaderSize+n)
	b = append(b, kind, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	return append(b, payload...)
}
