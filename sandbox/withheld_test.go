package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWithheld: permission-and-sandbox.md, anti-patterns. A denial of the sandbox is
// told as one, also where the program says no more than that something isn't there.
// What isn't there for another reason is no denial.
func TestWithheld(t *testing.T) {
	root, data := t.TempDir(), t.TempDir()
	host, err := os.CreateTemp("/tmp", "withheld") // the private directory is what it is about
	if err != nil {
		t.Skipf("skipped: a path of the host below /tmp: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(host.Name()) })
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	plan, err := Prepare(Profile{Root: root, Hidden: []string{data}}, full())
	if err != nil {
		t.Fatal(err)
	}
	open, err := Prepare(Profile{Root: root, Network: NetworkAllow}, full())
	if err != nil {
		t.Fatal(err)
	}
	failed := Exit{Code: 1}
	relative, err := filepath.Rel(root, data)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("/tmp", "withheld") //nolint:usetesting // below /tmp, whatever TMPDIR is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	for _, c := range []struct {
		name  string
		plan  *Plan
		exit  Exit
		paths []string
		hosts []string
		want  string
	}{
		{"a new name in the host's folder", plan, failed, []string{folder + "/new"}, nil, "filesystem " + folder + "/new"},
		{"a new folder in the host's folder", plan, failed, []string{folder + "/a/b"}, nil, "filesystem " + folder + "/a/b"},
		{"hidden, and the command succeeds", plan, Exit{}, []string{data}, nil, "filesystem " + data},
		{"below what is hidden", plan, failed, []string{"-l", data + "/token"}, nil, "filesystem " + data + "/token"},
		{"hidden, by a relative path", plan, failed, []string{relative}, nil, "filesystem " + data},
		{"the host's file", plan, failed, []string{host.Name()}, nil, "filesystem " + host.Name()},
		{"a name of the host's file, and the command succeeds", plan, Exit{}, []string{host.Name()}, nil, ""},
		{"a file that the host doesn't have either", plan, failed, []string{host.Name() + ".other"}, nil, ""},
		{"the workspace, which may lie below /tmp", plan, failed, []string{root + "/a", "a"}, nil, ""},
		{"a host", plan, failed, nil, []string{"127.0.0.1"}, "network 127.0.0.1"},
		{"a host, and the command succeeds", plan, Exit{}, nil, []string{"127.0.0.1"}, ""},
		{"a host with a network", open, failed, nil, []string{"127.0.0.1"}, ""},
	} {
		v := c.plan.Withheld(c.exit, Named{Paths: c.paths, Hosts: c.hosts}, "")
		got := ""
		if v != nil {
			got = v.Boundary + " " + v.Path + v.Host
			if !strings.HasPrefix(v.Detail, inferredFromCommand) {
				t.Errorf("%s: %q doesn't say what it rests on", c.name, v.Detail)
			}
			if v.Permanent != strings.HasPrefix(v.Path, data) {
				t.Errorf("%s: permanent %v", c.name, v.Permanent)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for tail, want := range map[string]string{
		"cat: " + data + "/token: No such file or directory":   data + "/token",
		"cat: " + host.Name() + ": No such file or directory":  host.Name(),
		"cat: " + root + "/missing: No such file or directory": "",
		"cat: /tmp/certainly-not-there: No such file":          "",
	} {
		v := Classify(failed, tail, plan)
		if got := v; (got == nil) != (want == "") || got != nil && (got.Path != want || !strings.HasPrefix(got.Detail, inferred)) {
			t.Errorf("%q: %+v, want %q", tail, got, want)
		}
	}
	if v := Classify(Exit{Code: 7}, "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server", plan); v == nil || v.Boundary != "network" {
		t.Errorf("%+v", v)
	}
}
