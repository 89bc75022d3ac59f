package sandbox

import "bytes"

// scriptHead is how much of a file the kernel reads to find out what it is.
const scriptHead = 256

// shebang reads the interpreter of a script, and the one argument that it may have,
// exactly as the kernel's load_script does; nil if the file is not a script. A line that
// is read in another way here names a program that the kernel doesn't start.
func shebang(head []byte) []string {
	if !bytes.HasPrefix(head, []byte("#!")) {
		return nil
	}
	var buf [scriptHead]byte // the kernel pads with zeros, too
	copy(buf[:], head)
	line := buf[2 : scriptHead-1] // the last byte is overwritten by a zero
	// A newline behind a zero isn't found.
	if i := bytes.IndexAny(buf[:], "\n\x00"); i >= 0 && buf[i] == '\n' {
		line = buf[2:i]
	} else if name := bytes.TrimLeft(buf[2:], " \t"); !bytes.ContainsAny(name, " \t\x00") {
		return nil // the interpreter's name may go on behind what was read
	}
	line = bytes.Trim(line, " \t")
	if len(line) == 0 {
		return nil
	}
	end := bytes.IndexAny(line, " \t\x00")
	if end < 0 {
		return []string{string(line)}
	}
	words := []string{string(line[:end])}
	if line[end] != 0 {
		argument, _, _ := bytes.Cut(bytes.TrimLeft(line[end:], " \t"), []byte{0})
		words = append(words, string(argument))
	}
	return words
}
