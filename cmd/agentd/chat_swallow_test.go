package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// swallower stands between a client and a server on a socket, and swallows one answer to a
// question: before it reaches the server, or what the server says to it.
type swallower struct {
	proxy *httputil.ReverseProxy
	armed atomic.Bool
	// reaches says that the server gets the answer that is swallowed.
	reaches bool
	// swallowed is closed when that has happened; then the client hears nothing until
	// goOn is closed.
	swallowed, goOn chan struct{}
	// up has something in it while there is a server; without one, requests wait.
	up chan struct{}
}

func newSwallower(socket string, reaches bool) *swallower {
	dial := &net.Dialer{}
	up := make(chan struct{}, 1)
	up <- struct{}{}
	return &swallower{
		reaches: reaches, swallowed: make(chan struct{}), goOn: make(chan struct{}), up: up,
		proxy: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "localhost", "localhost"
			},
			Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial.DialContext(ctx, "unix", socket) }},
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0),
			ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if nobody listened
		},
	}
}

// ServeHTTP implements [http.Handler].
func (s *swallower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.up <- <-s.up
	isAnswer := strings.Contains(r.URL.Path, "respond_action") || bytes.Contains(body, []byte(`"respond_action"`))
	if !isAnswer || !s.armed.CompareAndSwap(true, false) {
		s.proxy.ServeHTTP(w, r)
		return
	}
	if s.reaches {
		s.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	close(s.swallowed)
	<-s.goOn
	panic(http.ErrAbortHandler)
}

// TestChatAnswersAgain: the server stops or is killed when it has an answer and before it
// said so, or before it has it. The client sends the answer again: the call runs once, and
// nobody is asked or told twice.
func TestChatAnswersAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reaches bool
		plain   bool
		answer  string
		said    string
		made    string
		// how it ends; a call that is under way when it is killed is lost
		end syscall.Signal
	}{
		{"killed before it has a yes", false, false, "y\r", "allowed once", "made\n", syscall.SIGKILL},
		{"killed before it has a yes in lines", false, true, "y\n", "allowed once", "made\n", syscall.SIGKILL},
		{"stopped after it has a yes", true, false, "a\r", "allowed for this session", "made\n", syscall.SIGTERM},
		{"killed after it has a no", true, false, "n not now\r", "denied · not now", "", syscall.SIGKILL},
		{"killed after it has a no in lines", true, true, "n not now\n", "denied · not now", "", syscall.SIGKILL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := play(t, strings.ReplaceAll(workScript, "echo made > out.txt", "echo made >> out.txt"))
			data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
			args := []string{"--config", filepath.Join(dir, "c.yaml"), "--socket", socket}
			p := start(t, data, args...)
			between := newSwallower(socket, tt.reaches)
			door := httptest.NewServer(between)
			t.Cleanup(door.Close)
			how := []string{"please build", "--server", door.URL} // the last one counts
			if tt.plain {
				how = append(how, "--plain")
			}
			c := atTerminal(t, 100, 40, p.chat(t, dir, how...), "NO_COLOR=1")
			c.see("? Allow shell?")
			if tt.plain {
				c.see("[y] once")
			} else {
				c.see("Enter answers")
			}
			between.armed.Store(true)
			for _, key := range []string{tt.answer[:len(tt.answer)-1], tt.answer[len(tt.answer)-1:]} {
				c.typing(key)
			}
			<-between.swallowed
			<-between.up
			p.stop(tt.end)
			close(between.goOn)
			c.see("the connection to the server is lost")
			p = start(t, data, args...)
			between.up <- struct{}{}
			c.see(tt.said)
			text := c.see("It is built.")
			for _, once := range []string{tt.said, "? Allow shell?", "It is built."} {
				if n := strings.Count(text, once); n != 1 {
					t.Errorf("%q is there %d times:\n%s", once, n, text)
				}
			}
			for _, never := range []string{"answered elsewhere", "already"} {
				if strings.Contains(text, never) {
					t.Errorf("%q is said:\n%s", never, text)
				}
			}
			if made, _ := os.ReadFile(filepath.Join(dir, "ws", "out.txt")); string(made) != tt.made {
				t.Errorf("the file has %q, want %q", made, tt.made)
			}
			facts := p.asAdmin(t, "events", p.sessionIDs(t)[0], "--json")
			for _, once := range []string{`"type":"action.resolved"`, `"type":"permission.resolved"`, `"type":"turn.completed"`} {
				if n := strings.Count(facts, once); n != 1 {
					t.Errorf("%s is there %d times", once, n)
				}
			}
			if tt.plain {
				c.typing("/quit\n")
				c.end()
			} else {
				c.see(idle)
				c.leave()
			}
			p.stop(syscall.SIGTERM)
		})
	}
}
