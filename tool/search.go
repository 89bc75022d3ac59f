package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"

	"agentd/event"
	"agentd/tool/toolkind"
)

const (
	// maxMatches is how many matching lines are shown.
	maxMatches = 1000
	// maxSearched is the largest file that is searched.
	maxSearched = 16 << 20
	// searchWorkers read files side by side.
	searchWorkers = 2
	// searchBatch is how many files of a folder a worker takes at once.
	searchBatch = 128
	// searchAhead is how many batches may be searched, or wait to be put into order,
	// beside the one that is next: it bounds what is kept of a search.
	searchAhead = 16
	// maxMatchText is how much of a matching line is shown.
	maxMatchText = 300
)

const searchFilesSchema = `{
	"type": "object",
	"properties": {
		"pattern": {"type": "string", "minLength": 1, "description": "A regular expression (RE2 syntax) that is matched against each line. (?i) at the beginning ignores case."},
		"path": {"type": "string", "minLength": 1, "description": "A folder or a file to search; the working folder by default."},
		"glob": {"type": "string", "minLength": 1, "description": "Only files that match, such as *.go (a name anywhere below) or src/**/*.ts (a path below the folder)."}
	},
	"required": ["pattern"],
	"additionalProperties": false
}`

// FileSearch is the structured result of search_files.
type FileSearch struct {
	Matches int `json:"matches"`
	Files   int `json:"files"`
	// Truncated says that there is more than what is shown.
	Truncated bool `json:"truncated"`
	// TooLarge files were not searched.
	TooLarge int `json:"tooLarge,omitempty"`
}

func newSearchFiles(f *files) *builtin {
	return define(toolkind.SearchFiles, event.ToolInfo{
		Description: "Searches the text files of the workspace line by line for a regular expression and returns " +
			"path:line:text for each line that matches. .git, what .gitignore names and binary files are left " +
			"out, unless path leads there. Escape characters such as ( [ { . if you mean them literally.",
		Capabilities:      []string{CapFilesRead},
		IsReadOnly:        true,
		IsConcurrencySafe: true,
		InterruptBehavior: interruptCancel,
	}, searchFilesSchema, f.search)
}

type searchInput struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	Glob    string `json:"glob"`
}

