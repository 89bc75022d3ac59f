package permission

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"agentd/internal/pathglob"
)

// maxValues is how many values of a variable are distinguished.
const maxValues = 16

// variables are what a line says about its variables: the values that it assigns, as
// long as it says all of them.
type variables struct {
	values  map[string][][]rune
	unknown map[string]bool
	// all says that something may have assigned any of them.
	all bool
	// spent is how many characters of names were put together so far.
	spent int
}

// maxNames is how many characters the names of one line may have together. A short line
// can name a long text many times; what goes beyond may be any file.
const maxNames = 1 << 20

// learn takes what a node says about variables.
func (v *variables) learn(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name == nil || n.Naked {
			return
		}
		v.assign(n.Name.Value, n.Value, n.Append || n.Array != nil || n.Index != nil)
	case *syntax.WordIter:
		if len(n.Items) == 0 {
			v.unknown[n.Name.Value] = true
		}
		for _, w := range n.Items {
			v.assign(n.Name.Value, w, false)
		}
	case *syntax.ParamExp:
		if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.unknown[n.Param.Value] = true
		}
	case *syntax.CallExpr:
		if len(n.Args) > 0 && slices.Contains([]string{"read", "mapfile", "readarray", "getopts", "printf", "eval", ".", "source", "set", "unset"}, wordOf(n.Args[0]).text) {
			v.all = v.all || wordOf(n.Args[0]).text != "printf" || len(n.Args) > 1 && !strings.HasPrefix(wordOf(n.Args[1]).text, "%")
		}
	}
}

func (v *variables) assign(name string, value *syntax.Word, more bool) {
	w := wordOf(value)
	if more || computed(value) || strings.HasPrefix(w.text, "~") || strings.ContainsAny(w.text, " \t\n") || len(v.values[name]) == maxValues {
		v.unknown[name] = true // a blank makes several words of it
		return
	}
	names := [][]rune{shellPattern(w.text)} // a pattern in quotes is none until the variable is used
	if !w.known() {
		names = v.fileNames(value)
	}
	v.values[name] = append(v.values[name], names...)
}

// computed says that a word is more than a text or a pattern of file names.
func computed(w *syntax.Word) bool {
	if w == nil {
		return false
	}
	for n := range syntax.Preorder(w) {
		switch n.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst, *syntax.ArithmExp, *syntax.ProcSubst, *syntax.ExtGlob:
			return true
		}
	}
	return false
}

// valuesOf returns all values that a variable may have in the line, or false.
func (v *variables) valuesOf(name string) ([][]rune, bool) {
	if name == "PWD" && len(v.values[name]) == 0 && !v.unknown[name] {
		return [][]rune{{'.'}}, true // unless the line changes its folder, which then counts for every path
	}
	if v.all || v.unknown[name] {
		return nil, false
	}
	values := v.values[name]
	return values, len(values) > 0
}

// fileNames returns what a word may stand for if it names a file: texts with wildcards
// of [pathglob.Glob.May] in them.
func (v *variables) fileNames(w *syntax.Word) [][]rune {
	n := namer{vars: v, out: [][]rune{{}}}
	if braces(w) {
		return [][]rune{n.aroundBraces(w)}
	}
	for i, p := range w.Parts {
		n.part(p, i == 0, false)
	}
	return n.out
}

// namer puts the texts together that a word may stand for.
type namer struct {
	vars *variables
	out  [][]rune
}

func (n *namer) put(text ...rune) {
	if !n.spend(len(text) * len(n.out)) {
		return
	}
	for i := range n.out {
		n.out[i] = append(n.out[i], text...)
	}
}

// spend reports whether so many characters more may be put together; else what the word
// stands for is any text.
func (n *namer) spend(characters int) bool {
	if n.vars.spent += characters; n.vars.spent > maxNames {
		n.out = [][]rune{{pathglob.AnyText}}
		return false
	}
	return true
}

func (n *namer) part(p syntax.WordPart, first, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			n.put([]rune(unescapeQuoted(p.Value))...)
		} else {
			n.literal(p.Value, first)
		}
	case *syntax.SglQuoted:
		text := p.Value
		if p.Dollar {
			text = ansi(text)
		}
		n.put([]rune(text)...)
	case *syntax.DblQuoted:
		for _, in := range p.Parts {
			n.part(in, false, true)
		}
	case *syntax.ParamExp:
		n.parameter(p)
	case *syntax.ArithmExp:
		n.put(pathglob.AnyName)
	case *syntax.ProcSubst:
		n.put([]rune("/dev/fd/")...)
		n.put(pathglob.AnyName)
	default:
		n.put(pathglob.AnyText)
	}
}

