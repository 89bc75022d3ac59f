package permission

import (
	"slices"
	"strings"
)

// optionTable describes the options of a program as getopt reads them: attached values
// (-ofile), bundles (-la) and shortened long names (--outp=file) included.
type optionTable struct {
	// short are the letters; ":" after a letter says that it takes a value, "::" that it
	// may have one attached. "#" stands for the digits.
	short string
	// long are the long names, separated by blanks; "=" at the end of a name says that
	// it takes a value, "?" that it may have one.
	long string
	// ordered says that options end at the first operand.
	ordered bool
}

// option is an option as it was given: its letter, or its whole long name.
type option struct {
	name  string
	value word
}

// parsedArgs are the arguments of a program, taken apart.
type parsedArgs struct {
	options  []option
	operands []word
	// shortened says that a long name was shortened: a program may know another option
	// that begins that way.
	shortened bool
	// doubt says why there may be other options; empty if there are none.
	doubt string
}

// mayBeOption says that a word could turn out to be an option, or to become several
// words one of which is.
func (w word) mayBeOption() bool {
	return !w.path && (strings.HasPrefix(w.text, string(hole)) || w.expands)
}

// parse takes arguments apart.
func (t *optionTable) parse(args []word) parsedArgs {
	var p parsedArgs
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.text == "--":
			p.operands = append(p.operands, args[i+1:]...)
			return p
		case w.mayBeOption() || strings.HasPrefix(w.text, "-") && w.splits:
			p.doubtf("it may get an option from a word that is known only when it runs")
			p.operands = append(p.operands, w)
		case strings.HasPrefix(w.text, "--"):
			i += p.longOption(t, w.text[2:], args[i+1:])
		case strings.HasPrefix(w.text, "-") && w.text != "-":
			i += p.shortOptions(t, w.text[1:], args[i+1:])
		default:
			if t.ordered {
				p.operands = append(p.operands, args[i:]...)
				return p
			}
			p.operands = append(p.operands, w)
		}
	}
	return p
}

func (p *parsedArgs) doubtf(doubt string) {
	if p.doubt == "" {
		p.doubt = doubt
	}
}

// addOption records an option and returns how many words its value takes: it is attached, or
// the next word.
func (p *parsedArgs) addOption(name, attached string, isAttached, takesValue bool, rest []word) int {
	switch {
	case isAttached:
		p.options = append(p.options, option{name, word{text: attached}})
	case takesValue && len(rest) > 0:
		if rest[0].splits {
			p.doubtf("the value of an option may be several words")
		}
		p.options = append(p.options, option{name, rest[0]})
		return 1
	default:
		p.options = append(p.options, option{name: name})
	}
	return 0
}

// longOption takes a long option, whose name may be shortened.
func (p *parsedArgs) longOption(t *optionTable, text string, rest []word) int {
	given, value, attached := strings.Cut(text, "=")
	found := ""
	for name := range strings.FieldsSeq(t.long) {
		plain := strings.TrimRight(name, "=?")
		if plain == given {
			found = name
			break
		}
		if strings.HasPrefix(plain, given) {
			if found != "" {
				p.doubtf("its option --" + given + " is short for more than one")
			}
			found = name
		}
	}
	if found == "" || strings.ContainsRune(given, hole) {
		p.doubtf("its option --" + given + " is not known")
		return 0
	}
	p.shortened = p.shortened || strings.TrimRight(found, "=?") != given
	return p.addOption(strings.TrimRight(found, "=?"), value, attached, strings.HasSuffix(found, "="), rest)
}

// shortOptions takes a bundle of letters.
func (p *parsedArgs) shortOptions(t *optionTable, letters string, rest []word) int {
	for i, c := range letters {
		at := strings.IndexRune(t.short, c)
		digit := c >= '0' && c <= '9' && strings.Contains(t.short, "#")
		switch {
		case digit:
			continue
		case at < 0 || c == ':' || c == '#' || c == hole:
			p.doubtf("its option -" + visibleText(string(c)) + " is not known")
			return 0
		}
		after := t.short[at+1:]
		attached := letters[i+len(string(c)):]
		switch {
		case strings.HasPrefix(after, "::"):
			return p.addOption(string(c), attached, true, false, nil)
		case strings.HasPrefix(after, ":"):
			return p.addOption(string(c), attached, attached != "", true, rest)
		}
		p.options = append(p.options, option{name: string(c)})
	}
	return 0
}

// has says that one of the options was given.
func (p *parsedArgs) has(names ...string) bool {
	return slices.ContainsFunc(p.options, func(o option) bool { return slices.Contains(names, o.name) })
}
