package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Checker holds documents against the checks. Make one with [NewChecker].
type Checker struct {
	limits Limits
	checks []Check
	report *Report
	// at is where each check's result is in the report.
	at map[string]int
	// open are the unresolved actions of sessions, snapshots those that are still to be
	// held against them.
	open      map[string]*openActions
	snapshots []heldSnapshot
	// partial says that streams leave events out on purpose.
	partial bool
	// judged counts what was checked or found wrong.
	judged int
}

// Partial declares that the streams which are read from now on leave events out, as those
// do that were filtered: sequences that are missing are nothing wrong.
func (c *Checker) Partial() {
	if !c.partial {
		c.noteLimitf("the streams are declared partial: missing sequences were not looked for")
	}
	c.partial = true
}

// NewChecker returns a checker of all checks.
func NewChecker(limits Limits) *Checker {
	limits.setDefaults()
	c := &Checker{limits: limits, checks: Checks(), report: &Report{}, at: map[string]int{}, open: map[string]*openActions{}}
	for i, check := range c.checks {
		c.at[check.ID] = i
		c.report.Checks = append(c.report.Checks, Result{Check: check})
	}
	return c
}

// Report returns what was found so far. Snapshots are held against the streams that
// were read by then, in whatever order they came.
func (c *Checker) Report() *Report {
	c.compareSnapshots()
	return c.report
}

// Path checks a file, or all files below a directory. The error says that something
// couldn't be read.
func (c *Checker) Path(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.file(path)
	}
	files := 0
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !isDocument(p) {
			return err
		}
		if files++; files > c.limits.Files {
			c.noteLimitf("%s has more than %d files; the rest was not read", path, c.limits.Files)
			return fs.SkipAll
		}
		return c.file(p)
	})
	if err == nil && files == 0 {
		return fmt.Errorf("%s has no file whose name ends in .json, .jsonl or .ndjson", path)
	}
	return err
}

// isDocument reports whether a file of a directory is looked at.
func isDocument(path string) bool {
	switch filepath.Ext(path) {
	case ".json", ".jsonl", ".ndjson":
		return filepath.Base(path) != manifestName
	}
	return false
}

func (c *Checker) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = c.Read(path, f)
	return errors.Join(err, f.Close())
}

// Read checks a document, or a stream of events with one on each line. Name is what the
// report calls it.
func (c *Checker) Read(name string, r io.Reader) error {
	c.countSource()
	before := c.judged
	err := c.read(name, r)
	c.noteEmpty(name, before)
	return err
}

// noteEmpty records a source in which nothing was checked.
func (c *Checker) noteEmpty(name string, before int) {
	if c.judged == before {
		c.found(checkEmpty, name, "nothing was checked: it has no event and no other document")
	}
}

func (c *Checker) read(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	first, err := readLine(in, c.limits.Line)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errTooLong) {
		return err
	}
	o, broken := decodeObject(first)
	if errors.Is(err, errTooLong) || broken != nil && !errors.Is(err, io.EOF) {
		return c.checkDocument(name, io.MultiReader(bytes.NewReader(first), in))
	}
	if broken == nil && !isEvent(o) {
		c.document(name, o, len(first))
		if rest, err := readLine(in, c.limits.Line); len(bytes.TrimSpace(rest)) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		c.found(checkKind, name+":2", "only events stand one on each line; this is something else")
		return nil
	}
	return c.lines(name, first, err, in)
}

// Events checks events that come one after the other, each as its JSON. The error is
// theirs.
func (c *Checker) Events(name string, events iter.Seq2[[]byte, error]) error {
	c.countSource()
	before := c.judged
	s := c.newStream()
	defer s.endStream(name)
	n := 0
	for data, err := range events {
		if err != nil {
			return err
		}
		n++
		where := name + ": event " + strconv.Itoa(n)
		if len(data) > c.limits.Line {
			c.found(checkBounds, where, fmt.Sprintf("the event is longer than %d bytes", c.limits.Line))
			s.lost()
			continue
		}
		s.line(where, data)
	}
	c.noteEmpty(name, before)
	return nil
}

