package tui

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// fileList is what @ completes: the files below the folder, as far as they are worth
// mentioning.
type fileList struct{ paths []string }

// maxFiles bounds the list; what is beyond can be typed.
const maxFiles = 50_000

// skipped are folders that hold nothing that people mention.
var skipped = map[string]bool{"node_modules": true, "vendor": true, "target": true, "dist": true, "__pycache__": true, "build": true}

// listFiles walks a folder. Links aren't followed, and what can't be read is left out.
func listFiles(root string) *fileList {
	l := &fileList{}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil { // of a folder that is gone, nothing else is known
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name := d.Name()
		switch {
		case path == root:
			return nil
		case strings.HasPrefix(name, ".") && name != ".github", d.IsDir() && skipped[name]:
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case len(l.paths) >= maxFiles:
			return fs.SkipAll
		}
		if rel, err := filepath.Rel(root, path); err == nil && !strings.ContainsAny(rel, "\n\x1b") {
			if d.IsDir() {
				rel += string(filepath.Separator)
			}
			l.paths = append(l.paths, filepath.ToSlash(rel))
		}
		return nil
	})
	return l
}

// matchFiles are the files that fit best to what was typed. The list is made when it is
// first wanted, beside the event loop.
func (c *client) matchFiles(typed string, most int) []string {
	if c.files == nil {
		c.files = &fileList{}
		c.beside.Go(func() {
			l := listFiles(c.options.Folder)
			c.Post(func() {
				c.files = l
				c.menu.update(c)
			})
		})
	}
	return c.files.match(typed, most)
}

func (l *fileList) match(typed string, most int) []string {
	type hit struct {
		path  string
		score int
	}
	var hits []hit
	for _, p := range l.paths {
		if score, ok := fuzzy(p, typed); ok {
			hits = append(hits, hit{p, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(len(a.path), len(b.path)), strings.Compare(a.path, b.path))
	})
	var out []string
	for _, h := range hits[:min(len(hits), most)] {
		out = append(out, h.path)
	}
	return out
}

// fuzzy reports whether a text has the letters of a pattern in this order, and how well
// it fits: letters that follow each other count, and letters that begin a word.
func fuzzy(text, pattern string) (score int, ok bool) {
	t, p := []rune(strings.ToLower(text)), []rune(strings.ToLower(pattern))
	if len(p) == 0 {
		return 0, true
	}
	low := strings.ToLower(text) // it may be longer than the text
	if i := strings.LastIndex(low, strings.ToLower(pattern)); i >= 0 {
		score = 10 * len(p) // the letters as they were typed
		if i == 0 || !isWord(rune(low[i-1])) {
			score += 20
		}
		return score, true
	}
	at, last := 0, -2
	for i := 0; i < len(t) && at < len(p); i++ {
		if t[i] != p[at] {
			continue
		}
		score++
		if last == i-1 {
			score += 4
		}
		if i == 0 || !isWord(t[i-1]) {
			score += 6
		}
		last = i
		at++
	}
	return score, at == len(p)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// absolute is a path as the client's folder sees it.
func absolute(folder, path string) string {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(path, "~/") {
		return filepath.Join(home, path[2:])
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
