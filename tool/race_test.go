package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// raceRounds is how often each way of swapping is tried against each tool; the long
// test tries it raceLong times.
const (
	raceRounds = 50
	raceLong   = 1000
)

// swap is a way to put something else where a tool looks, and to put it back. Errors
// don't matter: a tool may have been quicker.
type swap struct {
	name       string
	away, back func(d *desk)
}

func swaps(outside string) []swap {
	at := func(d *desk, rel string) string { return filepath.Join(d.root, rel) }
	exchange := func(rel, aside string, link func(d *desk) string) (away, back func(d *desk)) {
		return func(d *desk) {
				_ = os.Rename(at(d, rel), at(d, aside))
				_ = os.Symlink(link(d), at(d, rel))
			}, func(d *desk) {
				_ = os.Remove(at(d, rel))
				_ = os.Rename(at(d, aside), at(d, rel))
			}
	}
	victim := func(name string) func(*desk) string {
		return func(*desk) string { return filepath.Join(outside, name) }
	}
	var all []swap
	add := func(name string) func(away, back func(d *desk)) {
		return func(away, back func(d *desk)) { all = append(all, swap{name: name, away: away, back: back}) }
	}
	add("file by link")(exchange("dir/sub/f", "aside", victim("f")))
	add("folder by link")(exchange("dir/sub", "aside", victim("")))
	add("upper folder by link")(exchange("dir", "aside", func(*desk) string { return filepath.Dir(outside) }))
	add("root by link")(exchange("", "../aside", victim("")))
	add("parent of hidden")(func(d *desk) { _ = os.Rename(at(d, "conf"), at(d, "conf2")) }, func(d *desk) { _ = os.Rename(at(d, "conf2"), at(d, "conf")) })
	add("hidden into a name")(func(d *desk) {
		_ = os.Rename(at(d, "dir/sub/f"), at(d, "aside"))
		_ = os.Rename(at(d, "conf/secret"), at(d, "dir/sub/f"))
	}, func(d *desk) {
		_ = os.Rename(at(d, "dir/sub/f"), at(d, "conf/secret"))
		_ = os.Rename(at(d, "aside"), at(d, "dir/sub/f"))
	})
	return all
}

// TestRaces swaps files, folders, the root and what is hidden while tools use them.
func TestRaces(t *testing.T) { race(t, raceRounds) }

// TestLongRaces is TestRaces with many rounds.
func TestLongRaces(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("AGENTD_TEST_LONG is not set")
	}
	race(t, raceLong)
}

func race(t *testing.T, rounds int) {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "dir", "sub")
	for _, s := range swaps(outside) {
		for name, in := range map[string]obj{
			ReadFile:    {"path": "dir/sub/f"},
			WriteFile:   {"path": "dir/sub/f", "content": "inside, written"},
			EditFile:    {"path": "dir/sub/f", "old": "inside", "new": "inside!"},
			ListFiles:   {"path": "."},
			SearchFiles: {"pattern": "inside|outside|secret"},
		} {
			// Writing hidden files away under a race isn't reading them; a command can't
			// rename them, so only what reads is tried against that swap.
			if s.name == "hidden into a name" && (name == WriteFile || name == EditFile) {
				continue
			}
			t.Run(s.name+" "+name, func(t *testing.T) { raceOne(t, &s, name, in, outside, rounds) })
		}
	}
}

func raceOne(t *testing.T, s *swap, name string, in obj, outside string, rounds int) {
	t.Helper()
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	witness := filepath.Join(outside, "f")
	if err := os.WriteFile(witness, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, "conf/secret")
	d.putFile("dir/sub/f", "inside")
	d.putFile("conf/secret", "the secret")
	d.text(ReadFile, obj{"path": "dir/sub/f"}) // the root and what is hidden are fixed
	ctx, stop := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			s.away(d)
			s.back(d)
		}
	})
	for range rounds {
		res, err := d.run(name, in)
		var e *Error
		shown := ""
		switch {
		case err == nil:
			shown = string(res.Output)
		case errors.As(err, &e):
			shown = e.Message + e.Advice
		default:
			t.Fatal(err)
		}
		if leaked(name, shown) {
			t.Fatalf("shown: %s", shown)
		}
	}
	stop()
	swapping.Wait()
	if b, err := os.ReadFile(witness); err != nil || string(b) != "outside" {
		t.Fatalf("the file outside is %q, %v", b, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Fatalf("outside are %v, %v", entries, err)
	}
	d.intactSecret()
}

// leaked reports whether an output has a content that no tool may see. Names are no
// contents, and a list shows where links lead.
func leaked(name, shown string) bool {
	switch name {
	case ReadFile:
		return strings.HasPrefix(shown, "outside") || strings.Contains(shown, "the secret")
	case SearchFiles:
		return strings.Contains(shown, ":1:outside") || strings.Contains(shown, "the secret")
	case ListFiles:
		return false
	default:
		return strings.Contains(shown, "the secret")
	}
}

// intactSecret checks that what is hidden still has its content, under either name.
func (d *desk) intactSecret() {
	d.t.Helper()
	for _, dir := range []string{"conf", "conf2"} {
		b, err := os.ReadFile(filepath.Join(d.root, dir, "secret"))
		if err == nil {
			if string(b) != "the secret" {
				d.t.Fatalf("what is hidden is %q", b)
			}
			return
		}
	}
	d.t.Fatal("what is hidden is gone")
}
