package workspace

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func (k *kit) diff(opt DiffOptions, changes []Turned) string {
	k.Helper()
	text, err := k.v.Diff(k.ctx, k.root, changes, opt)
	k.must(err)
	return text
}

func TestDiff(t *testing.T) {
	k := newKit(t, Options{MaxFile: 2 << 20})
	k.write("a.txt", "one\ntwo\nthree\n")
	k.write("gone", "last\n")
	k.write("mode", "same\n")
	k.write("binary", "a\x00b")
	k.must(os.Symlink("a.txt", k.path("link")))
	k.write("large", strings.Repeat("line\n", 300_000))
	k.write("huge", strings.Repeat("line\n", 500_000))
	files := k.shell(func() {
		k.write("a.txt", "one\n2\nthree")
		k.must(os.Remove(k.path("gone")))
		k.must(os.Chmod(k.path("mode"), 0o755))
		k.write("binary", "a\x00c")
		k.must(os.Remove(k.path("link")))
		k.must(os.Symlink("mode", k.path("link")))
		k.write("dir/new", "hello\n")
		k.write("empty", "")
		k.write("large", "small\n")
		k.write("huge", "small\n")
		k.write("quo\"te", "x\n")
	})
	k.write("dir/new", "hello\nworld\n")
	k.want(k.diff(DiffOptions{}, turned(files)), strings.TrimPrefix(`
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
-three
+2
+three
\ No newline at end of file
diff --git a/binary b/binary
Contents differ and are not shown: binary
dir: nothing → folder 0755
dir/new: someone else changed it too
diff --git a/dir/new b/dir/new
new file mode 100644
--- /dev/null
+++ b/dir/new
@@ -0,0 +1,2 @@
+hello
+world
diff --git a/empty b/empty
new file mode 100644
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-last
huge: what it was is not known: `+noteTooLarge+`
diff --git a/large b/large
Contents differ and are not shown: too large to show
diff --git a/link b/link
--- a/link
+++ b/link
@@ -1 +1 @@
-a.txt
\ No newline at end of file
+mode
\ No newline at end of file
diff --git a/mode b/mode
old mode 100644
new mode 100755
diff --git "a/quo\"te" "b/quo\"te"
new file mode 100644
--- /dev/null
+++ "b/quo\"te"
@@ -0,0 +1 @@
+x
`, "\n"))
	k.apply(true, files)
	k.want(k.diff(DiffOptions{}, turned(files)), "huge: what it was is not known: "+noteTooLarge+"\n")
}

func TestDiffIsBoundedAndRedacted(t *testing.T) {
	k := newKit(t, Options{})
	k.write("a", "token=planted\n")
	k.write("b", "token=planted\n")
	files := k.shell(func() { k.write("a", "token=grown\n"); k.write("b", "token=planted\nmore\n") })
	redact := func(s string) string { return strings.NewReplacer("planted", "***", "grown", "***").Replace(s) }
	text := k.diff(DiffOptions{Redact: redact}, turned(files))
	k.want(text, "diff --git a/a b/a\nContents differ only where they are not shown\ndiff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1,2 @@\n token=***\n+more\n")
	short := k.diff(DiffOptions{MaxBytes: 100}, turned(files))
	if !strings.HasSuffix(short, "The text is too long: 1 paths from b on are not shown.\n") {
		t.Errorf("got:\n%s", short)
	}
	k.v.sealers.own = testSealer(t, 2)
	if text := k.diff(DiffOptions{}, turned(files)); !strings.Contains(text, "not shown: its earlier content was sealed with another key") {
		t.Errorf("got:\n%s", text)
	}
}

// The text is what other programs understand: reversed, it takes changes back.
func TestDiffIsAPatch(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("skipped: the program patch is not installed")
	}
	k := newKit(t, Options{})
	k.write("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12")
	k.write("gone", "x\ny\n")
	tree := k.tree()
	files := k.shell(func() {
		k.write("a", "1\ntwo\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n")
		k.must(os.Remove(k.path("gone")))
		k.write("new", "n\n")
	})
	cmd := exec.CommandContext(k.ctx, patch, "-R", "-p1", "-s")
	cmd.Dir = k.root
	cmd.Stdin = strings.NewReader(k.diff(DiffOptions{}, turned(files)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	k.want(k.tree(), tree)
}

func TestDiffKeepsWhatIsHidden(t *testing.T) {
	k := newKit(t, Options{})
	k.write(".env", "planted\n")
	k.write("a", "1\n")
	files := k.shell(func() { k.write(".env", "other\n"); k.write("a", "2\n") })
	text := k.diff(DiffOptions{Hidden: func(path string) bool { return path == ".env" }}, turned(files))
	k.want(text, ".env: it changed; a rule denies reading it\ndiff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n")
}
