// Package pathglob matches paths against patterns in time that grows linearly with
// the length of the pattern times the length of the path.
//
// # Contract
//
// A pattern is checked against the whole path:
//
//   - any text without a slash
//     **       as a whole name: any number of folders; at the end, everything below
//     ?        one character other than a slash
//     [a-z]    a character of the set; [!a-z] and [^a-z] one that isn't in it
//     {a,b}    one of the alternatives, which are patterns themselves
//     \c       the character c as it is
//
// "a/**" matches "a" itself too. The meaning is that of doublestar, which earlier
// versions used; alternatives are states here instead of copies of the pattern, so
// that braces don't double the work. [Compile] refuses a pattern of more than
// [MaxSize] parts.
//
// # Concurrency
//
// A Glob doesn't change and may be used by many goroutines.
package pathglob

import (
	"strings"
	"unicode/utf8"
)

// Glob is a compiled pattern.
type Glob struct {
	nodes []node
	start int32
	// prefix is the text that every match begins with; literal says that the prefix
	// is all there is.
	prefix  string
	literal bool
}

// kind says what a node of the pattern takes.
type kind uint8

const (
	kindEnd kind = iota
	kindLiteral
	kindAny
	kindSet
	kindStar
	kindSplit
)

// node is a part of the pattern, followed by next.
type node struct {
	kind kind
	not  bool // of a set
	// empty says that what follows from here takes the empty text, emptyAtName that it
	// does where a name begins.
	empty, emptyAtName bool
	char               rune
	next               int32
	set                []rune  // pairs of first and last
	alts               []int32 // of a split
}

// Match reports whether the pattern takes the whole path.
func (g *Glob) Match(path string) bool {
	if g.literal {
		return path == g.prefix
	}
	if !strings.HasPrefix(path, g.prefix) && !strings.HasPrefix(g.prefix, path+"/") {
		return false // "a/**" takes "a", which is shorter than its prefix
	}
	r := newRun(g)
	return r.text(path) && r.accepts()
}

// MatchBelow reports whether the pattern could take something below the folder dir;
// "." and "" are the folder that relative patterns start from.
func (g *Glob) MatchBelow(dir string) bool {
	r := newRun(g)
	switch {
	case dir == "." || dir == "":
		return true
	case strings.HasSuffix(dir, "/"):
		return r.text(dir)
	}
	return r.text(dir + "/")
}

// Wildcards that a text for [Glob.May] can have in it.
const (
	// AnyText stands for any text, slashes included.
	AnyText rune = -1 - iota
	// AnyName stands for any text without a slash.
	AnyName
	// AnyChar stands for one character other than a slash.
	AnyChar
	// Undotted stands for any text without a slash that doesn't begin with a dot, as
	// a shell's "*" does at the beginning of a name.
	Undotted
)

// May reports whether the pattern takes some path that the text stands for. A
// negative character is one of the wildcards above.
func (g *Glob) May(text []rune) bool {
	r := newRun(g)
	for _, c := range text {
		if !r.symbol(c) {
			return false
		}
	}
	return r.accepts()
}

// Context says what stands before a node in the pattern: the rules for "**" depend
// on it. A state is a node in a context.
const (
	inName   int32 = iota
	atName         // the beginning of a name
	oneStar        // a star at the beginning of a name
	twoStars       // two of them
	inStar         // a star that has taken something
	inTree         // between the folders that a "**/" takes
	contexts
)

// run is a match under way: the states that the pattern can be in.
type run struct {
	g     *Glob
	now   []int32
	next  []int32
	mark  []uint32 // by state: the round in which it was reached
	round uint32
	// rest says that the pattern takes whatever follows.
	rest bool
	// steps counts the work, for tests.
	steps int
}

func newRun(g *Glob) *run {
	size := len(g.nodes) * int(contexts)
	r := &run{g: g, mark: make([]uint32, size), round: 1, now: make([]int32, 0, size), next: make([]int32, 0, size)}
	r.reach(g.start, atName)
	r.now, r.next = r.next, r.now
	return r
}

