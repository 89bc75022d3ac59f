package httpstream

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type read struct{ Name, Data string }

func readAll(r io.Reader, limit int) ([]read, error) {
	events := NewReader(r, limit)
	var out []read
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, read{e.Name, string(e.Data)})
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []read
	}{
		{"one", "data: a\n\n", []read{{"", "a"}}},
		{"named", "event: x\ndata: a\n\ndata: b\n\n", []read{{"x", "a"}, {"", "b"}}},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []read{{"", "a\n\nb"}}},
		{"only one space goes", "data:  a\n\n", []read{{"", " a"}}},
		{"CRLF", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []read{{"x", "a"}, {"", "b"}}},
		{"CR", "event: x\rdata: a\r\rdata: b\r\r", []read{{"x", "a"}, {"", "b"}}},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\n\r\n", []read{{"", "a"}, {"", "b"}}},
		{"comments", ": hi\n:\ndata: a\n: ho\n\n", []read{{"", "a"}}},
		{"an event without data is none", "event: x\n\ndata: a\n\n", []read{{"", "a"}}},
		{"empty data is data", "data\n\n", []read{{"", ""}}},
		{"other fields", "id: 1\nretry: 5\nfoo: bar\nfoo\ndata: a\n\n", []read{{"", "a"}}},
		{"no empty line at the end", "data: a\n\ndata: b", []read{{"", "a"}, {"", "b"}}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []read{{"", "a"}}},
		{"a mark is one only at the start", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", []read{{"", "a"}}},
		{"half a mark", "\xEF\xBB", nil},
		{"nothing", "", nil},
		{"an error as a field", "data: a\n\nerror: {\"code\":500}\n\ndata: b\n\n", []read{{"", "a"}, {"error", `{"code":500}`}, {"", "b"}}},
		{"a word after error is nothing", "error: bad\ndata: a\n\n", []read{{"", "a"}}},
		{"colons in data", "data: a:b\n\n", []read{{"", "a:b"}}},
	} {
		for way, r := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)), "data with the end": iotest.DataErrReader(strings.NewReader(c.in)),
		} {
			got, err := readAll(r, 100)
			if d := cmp.Diff(c.want, got); d != "" || err != nil {
				t.Errorf("%s, %s: %v %s", c.name, way, err, d)
			}
		}
	}
}

func TestReaderIsBounded(t *testing.T) {
	for name, in := range map[string]string{
		"a line":         "data: " + strings.Repeat("x", 200) + "\n\n",
		"many lines":     strings.Repeat("data: xxxxx\n", 50) + "\n",
		"a comment":      ": " + strings.Repeat("x", 200) + "\n\n",
		"empty lines":    strings.Repeat("data:\n", 200) + "\n",
		"without an end": "data: " + strings.Repeat("x", 200),
	} {
		if got, err := readAll(strings.NewReader(in), 100); !errors.Is(err, errEventTooLong) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestReaderReturnsTheErrorOfItsSource(t *testing.T) {
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	if !errors.Is(err, broken) || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestReaderDoesNotWaitBehindCR: the event is there once its empty line is, even
// if nothing follows for a while.
func TestReaderDoesNotWaitBehindCR(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	go func() { _, _ = io.WriteString(out, "data: a\r\r") }()
	e, err := NewReader(in, 100).Next()
	if err != nil || string(e.Data) != "a" {
		t.Fatalf("%q, %v", e.Data, err)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "\xEF\xBB\xBFevent: x\r\ndata: a\r\rdata", ": c\n\n\n", "data:\ndata:\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readAll(bytes.NewReader(in), 64)
		pieces, err2 := readAll(iotest.OneByteReader(bytes.NewReader(in)), 64)
		if d := cmp.Diff(whole, pieces); d != "" || (err == nil) != (err2 == nil) {
			t.Fatalf("%s %v %v", d, err, err2)
		}
		for _, e := range whole {
			if len(e.Data) > 64 || strings.ContainsAny(e.Name, "\r\n") || strings.Contains(e.Data, "\r") {
				t.Fatalf("%+v", e)
			}
		}
	})
}
