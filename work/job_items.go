package work

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"agentd/command"
	"agentd/fault"
	"agentd/store"
)

// markEvery is how many items lie between two places in a job's items that can be
// gone to directly.
const markEvery = 256

// jobItems reads the items of a job from where they are stored: what is in memory
// doesn't grow with their number but for a place every 256 items.
type jobItems struct {
	blob store.Blob
	r    *bufio.Reader
	// next is the ordinal of the item at the reader, at its place in the content.
	next, at int64
	// marks are the places of each 256th item, as far as they were seen.
	marks []int64
}

// openItems opens a job's items.
func (w *Work) openItems(ctx context.Context, ref string) (*jobItems, error) {
	b, _, err := w.m.Output(ctx, command.Local(), ref)
	if err != nil {
		return nil, err
	}
	return &jobItems{blob: b, r: bufio.NewReaderSize(b, 64<<10), marks: []int64{0}}, nil
}

func (s *jobItems) close() { _ = s.blob.Close() } // it was only read

// item returns the item with an ordinal; nil if there are not so many.
func (s *jobItems) item(index int64) (*jobLine, error) {
	if err := s.seek(index); err != nil {
		return nil, err
	}
	for {
		line, at, err := s.read()
		if line == nil || err != nil {
			return nil, err
		}
		if at == index {
			return decodeLine(line)
		}
	}
}

// find returns the item with an id and its ordinal; nil if there is none.
func (s *jobItems) find(id string) (int64, *jobLine, error) {
	if err := s.seek(0); err != nil {
		return 0, nil, err
	}
	for {
		raw, at, err := s.read()
		if raw == nil || err != nil {
			return 0, nil, err
		}
		line, err := decodeLine(raw)
		if err != nil || line.ItemID == id {
			return at, line, err
		}
	}
}

func decodeLine(raw []byte) (*jobLine, error) {
	line := &jobLine{}
	if err := json.Unmarshal(raw, line); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "an item of a job can't be read")
	}
	return line, nil
}

// seek goes to an item, or to the last known place before it.
func (s *jobItems) seek(index int64) error {
	if index == s.next {
		return nil
	}
	mark := min(index/markEvery, int64(len(s.marks)-1))
	if index > s.next && s.next >= mark*markEvery {
		return nil // reading on is the shorter way
	}
	if _, err := s.blob.Seek(s.marks[mark], io.SeekStart); err != nil {
		return fmt.Errorf("work: items of a job: %w", err)
	}
	s.r.Reset(s.blob)
	s.next, s.at = mark*markEvery, s.marks[mark]
	return nil
}

// read returns the line at the reader and its ordinal; nil at the end.
func (s *jobItems) read() ([]byte, int64, error) {
	if s.next%markEvery == 0 && s.next/markEvery == int64(len(s.marks)) {
		s.marks = append(s.marks, s.at)
	}
	line, err := s.r.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, s.next, nil
	}
	if err != nil {
		return nil, s.next, fmt.Errorf("work: items of a job: %w", err)
	}
	s.next++
	s.at += int64(len(line))
	return line, s.next - 1, nil
}
