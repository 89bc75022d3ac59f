package permission

import (
	"path"
	"slices"
	"strings"
)

// fileWriter says which arguments of a program are files that it writes.
type fileWriter struct {
	optionTable
	// skip counts the operands before the files.
	skip int
	// last says that only the last of several operands is one, or else the folder that the
	// option -t names; sources, that the others are removed.
	last, sources bool
}

// fileWriters are programs whose operands say what they write. Of their options all are
// here: one that isn't makes the operands unknown.
var fileWriters = map[string]fileWriter{
	"touch":    {optionTable: optionTable{short: "acd:fhmr:t:", long: "no-create date= no-dereference reference= time="}},
	"mkdir":    {optionTable: optionTable{short: "m:pvZ", long: "mode= parents verbose context?"}},
	"mkfifo":   {optionTable: optionTable{short: "m:Z", long: "mode= context?"}},
	"rm":       {optionTable: optionTable{short: "dfiIrRv", long: "force interactive? one-file-system no-preserve-root preserve-root? recursive dir verbose"}},
	"rmdir":    {optionTable: optionTable{short: "pv", long: "ignore-fail-on-non-empty parents verbose"}},
	"unlink":   {},
	"shred":    {optionTable: optionTable{short: "fn:s:uvxz", long: "force iterations= random-source= size= remove? verbose exact zero"}},
	"truncate": {optionTable: optionTable{short: "cor:s:", long: "no-create io-blocks reference= size="}},
	"tee":      {optionTable: optionTable{short: "aip", long: "append ignore-interrupts output-error?"}},
	"chmod":    {optionTable: optionTable{short: "cfvR", long: "changes silent quiet verbose no-preserve-root preserve-root recursive"}, skip: 1},
	"chown":    chownWriter,
	"chgrp":    chownWriter,
	"link":     {last: true},
	"ln": {optionTable: optionTable{short: "bdfFiLnPrsS:t:Tv", long: `backup? directory force interactive logical no-dereference physical relative symbolic suffix=
		target-directory= no-target-directory verbose`}, last: true},
	"cp": {optionTable: optionTable{short: "abdfHilLnPpRrsSt:TuvxZ", long: `archive attributes-only backup? copy-contents force interactive link dereference no-dereference no-clobber
		preserve? no-preserve= parents recursive reflink? remove-destination sparse= strip-trailing-slashes symbolic-link suffix= target-directory= no-target-directory update?
		verbose one-file-system context?`}, last: true},
	"mv": {optionTable: optionTable{short: "bfinS:t:TuvZ", long: `backup? force interactive no-clobber strip-trailing-slashes suffix= target-directory= no-target-directory update?
		verbose context`}, last: true, sources: true},
	"install": {optionTable: optionTable{short: "bcCdDg:m:o:psS:t:TvZ", long: `backup? compare directory group= mode= owner= preserve-timestamps strip strip-program= suffix=
		target-directory= no-target-directory verbose context?`}, last: true},
}

var chownWriter = fileWriter{optionTable: optionTable{short: "cfhvRHLP", long: "changes silent quiet verbose dereference no-dereference from= no-preserve-root preserve-root recursive"}, skip: 1}

// commandWrites are the files that the line's commands are known to write, remove, or
// change the rights of, as far as their words prove it: programs of the system, with
// literal paths. A path that is relative is none where the folder isn't known that it
// starts from.
func (l *Line) commandWrites() []Write {
	moved := l.moved
	for i := range l.Commands {
		c := &l.Commands[i]
		switch path.Base(c.Words[0]) {
		case "chroot", "unshare", "nsenter":
			return nil // paths mean something else there
		case "find", "env", "sudo":
			moved = moved || slices.ContainsFunc(c.Words[1:], movesCommand)
		}
	}
	var out []Write
	for i := range l.Commands {
		for _, w := range l.Commands[i].writes() {
			if w.known() && !w.splits && w.text != "" && !strings.HasPrefix(w.text, "~") && (!moved || path.IsAbs(w.text)) {
				out = append(out, Write{Path: w.text, Known: true})
			}
		}
	}
	return slices.DeleteFunc(out, func(w Write) bool { return w.harmless() })
}

// movesCommand says that an option of a wrapper's runs a command in another folder.
func movesCommand(option string) bool {
	return option == "-execdir" || option == "-okdir" || strings.HasPrefix(option, "--c") || strings.HasPrefix(option, "-") && strings.ContainsAny(option, "CDR")
}

// writes are the words of a command that name files which it writes.
func (c *Command) writes() []word {
	if !c.system() || len(c.args) < 2 {
		return nil
	}
	name, args := path.Base(c.Words[0]), c.args[1:]
	switch name {
	case "dd":
		return ddWrites(args)
	case "sed", "gsed":
		return sedWrites(args)
	}
	w, ok := fileWriters[name]
	if !ok {
		return nil
	}
	p := w.parse(args)
	if p.doubt != "" || slices.ContainsFunc(p.operands, func(o word) bool { return o.expands }) {
		return nil // what looks like an operand may be the value of an option, or not the last
	}
	files := p.operands[min(w.skip, len(p.operands)):]
	if !w.last || name == "install" && p.has("d", "directory") {
		return files
	}
	return w.targets(&p, files)
}

// targets are the files of a program that writes to the last operand.
func (w *fileWriter) targets(p *parsedArgs, files []word) []word {
	var out []word
	for _, o := range p.options {
		if o.name == "t" || o.name == "target-directory" {
			out = append(out, o.value)
		}
	}
	if len(out) == 0 && len(files) > 1 {
		out, files = files[len(files)-1:], files[:len(files)-1]
	}
	if w.sources {
		out = append(slices.Clone(out), files...)
	}
	return out
}

// ddWrites is what dd writes to.
func ddWrites(args []word) []word {
	var out []word
	for _, w := range args {
		if file, ok := strings.CutPrefix(w.text, "of="); ok {
			w.text = file
			out = append(out, w)
		}
	}
	return out
}

// sedWrites are the files that sed edits in place.
func sedWrites(args []word) []word {
	p := sedOptions.parse(args)
	if p.doubt != "" || !p.has("i", "in-place") {
		return nil
	}
	if p.has("e", "expression", "f", "file") {
		return p.operands
	}
	return p.operands[min(1, len(p.operands)):]
}