func (c *Checker) countSource() {
	c.report.Sources++
	for _, id := range []string{checkJSON, checkKind, checkBounds, checkEmpty} {
		c.report.Checks[c.at[id]].Made++
	}
}

// lines checks a stream of events.
func (c *Checker) lines(name string, line []byte, err error, in *bufio.Reader) error {
	s := c.newStream()
	defer s.endStream(name)
	for n := 1; ; n++ {
		where := name + ":" + strconv.Itoa(n)
		switch {
		case errors.Is(err, errTooLong):
			c.found(checkBounds, where, fmt.Sprintf("the line is longer than %d bytes", c.limits.Line))
			s.lost()
			err = skipLine(in)
		case len(bytes.TrimSpace(line)) > 0:
			s.line(where, line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, err = readLine(in, c.limits.Line)
	}
}

// checkDocument checks a document that isn't on one line.
func (c *Checker) checkDocument(name string, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, int64(c.limits.Document)+1))
	if err != nil {
		return err
	}
	if len(data) > c.limits.Document {
		c.found(checkBounds, name, fmt.Sprintf("the document is larger than %d bytes", c.limits.Document))
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil // blank lines
	}
	o, err := decodeObject(data)
	if err != nil {
		// A stream whose first line is broken is still a stream.
		if line, rest, _ := bytes.Cut(data, []byte("\n")); len(bytes.TrimSpace(rest)) > 0 && bytes.HasPrefix(bytes.TrimSpace(rest), []byte(`{"`)) {
			return c.lines(name, line, nil, bufio.NewReader(bytes.NewReader(rest)))
		}
		c.found(checkJSON, name, err.Error())
		return nil
	}
	c.document(name, o, len(data))
	return nil
}

func isEvent(o object) bool {
	_, typed := o["type"]
	_, named := o["eventId"]
	_, timed := o["timestamp"]
	return typed && (named || timed) || named && timed
}

// document checks one object, whatever it is.
func (c *Checker) document(name string, o object, size int) {
	has := func(member string) bool { _, ok := o[member]; return ok }
	switch {
	case isEvent(o):
		s := c.newStream()
		s.event(name, o, size)
		s.endStream(name)
	case has("runtimeCorrelation") && has("benchmark"), has("benchmark") && has("decisionInputs"):
		c.apply(Trial, name, o)
	case has("runtimeCorrelation"):
		c.apply(Pack, name, o)
		c.embedded(name, o, c.newWindow()) // a pack is a selection
	case has("events"):
		c.embedded(name, o, c.newStream())
		if s := member(o, "snapshot"); s != nil {
			c.document(name+": snapshot", s, 0)
		}
	case has("threads"):
		c.apply(Snapshot, name, o)
		c.holdSnapshot(name, o)
		for _, t := range list(o, "tasks") {
			c.apply(Task, name, t)
		}
	case has("threadId") && has("status") && (has("turns") || has("pendingRequests")):
		c.apply(Snapshot, name, o)
	case has("taskId") && has("status"):
		c.apply(Task, name, o)
	default:
		c.found(checkKind, name, "it is no event, snapshot, thread, task or pack")
	}
}

// threadOnly are the checks of snapshots that make sense for a thread alone.
func threadOnly(id string) bool {
	return strings.HasPrefix(id, "snapshot.t") && id != "snapshot.threads_unique" && id != "snapshot.task_session" || id == "snapshot.waiting"
}

// apply makes all checks of a scope on a document.
func (c *Checker) apply(scope Scope, where string, o object) {
	_, whole := o["threads"]
	for i := range c.checks {
		check := &c.checks[i]
		if check.Scope != scope || scope == Snapshot && !whole && !threadOnly(check.ID) {
			continue
		}
		c.judged++
		c.report.Checks[i].Made++
		for _, message := range check.document(o) {
			c.found(check.ID, where, message)
		}
	}
}

