package permission

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Shells disagree with each other, and with our parser, about where some redirections
// end: which line ends a here-document, and whether a word follows "<&-". What one takes
// for text another runs. So only the plain forms are read, about which all agree, and
// where a here-document lies is found out a second time, by its lines alone.

// agreement looks for what shells may read otherwise than the parser did.
type agreement struct {
	a    *analyser
	text string
	// open are the nodes that are being visited, with the end of a substitution, and -1 for
	// others.
	open []int
	// from and to are the last here-document's text, next is where the line after it begins.
	from, to, next int
}

// agreed hides the line if shells may read it otherwise than the parser did.
func (a *analyser) agreed(f *syntax.File, text string) {
	g := &agreement{a: a, text: text}
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			g.open = g.open[:len(g.open)-1]
			return true
		}
		end := -1
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			end = int(n.End().Offset())
		case *syntax.Redirect:
			g.redirect(n)
		}
		g.open = append(g.open, end)
		return true
	})
}

func (g *agreement) redirect(r *syntax.Redirect) {
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		if why := g.hereDocument(r); why != "" {
			g.a.hiddenf("where a here-document ends can't be told: %s", why)
		}
	}
	if r.Op == syntax.DplIn || r.Op == syntax.DplOut {
		if w := wordOf(r.Word); strings.HasPrefix(w.text, "-") && w.text != "-" {
			g.a.hiddenf("bash runs what follows %q, which closes a descriptor", r.Op.String()+"-")
		}
	}
}

// hereDocument says why shells may disagree about a here-document; empty if they don't.
func (g *agreement) hereDocument(r *syntax.Redirect) string {
	operator := int(r.OpPos.Offset())
	if operator >= g.from && operator < g.to {
		return "it is in another one"
	}
	end, quoted, plain := hereDocumentEnd(r.Word)
	if !plain {
		return "its end is not a plain word"
	}
	// It begins on the next line, or after the one before that began on the same line.
	from := g.next
	if operator >= from {
		line := strings.IndexByte(g.text[operator:], '\n')
		if line < 0 {
			return "it has no lines"
		}
		from = operator + line + 1
	}
	to, next, ok := g.lines(from, end, r.Op == syntax.DashHdoc)
	switch {
	case !ok:
		return "the line that ends it is missing"
	case !quoted && joinsTo(g.text[from:to], end):
		return "a backslash may join two lines to its end"
	case !g.within(next):
		return "it goes on behind the substitution that it begins in"
	}
	g.from, g.to, g.next = from, to, next
	if r.Hdoc == nil || len(r.Hdoc.Parts) == 0 {
		return ""
	}
	// The parser has the line that ends it in it.
	if int(r.Hdoc.Pos().Offset()) != from || int(r.Hdoc.End().Offset()) != to+len(strings.TrimSuffix(g.text[to:next], "\n")) {
		return "the parser finds it elsewhere"
	}
	return ""
}

// lines finds the first line that is the end of a here-document: where it begins, and
// where the one after it does.
func (g *agreement) lines(from int, end string, tabs bool) (to, next int, ok bool) {
	for to = from; to < len(g.text); to = next {
		line, _, more := strings.Cut(g.text[to:], "\n")
		next = to + len(line)
		if more {
			next++
		}
		if tabs {
			line = strings.TrimLeft(line, "\t")
		}
		if line == end {
			return to, next, true
		}
	}
	return 0, 0, false
}

// within says that a place lies in the substitution that is being visited, if there is one.
func (g *agreement) within(at int) bool {
	for _, end := range slices.Backward(g.open) {
		if end >= 0 {
			return at <= end
		}
	}
	return true
}

// hereDocumentEnd is the line that ends a here-document. quoted says that backslashes in
// the document mean nothing, plain that shells agree on what the word means.
func hereDocumentEnd(w *syntax.Word) (end string, quoted, plain bool) {
	if w == nil || len(w.Parts) != 1 {
		return "", false, false
	}
	switch p := w.Parts[0].(type) {
	case *syntax.Lit:
		end, quoted = strings.CutPrefix(p.Value, `\`)
	case *syntax.SglQuoted:
		if !p.Dollar {
			end, quoted = p.Value, true
		}
	case *syntax.DblQuoted:
		if !p.Dollar && len(p.Parts) == 1 {
			if lit, ok := p.Parts[0].(*syntax.Lit); ok {
				end, quoted = lit.Value, true
			}
		}
	}
	return end, quoted, end != "" && strings.IndexFunc(end, notInName) < 0
}

// joinsTo says that lines of a text which a backslash joins may make a given line. Tabs
// before it may mean nothing.
func joinsTo(text, line string) bool {
	joined, goesOn := "", false
	for l := range strings.SplitSeq(text, "\n") {
		before := goesOn
		goesOn = (len(l)-len(strings.TrimRight(l, `\`)))%2 == 1
		if !before {
			joined = ""
		}
		if len(joined) <= len(line) { // a longer one can't be it any more
			joined += strings.TrimLeft(strings.TrimSuffix(l, `\`), "\t")
		}
		if before && !goesOn && joined == line {
			return true
		}
	}
	return goesOn // the end itself may be joined
}
