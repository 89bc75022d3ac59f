// Package shortid knows how people write ids: as their beginning, or as "last".
//
// # Contract
//
// Ids that agentd makes are long, because they must never meet; see event.IDs. People
// type the beginning of one, with or without its prefix ("sess_01m7n" or "01m7n"), or
// its place: "last" is the newest of its kind and "last~1" the one before it. [Find]
// says which id of a list is meant, [Shorten] how ids can be written shorter so that
// Find still tells them apart. Nothing here knows where the lists come from.
//
// # Concurrency
//
// Everything is a pure function.
package shortid

import (
	"strconv"
	"strings"
	"time"
)

// last is the word for the newest of a kind.
const last = "last"

// Place returns how many are newer than what a text means: 0 for "last", 2 for "last~2".
// It isn't ok if the text is none of these.
func Place(text string) (newer int, ok bool) {
	rest, ok := strings.CutPrefix(text, last)
	if !ok || rest == "" {
		return 0, ok
	}
	digits, ok := strings.CutPrefix(rest, "~")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil && digits[0] != '+'
}

// Layout of the ids that agentd makes: a prefix that ends with an underscore, and
// characters of which the first ones are the time in milliseconds.
const (
	alphabet  = "0123456789abcdefghjkmnpqrstvwxyz"
	length    = 26
	timeChars = 10
)

// Made reports whether a text is a whole id of the form that agentd makes, so that it
// can't be the beginning of another.
func Made(text string) bool {
	i := strings.LastIndexByte(text, '_')
	return i > 0 && len(text)-i-1 == length && isMade(text[i+1:])
}

func isMade(s string) bool {
	return strings.Trim(s, alphabet) == ""
}

// Since returns the earliest time at which an id was made that begins with a text. It
// isn't ok if the text doesn't tell: it is too short, or not of a made id.
func Since(text string) (time.Time, bool) {
	digits := text[strings.LastIndexByte(text, '_')+1:]
	// Six characters are the time to within eighteen minutes; with fewer a name that a
	// person chose, such as turn_01, would be taken for a time.
	if len(digits) < 6 || len(digits) > length || !isMade(digits) {
		return time.Time{}, false
	}
	var ms int64
	for i := range timeChars {
		ms <<= 5
		if i < len(digits) {
			ms |= int64(strings.IndexByte(alphabet, digits[i]))
		}
	}
	at := time.UnixMilli(ms).UTC()
	return at, at.Year() >= 2020 && at.Year() < 2200
}

// Begins reports whether a text is the beginning of an id, or of what follows the id's
// prefix.
func Begins(id, text string) bool {
	if strings.HasPrefix(id, text) {
		return true
	}
	_, rest, ok := strings.Cut(id, "_")
	return ok && strings.HasPrefix(rest, text)
}

// Find returns what a text means among the ids of a list: the one that it is, else those
// that it is the beginning of.
func Find(ids []string, text string) []string {
	var found []string
	for _, id := range ids {
		if id == text {
			return []string{id}
		}
		if Begins(id, text) {
			found = append(found, id)
		}
	}
	return found
}

// Shorten returns how an id can be written so that it is told apart from the others of a
// list: its prefix and the time that it was made. Where others were made in the same
// millisecond, or someone chose the id, it stays whole.
func Shorten(ids []string) func(id string) string {
	const kept = timeChars
	seen := map[string]map[string]bool{}
	for _, id := range ids {
		if short, ok := cut(id, kept); ok {
			if seen[short] == nil {
				seen[short] = map[string]bool{}
			}
			seen[short][id] = true
		}
	}
	return func(id string) string {
		short, ok := cut(id, kept)
		if !ok || len(seen[short]) > 1 {
			return id
		}
		return short
	}
}

func cut(id string, kept int) (string, bool) {
	if !Made(id) {
		return "", false
	}
	return id[:strings.LastIndexByte(id, '_')+1+kept], true
}
