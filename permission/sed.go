package permission

import "strings"

// sedOptions are sed's options.
var sedOptions = optionTable{
	short: "nrEsuzbe:f:i::l:",
	long:  "quiet silent debug expression= file= follow-symlinks in-place? line-length= posix regexp-extended separate sandbox unbuffered null-data binary zero-terminated help version",
}

// classifySed says what is known of a sed command: it only reads if its script does
// nothing but edit the text, and it runs nothing if the script doesn't.
func (c *Command) classifySed(words []word) {
	p := sedOptions.parse(words[1:])
	scripts := []word{}
	inPlace, sandboxed := false, false
	for _, o := range p.options {
		switch o.name {
		case "e", "expression":
			scripts = append(scripts, o.value)
		case "f", "file":
			c.Unknown = "its script is in a file"
			return
		case "i", "in-place":
			inPlace = true
		case "sandbox":
			sandboxed = true
		}
	}
	if len(scripts) == 0 && len(p.operands) > 0 {
		scripts = p.operands[:1]
		if p.operands[0].mayBeOption() {
			p.doubtf("its script is known only when it runs")
		}
	}
	if p.doubt != "" {
		c.Unknown = p.doubt
		return
	}
	text := make([]string, len(scripts))
	for i, s := range scripts {
		if !s.known() || s.splits {
			c.Unknown = "its script is known only when it runs"
			return
		}
		text[i] = s.text
	}
	// Every script is a line of its own: "a\" and then a text is one command.
	files, writes, ok := readSedScript(strings.Join(text, "\n"))
	if !ok && !sandboxed {
		c.Unknown = "its script may run a command"
		return
	}
	c.files = files
	c.plain = true
	c.ReadOnly = ok && !writes && !inPlace
}

// sedReader reads a sed script as GNU sed does.
type sedReader struct {
	text string
	at   int
	// files are those that the script reads and writes; writes says that there are some
	// of the latter.
	files  []string
	writes bool
}

// readSedScript finds the files of a script. It reports false if the script may run a
// command, or isn't understood.
func readSedScript(script string) (files []string, writes, ok bool) {
	r := &sedReader{text: script}
	depth := 0
	for {
		r.skip(" \t\n\v\f\r;")
		if r.at == len(r.text) {
			return r.files, r.writes, depth == 0
		}
		if !r.addresses() {
			return nil, false, false
		}
		c := r.next()
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
			if depth < 0 || !r.end() {
				return nil, false, false
			}
		case c == 's':
			if !r.substitute() {
				return nil, false, false
			}
		case !r.command(c):
			return nil, false, false
		}
	}
}

