package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBenchLeavesNothingOfWhatItRefuses: a configuration that can't be read leaves no
// folder of a job.
func TestBenchLeavesNothingOfWhatItRefuses(t *testing.T) {
	d := newDataset(t)
	d.task("hello", "Write hello.", wantsHello)
	d.write("bad.yaml", "nonsense: 1\n")
	for _, config := range []string{"bad.yaml", "none.yaml"} {
		code, _, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", filepath.Join(d.dir, config))
		if code != exitUsage {
			t.Errorf("%s: exit %d: %s", config, code, said)
		}
		if _, err := os.Stat(filepath.Join(d.dir, "jobs")); !os.IsNotExist(err) {
			t.Errorf("%s left a folder: %v", config, err)
		}
	}
}

// TestBenchSaysWhatIsLeftOut: trials without a score are not in the comparison, and a
// reader of it is told how many.
func TestBenchSaysWhatIsLeftOut(t *testing.T) {
	needsConfinement(t)
	d := newDataset(t)
	d.task("nothing", "Write hello.", "exit 3\n")
	d.task("works", "Write hello.", wantsHello)
	code, res, said := d.bench("run", filepath.Join(d.dir, "tasks"), "--config", d.config("base", lazy), "--config", d.config("new", writesHello))
	if code != exitFailed || len(res.Comparisons) != 1 {
		t.Fatalf("exit %d: %s %+v", code, said, res)
	}
	for _, id := range []string{"base", "new"} {
		want := "1 of 2 trials of " + id + " have no score and are left out of the comparison"
		if !strings.Contains(strings.Join(res.Notes, "\n"), want) {
			t.Errorf("the notes don't say %q: %q", want, res.Notes)
		}
	}
}