// parameter puts the values of a variable.
func (n *namer) parameter(p *syntax.ParamExp) {
	plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
	if !plain {
		n.put(pathglob.AnyText)
		return
	}
	values, ok := n.vars.valuesOf(p.Param.Value)
	if !ok || len(values)*len(n.out) > maxValues {
		n.put(pathglob.AnyText)
		return
	}
	if len(values) == 1 {
		n.put(values[0]...)
		return
	}
	var out [][]rune
	for _, o := range n.out {
		for _, value := range values {
			if !n.spend(len(o) + len(value)) {
				return
			}
			out = append(out, append(slices.Clone(o), value...))
		}
	}
	n.out = out
}

// literal puts a text outside of quotes, in which a pattern of file names may stand.
func (n *namer) literal(text string, first bool) {
	if first && strings.HasPrefix(text, "~") {
		n.put(pathglob.AnyText)
		if i := strings.IndexByte(text, '/'); i >= 0 {
			text = text[i:]
		} else {
			return
		}
	}
	n.put(shellPattern(text)...)
}

// shellPattern reads a text as a shell's pattern of file names.
func shellPattern(text string) []rune {
	var out []rune
	r := []rune(text)
	for i := 0; i < len(r); i++ {
		switch c := r[i]; {
		case c == '\\' && i+1 < len(r):
			if i++; r[i] != '\n' {
				out = append(out, r[i])
			}
		case c == '*' && (len(out) == 0 || out[len(out)-1] == '/'):
			out = append(out, pathglob.Undotted)
		case c == '*':
			out = append(out, pathglob.AnyName)
		case c == '?':
			out = append(out, pathglob.AnyChar)
		case c == '[' && slices.Contains(r[i:], ']'):
			i += slices.Index(r[i:], ']')
			out = append(out, pathglob.AnyChar)
		case c == hole:
			out = append(out, pathglob.AnyText)
		default:
			out = append(out, c)
		}
	}
	return out
}

// aroundBraces is a word with any text in the place of its braces.
func (n *namer) aroundBraces(w *syntax.Word) []rune {
	whole := wordSource(w)
	from, to := strings.IndexByte(whole, '{'), strings.LastIndexByte(whole, '}')
	out := shellPattern(whole[:from])
	out = append(out, pathglob.AnyText)
	return append(out, shellPattern(whole[to+1:])...)
}

// wordSource is a word without its quotes; what is expanded is a hole.
func wordSource(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		if lit, ok := p.(*syntax.Lit); ok {
			b.WriteString(lit.Value)
		} else {
			b.WriteRune(hole)
		}
	}
	return b.String()
}

// absoluteName makes a name absolute and takes "." and ".." out of it. A folder that
// isn't known is any text.
func absoluteName(name []rune, cwd string, moved bool) []rune {
	var elements [][]rune
	if len(name) == 0 || name[0] != '/' && name[0] != pathglob.AnyText {
		if moved {
			elements = append(elements, []rune{pathglob.AnyText})
		} else {
			for e := range strings.SplitSeq(strings.Trim(path.Clean(cwd), "/"), "/") {
				elements = append(elements, []rune(e))
			}
		}
	}
	for e := range splitRunes(name) {
		switch {
		case len(e) == 0 || string(e) == ".":
		case string(e) == "..":
			if last := len(elements) - 1; last >= 0 && !slices.Contains(elements[last], pathglob.AnyText) {
				elements = elements[:last]
			}
		default:
			elements = append(elements, e)
		}
	}
	var out []rune
	for i, e := range elements {
		if i > 0 || e[0] != pathglob.AnyText {
			out = append(out, '/')
		}
		out = append(out, e...)
	}
	return out
}

// splitRunes yields the elements of a path.
func splitRunes(name []rune) func(yield func([]rune) bool) {
	return func(yield func([]rune) bool) {
		from := 0
		for i, c := range name {
			if c == '/' {
				if !yield(name[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(name[from:])
	}
}

// mayTake reports whether the rule's pattern may take an absolute name with wildcards.
func (r *rule) mayTake(name []rune, root string) bool {
	if r.paths == nil || len(name) == 0 {
		return false
	}
	if path.IsAbs(r.Match) {
		return r.paths.May(name)
	}
	prefix := []rune(path.Clean(root) + "/")
	if root == "/" {
		prefix = []rune("/")
	}
	for i, c := range prefix {
		switch {
		case i == len(name):
			return false
		case name[i] < 0:
			// The wildcard may end in the workspace, or go on within it.
			rest := append([]rune{pathglob.AnyText}, name[i+1:]...)
			return r.paths.May(rest) || len(name) > i+1 && name[i+1] == '/' && r.paths.May(name[i+2:])
		case name[i] != c:
			return false
		}
	}
	return r.paths.May(name[len(prefix):])
}
