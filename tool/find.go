package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"agentd/internal/clip"
)

const (
	// findWork is how much is searched before the context is looked at: bytes times
	// the instructions of the pattern, which each byte may cost.
	findWork = 8 << 20
	// maxFindStep bounds the bytes of that.
	maxFindStep = 256 << 10
	// maxPattern is the longest pattern, maxProgram the most instructions that it may
	// be compiled to.
	maxPattern = 8 << 10
	maxProgram = 4000
)

// finder finds the lines that a pattern matches.
type finder struct {
	re     *regexp.Regexp
	needle needle
	// step is how many bytes are searched before the context is looked at.
	step int
}

// newFinder compiles a pattern so that it never matches over the end of a line:
// then a whole file can be searched at once, which is faster than line by line
// and gives the same.
func newFinder(pattern string) (*finder, error) {
	if len(pattern) > maxPattern {
		return nil, Errorf(InvalidInput, "pattern: has %d bytes; at most %d are allowed", len(pattern), maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl&^syntax.OneLine)
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	withinLine(parsed)
	re, err := regexp.Compile(parsed.String())
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	size, err := programSize(parsed)
	if err != nil {
		return nil, badPattern(pattern, err)
	}
	if size > maxProgram {
		return nil, &Error{
			Category: InvalidInput, Message: fmt.Sprintf("pattern: is too complex: it has %d steps, at most %d are possible", size, maxProgram),
			Advice: "Use fewer or smaller counts such as {1,1000}, or search in several calls.",
		}
	}
	return &finder{re: re, needle: needleOf(parsed), step: max(1<<10, min(maxFindStep, findWork/size))}, nil
}

// programSize is the number of instructions of a pattern.
func programSize(parsed *syntax.Regexp) (int, error) {
	again, err := syntax.Parse(parsed.String(), syntax.Perl)
	if err != nil {
		return 0, err
	}
	prog, err := syntax.Compile(again.Simplify())
	if err != nil {
		return 0, err
	}
	return len(prog.Inst), nil
}

// withinLine changes a pattern so that a line is a text: what matches a line end
// matches nothing, and the text's beginning and end are those of the line.
func withinLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op, re.Flags = syntax.OpEndLine, re.Flags&^syntax.WasDollar
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			re.Op, re.Rune = syntax.OpNoMatch, nil
		}
	case syntax.OpCharClass:
		if re.Rune = withoutNewline(re.Rune); len(re.Rune) == 0 {
			re.Op = syntax.OpNoMatch
		}
	default:
		for _, sub := range re.Sub {
			withinLine(sub)
		}
	}
}

// withoutNewline takes the line end out of the ranges of a character class.
func withoutNewline(ranges []rune) []rune {
	var out []rune
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		if lo > '\n' || hi < '\n' {
			out = append(out, lo, hi)
			continue
		}
		if lo < '\n' {
			out = append(out, lo, '\n'-1)
		}
		if hi > '\n' {
			out = append(out, '\n'+1, hi)
		}
	}
	return out
}

// badPattern says where a pattern is wrong.
func badPattern(pattern string, err error) *Error {
	e := &Error{
		Category: InvalidInput, Message: "pattern: " + err.Error(),
		Advice: `Patterns have RE2 syntax: no lookaround and no backreferences. Put \ before a character that you mean literally.`,
	}
	if se, ok := errors.AsType[*syntax.Error](err); ok {
		at := max(strings.Index(pattern, se.Expr), 0)
		e.Message = fmt.Sprintf("pattern: %s: %s at character %d", se.Code, quoteName(se.Expr), at+1)
	}
	return e
}

// lines calls found for each line that matches, until it returns false.
func (f *finder) lines(ctx context.Context, data []byte, found func(line int, text []byte) bool) {
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), newline)
	}
	line := 1
	var scratch []byte
	for len(data) > 0 && ctx.Err() == nil {
		part := f.wholeLines(data)
		switch {
		case !f.needle.in(part, &scratch):
			line += bytes.Count(part, newline)
		case len(part) > 2*f.step:
			if !f.longLine(ctx, part, &line, found) {
				return
			}
		case !f.part(part, &line, found):
			return
		}
		data = data[len(part):]
	}
}

// wholeLines returns the lines that data begins with, about a step of them. One that
// is longer than a step comes alone.
func (f *finder) wholeLines(data []byte) []byte {
	if len(data) <= f.step {
		return data
	}
	if i := bytes.LastIndexByte(data[:f.step], '\n'); i >= 0 {
		return data[:i+1]
	}
	if i := bytes.IndexByte(data[f.step:], '\n'); i >= 0 {
		return data[:f.step+i+1]
	}
	return data
}

// longLine searches one line in a way that ends with the context.
func (f *finder) longLine(ctx context.Context, data []byte, line *int, found func(line int, text []byte) bool) bool {
	text := bytes.TrimSuffix(data, newline)
	m := f.re.FindReaderIndex(&runesUntil{ctx: ctx, data: text})
	if len(m) > 0 && ctx.Err() == nil && !found(*line, excerptAround(text, m[0])) {
		return false
	}
	*line += bytes.Count(data, newline)
	return ctx.Err() == nil
}

// runesUntil reads characters until its context ends.
type runesUntil struct {
	ctx  context.Context //nolint:containedctx // a reader has no other way to it
	data []byte
	read int
}

// ReadRune implements [io.RuneReader].
func (r *runesUntil) ReadRune() (rune, int, error) {
	if r.read++; r.read%1024 == 0 && r.ctx.Err() != nil {
		return 0, 0, r.ctx.Err()
	}
	if len(r.data) == 0 {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRune(r.data)
	r.data = r.data[n:]
	return c, n, nil
}

// part searches whole lines, of which the first has the number *line, and moves
// that on. It reports whether to go on.
func (f *finder) part(data []byte, line *int, found func(line int, text []byte) bool) bool {
	counted := 0
	for at := 0; at < len(data); {
		m := f.re.FindIndex(data[at:])
		if len(m) == 0 || at+m[0] == len(data) && data[len(data)-1] == '\n' {
			break
		}
		hit := at + m[0]
		start := bytes.LastIndexByte(data[:hit], '\n') + 1
		end := len(data)
		if i := bytes.IndexByte(data[hit:], '\n'); i >= 0 {
			end = hit + i
		}
		*line += bytes.Count(data[counted:start], newline)
		counted = start
		if !found(*line, excerptAround(data[start:end], hit-start)) {
			return false
		}
		at = end + 1
	}
	*line += bytes.Count(data[counted:], newline)
	return true
}

// excerptAround returns the part of a line that is shown: that where the match is.
func excerptAround(text []byte, at int) []byte {
	if len(text) <= maxMatchText {
		return validUTF8(text)
	}
	from := 0
	if at > maxMatchText/2 {
		from = runeAfter(text, min(at-maxMatchText/4, len(text)-maxMatchText))
	}
	to := len(text)
	if from+maxMatchText < to {
		to = clip.RuneStart(text, from+maxMatchText)
	}
	part := validUTF8(bytes.Clone(text[from:to]))
	if from > 0 {
		part = append([]byte("…"), part...)
	}
	if to < len(text) {
		part = append(part, "…"...)
	}
	return part
}