// text takes every character of a text and reports whether a match is still
// possible.
func (r *run) text(s string) bool {
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if !r.symbol(c) {
			return false
		}
	}
	return true
}

// symbol takes a character or a wildcard.
func (r *run) symbol(c rune) bool {
	if r.rest {
		return true
	}
	r.round++
	r.next = r.next[:0]
	first, more := c, c
	if c == Undotted {
		first, more = undottedChar, AnyName
	}
	for _, s := range r.now {
		r.step(s, first)
	}
	if c == AnyText || c == AnyName || c == Undotted {
		for i := 0; i < len(r.next); i++ { //nolint:intrange // it grows meanwhile
			r.step(r.next[i], more)
		}
		for _, s := range r.now { // it may stand for nothing
			r.reach(s/contexts, s%contexts)
		}
	}
	r.now, r.next = r.next, r.now
	return r.rest || len(r.now) > 0
}

// step takes a character, or any that a wildcard stands for, in one state.
func (r *run) step(s int32, c rune) {
	n := &r.g.nodes[s/contexts]
	r.steps++
	if s%contexts == inTree {
		if c == '/' || c == AnyText {
			r.reach(n.next, atName)
		}
		r.reach(s/contexts, inTree)
		return
	}
	switch n.kind {
	case kindLiteral:
		if !n.takes(c) {
			return
		}
		if n.char == '/' {
			r.reach(n.next, atName)
		} else {
			r.reach(n.next, inName)
		}
	case kindAny, kindSet:
		if n.takes(c) {
			r.reach(n.next, inName)
		}
	case kindStar:
		if c != '/' {
			r.reach(s/contexts, inStar)
		}
	case kindEnd, kindSplit:
	}
}

// undottedChar stands for a character other than a slash and a dot.
const undottedChar = Undotted - 1

// takes reports whether a node takes a character, or one that a wildcard stands for.
func (n *node) takes(c rune) bool {
	switch n.kind {
	case kindLiteral:
		switch c {
		case AnyText:
			return true
		case AnyName, AnyChar:
			return n.char != '/'
		case undottedChar:
			return n.char != '/' && n.char != '.'
		}
		return n.char == c
	case kindAny:
		return c != '/'
	case kindSet:
		if c < 0 {
			return true // which character it is can't be told, so it may be in the set
		}
		for i := 0; i < len(n.set); i += 2 {
			if n.set[i] <= c && c <= n.set[i+1] {
				return !n.not
			}
		}
		return n.not
	case kindStar, kindSplit, kindEnd:
	}
	return false
}

// reach adds a state and what follows from it without taking a character.
func (r *run) reach(at, context int32) {
	s := at*contexts + context
	if r.mark[s] == r.round {
		return
	}
	r.mark[s] = r.round
	r.steps++
	n := &r.g.nodes[at]
	if context == inTree {
		r.next = append(r.next, s)
		return
	}
	switch n.kind {
	case kindSplit:
		for _, a := range n.alts {
			r.reach(a, context)
		}
	case kindStar:
		r.next = append(r.next, s)
		r.reach(n.next, inName)
		if context == atName || context == oneStar {
			r.reach(n.next, context+1)
		}
	case kindLiteral, kindAny, kindSet, kindEnd:
		r.reachPart(n, at, context)
	}
}

// reachPart adds the state of a node that takes one character, or of the end.
func (r *run) reachPart(n *node, at, context int32) {
	switch {
	case context == inName || context == atName:
		r.next = append(r.next, at*contexts+context)
	case context == twoStars && n.kind == kindEnd:
		r.rest = true
	case context == twoStars && n.kind == kindLiteral && n.char == '/':
		r.reach(n.next, atName) // no folder
		r.reach(at, inTree)
	}
	// Otherwise the stars are single ones, and the state in a name stands for that.
}

// accepts reports whether the text may end here.
func (r *run) accepts() bool {
	if r.rest {
		return true
	}
	for _, s := range r.now {
		n, context := &r.g.nodes[s/contexts], s%contexts
		if context != inTree && context != inStar && n.empty || context == atName && n.emptyAtName {
			return true
		}
	}
	return false
}
