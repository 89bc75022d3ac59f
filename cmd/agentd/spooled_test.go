package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// TestExportsAreSentWhole: an export that fails after a lot was written sends nothing of it, so
// that the answer can still say why; one whose client takes no more is cut off. Neither leaves a
// file behind.
func TestExportsAreSentWhole(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	content := bytes.Repeat([]byte("a fact\n"), 1<<17)
	export := func(end error) func(io.Writer) error {
		return func(to io.Writer) error {
			_, err := to.Write(content)
			return errors.Join(err, end)
		}
	}
	away := errors.New("the bucket is away")
	got := httptest.NewRecorder()
	if err := sendSpooled(got, export(away)); !errors.Is(err, away) || got.Body.Len() > 0 || len(got.Header()) > 0 {
		t.Errorf("an export that fails: %v, and %d bytes with %v were sent", err, got.Body.Len(), got.Header())
	}
	got = httptest.NewRecorder()
	if err := sendSpooled(got, export(nil)); err != nil || !bytes.Equal(got.Body.Bytes(), content) {
		t.Errorf("an export: %v, %d bytes, want %d", err, got.Body.Len(), len(content))
	}
	func() {
		defer func() {
			v := recover()
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("an answer that breaks off ends with %v, want a cut connection", v)
			}
		}()
		_ = sendSpooled(brokenWriter{httptest.NewRecorder()}, export(nil))
	}()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// brokenWriter takes nothing.
type brokenWriter struct{ *httptest.ResponseRecorder }

// Write implements [io.Writer].
func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

// ReadFrom implements [io.ReaderFrom].
func (brokenWriter) ReadFrom(io.Reader) (int64, error) { return 0, errors.New("gone") }
