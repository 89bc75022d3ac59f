package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

var (
	errTooLarge = fmt.Errorf("the server sent a message of more than %d MiB", maxMessage>>20)
	errGarbage  = errors.New("the server writes text to its standard output that isn't MCP")
)

// messages passes on the lines of a server's standard output that are messages of
// the protocol, repaired (see repair). Others, such as a greeting or a log that
// should have gone elsewhere, it keeps with the standard error: they must not end
// the connection, unless there is nothing else.
type messages struct {
	src  io.ReadCloser
	in   *bufio.Reader
	junk io.Writer
	// fault is called when the stream ended early, closed when its reader is gone.
	fault  func(error)
	closed func()
	// rest of what was read and not yet asked for.
	rest []byte
	// wasted counts the bytes since the last message.
	wasted int
}

func newMessages(src io.ReadCloser, junk io.Writer, fault func(error), closed func()) *messages {
	return &messages{src: src, in: bufio.NewReaderSize(src, 64<<10), junk: junk, fault: fault, closed: closed}
}

// Read implements io.Reader.
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		line, err := readLine(m.in, maxMessage)
		if err != nil {
			return 0, m.endStream(err)
		}
		if err := m.repairLine(line); err != nil {
			return 0, m.endStream(err)
		}
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// endStream ends the stream.
func (m *messages) endStream(err error) error {
	if errors.Is(err, errTooLarge) || errors.Is(err, errGarbage) {
		m.fault(err)
	}
	m.closed()
	return err
}

// repairLine looks at a line.
func (m *messages) repairLine(line []byte) error {
	found := splitBatch(line)
	if len(found) == 0 {
		_, _ = m.junk.Write(append(bytes.TrimRight(line, "\r\n"), '\n'))
		if m.wasted += len(line); m.wasted > maxGarbage {
			return errGarbage
		}
		return nil
	}
	m.wasted = 0
	for _, msg := range found {
		m.rest = append(append(m.rest, repair(msg)...), '\n')
	}
	return nil
}

// Close implements io.Closer.
func (m *messages) Close() error {
	m.closed()
	return m.src.Close()
}

// splitBatch returns the messages in a line: one, several if it is a batch of an older
// revision, or none.
func splitBatch(line []byte) [][]byte {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	var candidates []json.RawMessage
	if line[0] != '[' {
		candidates = append(candidates, line)
	} else if json.Unmarshal(line, &candidates) != nil {
		return nil
	}
	var found [][]byte
	for _, c := range candidates {
		// The SDK's decoder overlooks what follows an object; its reader doesn't.
		if c[0] != '{' || !json.Valid(c) {
			continue
		}
		if _, err := jsonrpc.DecodeMessage(c); err == nil {
			found = append(found, c)
		}
	}
	return found
}

// readLine reads a line of at most limit bytes. A last line without an end is one.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errTooLarge
		}
		line = append(line, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}
