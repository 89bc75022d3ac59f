package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agentd/fault"
	"agentd/server"
	"agentd/store"
	"agentd/store/storetest"
)

const linkRefused = "the link was used already or is older than two minutes; run agentd console again"

// consoleLink has a server make a link and returns its code.
func (p *process) consoleLink() string {
	p.t.Helper()
	var made struct{ Path string }
	status, body := p.sendAs(p.token(), http.MethodPost, "/ui/link", "")
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusOK {
		p.t.Fatalf("%d %s: %v", status, body, err)
	}
	_, code, _ := strings.Cut(made.Path, "#")
	return code
}

// useLink logs a browser in with the code of a link.
func (p *process) useLink(code string) (status int, answer string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/ui/login", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Error(err)
	}
	return res.StatusCode, string(text)
}

// TestConsoleLinkOfAnotherNode: a balancer may lead the browser to any node. A link works at
// each, once at all of them together, also after the node that made it was killed.
func TestConsoleLinkOfAnotherNode(t *testing.T) {
	f := newFleet(t, "1h", slow).quick()
	dir := f.dir()
	a, b := f.node(dir), f.node(f.dir())
	code := a.consoleLink()
	if status, answer := b.useLink(code); status != http.StatusOK || !strings.Contains(answer, `"admin"`) {
		t.Fatalf("at the other node: %d %s", status, answer)
	}
	for name, p := range map[string]*process{"where it was used": b, "where it was made": a} {
		if status, answer := p.useLink(code); status != http.StatusUnauthorized || !strings.Contains(answer, linkRefused) {
			t.Errorf("again, %s: %d %s", name, status, answer)
		}
	}
	forged := code[:len(code)-1] + "A"
	if forged == code {
		forged = code[:len(code)-1] + "B"
	}
	for _, code := range []string{forged, "x", strings.Repeat("x", 5000), "../../link", "%00"} {
		if status, answer := b.useLink(code); status != http.StatusUnauthorized || !strings.Contains(answer, linkRefused) {
			t.Errorf("forged: %d %s", status, answer)
		}
	}
	for range 3 {
		code := a.consoleLink()
		var good, bad atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				switch status, answer := []*process{a, b}[i%2].useLink(code); {
				case status == http.StatusOK:
					good.Add(1)
				case status == http.StatusUnauthorized && strings.Contains(answer, linkRefused):
					bad.Add(1)
				default:
					t.Errorf("%d %s", status, answer)
				}
			})
		}
		all.Wait()
		if good.Load() != 1 || bad.Load() != 19 {
			t.Errorf("of 20 at the same moment %d got in, and %d were refused", good.Load(), bad.Load())
		}
	}
	left := a.consoleLink()
	used := a.consoleLink()
	if status, answer := a.useLink(used); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	a.stop(syscall.SIGKILL)
	if status, answer := b.useLink(left); status != http.StatusOK {
		t.Errorf("after its node was killed: %d %s", status, answer)
	}
	again := f.node(dir)
	for _, code := range []string{left, used} {
		if status, _ := again.useLink(code); status != http.StatusUnauthorized {
			t.Errorf("used before its node was killed: %d", status)
		}
	}
	for _, p := range []*process{again, b} {
		p.stop(syscall.SIGTERM)
		if log := p.remainingLog(); strings.Contains(log, code) || strings.Contains(log, left) || strings.Contains(log, strings.TrimSpace(string(f.token))) {
			t.Error("the log has a code, or the token")
		}
	}
}

// TestConsoleLinkAfterARestart: the same with a data directory.
func TestConsoleLinkAfterARestart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, data)
	left, used := p.consoleLink(), p.consoleLink()
	if status, answer := p.useLink(used); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	p.stop(syscall.SIGKILL)
	p = start(t, data)
	for code, want := range map[string]int{left: http.StatusOK, used: http.StatusUnauthorized} {
		if status, answer := p.useLink(code); status != want {
			t.Errorf("%d %s, want %d", status, answer, want)
		}
	}
	p.stop(syscall.SIGTERM)
	if out, errs, code := program(t, "verify", "--data", data); code != 0 {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
}

// aLink is a link as a server has it kept.
func aLink(name, token string) server.Link {
	return server.Link{Name: name, TokenID: token, Until: time.Now().Add(2 * time.Minute), Sealed: "sealed"}
}

