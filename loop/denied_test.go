package loop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
	"agentd/loop"
	"agentd/model/provider/script"
)

// TestDeniedFilesAreNotSearched: a rule that denies reading files holds for the tool
// that reads many, however the rule names the tools and the call the files.
func TestDeniedFilesAreNotSearched(t *testing.T) {
	for _, rule := range []string{"*_file", "read_file", "*_file*", "*"} {
		for name, call := range map[string]map[string]any{
			"the folder":    {"pattern": "alpha"},
			"the file":      {"pattern": "alpha", "path": ".env"},
			"a file below":  {"pattern": "alpha", "path": "sub/.env"},
			"a glob":        {"pattern": "alpha", "glob": "**/.e*"},
			"a folder":      {"pattern": "alpha", "path": "sub"},
			"another way":   {"pattern": "alpha", "path": "sub/../.env"},
			"any character": {"pattern": "."},
		} {
			t.Run(rule+" "+name, func(t *testing.T) {
				k := runtimetest.NewWith(t, func(o *agentd.Options) {
					o.Loop.NobodyToAsk = true // what a rule might be about is asked about
					o.Loop.Host = loop.HostPolicy{Mode: "bypass", Rules: []event.PolicyRule{{Decision: "deny", Tool: rule, Match: "**/.env"}}}
				}, script.Answer{Tools: []script.Tool{{Name: "search_files", Arguments: call}}}, script.Answer{Text: "done"})
				if err := os.Mkdir(filepath.Join(k.Dir, "sub"), 0o755); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{".env", "sub/.env"} {
					k.WriteFile(name, "alpha=hidden value\n")
				}
				k.WriteFile("sub/open", "alpha=open value\n")
				k.Completes(k.Submit("sess_a", "search"))
				for _, p := range runtimetest.Payloads[*event.ToolResult](k, "sess_a") {
					if strings.Contains(p.Preview, "hidden value") {
						t.Errorf("found %s", p.Preview)
					}
				}
			})
		}
	}
}

// TestDeniedFilesAreNotShownOtherwise: what a rule denies reading is neither quoted by
// an edit that doesn't find its place nor shown by the preview of an undo.
func TestDeniedFilesAreNotShownOtherwise(t *testing.T) {
	denied := func(o *agentd.Options) {
		o.Loop.Host = loop.HostPolicy{Mode: "bypass", Rules: []event.PolicyRule{{Decision: "deny", Tool: "read_file", Match: "**/.env"}}}
	}
	k := runtimetest.NewWith(t, runtimetest.AllOf(denied, runtimetest.WithVault(t)),
		script.Answer{Tools: []script.Tool{{Name: "edit_file", Arguments: map[string]any{"path": ".env", "old": "alpha=hidden valuf", "new": "x"}}}},
		script.Answer{Tools: []script.Tool{{Name: "write_file", Arguments: map[string]any{"path": ".env", "content": "alpha=new\n"}}}},
		script.Answer{Text: "done"})
	k.WriteFile(".env", "alpha=hidden value\n")
	turn := k.Submit("sess_a", "change it")
	k.Completes(turn)
	for _, p := range runtimetest.Payloads[*event.ToolFailed](k, "sess_a") {
		if p.ErrorCategory != "denied" || strings.Contains(p.Message, "hidden value") {
			t.Errorf("%s: %s", p.ErrorCategory, p.Message)
		}
	}
	got := runtimetest.Do[command.RollbackThreadResult](k, &command.RollbackThread{
		SessionID: "sess_a", ThreadID: turn.ThreadID, ToStart: true, Files: "restore", Preview: true, Diff: true,
	})
	if strings.Contains(got.Diff, "hidden value") || !strings.Contains(got.Diff, ".env: it changed") {
		t.Errorf("the diff:\n%s", got.Diff)
	}
}
