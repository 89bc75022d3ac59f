package store

import "bytes"

// refLength is that of "sha256:" and a sum in hexadecimal.
const refLength = len(refPrefix) + 64

var (
	// A reference in JSON begins with refMark. Quotes and letters are everywhere in JSON,
	// so what is searched for is the end of it, refRare.
	refMark, refRare = []byte(`"` + refPrefix), []byte("256:")
	// sums are the ends of members that hold sums of other things: hashes of files and
	// of commands, names of keys, versions.
	sums = []string{`Hash":`, `"hash":`, `igest":`, `"grant":`, `"keyId":`, `ersion":`}
)

// RefsIn returns up to most references that are whole strings in JSON. Sums of other
// things look the same and are recognized by their members; further members to skip
// are named by their ends, such as `"beforeRef":`.
func RefsIn(data []byte, most int, not ...string) (refs []string) {
	for from := 0; len(refs) < most; {
		i := bytes.Index(data[from:], refRare)
		if i < 0 {
			return refs
		}
		from += i + len(refRare)
		begin := from - len(refMark)
		end := begin + 1 + refLength
		if begin < 0 || !bytes.HasPrefix(data[begin:], refMark) || end >= len(data) || data[end] != '"' ||
			follows(data[:begin], sums) || follows(data[:begin], not) {
			continue
		}
		ref := string(data[begin+1 : end])
		if _, err := ParseRef(ref); err == nil {
			refs = append(refs, ref)
		}
	}
	return refs
}

// follows reports whether what stands before a value ends with one of the members,
// also where JSON was written for people.
func follows(before []byte, members []string) bool {
	before = bytes.TrimRight(before, " ")
	for _, m := range members {
		if bytes.HasSuffix(before, []byte(m)) {
			return true
		}
	}
	return false
}
