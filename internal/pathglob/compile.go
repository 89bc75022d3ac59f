package pathglob

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// MaxSize is how many parts a pattern may have: characters, wildcards, sets and
// alternatives.
const MaxSize = 1024

// maxDepth is how deep alternatives may be nested.
const maxDepth = 32

// Compile reads a pattern. The error says what is wrong with it.
func Compile(pattern string) (*Glob, error) {
	p := parser{text: pattern, g: &Glob{nodes: []node{{kind: kindEnd}}}}
	parts, err := p.sequence(0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, errors.New(`a "}" has no "{"`)
	}
	p.g.start = p.link(parts, 0)
	if len(p.g.nodes) > MaxSize {
		return nil, fmt.Errorf("the pattern has more than %d parts", MaxSize)
	}
	p.g.markEmpty()
	p.g.prefix, p.g.literal = literalPrefix(parts)
	return p.g, nil
}

// part is a piece of a pattern that is being read: a node, or alternatives.
type part struct {
	node
	alternatives [][]part
}

type parser struct {
	text  string
	at    int
	count int
	g     *Glob
}

// sequence reads parts up to the end, or within alternatives up to "," or "}".
func (p *parser) sequence(depth int) ([]part, error) {
	var out []part
	for p.at < len(p.text) {
		if p.count++; p.count > MaxSize {
			return nil, fmt.Errorf("the pattern has more than %d parts", MaxSize)
		}
		c, size := utf8.DecodeRuneInString(p.text[p.at:])
		next := part{node: node{kind: kindLiteral, char: c}}
		var err error
		switch {
		case c == ',' && depth > 0, c == '}':
			return out, nil
		case c == '{':
			next, err = p.braces(depth + 1)
			size = 0
		case c == '[':
			next, err = p.set()
			size = 0
		case c == '*':
			next = part{node: node{kind: kindStar}}
			size = p.stars()
		case c == '?':
			next = part{node: node{kind: kindAny}}
		case c == '\\':
			p.at++
			if p.at == len(p.text) {
				return nil, errors.New(`nothing follows the last "\"`)
			}
			next.char, size = utf8.DecodeRuneInString(p.text[p.at:])
		}
		if err != nil {
			return nil, err
		}
		p.at += size
		out = append(out, next)
	}
	return out, nil
}

// stars returns how many bytes the next star takes: three and more stars in a row
// are one.
func (p *parser) stars() int {
	n := 0
	for p.at+n < len(p.text) && p.text[p.at+n] == '*' {
		n++
	}
	if n > 2 {
		return n
	}
	return 1
}

// braces reads alternatives.
func (p *parser) braces(depth int) (part, error) {
	if depth > maxDepth {
		return part{}, fmt.Errorf("alternatives are nested deeper than %d", maxDepth)
	}
	out := part{node: node{kind: kindSplit}}
	for {
		p.at++ // the brace or the comma
		seq, err := p.sequence(depth)
		if err != nil {
			return part{}, err
		}
		if p.at >= len(p.text) {
			return part{}, errors.New(`a "{" has no "}"`)
		}
		out.alternatives = append(out.alternatives, seq)
		if p.text[p.at] == '}' {
			p.at++
			return out, nil
		}
	}
}

// set reads a set of characters.
func (p *parser) set() (part, error) {
	out := part{node: node{kind: kindSet}}
	unclosed := errors.New(`a "[" has no "]"`)
	p.at++
	if p.at < len(p.text) && (p.text[p.at] == '!' || p.text[p.at] == '^') {
		out.not = true
		p.at++
	}
	if p.at < len(p.text) && p.text[p.at] == ']' {
		return part{}, errors.New("a set of characters is empty")
	}
	for p.at < len(p.text) {
		if p.text[p.at] == ']' {
			p.at++
			return out, nil
		}
		low, ok := p.setChar()
		if !ok {
			return part{}, unclosed
		}
		high := low
		if rest := p.text[p.at:]; len(rest) > 1 && rest[0] == '-' && rest[1] != ']' {
			p.at++
			if high, ok = p.setChar(); !ok {
				return part{}, unclosed
			}
		}
		out.set = append(out.set, low, high)
		if p.count++; p.count > MaxSize {
			return part{}, fmt.Errorf("the pattern has more than %d parts", MaxSize)
		}
	}
	return part{}, unclosed
}

// setChar reads one character of a set.
func (p *parser) setChar() (rune, bool) {
	if p.text[p.at] == '\\' {
		p.at++
	}
	if p.at >= len(p.text) {
		return 0, false
	}
	c, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return c, true
}

// link adds the nodes of the parts, from the last to the first, so that each knows
// what follows it. It returns the first.
func (p *parser) link(parts []part, next int32) int32 {
	for _, part := range slices.Backward(parts) {
		n := part.node
		n.next = next
		for _, seq := range part.alternatives {
			n.alts = append(n.alts, p.link(seq, next))
		}
		p.g.nodes = append(p.g.nodes, n)
		next = int32(len(p.g.nodes) - 1)
	}
	return next
}

// literalPrefix returns the text that every match begins with, and whether it is
// the whole pattern.
func literalPrefix(parts []part) (prefix string, whole bool) {
	var b []rune
	for i := range parts {
		if parts[i].kind != kindLiteral || parts[i].char == utf8.RuneError {
			return string(b), false
		}
		b = append(b, parts[i].char)
	}
	return string(b), true
}

// emptyEnds are the ends of a pattern that take the empty text; the last two are only
// ends of those.
var emptyEnds = [...]string{"", "*", "**", "/**", "**/", "/**/", "*/", "/"}

// markEmpty finds the nodes from which the pattern takes the empty text. What follows
// a node stands before it in the list.
func (g *Glob) markEmpty() {
	ends := make([]uint8, len(g.nodes)) // for each node a bit for each of emptyEnds
	for i := range g.nodes {
		n := &g.nodes[i]
		switch {
		case n.kind == kindEnd:
			ends[i] = 1
		case n.kind == kindSplit:
			for _, a := range n.alts {
				ends[i] |= ends[a]
			}
		case n.kind == kindStar:
			ends[i] = prepend('*', ends[n.next])
		case n.kind == kindLiteral && n.char == '/':
			ends[i] = prepend('/', ends[n.next])
		}
		n.empty = ends[i]&0b101111 != 0
		n.emptyAtName = ends[i]&0b010000 != 0 // "a**/" is "a*/", which doesn't take "a"
	}
}

// prepend returns the ends that are c and then one of the given ends.
func prepend(c byte, ends uint8) uint8 {
	var out uint8
	for i, e := range emptyEnds {
		if e == "" || e[0] != c {
			continue
		}
		if rest := slices.Index(emptyEnds[:], e[1:]); ends&(1<<rest) != 0 {
			out |= 1 << i
		}
	}
	return out
}
