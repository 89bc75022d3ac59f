package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// speaker is a model whose answers a test speaks piece by piece.
type speaker struct {
	t      *testing.T
	pieces chan string
}

// speakingModel starts a model server, and returns the folder of a configuration for it.
func speakingModel(t *testing.T) (*speaker, string) {
	t.Helper()
	m := &speaker{t: t, pieces: make(chan string)}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ws"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, dir, "c.yaml", `data: `+dir+`/data
workspace: {root: `+dir+`/ws}
providers: [{id: s, kind: openai, baseURL: `+s.URL+`/v1, models: [{id: m, contextWindow: 1000, capabilities: [streaming]}]}]
`)
	return m, dir
}

// ServeHTTP streams what is spoken until an empty piece ends the answer.
func (m *speaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for {
		var piece string
		select {
		case piece = <-m.pieces:
		case <-r.Context().Done():
			return
		}
		if piece == "" {
			break
		}
		text, err := json.Marshal(piece)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", text); err != nil || flush.Flush() != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":100}}`+"\n\ndata: [DONE]\n\n")
}

func (m *speaker) says(pieces ...string) {
	for _, p := range pieces {
		m.pieces <- p
	}
}

func (m *speaker) ends() { m.pieces <- "" }

// TestChatStreams: what comes slowly is seen as it comes, what comes fast is all there,
// and neither can move the cursor.
func TestChatStreams(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		m, dir := speakingModel(t)
		c := atTerminal(t, size[0], size[1], playing(t, dir, "chat"))
		c.see("› say what to do")
		c.typing("go\r")
		m.says("Some **bo")
		c.see("Some **bo")
		m.says("ld** word\x1b[2J\x1b]0;evil\a.\n\n")
		m.says("- one\n- two\n\n```go\nfunc main() {}\n```\n")
		c.see("func main() {}")
		c.see("Some bold word[2J]0;evil.\n")
		for i := range 2000 {
			m.says(fmt.Sprintf("word%d ", i))
		}
		m.ends()
		text := c.see("1 step")
		for i := range 2000 {
			if !strings.Contains(text, fmt.Sprintf("word%d", i)) {
				t.Fatalf("word%d is missing", i)
			}
		}
		c.see("50% ctx")
		if c.screen.Title == "evil" {
			t.Error("the model changed the title")
		}
		c.see("› say what to do")
		c.typing("\x04")
		if code := c.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// TestChatQueueDropKeepsTheAnswer changes the queue while a paragraph is coming: the
// paragraph stays whole.
func TestChatQueueDropKeepsTheAnswer(t *testing.T) {
	m, dir := speakingModel(t)
	c := atTerminal(t, 80, 24, playing(t, dir, "chat"))
	c.see("› say what to do")
	c.typing("go\r")
	m.says("one two")
	c.see("one two")
	c.typing("next\r")
	c.see("1 queued")
	c.typing("/queue drop 1\r")
	c.see("removed from the queue: next")
	m.says(" three")
	m.ends()
	text := c.see("1 step")
	if !strings.Contains(text, "one two three\n\n+ queued: next\n• removed from the queue: next") {
		t.Errorf("the answer isn't whole:\n%s", text)
	}
	c.see("› say what to do")
	c.typing("\x04")
	c.end()
}
