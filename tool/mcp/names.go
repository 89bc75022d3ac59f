package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	// maxName is what providers accept for the name of a tool.
	maxName = 64
	// maxServerName is the server's part of it.
	maxServerName = 24
	// hashLength is the length of "_" and eight hexadecimal digits.
	hashLength = 9
)

// serverPrefix returns what the names of a server's tools begin with. It depends
// on the id alone, and no two ids share it or a beginning that could be taken for
// the other: an id that isn't used as it is carries a hash.
func serverPrefix(id string) string {
	name := sanitize(id)
	if name != id || len(name) > maxServerName || strings.Contains(name, "__") || strings.HasSuffix(name, "_") || name == "" {
		name = strings.TrimRight(strings.ReplaceAll(shorten(name, maxServerName-hashLength), "__", "_"), "_") + "_" + hash(id)
	}
	return "mcp__" + name + "__"
}

// toolNames gives each tool of a server a name of the form
// mcp__server__tool, of letters, digits, "_" and "-", at most 64 of them. Names
// that are the same after replacing what isn't allowed, or that are too long,
// carry a hash of the original; one that needed no change keeps its own. So the
// result depends on the set of tools, not on their order.
func toolNames(prefix string, originals []string) []string {
	room := maxName - len(prefix)
	users := map[string]int{}
	for _, o := range originals {
		users[sanitize(o)]++
	}
	names := make([]string, len(originals))
	for i, o := range originals {
		name := sanitize(o)
		if len(name) > room || name == "" || (users[name] > 1 && name != o) {
			name = shorten(name, room-hashLength) + "_" + hash(o)
		}
		names[i] = prefix + name
	}
	return names
}

// sanitize replaces what isn't allowed in a name.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		default:
			return '_'
		}
	}, s)
}

func shorten(s string, n int) string { return s[:min(len(s), n)] }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:4])
}