func (f *files) search(ctx context.Context, call *Call) (*Result, error) {
	in := searchInput{Path: "."}
	if err := decodeInput(call, &in); err != nil {
		return nil, err
	}
	find, err := newFinder(in.Pattern)
	if err != nil {
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
	s := &searcher{t: t, find: find, match: match, asked: in.Path, denied: call.Denied, pending: map[int]batchResult{}}
	if err := s.run(ctx); err != nil {
		return nil, callError(ctx, err, "search")
	}
	return s.result(call.maxOutput()), nil
}

// searcher is one search: a walk that cuts the files into batches, workers that
// search them, and a collector that puts the results back into order.
type searcher struct {
	t      *tree
	find   *finder
	match  func(rel string) bool
	denied func(path string) bool
	asked  string
	base   string
	only   string // the name of the one file that was asked for

	mu       sync.Mutex
	pending  map[int]batchResult // finished, but one before it is not
	ahead    chan struct{}       // has an element for each batch that isn't in order yet
	next     int
	out      []string
	files    int
	tooLarge int
	leftOut  int // because a rule denies reading them
	more     bool
	stop     context.CancelFunc
}

type batch struct {
	index int
	dir   string
	names []string
}

type batchResult struct {
	lines    []string
	files    int
	tooLarge int
	leftOut  int
}

// run returns when the workers ended. Enough matches end it early.
func (s *searcher) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	s.stop, s.ahead = cancel, make(chan struct{}, searchAhead)
	d, rel, err := s.t.openDir(ctx, s.asked)
	if err != nil {
		if !s.isFile(ctx) {
			return err
		}
		s.addBatchResult(0, s.search(ctx, batch{dir: s.base, names: []string{s.only}}))
		return parent.Err()
	}
	s.base = rel
	batches := make(chan batch, searchWorkers)
	var wg sync.WaitGroup
	for range searchWorkers {
		wg.Go(func() {
			for b := range batches {
				s.addBatchResult(b.index, s.search(ctx, b))
			}
		})
	}
	err = s.walk(ctx, d, batches)
	close(batches)
	wg.Wait()
	if parent.Err() != nil {
		return parent.Err()
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// isFile finds out whether what was asked for is a file, and remembers which.
func (s *searcher) isFile(ctx context.Context) bool {
	f, _, rel, err := s.t.openRead(ctx, s.asked)
	if err != nil {
		return false
	}
	_ = f.Close() // it is opened again to be read
	s.base, s.only = path.Dir(rel), path.Base(rel)
	return true
}

// walk sends the files below d to the workers.
func (s *searcher) walk(ctx context.Context, d *os.Root, batches chan<- batch) error {
	index := 0
	send := func(dir string, names []string) error {
		select {
		case s.ahead <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case batches <- batch{index: index, dir: dir, names: names}:
			index++
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w := walk{t: s.t, visit: func(ctx context.Context, dir string, _ *os.Root, entries []fs.DirEntry) error {
		var names []string
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !e.Type().IsRegular() || !s.match(relativeTo(s.base, path.Join(dir, e.Name()))) {
				continue
			}
			if names = append(names, e.Name()); len(names) == searchBatch {
				if err := send(dir, names); err != nil {
					return err
				}
				names = nil
			}
		}
		if len(names) > 0 {
			return send(dir, names)
		}
		return nil
	}}
	return w.from(ctx, d, s.base)
}

// search searches the files of a batch.
func (s *searcher) search(ctx context.Context, b batch) batchResult {
	var res batchResult
	d, err := s.t.dir(b.dir)
	if err != nil {
		return res // it went while we looked
	}
	defer d.Close()
	var buf []byte
	for _, name := range b.names {
		if ctx.Err() != nil || len(res.lines) > maxMatches {
			break
		}
		if s.denied != nil && s.denied(s.t.abs(path.Join(b.dir, name))) {
			res.leftOut++
			continue
		}
		data, ok := s.load(d, name, &buf, &res)
		if !ok {
			continue
		}
		before := len(res.lines)
		s.find.lines(ctx, data, func(line int, text []byte) bool {
			res.lines = append(res.lines, s.shown(path.Join(b.dir, name))+":"+strconv.Itoa(line)+":"+string(text))
			return len(res.lines) <= maxMatches
		})
		if len(res.lines) > before {
			res.files++
		}
	}
	return res
}

// load reads a text file into buf, which it may replace by a larger one. A file
// that grows in the meantime is read as far as it was.
func (s *searcher) load(d *os.Root, name string, buf *[]byte, res *batchResult) ([]byte, bool) {
	f, fi, err := s.t.openRegular(d, name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if fi.Size() > maxSearched {
		res.tooLarge++
		return nil, false
	}
	if int64(len(*buf)) < fi.Size() {
		*buf = make([]byte, fi.Size()+fi.Size()/2)
	}
	n, err := io.ReadFull(f, (*buf)[:fi.Size()])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false
	}
	data := (*buf)[:n]
	return bytes.TrimPrefix(data, utf8BOM), bytes.IndexByte(data[:min(n, binarySample)], 0) < 0
}

func (s *searcher) shown(rel string) string {
	if s.only != "" {
		return oneLine(s.asked)
	}
	return oneLine(joinShown(s.asked, relativeTo(s.base, rel)))
}

// addBatchResult takes the result of a batch, and those after it that waited for it.
func (s *searcher) addBatchResult(index int, res batchResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[index] = res
	for {
		r, ok := s.pending[s.next]
		if !ok || s.more {
			return
		}
		delete(s.pending, s.next)
		s.next++
		select {
		case <-s.ahead:
		default: // the one file of a search is no batch of a walk
		}
		s.out = append(s.out, r.lines...)
		s.files += r.files
		s.tooLarge += r.tooLarge
		s.leftOut += r.leftOut
		if len(s.out) > maxMatches {
			s.out, s.more = s.out[:maxMatches], true
			s.stop()
		}
	}
}

func (s *searcher) result(limit int64) *Result {
	about := FileSearch{Files: s.files, Truncated: s.more, TooLarge: s.tooLarge}
	var b bytes.Buffer
	for _, line := range s.out {
		if int64(b.Len()+len(line)) >= limit {
			about.Truncated = true
			break
		}
		b.WriteString(line + "\n")
		about.Matches++
	}
	var notes []string
	switch {
	case about.Truncated:
		notes = append(notes, fmt.Sprintf("only the first %d matches; narrow it with pattern, path or glob", about.Matches))
	case about.Matches == 0:
		notes = append(notes, "no match")
	}
	if s.tooLarge > 0 {
		notes = append(notes, fmt.Sprintf("%s of more than %s not searched", countText(s.tooLarge, "file"), sizeText(maxSearched)))
	}
	if s.leftOut > 0 {
		notes = append(notes, fmt.Sprintf("%s that a rule denies not searched", countText(s.leftOut, "file")))
	}
	return &Result{Output: withNotes(b.Bytes(), notes), Structured: encodeStructured(&about)}
}
