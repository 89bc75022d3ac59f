package transcript

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// document writes a transcript as JSON, message by message.
type document struct {
	w      io.Writer
	indent bool
	err    error
	turns  int
}

// begin implements [sink].
func (d *document) begin(head *Transcript) error {
	bare := *head
	bare.Incomplete = "" // it comes last
	return d.open(0, &bare)
}

// turn implements [sink].
func (d *document) turn(n int, t *Turn) error {
	d.turns = n
	d.separate(n > 1, 2)
	bare := *t
	bare.Messages = []*Message{}
	if err := d.open(2, &bare); err != nil {
		return err
	}
	written := 0
	for _, m := range t.Messages {
		if !m.load() {
			continue
		}
		d.separate(written > 0, 4)
		d.write(d.encode(4, m))
		*m = Message{} // what was read is not kept
		written++
	}
	d.closeList(written > 0, 3)
	d.newLine(2)
	d.write([]byte("}"))
	return d.err
}

// end implements [sink].
func (d *document) end(head *Transcript) error {
	d.closeList(d.turns > 0, 1)
	if head.Incomplete != "" {
		d.separate(true, 1)
		d.write([]byte(`"incomplete":`))
		if d.indent {
			d.write([]byte(" "))
		}
		d.write(d.encode(1, head.Incomplete))
	}
	d.newLine(0)
	d.write([]byte("}\n"))
	return d.err
}

// open writes a value whose last field is an empty list, up to the inside of that list.
func (d *document) open(depth int, v any) error {
	text := bytes.TrimRight(d.encode(depth, v), "} \n")
	d.write(bytes.TrimSuffix(text, []byte("]")))
	return d.err
}

// separate begins an element of a list.
func (d *document) separate(follows bool, depth int) {
	if follows {
		d.write([]byte(","))
	}
	d.newLine(depth)
}

func (d *document) closeList(hasElements bool, depth int) {
	if hasElements {
		d.newLine(depth)
	}
	d.write([]byte("]"))
}

func (d *document) newLine(depth int) {
	if d.indent {
		d.write([]byte("\n" + strings.Repeat("  ", depth)))
	}
}

func (d *document) encode(depth int, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if d.indent {
		e.SetIndent(strings.Repeat("  ", depth), "  ")
	}
	if err := e.Encode(v); err != nil && d.err == nil {
		d.err = err
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func (d *document) write(b []byte) {
	if d.err == nil {
		_, d.err = d.w.Write(b)
	}
}
