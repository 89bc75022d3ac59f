package event

// NewPayload is the decode table, for tests outside the package.
func NewPayload(t Type) Payload { return newPayload(t) }

// DecodeGenerated reads a payload with the generated decoder alone.
func DecodeGenerated(t Type, payload []byte) (Payload, bool) {
	p, s := newPayload(t), scanner{data: payload}
	return p, decodeObject(&s, p) && s.i == len(payload)
}