func (r *sedReader) peek() byte {
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

func (r *sedReader) next() byte {
	c := r.peek()
	if r.at < len(r.text) {
		r.at++
	}
	return c
}

func (r *sedReader) skip(set string) {
	for r.at < len(r.text) && strings.IndexByte(set, r.text[r.at]) >= 0 {
		r.at++
	}
}

// addresses takes the lines that a command is for.
func (r *sedReader) addresses() bool {
	found, ok := r.address(false)
	if !ok {
		return false
	}
	r.skip(" \t")
	if found && r.peek() == ',' {
		r.at++
		r.skip(" \t")
		if second, ok := r.address(true); !ok || !second {
			return false
		}
		r.skip(" \t")
	}
	for r.peek() == '!' {
		r.at++
		r.skip(" \t")
	}
	return true
}

// address takes one address, if there is one.
func (r *sedReader) address(second bool) (found, ok bool) {
	const digits = "0123456789"
	switch c := r.peek(); {
	case c == '$':
		r.at++
	case strings.IndexByte(digits, c) >= 0 && c != 0:
		r.skip(digits)
		if r.peek() == '~' {
			r.at++
			r.skip(digits)
		}
	case second && (c == '+' || c == '~'):
		r.at++
		r.skip(digits)
	case c == '/' || c == '\\':
		r.at++
		if c == '\\' {
			if c = r.next(); c == 0 || c == '\n' || c == '\\' {
				return false, false
			}
		}
		if !r.expression(c) {
			return false, false
		}
		r.skip("IM")
	default:
		return false, true
	}
	return true, true
}

// expression takes a regular expression up to its delimiter. A delimiter within
// brackets doesn't end it; versions of sed differ on that, so it isn't taken at all.
func (r *sedReader) expression(delimiter byte) bool {
	for r.at < len(r.text) {
		switch c := r.next(); c {
		case delimiter:
			return true
		case '\n':
			return false
		case '\\':
			if r.next() == 0 {
				return false
			}
		case '[':
			if !r.brackets(delimiter) {
				return false
			}
		}
	}
	return false
}

// brackets takes a bracket expression up to its "]".
func (r *sedReader) brackets(delimiter byte) bool {
	if r.peek() == '^' {
		r.at++
	}
	if r.peek() == ']' {
		r.at++
	}
	for r.at < len(r.text) {
		switch c := r.next(); c {
		case ']':
			return true
		case delimiter, '\n', '\\':
			return false
		case '[':
			kind := r.peek()
			if kind != ':' && kind != '.' && kind != '=' {
				continue
			}
			end := strings.Index(r.text[r.at+1:], string(kind)+"]")
			if end < 0 || strings.IndexByte(r.text[r.at:r.at+1+end], delimiter) >= 0 {
				return false
			}
			r.at += 1 + end + 2
		}
	}
	return false
}

// substitute takes the rest of "s/…/…/flags".
func (r *sedReader) substitute() bool {
	delimiter := r.next()
	if delimiter == 0 || delimiter == '\n' || delimiter == '\\' || !r.expression(delimiter) {
		return false
	}
	for {
		switch c := r.next(); c {
		case 0:
			return false
		case '\\':
			if r.next() == 0 {
				return false
			}
			continue
		case delimiter:
		default:
			continue
		}
		break
	}
	for {
		switch c := r.peek(); {
		case c != 0 && strings.IndexByte("gpiImM0123456789", c) >= 0:
			r.at++
		case c == 'w':
			r.writes = true
			return r.fileName()
		default:
			return r.end() // "e" runs what results
		}
	}
}

// command takes a command and what belongs to it.
func (r *sedReader) command(c byte) bool {
	switch c {
	case 'p', 'd', 'D', 'P', 'n', 'N', 'g', 'G', 'h', 'H', 'x', '=', 'z', 'F':
		return r.end()
	case 'q', 'Q', 'l', 'L':
		r.skip(" \t0123456789")
		return r.end()
	case 'b', 't', 'T', ':':
		r.skip(" \t")
		for r.at < len(r.text) && strings.IndexByte(" \t\n;}", r.text[r.at]) < 0 {
			r.at++
		}
		return r.end()
	case '#':
		r.line()
		return true
	case 'y':
		return r.translate()
	case 'r', 'R':
		return r.fileName()
	case 'w', 'W':
		r.writes = true
		return r.fileName()
	case 'a', 'i', 'c':
		return r.insertedText()
	}
	return false // "e" runs a command, and others aren't known
}

// end takes the end of a command.
func (r *sedReader) end() bool {
	r.skip(" \t\r")
	switch r.peek() {
	case 0, ';', '\n', '}':
		return true
	case '#':
		r.line()
		return true
	}
	return false
}

// line takes everything up to the end of the line.
func (r *sedReader) line() string {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] != '\n' {
		r.at++
	}
	return r.text[from:r.at]
}

// fileName takes the name of a file, which goes up to the end of the line.
func (r *sedReader) fileName() bool {
	name := strings.TrimSpace(r.line())
	if name == "/dev/stdout" || name == "/dev/stderr" {
		return true
	}
	r.files = append(r.files, name)
	return name != ""
}

// insertedText takes the text of "a", "i" and "c". A line that ends in a backslash goes
// on in the next one; one that ends in more of them isn't taken, because what it means
// depends on where it stands.
func (r *sedReader) insertedText() bool {
	for {
		line := r.line()
		switch {
		case strings.HasSuffix(line, `\\`):
			return false
		case !strings.HasSuffix(line, `\`) || r.next() == 0:
			return true
		}
	}
}

// translate takes the rest of "y/…/…/".
func (r *sedReader) translate() bool {
	delimiter := r.next()
	if delimiter == 0 || delimiter == '\n' || delimiter == '\\' {
		return false
	}
	for range 2 {
		for {
			c := r.next()
			if c == 0 {
				return false
			}
			if c == '\\' {
				r.next()
			}
			if c == delimiter {
				break
			}
		}
	}
	return r.end()
}
