// Package rawlog is the floor that agentd's journal is measured against: a
// preallocated file, group commit and fdatasync, and nothing else. It keeps no
// index, no order within sessions and no way to read; whatever a real store
// costs more is the price of those.
package rawlog

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Log is a preallocated file that many goroutines append to.
type Log struct {
	file *os.File
	size int64

	mu      sync.Mutex
	pos     int64
	queue   []*entry
	leading bool
	buf     []byte
}

type entry struct {
	data []byte
	err  error
	done bool
	wake chan bool
}

// Create makes a file of the given size with every block written, so that
// later writes change no metadata. A full log goes on at its beginning.
func Create(path string, size int64) (*Log, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("rawlog: %w", err)
	}
	zero := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(zero)) {
		if _, err := f.WriteAt(zero, off); err != nil {
			return nil, fmt.Errorf("rawlog: preallocate: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("rawlog: preallocate: %w", err)
	}
	return &Log{file: f, size: size}, nil
}

// Append returns when data is durable. Whoever finds nobody committing commits
// for all who wait, and hands over when its own data is done.
func (l *Log) Append(data []byte) error {
	e := &entry{data: data, wake: make(chan bool, 1)}
	l.mu.Lock()
	l.queue = append(l.queue, e)
	lead := !l.leading
	l.leading = true
	l.mu.Unlock()
	if !lead {
		lead = <-e.wake
	}
	for lead && !e.done {
		l.commit(e)
	}
	if lead {
		l.handOver()
	}
	return e.err
}

func (l *Log) commit(own *entry) {
	l.mu.Lock()
	group := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.buf = l.buf[:0]
	for _, e := range group {
		l.buf = append(l.buf, e.data...)
	}
	if l.pos+int64(len(l.buf)) > l.size {
		l.pos = 0
	}
	_, err := l.file.WriteAt(l.buf, l.pos)
	if err == nil {
		err = syscall.Fdatasync(int(l.file.Fd()))
	}
	l.pos += int64(len(l.buf))
	for _, e := range group {
		e.err, e.done = err, true
		if e != own {
			e.wake <- false
		}
	}
}

func (l *Log) handOver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.leading = false
		return
	}
	l.queue[0].wake <- true
}

// Close closes and removes the file.
func (l *Log) Close() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("rawlog: %w", err)
	}
	return os.Remove(l.file.Name())
}
