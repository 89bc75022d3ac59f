package permission

import (
	"errors"
	"fmt"
	"strings"
)

// hole stands for a part of a text that can't be known before it runs. A command
// line with this character in it is not parsed at all.
const hole = '\x00'

// verdict says whether a rule matches.
type verdict int

const (
	misses verdict = iota
	// may match: a part that can't be known decides.
	may
	matches
)

// glob is a pattern over a text: "*" is any text, "?" any character, "[a-z]" and
// "[!a-z]" a character of a set, "\" takes the next character as it is. A slash
// or a blank is a character like others.
type glob struct {
	items []globItem
	// prefix is the text before the first special character.
	prefix string
	// open says that it ends in " *": then the text before it matches too, so that
	// "git push *" means git push with and without arguments.
	open bool
}

type globItem struct {
	star, any bool
	lit       rune
	set       []rune // pairs of first and last
	not       bool
}

// parseGlob reads a pattern.
func parseGlob(pattern string) (*glob, error) {
	g := &glob{}
	var prefix strings.Builder
	plain := true
	r := []rune(pattern)
	for i := 0; i < len(r); i++ {
		it := globItem{lit: r[i]}
		switch r[i] {
		case '*':
			it = globItem{star: true}
		case '?':
			it = globItem{any: true}
		case '[':
			set, next, err := parseSet(r, i+1)
			if err != nil {
				return nil, err
			}
			it, i = set, next
		case '\\':
			if i++; i == len(r) {
				return nil, errors.New(`nothing follows the last "\"`)
			}
			it.lit = r[i]
		}
		plain = plain && it.lit != 0
		if plain {
			prefix.WriteRune(it.lit)
		}
		g.items = append(g.items, it)
	}
	g.prefix = prefix.String()
	n := len(g.items)
	g.open = n >= 3 && g.items[n-1].star && g.items[n-2].lit == ' '
	return g, nil
}

// parseSet reads a set of characters up to its "]".
func parseSet(r []rune, i int) (globItem, int, error) {
	it := globItem{}
	if i < len(r) && (r[i] == '!' || r[i] == '^') {
		it.not = true
		i++
	}
	for start := i; i < len(r); i++ {
		if r[i] == ']' && i > start {
			return it, i, nil
		}
		lo := r[i]
		if lo == '\\' && i+1 < len(r) {
			i++
			lo = r[i]
		}
		hi := lo
		if i+2 < len(r) && r[i+1] == '-' && r[i+2] != ']' {
			hi = r[i+2]
			i += 2
		}
		if hi < lo {
			return it, 0, fmt.Errorf("the set has %q before %q", lo, hi)
		}
		it.set = append(it.set, lo, hi)
	}
	return it, 0, errors.New(`a "[" has no "]"`)
}

func (it *globItem) takes(c rune) bool {
	switch {
	case it.any:
		return true
	case it.set != nil:
		for i := 0; i < len(it.set); i += 2 {
			if it.set[i] <= c && c <= it.set[i+1] {
				return !it.not
			}
		}
		return it.not
	default:
		return it.lit == c
	}
}

// all says that the pattern is nothing but stars: it takes every text.
func (g *glob) all() bool {
	for _, it := range g.items {
		if !it.star {
			return false
		}
	}
	return len(g.items) > 0
}

// match holds the pattern against a text that may have holes.
func (g *glob) match(text string) verdict {
	subject := []rune(text)
	switch {
	case g.run(g.items, subject, false):
		return matches
	case g.open && g.run(g.items[:len(g.items)-2], subject, false):
		return matches
	case !strings.ContainsRune(text, hole):
		return misses
	case g.run(g.items, subject, true), g.open && g.run(g.items[:len(g.items)-2], subject, true):
		return may
	}
	return misses
}

// run reports whether items take the whole subject. A hole is taken by a star
// alone; if loose, a hole stands for any text.
func (g *glob) run(items []globItem, subject []rune, loose bool) bool {
	m := len(items)
	now, next := make([]bool, m+1), make([]bool, m+1)
	now[0] = true
	closure(items, now)
	for _, c := range subject {
		clear(next)
		wild := c == hole && loose
		some := false
		for i, on := range now {
			if !on {
				continue
			}
			switch {
			case wild:
				// The hole may be empty, or take this item and any after it.
				for k := i; k <= m; k++ {
					next[k] = true
				}
			case i == m:
				continue
			case items[i].star:
				next[i] = true
			case c != hole && items[i].takes(c):
				next[i+1] = true
			default:
				continue
			}
			some = true
		}
		if !some {
			return false
		}
		closure(items, next)
		now, next = next, now
	}
	return now[m]
}

// closure adds what stars reach by taking nothing.
func closure(items []globItem, on []bool) {
	for i := range items {
		if on[i] && items[i].star {
			on[i+1] = true
		}
	}
}
