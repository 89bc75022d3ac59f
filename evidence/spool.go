package evidence

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolBytes is how much of a list is held in memory.
const spoolBytes = 128 << 10

// spool is a list section that grows while facts are read: canonical items, as
// they will stand in the pack, and their digest. What doesn't fit in memory waits
// in a temporary file.
type spool struct {
	buf  []byte
	file *os.File
	sum  *digest
}

func newSpool() *spool { return &spool{sum: newDigest(true)} }

// add appends an item.
func (s *spool) add(v any) error {
	item, err := canonicalOf(v)
	if err != nil {
		return err
	}
	if s.sum.items > 0 {
		s.buf = append(s.buf, ',', '\n')
	}
	s.sum.add(item)
	s.buf = append(s.buf, item...)
	if len(s.buf) < spoolBytes {
		return nil
	}
	return s.flush()
}

func (s *spool) flush() error {
	if s.file == nil {
		f, err := os.CreateTemp("", "agentd-evidence-*")
		if err != nil {
			return fmt.Errorf("evidence: temporary file: %w", err)
		}
		s.file = f
	}
	_, err := s.file.Write(s.buf)
	s.buf = s.buf[:0]
	if err != nil {
		return fmt.Errorf("evidence: temporary file: %w", err)
	}
	return nil
}

// copyTo writes all items, separated by commas.
func (s *spool) copyTo(w io.Writer) error {
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("evidence: temporary file: %w", err)
		}
		if _, err := io.Copy(w, s.file); err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
	}
	_, err := w.Write(s.buf)
	return err
}

// close removes the temporary file.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
