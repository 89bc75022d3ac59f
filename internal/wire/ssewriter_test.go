package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agentd/fault"
)

func TestSSEWriter(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewSSEWriter(w)
	if err := errors.Join(s.Send("", 1), s.Send("two", "x\ny"), s.Beat(), s.SendText("[DONE]")); err != nil {
		t.Fatal(err)
	}
	want := "data: 1\n\nevent: two\ndata: \"x\\ny\"\n\n: alive\n\ndata: [DONE]\n\n"
	if got := w.Body.String(); got != want || !w.Flushed || w.Header().Get("Content-Type") != SSEType {
		t.Errorf("got %q, flushed %v, %v", got, w.Flushed, w.Header())
	}
	if err := s.Send("", func() {}); err == nil || errors.Is(err, ErrReaderGone) {
		t.Errorf("a value that can't be encoded: %v", err)
	}
	if err := NewSSEWriter(goneWriter{w}).Beat(); !errors.Is(err, ErrReaderGone) {
		t.Errorf("a reader that is gone: %v", err)
	}
}

// goneWriter is the answer to a client that went away.
type goneWriter struct{ http.ResponseWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestReadForeign(t *testing.T) {
	for body, want := range map[string]struct {
		kind  fault.Kind
		param string
	}{
		`{"n": 1, "unknown": true}`:       {},
		`{"n": "one"}`:                    {fault.InvalidParams, "n"},
		`{"n": 1} {}`:                     {fault.InvalidParams, ""},
		`nonsense`:                        {fault.InvalidParams, ""},
		`{"n` + strings.Repeat("n", 1000): {fault.PayloadTooLarge, ""},
	} {
		var into struct {
			N int `json:"n"`
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		err := ReadForeign(httptest.NewRecorder(), r, 100, &into)
		var f *fault.Error
		switch errors.As(err, &f); {
		case want.kind == "" && (err != nil || into.N != 1):
			t.Errorf("%.20s: %v, %d", body, err, into.N)
		case want.kind != "" && (f == nil || f.Kind != want.kind || f.Param != want.param):
			t.Errorf("%.20s: %v", body, err)
		}
	}
}