// embedded checks the events of a page or a pack: objects, or texts that hold one.
func (c *Checker) embedded(name string, o object, s *eventStream) {
	all, _ := o["events"].([]any)
	defer s.endStream(name)
	for i, x := range all {
		where := fmt.Sprintf("%s: event %d", name, i+1)
		switch x := x.(type) {
		case object:
			if inside, ok := x["data"].(string); ok && !isEvent(x) {
				s.line(where, []byte(inside)) // with its place in a chain of hashes beside it
				continue
			}
			s.event(where, x, 0)
		case string:
			s.line(where, []byte(x))
		default:
			c.found(checkJSON, where, "it is no object")
		}
	}
}

// found records a finding.
func (c *Checker) found(checkID, where, message string) {
	c.judged++
	r := &c.report.Checks[c.at[checkID]]
	r.Failed++
	if len(r.Findings) < c.limits.Shown {
		r.Findings = append(r.Findings, Finding{Where: where, Message: message})
	}
}

func (c *Checker) noteLimitf(format string, args ...any) {
	c.report.Notes = append(c.report.Notes, fmt.Sprintf(format, args...))
}

// eventStream is a stream of events that is being read.
type eventStream struct {
	c         *Checker
	observers []observer
	ids       []int
	// delivered are the last events, to know one that is delivered again.
	delivered *memory[string]
	actions   map[string]*openActions
}

// newWindow begins a stream that may leave events out.
func (c *Checker) newWindow() *eventStream {
	s := &eventStream{c: c, delivered: newMemory[string](c.limits.Remembered), actions: map[string]*openActions{}}
	for i := range c.checks {
		if observe := c.checks[i].stream; observe != nil && !isGapCheck(c.checks[i].ID) {
			s.observers, s.ids = append(s.observers, observe(c.limits)), append(s.ids, i)
		}
	}
	return s
}

// line checks an event that is JSON.
func (s *eventStream) line(where string, data []byte) {
	o, err := decodeObject(data)
	switch {
	case err != nil:
		s.c.found(checkJSON, where, err.Error())
		s.lost()
	case !isEvent(o):
		s.c.found(checkKind, where, "it is no event")
		s.lost()
	default:
		s.event(where, o, len(data))
	}
}

// event makes all checks on an event.
func (s *eventStream) event(where string, o object, size int) {
	f := newFact(o, size)
	s.c.judged++
	s.c.report.Events++
	for i := range s.c.checks {
		check := &s.c.checks[i]
		if check.event == nil {
			continue
		}
		s.c.report.Checks[i].Made++
		for _, message := range check.event(f) {
			s.c.found(check.ID, where, message)
		}
	}
	if f.id != "" {
		mark := f.typ + "/" + f.session + "/" + strconv.FormatInt(f.sequence, 10)
		if s.delivered.values[f.id] == mark {
			return // delivered again, which readers must tolerate
		}
		s.delivered.put(f.id, mark)
	}
	s.noteAction(f)
	for i, o := range s.observers {
		s.c.report.Checks[s.ids[i]].Made++
		for _, message := range o.observe(f) {
			s.c.found(s.c.checks[s.ids[i]].ID, where, message)
		}
	}
}

// endStream keeps what is open and says what had to be forgotten.
func (s *eventStream) endStream(name string) {
	for id, open := range s.actions {
		if known := s.c.open[id]; known == nil && len(s.c.open) < s.c.limits.Remembered || known != nil && open.through > known.through {
			s.c.open[id] = open
		}
	}
	for i, o := range s.observers {
		if o.full() {
			s.c.noteLimitf("%s: %s remembers the last %d ids; what it forgot it could not compare", name, s.c.checks[s.ids[i]].ID, s.c.limits.Remembered)
		}
	}
}

// errTooLong says that a line is longer than allowed.
var errTooLong = errors.New("conformance: the line is too long")

// readLine returns the next line, or what there is of one that is too long.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > most {
			return line, errTooLong
		}
	}
}

// skipLine reads past the rest of a line.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
