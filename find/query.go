package find

import (
	"strings"

	"agentd/fault"
	"agentd/internal/clip"
)

// Bounds of a query.
const (
	maxWords = 16
	// maxStarred is how many words with a star a query has at most: for each of them all
	// words that begin like it are looked at.
	maxStarred = 2
	// minPrefix is how many bytes a word with a star has at least.
	minPrefix = 2
	// maxExpansion is for how many words a word with a star stands at most.
	maxExpansion = 512
)

// queryWord is a word that is looked for.
type queryWord struct {
	text string
	// prefix says that it stands for all words that begin like it.
	prefix bool
}

// parseQuery returns the words of a query, each once; none for an empty query.
func parseQuery(query string) ([]queryWord, error) {
	if strings.TrimSpace(query) == "" {
		return nil, nil
	}
	var out []queryWord
	seen := map[queryWord]bool{}
	starred, tooShort := 0, ""
	eachWord(query, func(word []byte, _, end int) {
		w := queryWord{text: string(word), prefix: end < len(query) && query[end] == '*'}
		if w.prefix && len(w.text) < minPrefix {
			tooShort = w.text
		}
		if !seen[w] {
			seen[w] = true
			if w.prefix {
				starred++
			}
			out = append(out, w)
		}
	})
	switch {
	case len(out) == 0:
		return nil, fault.Param("query", "%q has no word: use letters or digits", clip.Text(query, 100))
	case len(out) > maxWords:
		return nil, fault.Param("query", "has %d words; at most %d are looked for, so leave some out", len(out), maxWords)
	case tooShort != "":
		return nil, fault.Param("query", "%s* is too short; a word before * needs at least %d letters", tooShort, minPrefix)
	case starred > maxStarred:
		return nil, fault.Param("query", "has %d words with *; at most %d are looked for, so write others out or leave them out", starred, maxStarred)
	}
	return out, nil
}

// matches reports whether a word of a text is looked for.
func matches(words []queryWord, word []byte) int {
	for i, w := range words {
		if string(word) == w.text || w.prefix && strings.HasPrefix(string(word), w.text) {
			return i
		}
	}
	return -1
}
