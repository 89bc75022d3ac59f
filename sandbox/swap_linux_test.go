package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/internal/place"
)

// TestSwapsDuringCommands replaces a workspace by a link, and moves a hidden file's
// folder, while commands start there: none writes outside or reads what is hidden.
func TestSwapsDuringCommands(t *testing.T) { swapDuringCommands(t, 60) }

// TestLongSwapsDuringCommands does it a thousand times.
func TestLongSwapsDuringCommands(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set: 1,000 rounds of swaps are not run")
	}
	swapDuringCommands(t, 1000)
}

func swapDuringCommands(t *testing.T, rounds int) {
	if !report().MountNamespace.Available {
		t.Skip("no mount namespace here: " + report().MountNamespace.Reason)
	}
	base, err := filepath.EvalSymlinks(workspace(t))
	if err != nil {
		t.Fatal(err)
	}
	root, outside, hidden := base+"/ws/pkg/x", base+"/outside", base+"/ws/pkg/x/conf/secret"
	secret := "TOP-" + "SECRET"
	for _, dir := range []string{root, outside, filepath.Dir(hidden)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(hidden, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	var places place.Places
	profile, err := Profile{Root: root, Hidden: []string{hidden}}.Fixed(&places)
	if err != nil {
		t.Fatal(err)
	}
	plan := prepared(t, profile)
	exchange := func(i int) {
		if i%2 == 0 {
			_ = errors.Join(os.Rename(root, root+"-away"), os.Symlink(outside, root))
			_ = errors.Join(os.Remove(root), os.Rename(root+"-away", root))
			return
		}
		_ = errors.Join(os.Rename(root+"/conf", root+"/conf2"), os.Mkdir(root+"/conf", 0o755))
		_ = errors.Join(os.Remove(root+"/conf"), os.Rename(root+"/conf2", root+"/conf"))
	}
	swap := make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() { // another session's command, which nothing holds to this one's paths
		for i := range swap {
			for range 1 + i%20*10 {
				exchange(i)
			}
		}
	})
	ran := 0
	for i := range rounds {
		swap <- i // it goes on beside the start of the command
		said, err := swapped(t, plan, "echo pwned > here; cat conf/secret conf2/secret; exit 0")
		if err == nil {
			ran++
		}
		if strings.Contains(said, secret) {
			t.Fatal("a command read what is hidden")
		}
		if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
			t.Fatalf("a command wrote outside: %v %v", entries, err)
		}
	}
	close(swap)
	wg.Wait()
	if ran == 0 {
		t.Error("no command ran")
	}
	if said, err := swapped(t, plan, "echo fine > here && cat here"); err != nil || said != "fine\n" {
		t.Errorf("once the swaps are over the command says %q: %v, %v", said, err, plan.CheckPlaces())
	}
	t.Logf("%d of %d commands ran", ran, rounds)
}

// swapped runs a command that may be refused before it begins, and returns what it
// printed.
func swapped(t *testing.T, plan *Plan, line string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	child, err := plan.Start(Command{Argv: []string{"sh", "-c", line}, Stdout: out, Stderr: out})
	if err != nil {
		return "", err
	}
	defer child.Close()
	_ = child.Go() // if it has given up, its exit says why
	exit := child.Wait()
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), exit.Failure
}

// TestHiddenBelowAPrivateDirectory: what the private /tmp replaces needs no cover, and
// its absence inside is no reason to refuse the command.
func TestHiddenBelowAPrivateDirectory(t *testing.T) {
	hidden := t.TempDir()
	for _, root := range []string{workspace(t), t.TempDir(), filepath.Dir(hidden)} {
		said, err := swapped(t, prepared(t, Profile{Root: root, Hidden: []string{hidden}}), "echo fine; ls "+hidden+" && echo seen; exit 0")
		if err != nil || !strings.HasPrefix(said, "fine\n") || strings.Contains(said, "seen") && report().MountNamespace.Available {
			t.Errorf("in %s: %q, %v", root, said, err)
		}
	}
}
