package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
)

// TestContextFilesBringNothingForbidden: AGENTS.md comes with the workspace, and what is
// in it is sent to the model. It may have a second name beside it; it can't be a way to
// what is hidden, denied or elsewhere.
func TestContextFilesBringNothingForbidden(t *testing.T) {
	for name, tc := range map[string]struct {
		target string
		told   bool
	}{
		"a file beside it":         {"CLAUDE.md", true},
		"a hidden file beside it":  {"hidden.txt", false},
		"a file in a hidden one":   {"hid/key", false},
		"what a rule denies":       {".env", false},
		"a link beside it":         {"second", false},
		"a file below":             {"sub/file", false},
		"a file elsewhere":         {"../elsewhere/file", false},
		"the folder":               {".", false},
		"the folder above":         {"..", false},
		"its own absolute path":    {"ABSOLUTE", false},
		"a folder":                 {"sub", false},
		"something that isn't yet": {"missing", false},
	} {
		t.Run(name, func(t *testing.T) {
			var heard runtimetest.Listener
			base := t.TempDir()
			ws := filepath.Join(base, "ws")
			for _, path := range []string{"ws/CLAUDE.md", "ws/hidden.txt", "ws/hid/key", "ws/.env", "ws/sub/file", "elsewhere/file"} {
				at := filepath.Join(base, path)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte("the planted text"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			target := tc.target
			if target == "ABSOLUTE" {
				target = filepath.Join(ws, "CLAUDE.md")
			}
			for link, to := range map[string]string{"AGENTS.md": target, "second": "hid/key"} {
				if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
					t.Fatal(err)
				}
			}
			listen := runtimetest.ListenedBy(&heard)
			k := runtimetest.NewWith(t, func(o *agentd.Options) {
				listen(o)
				o.Loop.Workspace = ws
				o.Loop.Sandbox.Hidden = []string{filepath.Join(ws, "hid"), filepath.Join(ws, "hidden.txt")}
				o.Loop.Host = loop.HostPolicy{Rules: []event.PolicyRule{{Decision: "deny", Tool: "*_file", Match: "**/.env"}}}
			})
			k.Completes(k.Submit("sess_a", "one"))
			if told := strings.Contains(heard.Heard()[0].System, "planted"); told != tc.told {
				t.Errorf("the model was told: %v", told)
			}
			for _, p := range runtimetest.Payloads[*event.ContextResolved](k, "sess_a") {
				if omitted := len(p.Omissions) > 0 && p.Omissions[0].Reason != ""; omitted == tc.told && tc.target != "missing" {
					t.Errorf("left out: %+v", p.Omissions)
				}
			}
		})
	}
}
