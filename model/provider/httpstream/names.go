package httpstream

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"agentd/model"
)

// ToolName returns the name of a tool as every vendor accepts it: at most 64
// letters, digits, underscores and hyphens, the first a letter or an underscore.
// A name that has to be changed ends with a part of its hash, so that two
// different tools stay different.
func ToolName(name string) string {
	if validName(name) {
		return name
	}
	clean := strings.Map(func(r rune) rune {
		if !isNameByte(byte(r)) || r > 127 {
			return '_'
		}
		return r
	}, name)
	if clean == "" || !isLetter(clean[0]) {
		clean = "_" + clean
	}
	sum := sha256.Sum256([]byte(name))
	return clean[:min(len(clean), 55)] + "_" + hex.EncodeToString(sum[:4])
}

// originalNames maps the changed names of tools back; nil if none is changed.
func originalNames(tools []model.ToolSpec) map[string]string {
	var out map[string]string
	for i := range tools {
		if name := tools[i].Name; !validName(name) {
			if out == nil {
				out = map[string]string{}
			}
			out[ToolName(name)] = name
		}
	}
	return out
}

func validName(s string) bool {
	if s == "" || len(s) > 64 || !isLetter(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func isNameByte(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '-' }

// CallID returns the id of a tool call as every vendor accepts it: at most 40
// letters, digits, underscores and hyphens. One that isn't so, because another
// provider gave it, becomes its hash: the same for the call and for its result.
func CallID(id string) string {
	ok := id != "" && len(id) <= 40
	for i := 0; ok && i < len(id); i++ {
		ok = isNameByte(id[i])
	}
	if ok {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// IsMade tells ids that [Answer.ToolCall] made because the server gave none.
func IsMade(id string) bool { return strings.HasPrefix(id, madePrefix) }
