package permission

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
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
//
// It is checked against a text in one pass: the positions that the pattern can be at
// are the bits of a set, and a character costs as much as the set has words. So the
// time grows linearly with the text, whatever the pattern is. A glob doesn't change.
type glob struct {
	// size is how many characters it takes at least.
	size int
	// loops are the positions at which a star stands, accepts those at which the text
	// may end.
	loops, accepts bitset
	// ascii and wide are the positions at which a character is taken; sets are those
	// that depend on more than one character, for characters that aren't in ascii.
	ascii bitset // a set for each character, one after the other
	wide  map[rune]bitset
	sets  []placedSet
	// prefix is the text before the first special character.
	prefix string
	// open says that it ends in " *": then the text before it matches too, so that
	// "git push *" means git push with and without arguments.
	open bool
	// all says that it is nothing but stars: it takes every text.
	all bool
	// tail says that it is its prefix and then a star.
	tail bool
}

// placedSet is a set of characters at a position of a glob.
type placedSet struct {
	at  int
	set charSet
}

// charSet is a set of characters, as pairs of first and last.
type charSet struct {
	pairs []rune
	not   bool
}

func (s *charSet) takes(c rune) bool {
	for i := 0; i < len(s.pairs); i += 2 {
		if s.pairs[i] <= c && c <= s.pairs[i+1] {
			return !s.not
		}
	}
	return s.not
}

// parseGlob reads a pattern.
func parseGlob(pattern string) (*glob, error) {
	r := []rune(pattern)
	g := &glob{loops: newBitset(len(r) + 1), accepts: newBitset(len(r) + 1)}
	g.ascii = make(bitset, utf8.RuneSelf*len(g.loops))
	var prefix strings.Builder
	plain, stars := true, 0
	blank := false // the last item is a blank
	for i := 0; i < len(r); i++ {
		lit := r[i]
		switch r[i] {
		case '*':
			g.loops.set(g.size)
			plain = false
			stars++
			continue
		case '?':
			g.addSet(charSet{not: true})
			plain, blank = false, false
			continue
		case '[':
			set, next, err := parseSet(r, i+1)
			if err != nil {
				return nil, err
			}
			g.addSet(set)
			plain, blank, i = false, false, next
			continue
		case '\\':
			if i++; i == len(r) {
				return nil, errors.New(`nothing follows the last "\"`)
			}
			lit = r[i]
		}
		g.addLiteral(lit)
		blank = lit == ' '
		if plain {
			prefix.WriteRune(lit)
		}
	}
	g.prefix = prefix.String()
	g.all = g.size == 0 && stars > 0
	g.open = blank && g.size+stars >= 3 && g.loops.has(g.size) && r[len(r)-2] == ' '
	g.tail = stars == 1 && g.loops.has(g.size) && len(g.sets) == 0
	g.accepts.set(g.size)
	if g.open {
		g.accepts.set(g.size - 1)
	}
	return g, nil
}

// taking returns the positions at which an ASCII character is taken.
func (g *glob) taking(c rune) bitset {
	n := len(g.loops)
	return g.ascii[int(c)*n : (int(c)+1)*n]
}

// addLiteral adds a character that stands for itself.
func (g *glob) addLiteral(c rune) {
	if c < utf8.RuneSelf {
		if c != hole {
			g.taking(c).set(g.size)
		}
	} else {
		if g.wide == nil {
			g.wide = map[rune]bitset{}
		}
		if g.wide[c] == nil {
			g.wide[c] = newBitset(len(g.loops) * 64)
		}
		g.wide[c].set(g.size)
	}
	g.size++
}

// addSet adds a set of characters. A hole is in none.
func (g *glob) addSet(s charSet) {
	for c := rune(1); c < utf8.RuneSelf; c++ {
		if s.takes(c) {
			g.taking(c).set(g.size)
		}
	}
	g.sets = append(g.sets, placedSet{g.size, s})
	g.size++
}

// parseSet reads a set of characters up to its "]".
func parseSet(r []rune, i int) (charSet, int, error) {
	out := charSet{}
	if i < len(r) && (r[i] == '!' || r[i] == '^') {
		out.not = true
		i++
	}
	for start := i; i < len(r); i++ {
		if r[i] == ']' && i > start {
			return out, i, nil
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
			return out, 0, fmt.Errorf("the set has %q before %q", lo, hi)
		}
		out.pairs = append(out.pairs, lo, hi)
	}
	return out, 0, errors.New(`a "[" has no "]"`)
}

// literal says that the pattern takes one text alone.
func (g *glob) literal() bool { return utf8.RuneCountInString(g.prefix) == g.size && g.loops.empty() }

// program is the first word of a pattern over commands; empty if it isn't literal.
func (g *glob) program() string {
	word, _, whole := strings.Cut(g.prefix, " ")
	if !whole && !g.literal() {
		return ""
	}
	return word
}

// match checks the pattern against a text that may have holes.
func (g *glob) match(text string) verdict {
	return g.search("", text, []int{0})
}

// search checks the pattern against head followed by the rest of the text from one of
// the places in starts, which are in ascending order. It reads the text once.
func (g *glob) search(head, text string, starts []int) verdict {
	if g.tail && head == "" && len(starts) == 1 && strings.HasPrefix(text[starts[0]:], g.prefix) {
		return matches
	}
	if g.run(head, text, starts, false) {
		return matches
	}
	if (strings.ContainsRune(text, hole) || strings.ContainsRune(head, hole)) && g.run(head, text, starts, true) {
		return may
	}
	return misses
}

// run reports whether the pattern takes head and the rest of the text from one of the
// starts. A hole is taken by a star alone; if loose, a hole stands for any text.
func (g *glob) run(head, text string, starts []int, loose bool) bool {
	begin := newBitset(g.size + 1)
	begin.set(0)
	scratch := newBitset(g.size + 1)
	for _, c := range head {
		g.step(begin, scratch, c, loose)
		begin, scratch = scratch, begin
	}
	now := newBitset(g.size + 1)
	for i := 0; ; {
		for len(starts) > 0 && starts[0] <= i {
			now.or(begin)
			starts = starts[1:]
		}
		if i >= len(text) {
			return now.meets(g.accepts)
		}
		if now.empty() {
			if len(starts) == 0 {
				return false
			}
			i = starts[0]
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		i += n
		g.step(now, scratch, c, loose)
		now, scratch = scratch, now
	}
}

// step writes the positions after a character into next.
func (g *glob) step(now, next bitset, c rune, loose bool) {
	switch {
	case c == hole && loose:
		next.from(now)
		return
	case c < utf8.RuneSelf:
		next.advance(now, g.taking(c), g.loops)
		return
	}
	next.advance(now, g.wide[c], g.loops)
	for i := range g.sets {
		if s := &g.sets[i]; now.has(s.at) && s.set.takes(c) {
			next.set(s.at + 1)
		}
	}
}