func entriesOf(t *testing.T, s store.Store, kind string) (keys []string) {
	t.Helper()
	for e, err := range s.Scan(t.Context(), store.Scan{Kind: kind}) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// TestLinksEnd: links and the marks of their use are refused in time, and removed.
func TestLinksEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMem()
		links := &storeLinks{store: s}
		keep := func(name string) {
			t.Helper()
			if err := links.KeepLink(t.Context(), aLink(name, "t")); err != nil {
				t.Fatal(err)
			}
		}
		keep("used")
		if l, err := links.TakeLink(t.Context(), "used"); err != nil || l.Sealed != "sealed" || l.TokenID != "t" {
			t.Errorf("%v, %v", l, err)
		}
		keep("left")
		time.Sleep(2 * time.Minute)
		for _, name := range []string{"used", "left", "never"} {
			if _, err := links.TakeLink(t.Context(), name); !errors.Is(err, server.ErrNoLink) {
				t.Errorf("%s: %v", name, err)
			}
		}
		keep("next")
		if got := fmt.Sprint(entriesOf(t, s, kindLink)); got != "[next]" || len(entriesOf(t, s, kindLinkUsed)) != 1 {
			t.Errorf("kept: %s, used: %v", got, entriesOf(t, s, kindLinkUsed))
		}
		time.Sleep(marksFor + time.Second)
		keep("later")
		if got := fmt.Sprint(entriesOf(t, s, kindLink)); got != "[later]" || len(entriesOf(t, s, kindLinkUsed)) != 0 {
			t.Errorf("kept: %s, used: %v", got, entriesOf(t, s, kindLinkUsed))
		}
	})
}

// TestLinkOfAProcessThatStoodStill: who read a link, stood still until the mark of another's
// use was removed, and went on, gets nothing.
func TestLinkOfAProcessThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMem()
		links := &storeLinks{store: s}
		if err := links.KeepLink(t.Context(), aLink("a", "t")); err != nil {
			t.Fatal(err)
		}
		slow := &storeLinks{store: &standingStill{Mem: s, meanwhile: func() {
			if _, err := links.TakeLink(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if err := links.KeepLink(t.Context(), aLink("b", "t")); err != nil {
				t.Error(err)
			}
		}}}
		if _, err := slow.TakeLink(t.Context(), "a"); !errors.Is(err, server.ErrNoLink) {
			t.Errorf("the link was used twice: %v", err)
		}
	})
}

// standingStill is a store after whose first claim a while passes.
type standingStill struct {
	*storetest.Mem
	meanwhile func()
	once      sync.Once
}

func (s *standingStill) Claim(ctx context.Context, sessionID string) (store.Claim, error) {
	s.once.Do(s.meanwhile)
	return s.Mem.Claim(ctx, sessionID)
}

// TestLinksAreBounded: a token that makes links without end leaves some to others, on all nodes.
func TestLinksAreBounded(t *testing.T) {
	s := storetest.NewMem()
	made := 0
	for i := range 50 {
		links := &storeLinks{store: s}
		err := links.KeepLink(t.Context(), aLink(fmt.Sprint("l", i), "greedy"))
		if err == nil {
			made++
		} else if fault.KindOf(err) != fault.RateLimited {
			t.Fatal(err)
		}
	}
	if err := (&storeLinks{store: s}).KeepLink(t.Context(), aLink("other", "other")); err != nil || made != 20 {
		t.Errorf("%d links of one token; another's: %v", made, err)
	}
}

// TestLinkWithoutAStore: what can't be written is said to be so, and the link isn't used up
// by it.
func TestLinkWithoutAStore(t *testing.T) {
	s := storetest.NewMem()
	links := &storeLinks{store: s}
	if err := links.KeepLink(t.Context(), aLink("a", "t")); err != nil {
		t.Fatal(err)
	}
	broken := &storeLinks{store: &noWrites{s}}
	if _, err := broken.TakeLink(t.Context(), "a"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	if err := broken.KeepLink(t.Context(), aLink("b", "t")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	if _, err := links.TakeLink(t.Context(), "a"); err != nil {
		t.Errorf("%v", err)
	}
}

type noWrites struct{ *storetest.Mem }

func (*noWrites) Append(_ context.Context, batches []*store.Batch) []error {
	errs := make([]error, len(batches))
	for i := range errs {
		errs[i] = store.ErrUnavailable
	}
	return errs
}

// TestExpiredLinkIsRefused: the sentence at the door for a link that ended, over a store.
func TestExpiredLinkIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, err := server.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"), &server.TokensOptions{Admin: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		files := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		door := server.New(nil, &server.Options{Auth: tokens, AllowedHosts: []string{"agents.example"}, Console: &server.Console{Files: files, Links: &storeLinks{store: storetest.NewMem()}}}).Handler()
		send := func(path, body string) (int, string) {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://agents.example"+path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer secret")
			w := httptest.NewRecorder()
			door.ServeHTTP(w, req)
			return w.Code, w.Body.String()
		}
		for wait, want := range map[time.Duration]int{119 * time.Second: http.StatusOK, 120 * time.Second: http.StatusUnauthorized} {
			_, made := send("/ui/link", "")
			_, code, _ := strings.Cut(made, "#")
			code, _, _ = strings.Cut(code, `"`)
			time.Sleep(wait)
			if status, answer := send("/ui/login", `{"code":"`+code+`"}`); status != want || (want != http.StatusOK && !strings.Contains(answer, linkRefused)) {
				t.Errorf("after %v: %d %s", wait, status, answer)
			}
		}
	})
}
