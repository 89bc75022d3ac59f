package loop_test

import (
	"slices"
	"strings"
	"testing"

	"agentd/command"
	"agentd/event"
	"agentd/internal/runtimetest"
)

// TestDiffNamesEveryFileOfALargeChange: an event shows only the first of many changed
// files. A command that makes enough others must not hide one from the review.
func TestDiffNamesEveryFileOfALargeChange(t *testing.T) {
	t.Parallel()
	line := "for i in $(seq 1000 1700); do echo $i > aaa_$i.txt; done; echo harm > zzz.txt"
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithVault(t), runtimetest.WithShell),
		runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
	r := k.Submit("sess_a", "write")
	k.Completes(r)
	ask := []command.GetDiff{{TurnID: r.TurnID}, {FromSequence: new(uint64(1))}}
	for _, e := range k.Facts("sess_a") {
		if e.Type == event.TypeToolResult {
			ask = append(ask, command.GetDiff{ToolCallID: e.ToolCallID})
			if !e.IsCut() {
				t.Fatal("the event shows the whole change: the test needs a larger one")
			}
		}
	}
	for _, p := range ask {
		_, res := diffOf(k, p)
		last := command.ChangedFile{Path: "zzz.txt", Change: "created"}
		if len(res.Files) != 702 || !slices.Contains(res.Files, last) || !strings.Contains(res.Diff, "+harm") {
			t.Errorf("%+v: %d files; the diff shows the last one: %t", p, len(res.Files), strings.Contains(res.Diff, "+harm"))
		}
	}
}

// TestDiffReadsOnlyWhatItCanShow: a change may be far larger than its diff. All files are
// named, and those that the text has no room for are not read.
func TestDiffReadsOnlyWhatItCanShow(t *testing.T) {
	t.Parallel()
	line := "for i in $(seq 100 139); do yes $i | head -c 900000 > f$i.txt; done"
	k := runtimetest.NewWith(t, runtimetest.AllOf(runtimetest.InMode("auto"), runtimetest.WithVault(t), runtimetest.WithShell),
		runtimetest.CallsTool("shell", runtimetest.ShellArgs(line)), runtimetest.Says("done"))
	r := k.Submit("sess_a", "write")
	k.Completes(r)
	_, res := diffOf(k, command.GetDiff{TurnID: r.TurnID})
	if len(res.Files) != 40 || res.Files[0].Note != "" || !strings.Contains(res.Diff, "+100\n") {
		t.Fatalf("%d files, the first is %+v", len(res.Files), res.Files[0])
	}
	unread := 0
	for _, f := range res.Files {
		if strings.Contains(f.Note, "too large to compare") {
			unread++
		}
	}
	if unread < 15 || !res.Truncated {
		t.Errorf("%d of 40 files were not read", unread)
	}
}
