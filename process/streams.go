package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// streams are the two ends of a process's input and output.
type streams struct {
	// The process's ends; closed here once it has them.
	stdin, stdout, stderr *os.File
	// Our ends.
	input  *os.File
	inputs []*os.File // what readers read
	gather []*gather  // one a reader
	tty    *os.File
	wg     *sync.WaitGroup
}

// openStreams opens what a spec needs.
func openStreams(spec *Spec, now func() time.Time) (s streams, err error) {
	s.wg = &sync.WaitGroup{}
	defer func() {
		if err != nil {
			s.closeTheirs()
			s.closeOurs()
			err = fmt.Errorf("open streams: %w", err)
		}
	}()
	if spec.TTY {
		return s, s.openTTY(spec, now)
	}
	if spec.Input {
		if s.stdin, s.input, err = os.Pipe(); err != nil {
			return s, err
		}
	}
	if s.stdout, err = s.reader("stdout", spec, now); err != nil || spec.Merge {
		s.stderr = s.stdout
		return s, err
	}
	s.stderr, err = s.reader("stderr", spec, now)
	return s, err
}

// reader opens a pipe and returns the end to write to.
func (s *streams) reader(stream string, spec *Spec, now func() time.Time) (*os.File, error) {
	r, w, err := openPipe()
	if err != nil {
		return nil, err
	}
	s.inputs = append(s.inputs, r)
	s.gather = append(s.gather, newGather(stream, int(spec.MaxOutput), spec.Output, now))
	return w, nil
}

func (s *streams) openTTY(spec *Spec, now func() time.Time) error {
	ours, theirs, err := openPTY(spec.Rows, spec.Cols)
	if err != nil {
		return err
	}
	s.tty, s.input = ours, ours
	s.stdin, s.stdout, s.stderr = theirs, theirs, theirs
	s.inputs = []*os.File{ours}
	s.gather = []*gather{newGather("tty", int(spec.MaxOutput), spec.Output, now)}
	return nil
}

// closeTheirs closes the process's ends: it has its own.
func (s *streams) closeTheirs() {
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		if f != nil {
			_ = f.Close() // twice for a terminal, which is fine
		}
	}
}

// closeOurs closes our ends.
func (s *streams) closeOurs() {
	for _, f := range append(s.inputs, s.input) {
		if f != nil {
			_ = f.Close()
		}
	}
}

// read starts the readers.
func (s *streams) read() {
	for i, r := range s.inputs {
		s.wg.Go(func() { readAll(r, s.gather[i]) })
	}
}

// readAll reads a stream to its end. A terminal ends with an error, EIO, when the
// last process that has it open is gone.
func readAll(r *os.File, g *gather) {
	buf := make([]byte, readSize)
	for {
		wait, pending := g.due()
		if pending {
			if err := r.SetReadDeadline(time.Now().Add(wait)); err != nil {
				g.flush() // no deadlines on this file: hand on what is there
			}
		} else {
			_ = r.SetReadDeadline(time.Time{})
		}
		g.reads.Add(1)
		n, err := r.Read(buf)
		g.reads.Add(1)
		if n > 0 {
			g.add(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && pending:
			g.flush()
		default:
			g.flush()
			return
		}
	}
}

// lingerFor is how long output is waited for after the tree has ended. Only a
// process that got away from the tree can hold a stream open then.
const lingerFor = 2 * time.Second

// drainReads is how many reads empty whatever a pipe or a terminal held when the tree ended.
// What comes after them is written by a process that got away.
const drainReads = 64

// finish waits for the readers and closes our ends. A reader that has something to do,
// such as to hand on what it read to a store that is slow, is waited for.
func (s *streams) finish() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.wg.Wait()
	}()
	first, seen := make([]int64, len(s.inputs)), make([]int64, len(s.inputs))
	for i, g := range s.gather {
		first[i] = g.reads.Load()
	}
	timer := time.NewTimer(lingerFor / 2)
	defer timer.Stop()
	for {
		select {
		case <-ended:
			s.closeOurs()
			return
		case <-timer.C:
			s.closeHeld(first, seen)
			timer.Reset(lingerFor / 2)
		}
	}
}

// closeHeld closes the streams that a process which got away holds open: their readers have
// waited for output since the last time, or have read more than was left since the first.
// It notes where the others are.
func (s *streams) closeHeld(first, seen []int64) {
	for i, r := range s.inputs {
		now := s.gather[i].reads.Load()
		if now%2 == 1 && now == seen[i] || now-first[i] > 2*drainReads {
			_ = r.Close() // its reader ends
		}
		seen[i] = now
	}
}

// output is what was kept.
func (s *streams) output() (stdout, stderr Output) {
	if len(s.gather) > 0 {
		stdout = s.gather[0].output()
	}
	if len(s.gather) > 1 {
		stderr = s.gather[1].output()
	}
	return stdout, stderr
}

// totals counts the bytes of both streams.
func (s *streams) totals() (stdout, stderr int64) {
	for i, g := range s.gather {
		g.mu.Lock()
		if i == 0 {
			stdout = g.total
		} else {
			stderr = g.total
		}
		g.mu.Unlock()
	}
	return stdout, stderr
}
