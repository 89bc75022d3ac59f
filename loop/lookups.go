package loop

import (
	"crypto/sha256"
	"maps"
	"slices"

	"agentd/event"
)

// lookups is the file system as one decision sees it. It remembers what it found, for
// the facts.
type lookups struct {
	resolve func(path string) string
	files   *callFiles
	found   map[string]event.PathLookup
}

func newLookups(files *callFiles) *lookups {
	return &lookups{resolve: resolveBelow(files.root), files: files}
}

// Resolve implements [Disk].
func (x *lookups) Resolve(path string) string {
	to := x.resolve(path)
	if to != path {
		p := x.found[path]
		p.LeadsTo = to
		x.remember(path, p)
	}
	return to
}

// Content implements [Disk].
func (x *lookups) Content(path string) (string, bool) {
	hash, ok := x.files.contentHash(path)
	if ok {
		p := x.found[path]
		p.ContentHash = hash
		x.remember(path, p)
	}
	return hash, ok
}

// Script implements [Disk].
func (x *lookups) Script(path string) (string, bool) {
	text, ok := x.files.script(path)
	if ok {
		p := x.found[path]
		p.Script = text
		x.remember(path, p)
	}
	return text, ok
}

func (x *lookups) remember(path string, p event.PathLookup) {
	if x.found == nil {
		x.found = map[string]event.PathLookup{}
	}
	p.Path = path
	x.found[path] = p
}

// facts are what was found, as a fact tells it, without secrets.
func (x *lookups) facts(redact func(string) string) []event.PathLookup {
	var out []event.PathLookup
	for _, path := range slices.Sorted(maps.Keys(x.found)) {
		p := x.found[path]
		p.Script = redact(p.Script)
		out = append(out, p)
	}
	return out
}

func sum(content []byte) [sha256.Size]byte { return sha256.Sum256(content) }
