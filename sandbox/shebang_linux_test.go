package sandbox

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scriptLines are beginnings of files, and the words that the kernel finds in them.
var scriptLines = []struct {
	name, head string
	words      []string
}{
	{"plain", "#!ECHO\n", []string{"ECHO"}},
	{"argument", "#!ECHO a\n", []string{"ECHO", "a"}},
	{"blanks", "#! \t ECHO \t a  b\tc \t \nnext", []string{"ECHO", "a  b\tc"}},
	{"tab", "#!ECHO\ta\n", []string{"ECHO", "a"}},
	{"blanks alone behind", "#!ECHO  \n", []string{"ECHO"}},
	{"no newline", "#!ECHO a", []string{"ECHO", "a"}},
	{"no newline, blank behind", "#!ECHO a ", []string{"ECHO", "a "}},
	{"carriage return", "#!ECHO a\r\n", []string{"ECHO", "a\r"}},
	{"zero behind the name", "#!ECHO\x00x\n", []string{"ECHO"}},
	{"zero and blank behind the name", "#!ECHO\x00 x\n", []string{"ECHO"}},
	{"zero in the argument", "#!ECHO hash-object\x00x\n", []string{"ECHO", "hash-object"}},
	{"empty argument", "#!ECHO \x00x\n", []string{"ECHO", ""}},
	{"long argument", "#!ECHO " + strings.Repeat("b", 300) + "\n", []string{"ECHO", strings.Repeat("b", 253-len("ECHO "))}},
	{"long argument that ends in blanks", "#!ECHO b" + strings.Repeat(" ", 300) + "c\n", []string{"ECHO", "b"}},
	{"long blanks", "#!" + strings.Repeat(" ", 300) + "ECHO\n", nil},
	{"long name", "#!/" + strings.Repeat("b", 300) + "\n", nil},
	{"empty", "", nil},
	{"no script", "#ECHO\n", nil},
	{"no name", "#!\n", nil},
	{"blanks for a name", "#! \t\nECHO\n", nil},
}

func TestShebang(t *testing.T) {
	for _, tc := range scriptLines {
		head := []byte(tc.head)
		if got := shebang(head[:min(len(head), scriptHead)]); !slices.Equal(got, tc.words) {
			t.Errorf("%s: %q, not %q", tc.name, got, tc.words)
		}
	}
	name := "/" + strings.Repeat("b", 252)
	if got := shebang([]byte("#!" + name + " ")); !slices.Equal(got, []string{name}) {
		t.Errorf("a name that just fits: %q", got)
	}
	if got := shebang([]byte("#!\x00\n")); !slices.Equal(got, []string{""}) {
		t.Errorf("an empty name: %q", got)
	}
}

// TestShebangIsTheKernels has the kernel start the same files: an interpreter prints
// what it was given.
func TestShebangIsTheKernels(t *testing.T) {
	dir := t.TempDir()
	show := filepath.Join(dir, "show") // a script as interpreter of a script
	if err := os.WriteFile(show, []byte("#!/bin/sh\nprintf '%s\\0' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range scriptLines {
		head := []byte(strings.ReplaceAll(tc.head, "ECHO", show))
		script := filepath.Join(dir, "script")
		if err := os.WriteFile(script, head, 0o755); err != nil {
			t.Fatal(err)
		}
		words := shebang(head[:min(len(head), scriptHead)])
		out, err := exec.Command(script, "last").Output()
		if words == nil {
			if err == nil {
				t.Errorf("%s: the kernel found an interpreter: %q", tc.name, out)
			}
			continue
		}
		want := strings.Join(append(slices.Clone(words[1:]), script, "last"), "\x00") + "\x00"
		if err != nil || !bytes.Equal(out, []byte(want)) {
			t.Errorf("%s: the kernel gave %q, not %q: %v", tc.name, out, want, err)
		}
	}
}
