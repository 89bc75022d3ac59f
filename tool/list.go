package tool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"agentd/event"
	"agentd/internal/clip"
	"agentd/internal/pathglob"
	"agentd/tool/toolkind"
)

const (
	// maxListed is how many entries list_files shows.
	maxListed = 1000
	// maxWalked is how many entries it looks at.
	maxWalked = 200_000
)

const listFilesSchema = `{
	"type": "object",
	"properties": {
		"path": {"type": "string", "minLength": 1, "description": "The folder, relative to the working folder or absolute within the workspace; . is the working folder."},
		"glob": {"type": "string", "minLength": 1, "description": "Only what matches, such as *.go (a name anywhere below) or src/**/*.ts (a path below the folder)."}
	},
	"required": ["path"],
	"additionalProperties": false
}`

// FileList is the structured result of list_files.
type FileList struct {
	Path string `json:"path"`
	// Shown entries, and More that matched but were not shown.
	Shown int `json:"shown"`
	More  int `json:"more"`
	// Ignored entries were left out because of .gitignore.
	Ignored int `json:"ignored"`
	// Incomplete says that the walk stopped before it had seen everything.
	Incomplete bool `json:"incomplete,omitempty"`
}

func newListFiles(f *files) *builtin {
	return define(toolkind.ListFiles, event.ToolInfo{
		Description: "Lists a folder of the workspace and everything below it, one path per line, sorted; folders end " +
			"with a slash, symbolic links show where they lead. .git and what .gitignore names are left out, " +
			"unless path leads there. Narrow large folders with path or glob.",
		Capabilities:      []string{CapFilesRead},
		IsReadOnly:        true,
		IsConcurrencySafe: true,
		InterruptBehavior: interruptCancel,
	}, listFilesSchema, f.list)
}

// errEnough ends a walk that has all it wants.
var errEnough = errors.New("enough")

type listed struct {
	rel   string // below the folder that was asked for
	depth int
	show  string
}

func (f *files) list(ctx context.Context, call *Call) (*Result, error) {
	var in struct {
		Path string `json:"path"`
		Glob string `json:"glob"`
	}
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	match, err := globber(in.Glob)
	if err != nil {
		return nil, err
	}
	t, err := f.open(call)
	if err != nil {
		return nil, err
	}
	defer t.close()
	d, rel, err := t.openDir(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	l := lister{base: rel, match: match}
	w := walk{t: t, visit: l.visit}
	err = w.from(ctx, d, rel)
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	about := FileList{Path: rel, Ignored: w.skipped, Incomplete: w.incomplete || errors.Is(err, errEnough)}
	shown := shallowest(l.found, maxListed)
	var b bytes.Buffer
	for _, e := range shown {
		line := joinShown(in.Path, e.show)
		if int64(b.Len()+len(line)) >= call.maxOutput() {
			break
		}
		b.WriteString(line + "\n")
		about.Shown++
	}
	about.More = l.matched - about.Shown
	return &Result{Output: withNotes(b.Bytes(), about.notes(&w)), Structured: encodeStructured(&about)}, nil
}

// joinShown puts what was asked for before what was found in it, so that every
// line can be used as a path as it is.
func joinShown(asked, show string) string {
	dir := path.Clean(asked)
	if dir == "." {
		return show
	}
	return strings.TrimSuffix(dir, "/") + "/" + show
}

func (about *FileList) notes(w *walk) []string {
	var notes []string
	if about.Shown == 0 && about.More == 0 {
		notes = append(notes, "nothing found")
	}
	if about.More > 0 {
		notes = append(notes, fmt.Sprintf("%d more; narrow it with path or glob", about.More))
	}
	if about.Incomplete {
		notes = append(notes, fmt.Sprintf("not everything was looked at: at most %d entries and %d levels are", maxWalked, maxLevels))
	}
	if about.Ignored > 0 {
		notes = append(notes, fmt.Sprintf(".gitignore leaves out %d here", about.Ignored))
	}
	if w.unreadable > 0 {
		notes = append(notes, countText(w.unreadable, "folder")+" could not be read")
	}
	return notes
}

// lister gathers what list_files found.
type lister struct {
	base  string
	match func(rel string) bool
	// found are the shallowest of what matched so far, and some more.
	found           []listed
	matched, walked int
}

func (l *lister) visit(ctx context.Context, dir string, d *os.Root, entries []fs.DirEntry) error {
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.walked++; l.walked > maxWalked {
			return errEnough
		}
		rel := relativeTo(l.base, path.Join(dir, e.Name()))
		if !l.match(rel) {
			continue
		}
		show := rel
		switch {
		case e.IsDir():
			show += "/"
		case e.Type()&fs.ModeSymlink != 0:
			if to, err := d.Readlink(e.Name()); err == nil {
				show += " -> " + clip.Text(to, 200)
			}
		}
		l.matched++
		l.found = append(l.found, listed{rel: rel, depth: strings.Count(rel, "/"), show: oneLine(show)})
		if len(l.found) >= 4*maxListed {
			l.found = shallowest(l.found, maxListed)
		}
	}
	return nil
}

// oneLine keeps a name with a line end in it from looking like two names.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\n\r") {
		return s
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

func relativeTo(base, rel string) string {
	if base == "." {
		return rel
	}
	return strings.TrimPrefix(rel, base+"/")
}

// shallowest returns the first n entries by depth, sorted by path: of a tree that
// is too large the upper part says the most.
func shallowest(found []listed, n int) []listed {
	byPath := func(a, b listed) int { return strings.Compare(a.rel, b.rel) }
	if len(found) > n {
		slices.SortFunc(found, func(a, b listed) int { return cmp.Or(cmp.Compare(a.depth, b.depth), byPath(a, b)) })
		found = slices.Clone(found[:n])
	}
	slices.SortFunc(found, byPath)
	return found
}

// globber returns a function that says whether a path below the start matches. A
// glob without a slash is about the name.
func globber(glob string) (func(rel string) bool, error) {
	if glob == "" {
		return func(string) bool { return true }, nil
	}
	glob = strings.TrimPrefix(glob, "./")
	pattern, err := pathglob.Compile(glob)
	if err != nil {
		return nil, &Error{
			Category: InvalidInput, Message: fmt.Sprintf("glob: %s is not a valid pattern: %v", quoteName(clip.Text(glob, 200)), err),
			Advice: "Use * ? [a-z] {a,b} and ** for any folders; every [ and { needs its end.",
		}
	}
	byName := !strings.Contains(glob, "/")
	return func(rel string) bool {
		if byName {
			rel = path.Base(rel)
		}
		return pattern.Match(rel)
	}, nil
}
