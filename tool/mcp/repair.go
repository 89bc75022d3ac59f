package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentd/internal/clip"
)

// repair rewrites the content of a tool's result that the SDK would reject, and
// the whole result with it: a block of a kind that it doesn't know becomes its
// JSON as text, and so does one whose data isn't base64. Any other message stays
// as it is, byte for byte, but for bytes that aren't UTF-8.
func repair(msg []byte) []byte {
	if !utf8.Valid(msg) {
		msg = bytes.ToValidUTF8(msg, []byte("\uFFFD"))
	}
	if !bytes.Contains(msg, []byte(`"content"`)) {
		return msg
	}
	var envelope, result map[string]json.RawMessage
	if json.Unmarshal(msg, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil {
		return msg
	}
	var blocks []json.RawMessage
	if json.Unmarshal(result["content"], &blocks) != nil {
		return msg
	}
	changed := false
	for i, b := range blocks {
		if !sound(b) {
			blocks[i] = asText(b)
			changed = true
		}
	}
	if !changed {
		return msg
	}
	result["content"] = encodeDecoded(blocks)
	envelope["result"] = encodeDecoded(result)
	return encodeDecoded(envelope)
}

// sound says whether the SDK can read a block.
func sound(block json.RawMessage) bool {
	var b struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		Data     json.RawMessage `json:"data"`
		Resource *struct {
			URI  string          `json:"uri"`
			Blob json.RawMessage `json:"blob"`
		} `json:"resource"`
	}
	if json.Unmarshal(block, &b) != nil {
		return false
	}
	switch b.Type {
	case "text":
		return isString(b.Text)
	case "image", "audio":
		return isBase64(b.Data)
	case "resource":
		return b.Resource != nil && (len(b.Resource.Blob) == 0 || isBase64(b.Resource.Blob))
	case "resource_link":
		return true
	default:
		return false
	}
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func isBase64(raw json.RawMessage) bool {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(s)
	return err == nil
}

// asText turns a block into one of text.
func asText(block json.RawMessage) json.RawMessage {
	return encodeDecoded(map[string]string{"type": "text", "text": string(block)})
}

// encodeDecoded writes what was decoded just before, so it can't fail.
func encodeDecoded(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(buf.Bytes(), "\n")
}

// cleanText makes a server's text fit to be shown: UTF-8, at most limit bytes, without
// control characters and without the invisible ones that hide text from people
// and show it to models.
func cleanText(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case unicode.IsControl(r), r >= 0xE0000 && r <= 0xE007F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069:
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return clipText(s, limit)
}

// clipText shortens a text to at most limit bytes, at the border of a character.
func clipText(s string, limit int) string {
	const mark = "…"
	if len(s) <= limit {
		return s
	}
	return clip.Text(s, limit-len(mark))
}
