// Package yamlbound refuses YAML that would cost its parser more than the file is worth.
//
// # Contract
//
// [Check] reads a text once, in time linear in its length and without keeping it, before
// any parser does. It bounds what makes parsers recurse or copy: the size, how deep flow
// collections, indentation and compact sequences nest, how many collections and how many
// aliases there are. It doesn't say whether the text is YAML; what it is unsure about
// counts as nested.
//
// # Concurrency
//
// Check keeps no state.
package yamlbound

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of a text. Zero is the default of each.
type Limits struct {
	// Bytes is its size; 64 KiB if zero.
	Bytes int
	// Depth is how deep it may nest; 32 if zero.
	Depth int
	// Collections is how many brackets and braces may open; 4096 if zero.
	Collections int
	// Aliases is how many aliases it may have; 16 if zero.
	Aliases int
}

// Check reports what of the text is beyond the limits.
func Check(text []byte, l Limits) error {
	for p, standard := range map[*int]int{&l.Bytes: 64 << 10, &l.Depth: 32, &l.Collections: 4096, &l.Aliases: 16} {
		if *p == 0 {
			*p = standard
		}
	}
	if len(text) > l.Bytes {
		return fmt.Errorf("the file has %d bytes; at most %d are read", len(text), l.Bytes)
	}
	s := scanner{limits: l}
	for line := range bytes.Lines(text) {
		s.line++
		if err := s.scan(line); err != nil {
			return err
		}
	}
	return nil
}

// scanner counts what nests.
type scanner struct {
	limits Limits
	line   int
	// indents are the indentations that the current line is within.
	indents []int
	// flow is how many brackets are open, quote the mark of a text that is.
	flow  int
	quote byte

	collections, aliases int
}

func (s *scanner) tooDeep() error {
	return fmt.Errorf("line %d: the file nests deeper than %d", s.line, s.limits.Depth)
}

// scan takes one line.
func (s *scanner) scan(line []byte) error {
	start := len(line) - len(bytes.TrimLeft(line, " \t"))
	if s.quote == 0 && s.flow == 0 {
		if err := s.indent(line[start:], start); err != nil {
			return err
		}
	}
	previous := byte('\n')
	for i := start; i < len(line); i++ {
		c := line[i]
		switch {
		case s.quote == '"' && c == '\\':
			i++
			continue
		case s.quote != 0:
			if c == s.quote {
				s.quote = 0
			}
			// A bracket within quotes counts too, in case the quotes are none.
			if c == '[' || c == '{' {
				s.collections++
			}
		case (c == '"' || c == '\'') && strings.IndexByte("\n:-,[{?!&", previous) >= 0:
			s.quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return nil
		case c == '[' || c == '{':
			s.flow++
			s.collections++
		case (c == ']' || c == '}') && s.flow > 0:
			s.flow--
		case c == '*' && strings.IndexByte("\n:-,[{?", previous) >= 0:
			s.aliases++
		}
		if c != ' ' && c != '\t' && c != '\r' {
			previous = c
		}
		switch {
		case s.flow+len(s.indents) > s.limits.Depth:
			return s.tooDeep()
		case s.collections > s.limits.Collections:
			return fmt.Errorf("line %d: the file opens more than %d brackets", s.line, s.limits.Collections)
		case s.aliases > s.limits.Aliases:
			return fmt.Errorf("line %d: the file has more than %d aliases", s.line, s.limits.Aliases)
		}
	}
	return nil
}

// indent takes the beginning of a line in block style: how far it is indented, and the
// sequences that begin within it, as in "- - a".
func (s *scanner) indent(text []byte, column int) error {
	if len(bytes.TrimSpace(text)) == 0 || text[0] == '#' {
		return nil
	}
	for len(s.indents) > 0 && s.indents[len(s.indents)-1] >= column {
		s.indents = s.indents[:len(s.indents)-1]
	}
	s.indents = append(s.indents, column)
	for len(text) > 1 && (text[0] == '-' || text[0] == '?' || text[0] == ':') && (text[1] == ' ' || text[1] == '\t') {
		rest := bytes.TrimLeft(text[1:], " \t")
		column += len(text) - len(rest)
		text = rest
		s.indents = append(s.indents, column)
		if len(s.indents) > s.limits.Depth {
			return s.tooDeep()
		}
	}
	if len(s.indents) > s.limits.Depth {
		return s.tooDeep()
	}
	return nil
}
