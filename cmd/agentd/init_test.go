package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// goodKey is what the provider of the tests takes.
const goodKey = "sk-good-0123456789"

// keyedProvider speaks OpenAI's protocol with whoever brings the right key, or with all
// if it wants none.
func keyedProvider(t *testing.T, wantsKey bool) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		if wantsKey && r.Header.Get("Authorization") != "Bearer "+goodKey {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":null}]}`+"\n\n"+
			`data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1", calls
}

// newcomer is a user with an empty home.
func newcomer(t *testing.T) *person {
	t.Helper()
	home := t.TempDir()
	_ = noting(t) // what is recorded is read after the server has ended
	t.Cleanup(func() { stopOwnServer(t, home) })
	return &person{T: t, home: home, project: home}
}

// atHome is a command of the newcomer, at a terminal.
func (p *person) atHome(args ...string) *console {
	p.Helper()
	cmd := p.command(args...)
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+filepath.Join(p.home, ".local", "state"))
	return atTerminal(p.T, 200, 30, cmd)
}

// written returns a file in the home that must have mode 0600.
func (p *person) written(path ...string) string {
	p.Helper()
	name := filepath.Join(append([]string{p.home}, path...)...)
	info, err := os.Stat(name)
	if err != nil {
		p.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		p.Errorf("%s has mode %v", name, info.Mode())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// nothingWritten fails if there is a configuration or a key.
func (p *person) nothingWritten() {
	p.Helper()
	for _, dir := range []string{".config", filepath.Join(".local", "state", "agentd", "keys")} {
		err := filepath.WalkDir(filepath.Join(p.home, dir), func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				p.Errorf("%s was written", path)
			}
			return nil
		})
		if err != nil {
			p.Fatal(err)
		}
	}
}

func TestInitAtATerminal(t *testing.T) {
	url, calls := keyedProvider(t, true)
	p := newcomer(t)
	c := p.atHome("init")
	again := func(question string) {
		t.Helper()
		c.until("the question again", func(text string) bool { return strings.Count(text, question) == 2 })
	}
	c.see("Provider: anthropic")
	c.typing("antropic\r")
	c.see("\"antropic\" can't be used; expected: anthropic, openai, gemini, local or script")
	again("Provider: anthropic")
	c.typing("local\r")
	c.see("Its address")
	c.typing("nonsense\r")
	c.see("\"nonsense\" can't be used; expected: an absolute http or https address")
	again("Its address")
	c.typing(url + "\r")
	c.see("Its model")
	c.typing("small\r")
	c.see("Permission mode:")
	c.typing("wild\r")
	c.see("\"wild\" can't be used; expected: default, ")
	again("Permission mode:")
	c.typing("auto\r")
	c.see("Key of local, if it wants one")
	c.typing("sk-bad-0123456789\r")
	c.see("local refused the key: HTTP 401: Incorrect API key provided")
	again("Key of local")
	c.typing(goodKey + "\r")
	c.see("Written: ")
	if code := c.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(c.screen.Text(), "sk-") {
		t.Error("the key is shown")
	}
	if calls.Load() != 2 {
		t.Errorf("the provider was called %d times for two keys", calls.Load())
	}
	text := p.written(".config", "agentd", "config.yaml")
	for _, want := range []string{"id: local", "kind: openai", url, "small", "mode: auto"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "sk-") || strings.TrimSpace(p.written(".local", "state", "agentd", "keys", "local")) != goodKey {
		t.Error("the key isn't where it belongs")
	}
	cmd := p.command("run", "hello")
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+filepath.Join(p.home, ".local", "state"))
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%v: %s", err, out)
	}
	// A file that is there is kept, and nobody is asked for nothing.
	c = p.atHome("init")
	c.see("config.yaml is there already")
	if code := c.end(); code != exitUsage || strings.Contains(c.screen.Text(), "Provider:") {
		t.Errorf("exit code %d", code)
	}
	if p.written(".config", "agentd", "config.yaml") != text {
		t.Error("the file was changed")
	}
}

func TestInitWithoutAKey(t *testing.T) {
	url, _ := keyedProvider(t, false)
	p := newcomer(t)
	c := p.atHome("init", "--provider", "local", "--base-url", url, "--model", "small", "--mode", "plan")
	c.see("Key of local, if it wants one")
	c.typing("\r")
	c.see("Written: ")
	if code := c.end(); code != 0 || strings.Contains(c.screen.Text(), "The key is stored") {
		t.Errorf("exit code %d", code)
	}
	if text := p.written(".config", "agentd", "config.yaml"); !strings.Contains(text, "mode: plan") {
		t.Error(text)
	}
}

// Whoever leaves in the middle, or whose provider is gone, has nothing written, and the
// terminal back.
func TestInitIsLeft(t *testing.T) {
	url, _ := keyedProvider(t, true)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, tt := range map[string]struct {
		args []string
		do   func(c *console)
		code int
		says string
	}{
		"ctrl-c at a question": {[]string{"init"}, func(c *console) {
			c.see("Provider:")
			c.typing("\x03")
		}, 1, "nothing was written"},
		"ctrl-d at a question": {[]string{"init"}, func(c *console) {
			c.see("Provider:")
			c.typing("\x04")
		}, 1, "nothing was written"},
		"ctrl-c at the key": {[]string{"init", "--provider", "anthropic", "--mode", "default"}, func(c *console) {
			c.see("Key of anthropic")
			c.typing("sk-half\x03")
		}, 1, "nothing was written"},
		"ctrl-c at a login": {[]string{"login", "openai"}, func(c *console) {
			c.see("Key of openai")
			c.typing("\x03")
		}, 1, "nothing was written"},
		"no key at a login": {[]string{"login", "openai"}, func(c *console) {
			c.see("Key of openai")
			c.typing("\r")
		}, 2, "the key is missing"},
		"a vanished provider": {[]string{"init", "--provider", "x", "--base-url", gone.URL + "/v1", "--model", "m", "--mode", "default"}, func(c *console) {
			c.see("Key of x")
			c.typing(goodKey + "\r")
		}, 1, "--no-check leaves the check out"},
		"a key file that is not there": {[]string{"init", "--provider", "x", "--base-url", url, "--model", "m", "--mode", "default", "--key-file", "/nowhere"}, func(*console) {}, 2, "--key-file"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newcomer(t)
			cmd := p.command()
			// The shell says afterwards whether the terminal shows what is typed.
			cmd.Path, cmd.Args = "/bin/bash", append([]string{"bash", "-c", `trap : INT; (exec -a agentd "$0" "$@"); echo "code $?"; stty -a | grep -o -- ' -\?echo '`, cmd.Path}, tt.args...)
			cmd.Env = append(cmd.Env, startsVariable+"=", "XDG_STATE_HOME="+filepath.Join(p.home, ".local", "state"))
			c := atTerminal(t, 100, 30, cmd)
			tt.do(c)
			c.see(fmt.Sprintf("code %d", tt.code))
			c.end()
			text := c.screen.Text()
			if !strings.Contains(text, tt.says) || strings.Contains(text, "-echo") || strings.Contains(text, "sk-") {
				t.Errorf("the terminal shows:\n%s", text)
			}
			p.nothingWritten()
		})
	}
}

func TestLoginAtATerminal(t *testing.T) {
	url, _ := keyedProvider(t, true)
	p := newcomer(t)
	if err := os.MkdirAll(filepath.Join(p.home, ".config", "agentd"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.home, ".config", "agentd"), "config.yaml", "providers: [{id: mine, kind: openai, baseURL: "+url+", models: [{id: small}]}]\n")
	c := p.atHome("login")
	c.see("Key of mine")
	c.typing("sk-bad-0123456789\r")
	c.see("mine refused the key")
	if code := c.end(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	c = p.atHome("login", "mine")
	c.see("Key of mine")
	c.typing(goodKey + "\r")
	c.see("The key of mine is stored in")
	if code := c.end(); code != 0 || strings.Contains(c.screen.Text(), "sk-") {
		t.Errorf("exit code %d", code)
	}
	if got := strings.TrimSpace(p.written(".local", "state", "agentd", "keys", "mine")); got != goodKey {
		t.Error("another key is stored")
	}
	for _, want := range []string{"The key of mine is removed.", "No key of mine is stored."} {
		c = p.atHome("logout")
		c.see(want)
		if code := c.end(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
