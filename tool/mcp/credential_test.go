//go:build unix

package mcp

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/tool"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// vault reads credentials by reference and counts how often.
type vault struct {
	mu    sync.Mutex
	by    map[string]string
	reads int
}

func (v *vault) read(ref string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	if token, ok := v.by[ref]; ok {
		return token, nil
	}
	return "", errors.New("it isn't set")
}

func (v *vault) set(ref, token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.by[ref] = token
}

// guarded is a server that takes requests of certain methods only with a token.
func guarded(t *testing.T, token string, methods ...string) *web {
	t.Helper()
	w := newWeb(t, &sdk.StreamableHTTPOptions{Stateless: true}, nil)
	inner := w.Config.Handler
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if (len(methods) == 0 || slices.Contains(methods, r.Header.Get("Mcp-Method"))) && r.Header.Get("Authorization") != "Bearer "+token {
			rw.Header().Set("WWW-Authenticate", "Bearer")
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(rw, r)
	})
	return w
}

// callWithCredential is a call that comes with a choice.
func callWithCredential(ref string) *tool.Call {
	c := callOf(`{}`)
	c.Credentials = map[string]string{"mcp:w": ref}
	return c
}

func needs(t *testing.T, err error) *tool.Need {
	t.Helper()
	e := category(t, err)
	if e.Category != tool.Unavailable || e.Credential == nil {
		t.Fatalf("got %+v", e)
	}
	return e.Credential
}

// TestCallWantsACredential: a call that the server refuses says which credential it
// lacks; with the one that was chosen it goes through, and so do those after it.
func TestCallWantsACredential(t *testing.T) {
	secret := strings.Repeat("s3cr3t", 4)
	v := &vault{by: map[string]string{"env:RIGHT": secret, "env:WRONG": "wrong"}}
	w := guarded(t, secret, "tools/call")
	cfg := w.config(revisionNewest)
	cfg.Credentials = []string{"env:RIGHT", "env:WRONG", "env:GONE"}
	opts := newRecorder().options()
	opts.Credential = v.read
	c := open(t, opts, cfg)
	echo := findTool(t, c, "mcp__w__echo")
	_, err := echo.Run(t.Context(), callOf(`{}`))
	if n := needs(t, err); n.Name != "mcp:w" || !slices.Equal(n.References, cfg.Credentials) {
		t.Errorf("it lacks %+v", n)
	}
	if v.reads != 0 {
		t.Errorf("a credential was read %d times before one was chosen", v.reads)
	}
	for _, ref := range []string{"env:WRONG", "env:GONE", "env:ELSEWHERE"} {
		_, err := echo.Run(t.Context(), callWithCredential(ref))
		if e := category(t, err); e.Category != tool.Unavailable || strings.Contains(e.Message, secret) {
			t.Errorf("%s: %+v", ref, e)
		}
	}
	v.set("env:GONE", secret)
	if _, err := echo.Run(t.Context(), callWithCredential("env:GONE")); err != nil {
		t.Errorf("it is there by now: %v", err)
	}
	if _, err := echo.Run(t.Context(), callOf(`{}`)); err != nil {
		t.Errorf("the next call has none: %v", err)
	}
	v.set("env:GONE", "expired")
	needs(t, func() error { _, err := echo.Run(t.Context(), callOf(`{}`)); return err }())
	if _, err := echo.Run(t.Context(), callWithCredential("env:RIGHT")); err != nil {
		t.Errorf("another choice after the first one expired: %v", err)
	}
	if _, err := echo.Run(t.Context(), callWithCredential("env:WRONG")); err != nil {
		t.Errorf("what another session chose before replaces what works: %v", err)
	}
}

// TestServerWantsACredential: in the place of a server that can't be reached without
// one stands a tool that signs in.
func TestServerWantsACredential(t *testing.T) {
	secret := strings.Repeat("s3cr3t", 4)
	v := &vault{by: map[string]string{"env:RIGHT": secret, "env:WRONG": "wrong"}}
	w := guarded(t, secret)
	cfg := w.config(revisionNewest)
	cfg.Credentials = []string{"env:RIGHT", "env:WRONG"}
	rec := newRecorder()
	opts := rec.options()
	opts.Credential = v.read
	c := open(t, opts, cfg)
	rec.until(t, "sign_in to be offered", func() bool { return len(c.Tools()) == 1 })
	in := findTool(t, c, "mcp__w__sign_in")
	if ok, why := in.(tool.Availability).Available(); !ok {
		t.Errorf("it isn't available: %s", why)
	}
	for _, call := range []*tool.Call{callOf(`{}`), callWithCredential("env:WRONG")} {
		_, err := in.Run(t.Context(), call)
		needs(t, err)
	}
	res, err := in.Run(t.Context(), callWithCredential("env:RIGHT"))
	if err != nil || !strings.Contains(string(res.Output), "mcp__w__echo") {
		t.Fatalf("%+v, %v", res, err)
	}
	rec.until(t, "sign_in to be gone", func() bool {
		return !slices.ContainsFunc(c.Tools(), func(x tool.Tool) bool { return x.Info().ToolName == "mcp__w__sign_in" })
	})
	run(t, c, "mcp__w__echo", `{}`)
	for _, s := range rec.all() {
		if strings.Contains(s, secret) {
			t.Errorf("a state tells the token: %s", s)
		}
	}
}

// TestNothingToChooseFrom: without references no one can be asked, and nothing is
// offered.
func TestNothingToChooseFrom(t *testing.T) {
	w := guarded(t, "token", "tools/call")
	c := open(t, newRecorder().options(), w.config(revisionNewest))
	_, err := findTool(t, c, "mcp__w__echo").Run(t.Context(), callWithCredential("env:RIGHT"))
	if e := category(t, err); e.Category != tool.Unavailable || e.Credential != nil {
		t.Errorf("got %+v", e)
	}
	all := guarded(t, "token")
	closed := open(t, newRecorder().options(), all.config(revisionNewest))
	if tools := closed.Tools(); len(tools) != 0 {
		t.Errorf("%d tools", len(tools))
	}
}
