package model

// Tokens are estimated by weighing bytes: what a provider counts depends on the
// model's own vocabulary, which is neither small nor public everywhere. The
// weights follow what holds for common vocabularies (about four letters of prose
// a token, a digit or a sign nearly one each, a CJK character about one). The
// estimate is a sum of weights, so it grows with the text, never jumps back, and
// costs a table lookup a byte. Once a provider counted, its number is used.
const (
	unitsPerToken = 32
	// What a message and a tool call cost beyond their text.
	messageTokens  = 4
	toolCallTokens = 8
	// imageTokens is what a picture costs at common sizes and providers.
	imageTokens = 1200
	// A file is sent as text or pages; its bytes are weighed as prose.
	bytesPerFileToken = 4
)

// weights of bytes, in units of 1/32 token.
var weights = func() (w [256]uint8) {
	for b := range w {
		switch c := byte(b); {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			w[b] = 8
		case c >= '0' && c <= '9':
			w[b] = 14
		case c == ' ', c == '\t', c == '\r':
			w[b] = 2
		case c == '\n':
			w[b] = 10
		case c < 0x80:
			w[b] = 18
		case c < 0xc0: // the rest of a character of several bytes
			w[b] = 4
		case c < 0xe0: // two bytes: Latin with accents, Greek, Cyrillic
			w[b] = 12
		case c < 0xf0: // three bytes: CJK and others
			w[b] = 24
		default: // four bytes: emoji and rare scripts
			w[b] = 52
		}
	}
	return w
}()

// EstimateText estimates the tokens of a text; at least 1 if there is any.
func EstimateText(s string) int64 {
	var units int64
	for i := range len(s) {
		units += int64(weights[s[i]])
	}
	return tokens(units)
}

// estimateBytes is [EstimateText] without a copy of the bytes.
func estimateBytes(b []byte) int64 {
	var units int64
	for _, c := range b {
		units += int64(weights[c])
	}
	return tokens(units)
}

func tokens(units int64) int64 { return (units + unitsPerToken - 1) / unitsPerToken }

// EstimateMessage estimates the tokens of a message with its calls and media.
func EstimateMessage(m *Message) int64 {
	n := messageTokens + EstimateText(m.Text) + EstimateText(m.Reasoning) + EstimateText(m.ToolName)
	for _, c := range m.ToolCalls {
		n += toolCallTokens + EstimateText(c.Name) + estimateBytes(c.Arguments) + EstimateText(c.Malformed)
	}
	for _, media := range m.Media {
		n += estimateMedia(media)
	}
	return n
}

func estimateMedia(m Media) int64 {
	const image = "image/"
	if len(m.MediaType) > len(image) && m.MediaType[:len(image)] == image {
		return imageTokens
	}
	return EstimateText(m.Name) + EstimateText(m.URL) + int64(len(m.Data)+bytesPerFileToken-1)/bytesPerFileToken
}
