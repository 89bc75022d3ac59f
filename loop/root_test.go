package loop

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentd/event"
	"agentd/fault"
	"agentd/internal/place"
	"agentd/state"
	"agentd/tool"
)

// folder makes a folder and returns its path without symbolic links.
func folder(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func relink(t *testing.T, to, link string) {
	t.Helper()
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
}

// loopAt returns a loop whose workspace and data are at these paths.
func loopAt(t *testing.T, workspace string, data, hidden []string) *Loop {
	t.Helper()
	o := Options{Workspace: workspace, Data: data}
	o.Sandbox.Hidden = append(slices.Clone(data), hidden...)
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWorkspaceIsStoredWithoutLinks: whatever form a client gives a root in, the
// stored path is absolute and has no links, and stays that folder.
func TestWorkspaceIsStoredWithoutLinks(t *testing.T) {
	top := folder(t, t.TempDir())
	ws := folder(t, top, "ws")
	relink(t, ws, filepath.Join(top, "link"))
	relink(t, "link", filepath.Join(top, "chain"))
	t.Chdir(top)
	l := loopAt(t, ".", nil, nil)
	for given, want := range map[string]string{
		ws: ws, ws + "/": ws, ws + "/../ws": ws, "ws": ws, "./ws/.": ws, "link": ws, "chain": ws, filepath.Join(top, "chain"): ws,
		"link/none/yet": filepath.Join(ws, "none", "yet"),
	} {
		got, err := l.ResolveWorkspace(&event.Workspace{WorkspaceID: "w", Root: given})
		if err != nil || got.Root != want || got.WorkspaceID != "w" {
			t.Errorf("%s is stored as %+v, %v, want %s", given, got, err, want)
		}
	}
	if got := l.Configuration().rootOf(&state.Session{}); got != top {
		t.Errorf("the runtime's workspace is %s, want %s", got, top)
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	relink(t, "nowhere", filepath.Join(top, "broken"))
	for _, given := range []string{"file", "file/below", "broken"} {
		if got, err := l.ResolveWorkspace(&event.Workspace{Root: given}); fault.KindOf(err) != fault.InvalidParams {
			t.Errorf("%s is taken as %+v, %v", given, got, err)
		}
	}
	if err := os.Rename(ws, ws+"2"); err != nil {
		t.Fatal(err)
	}
	folder(t, top, "ws")
	if _, err := l.ResolveWorkspace(&event.Workspace{Root: ws}); fault.KindOf(err) != fault.InvalidParams {
		t.Errorf("another folder is taken for the workspace: %v", err)
	}
	if _, err := l.openRoot(ws); !errors.Is(err, place.ErrReplaced) {
		t.Errorf("another folder is opened as the workspace: %v", err)
	}
	l.Places().Renew()
	if _, err := l.ResolveWorkspace(&event.Workspace{Root: ws}); err != nil {
		t.Errorf("after a reload: %v", err)
	}
}

// TestWorkspaceBesideData: a workspace may have the data directory as a direct child,
// and must not have it deeper, be it or lie in it, or in what is hidden.
func TestWorkspaceBesideData(t *testing.T) {
	top := folder(t, t.TempDir())
	data, hidden := folder(t, top, "home", "proj", "data"), folder(t, top, "home", "keys")
	relink(t, hidden, filepath.Join(top, "link"))
	for root, allowed := range map[string]bool{
		"home/proj": true, "home/proj/data": false, "home/proj/data/below": false, "home": false, ".": false,
		"home/keys": false, "home/keys/below": false, "link": false, "home/proj/database": true, "home/other": true,
	} {
		root = filepath.Join(top, root)
		l := loopAt(t, root, []string{data}, []string{hidden})
		_, named := l.ResolveWorkspace(&event.Workspace{Root: root})
		_, none := l.ResolveWorkspace(nil)
		for how, err := range map[string]error{"named": named, "the runtime's": none} {
			if allowed != (err == nil) || err != nil && fault.KindOf(err) != fault.InvalidParams {
				t.Errorf("%s, %s: %v", root, how, err)
			}
		}
		at, err := place.Nearest(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, capability := range []string{tool.CapFilesRead, tool.CapFilesWrite, tool.CapProcess, tool.CapPlan} {
			err := l.checkPlace(&event.ToolInfo{Capabilities: []string{capability}}, workplace{root: at, cwd: at})
			if refused := !allowed && capability != tool.CapPlan; refused != (err != nil) {
				t.Errorf("%s: a call with %s: %v", root, capability, err)
			}
		}
	}
}

// What is looked at below a workspace leads where the whole path would.
func TestAPathBelowAWorkspaceLeadsWhereItWouldAlone(t *testing.T) {
	top := folder(t, t.TempDir())
	root, outside := folder(t, top, "root"), folder(t, top, "outside")
	deep := folder(t, root, "a", "b")
	for _, f := range []string{filepath.Join(deep, "file"), filepath.Join(outside, "secret")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	relink(t, outside, filepath.Join(root, "a", "out"))
	relink(t, deep, filepath.Join(root, "in"))
	relink(t, "nowhere", filepath.Join(root, "broken"))
	for _, path := range []string{
		root, root + "/", deep, root + "/a/b/file", root + "/a/out", root + "/a/out/secret", root + "/in/file", root + "/in/none", root + "/broken",
		root + "/none/at/all", root + "/a/b/file/below", root + "/a/../a/b", outside, top, root + "x", "/", root + "/a//b",
	} {
		if got, want := resolveBelow(root)(path), resolvePath(path); got != want {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
	if !hasNoSymlink("/", "/") || !hasNoSymlink(root, filepath.Join(deep, "file")) || hasNoSymlink(root, root+"/a/out/secret") {
		t.Error("what is looked at is not what was meant")
	}
}

func TestWorkspaceOfTheKernel(t *testing.T) {
	h := homes{}
	for root, refused := range map[string]bool{
		"/proc": true, "/proc/self/fd": true, "/dev": true, "/sys/kernel": true, "/dev/shm/work": false, "/process": false, "/srv/proc": false,
	} {
		if why := h.refuse(root); (why != "") != refused {
			t.Errorf("%s: %q", root, why)
		}
	}
}

// A home folder holds the user's own data at some depth, and is a workspace like any
// other; the data itself isn't.
func TestWorkspaceThatHoldsTheUsersData(t *testing.T) {
	data := []string{"/srv/me/.local/share/agentd"}
	h := homes{data: data, hidden: data, inside: true}
	for root, refused := range map[string]bool{
		"/srv/me": false, "/": false, "/srv/me/.local/share/agentd": true, "/srv/me/.local/share/agentd/db": true,
	} {
		if why := h.refuse(root); (why != "") != refused {
			t.Errorf("%s: %q", root, why)
		}
	}
}
