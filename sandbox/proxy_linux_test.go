package sandbox

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestProxyIsTheOnlyDoor: from inside, an allowed host is reached through the
// proxy, another isn't, and past the proxy nothing is.
func TestProxyIsTheOnlyDoor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	plan := prepared(t, Profile{Root: workspace(t), Network: NetworkProxy, AllowedHosts: []string{host}})
	if !plan.use.proxy {
		t.Skipf("no proxy here: %v", plan.NotEnforced)
	}
	copySelf(t, plan.Profile.Root+"/attacker")
	get := func(url string) result { return run(t, plan, attackEnv+`=get ./attacker `+url) }
	if r := get("http://" + host); r.Code != 0 || r.stdout != "hello" || len(r.RefusedHosts) != 0 {
		t.Errorf("allowed: %+v %s %s", r.Exit, r.stdout, r.stderr)
	}
	r := get("http://127.0.0.1:1/")
	if r.Code == 0 || len(r.RefusedHosts) != 1 || r.RefusedHosts[0] != "127.0.0.1:1" {
		t.Errorf("refused: %+v %s", r.Exit, r.stderr)
	}
	if v := Classify(r.Exit, r.stderr, plan); v == nil || v.Boundary != "network" || v.Host != "127.0.0.1:1" || strings.HasPrefix(v.Detail, inferred) {
		t.Errorf("violation %+v", v)
	}
	if r := run(t, plan, attackEnv+`=tcp ./attacker `+host); r.Code == 0 {
		t.Error("the host was reached past the proxy")
	}
}
