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
	"time"
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
		begin := time.Now() // before the last thing that is seen: what is drawn later is all younger
		m.says("- one\n- two\n\n```go\nfunc main() {}\n```\n")
		c.see("func main() {}")
		c.see("Some bold word[2J]0;evil.\n")
		drawnBefore := c.redraws()
		for i := range 2000 {
			m.says(fmt.Sprintf("word%d ", i))
		}
		m.ends()
		text := c.see("1 step")
		if n, took := c.redraws()-drawnBefore, time.Since(begin); float64(n) > 60*took.Seconds()+2 {
			t.Errorf("it was redrawn %d times in %v", n, took)
		}
		for i := range 2000 {
			if !strings.Contains(text, fmt.Sprintf("word%d", i)) {
				t.Fatalf("word%d is missing", i)
			}
		}
		c.see("50% ctx")
		if c.redraws() == 0 {
			t.Error("no redraw was counted")
		}
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

// redraws counts how often something was redrawn: the cursor is hidden meanwhile.
func (c *console) redraws() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.raw.String(), "\x1b[?25l")
}

// TestChatIsResizedInAStream makes the terminal narrower and wider while an answer comes:
// nothing is lost, and what follows is whole.
func TestChatIsResizedInAStream(t *testing.T) {
	m, dir := speakingModel(t)
	c := atTerminal(t, 80, 24, playing(t, dir, "chat"))
	c.torn = true
	c.does(step{sees: idle}, step{keys: "go\r"})
	words := []string{"alpha", "beta", "gamma", "delta", "epsilon"}
	for i, size := range [][2]int{{50, 20}, {120, 40}, {40, 12}, {80, 24}} {
		m.says(words[i] + " is a word in a sentence that is as long as a line of most terminals is.\n\n")
		m.says("And " + words[i] + "s follow")
		c.see("And " + words[i] + "s")
		c.resize(size[0], size[1])
		m.says(" it.\n\n")
	}
	m.says(words[4])
	m.ends()
	c.see("1 step")
	c.leave()
	text := strings.Join(strings.Fields(c.screen.Text()), "")
	for i, w := range words[:4] {
		if !strings.Contains(text, w+"isawordinasentencethatisaslongasalineofmostterminalsis.And"+w+"sfollowit.") {
			t.Errorf("what was said before resize %d isn't whole:\n%s", i, c.screen.Text())
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
