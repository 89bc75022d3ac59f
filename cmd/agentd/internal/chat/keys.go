package chat

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"agentd/cmd/agentd/internal/terminal"
)

// key is something that was pressed: a name, or text.
type key struct {
	name string
	text string
}

// Names of keys. The others are "ctrl-" and a letter.
const (
	keyText      = "text"
	keyPaste     = "paste"
	keyEnter     = "enter"
	keyAltEnter  = "alt-enter"
	keyBackspace = "backspace"
	keyDelete    = "delete"
	keyLeft      = "left"
	keyRight     = "right"
	keyUp        = "up"
	keyDown      = "down"
	keyHome      = "home"
	keyEnd       = "end"
	keyEscape    = "escape"
	keyWordLeft  = "word-left"
	keyWordRight = "word-right"
)

// sequences are what terminals send behind an escape.
var sequences = map[string]string{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft, "[H": keyHome, "[F": keyEnd,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[7~": keyHome, "[4~": keyEnd, "[8~": keyEnd, "[3~": keyDelete,
	"[1;5D": keyWordLeft, "[1;3D": keyWordLeft, "b": keyWordLeft, "[1;5C": keyWordRight, "[1;3C": keyWordRight, "f": keyWordRight,
	"\r": keyAltEnter, "\n": keyAltEnter, "[13;3u": keyAltEnter, "[13u": keyEnter, "\x7f": "ctrl-w",
}

const (
	pasteBegins = "[200~"
	pasteEnds   = "\x1b[201~"
)

// keyReader turns bytes into keys. A sequence may arrive in pieces.
type keyReader struct {
	rest  []byte
	paste bool
}

// feed takes bytes and returns the keys that they complete.
func (r *keyReader) feed(b []byte) []key {
	r.rest = append(r.rest, b...)
	var out []key
	for len(r.rest) > 0 {
		k, n := r.next()
		if n == 0 {
			break
		}
		r.rest = r.rest[n:]
		if k.name != "" {
			out = append(out, k)
		}
	}
	return out
}

// askDue returns the first key and how many bytes it takes; 0 if more must come.
func (r *keyReader) next() (key, int) {
	if r.paste {
		return r.pasted()
	}
	switch c := r.rest[0]; {
	case c == 0x1b:
		return r.escape()
	case c == '\r':
		return key{name: keyEnter}, 1
	case c == 0x7f || c == 0x08:
		return key{name: keyBackspace}, 1
	case c == '\t':
		return key{name: keyText, text: "    "}, 1
	case c < ' ':
		return key{name: "ctrl-" + string(rune(c+'a'-1))}, 1
	}
	return r.plain()
}

// plain returns all text up to the next control character.
func (r *keyReader) plain() (key, int) {
	n := 0
	for n < len(r.rest) && r.rest[n] >= ' ' && r.rest[n] != 0x7f {
		if !utf8.FullRune(r.rest[n:]) {
			break
		}
		_, size := utf8.DecodeRune(r.rest[n:])
		n += size
	}
	if n == 0 {
		return key{}, 0
	}
	return key{name: keyText, text: strings.ToValidUTF8(string(r.rest[:n]), "")}, n
}

// pasted returns what was pasted once its end is there.
func (r *keyReader) pasted() (key, int) {
	end := bytes.Index(r.rest, []byte(pasteEnds))
	if end < 0 {
		return key{}, 0
	}
	r.paste = false
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(r.rest[:end]))
	return key{name: keyPaste, text: terminal.PlainBlock(strings.ToValidUTF8(text, ""))}, end + len(pasteEnds)
}

// escape reads a sequence. An escape with nothing behind it is the key itself.
func (r *keyReader) escape() (key, int) {
	if len(r.rest) == 1 {
		return key{name: keyEscape}, 1
	}
	end := 2
	if r.rest[1] == '[' || r.rest[1] == 'O' {
		for end < len(r.rest) && (r.rest[end] < 0x40 || r.rest[end] > 0x7e) {
			end++
		}
		if end == len(r.rest) {
			return key{}, 0
		}
		end++
	}
	seq := string(r.rest[1:end])
	if seq == pasteBegins {
		r.paste = true
		return key{}, end
	}
	return key{name: sequences[seq]}, end
}
