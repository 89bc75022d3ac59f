package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// frame shows what was read, for comparison.
func (f *SSEFrame) text() string {
	s := f.Event + "|" + f.ID + "|" + strconv.Quote(string(f.Data))
	if f.Retry > 0 {
		s += "|" + f.Retry.String()
	}
	return s
}

func readAll(in io.Reader, bound int) (frames []string, err error) {
	r := NewSSEReader(in, bound)
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return frames, err
		}
		frames = append(frames, f.text())
	}
}

func TestSSEReader(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"line feeds":           {"data: a\n\ndata: b\n\n", []string{`||"a"`, `||"b"`}},
		"carriage returns":     {"data: a\r\rdata: b\r\r", []string{`||"a"`, `||"b"`}},
		"both":                 {"data: a\r\n\r\ndata: b\r\n\r\n", []string{`||"a"`, `||"b"`}},
		"mixed":                {"data: a\r\ndata: b\rdata: c\n\r\n", []string{`||"a\nb\nc"`}},
		"many lines":           {"data: a\ndata:\ndata:  b\n\n", []string{`||"a\n\n b"`}},
		"no space":             {"data:a\ndata:b:c\n\n", []string{`||"a\nb:c"`}},
		"no colon":             {"data\n\n", []string{`||""`}},
		"empty data":           {"data:\n\ndata\ndata\n\n", []string{`||""`, `||"\n"`}},
		"comments":             {": hi\n:\n:::\ndata: a\n: in between\ndata: b\n\n", []string{`||"a\nb"`}},
		"type":                 {"event: snapshot\ndata: a\n\ndata: b\n\n", []string{`snapshot||"a"`, `||"b"`}},
		"type without data":    {"event: snapshot\n\ndata: b\n\n", []string{`||"b"`}},
		"id stays":             {"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{`|7|"a"`, `|7|"b"`, `||"c"`}},
		"id without data":      {"id: 7\n\ndata: b\n\n", []string{`|7|"b"`}},
		"id with a zero":       {"id: 1\ndata: a\n\nid: 2\x003\ndata: b\n\n", []string{`|1|"a"`, `|1|"b"`}},
		"retry":                {"retry: 1500\ndata: a\n\nretry: 1x\ndata: b\n\nretry: -1\ndata: c\n\n", []string{`||"a"|1.5s`, `||"b"`, `||"c"`}},
		"absurd retry":         {"retry: 99999999999999999999999\ndata: a\n\n", []string{`||"a"|24h0m0s`}},
		"unknown field":        {"foo: bar\nDATA: x\ndata: a\n\n", []string{`||"a"`}},
		"byte order mark":      {"\ufeffdata: a\n\n", []string{`||"a"`}},
		"mark in the middle":   {"data: a\n\n\ufeffdata: b\n\n", []string{`||"a"`}},
		"half a frame":         {"data: a\n\ndata: b\n", []string{`||"a"`}},
		"half a line":          {"data: a\n\ndata: b", []string{`||"a"`}},
		"nothing":              {"", nil},
		"blank lines":          {"\n\n\r\n\r\r", nil},
		"blank lines, a frame": {"\n\n\ndata: a\n\n\n\n", []string{`||"a"`}},
	} {
		for split, in := range map[string]io.Reader{
			"whole": strings.NewReader(c.in), "bytes": iotest.OneByteReader(strings.NewReader(c.in)), "halves": iotest.HalfReader(strings.NewReader(c.in)),
		} {
			got, err := readAll(in, 0)
			if err != nil || strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%s, %s: got %q (%v), want %q", name, split, got, err, c.want)
			}
		}
	}
}

// TestSSEReaderDoesNotWaitForALineFeed reads a stream that stands still right
// after a carriage return: the frame is complete.
func TestSSEReaderDoesNotWaitForALineFeed(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	go func() { _, _ = io.WriteString(out, "data: a\r\r") }()
	f, err := NewSSEReader(in, 0).Next()
	if err != nil || string(f.Data) != "a" {
		t.Errorf("%q, %v", f.Data, err)
	}
}

func TestSSEReaderIsBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: a\n\ndata: "), zeros{})
	if got, err := readAll(endless, 1000); !errors.Is(err, ErrFrameTooLarge) || len(got) != 1 {
		t.Errorf("an endless line: %q, %v", got, err)
	}
	lines := strings.Repeat("data: 0123456789\n", 1000)
	if _, err := readAll(strings.NewReader(lines+"\n"), 1000); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("many lines: %v", err)
	}
	if got, err := readAll(strings.NewReader(strings.Repeat(": heartbeat\n", 1000)+"data: a\n\n"), 100); err != nil || len(got) != 1 {
		t.Errorf("comments count: %q, %v", got, err)
	}
	if got, err := readAll(strings.NewReader(strings.Repeat("data: 0123456789\n\n", 1000)), 100); err != nil || len(got) != 1000 {
		t.Errorf("many frames: %d, %v", len(got), err)
	}
	exact := "data: " + strings.Repeat("x", 94)
	if got, err := readAll(strings.NewReader(exact+"\n\n"), 100); err != nil || len(got) != 1 {
		t.Errorf("a line of exactly the bound: %q, %v", got, err)
	}
	if _, err := readAll(strings.NewReader(exact+"x\n\n"), 100); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestSSEReaderPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken))
	if got, err := readAll(in, 0); !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAppendSSE(t *testing.T) {
	for want, f := range map[string]SSEFrame{
		"id: 5\ndata: {}\n\n":                     {ID: "5", Data: []byte(`{}`)},
		"event: snapshot\nretry: 250\ndata: \n\n": {Event: "snapshot", Retry: 250 * time.Millisecond},
		"data: a\ndata: b\ndata: c\ndata: \n\n":   {Data: []byte("a\nb\r\nc\r")},
		"data: x\n\n":                             {Event: "a\nid: 9", ID: "1\r2", Data: []byte("x")},
	} {
		if got := string(AppendSSE(nil, &f)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := string(AppendSSEComment([]byte("x"), "a\nb")); got != "x: a\n: b\n\n" {
		t.Errorf("got %q", got)
	}
}

// TestSSERoundTrip writes any frames and reads them in any pieces.
func TestSSERoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out []byte
		var want []string
		last := ""
		for range rapid.IntRange(0, 8).Draw(t, "frames") {
			f := SSEFrame{
				Event: rapid.StringMatching(`[a-z.]{0,8}`).Draw(t, "event"),
				ID:    rapid.StringMatching(`[0-9a-z ]{0,5}`).Draw(t, "id"),
				Data:  []byte(rapid.StringMatching(`([^\x00]|[\r\n: ])*`).Draw(t, "data")),
				Retry: time.Duration(rapid.IntRange(0, 5000).Draw(t, "retry")) * time.Millisecond,
			}
			f.ID = strings.TrimLeft(f.ID, " ")
			if rapid.Bool().Draw(t, "comment") {
				out = AppendSSEComment(out, "c\ndata: no")
			}
			out = AppendSSE(out, &f)
			if f.ID != "" {
				last = f.ID
			}
			f.ID = last
			f.Data = []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(f.Data)))
			want = append(want, f.text())
		}
		pieces := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 20).Draw(t, "pieces")
		got, err := readAll(&pieceReader{data: out, sizes: pieces}, 0)
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%v\ngot  %q\nwant %q", err, got, want)
		}
	})
}

// pieceReader gives its data out in pieces of the given sizes, over and over.
type pieceReader struct {
	data  []byte
	sizes []int
	next  int
}

func (r *pieceReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(r.data), r.sizes[r.next%len(r.sizes)])
	r.next++
	copy(p, r.data[:n])
	r.data = r.data[n:]
	return n, nil
}

func FuzzSSEReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "id: 1\r\nevent: e\r\ndata: x\r\rretry: 5\n\n", "\ufeff:c\n\n", "data\n\n", "\r\n\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readAll(bytes.NewReader(in), 256)
		split, errSplit := readAll(iotest.OneByteReader(bytes.NewReader(in)), 256)
		if strings.Join(whole, "\n") != strings.Join(split, "\n") || errors.Is(err, ErrFrameTooLarge) != errors.Is(errSplit, ErrFrameTooLarge) {
			t.Fatalf("the pieces matter: %q (%v), %q (%v)", whole, err, split, errSplit)
		}
	})
}
