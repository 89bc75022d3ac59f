package workspace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lcs is the length of the longest common subsequence, the slow way.
func lcs(a, b []int32) int {
	row := make([]int, len(b)+1)
	for i := range a {
		last := 0
		for j := range b {
			old := row[j+1]
			if a[i] == b[j] {
				row[j+1] = last + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			last = old
		}
	}
	return row[len(b)]
}

func TestEditsAreRightAndShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Int32Range(0, 4)
		a, b := rapid.SliceOf(line).Draw(t, "a"), rapid.SliceOf(line).Draw(t, "b")
		var out []int32
		at, size := 0, 0
		for _, e := range editsOf(a, b) {
			out = append(append(out, a[at:e.a0]...), b[e.b0:e.b1]...)
			if len(out) != e.b1 {
				t.Fatalf("edit %+v ends at %d", e, len(out))
			}
			at = e.a1
			size += e.a1 - e.a0 + e.b1 - e.b0
		}
		if out = append(out, a[at:]...); !slices.Equal(out, b) {
			t.Fatalf("%v becomes %v instead of %v", a, out, b)
		}
		if want := len(a) + len(b) - 2*lcs(a, b); size != want {
			t.Fatalf("%d lines changed, %d would do", size, want)
		}
	})
}

func TestTextsThatDifferTooMuch(t *testing.T) {
	var a, b []string
	for i := range maxEdits {
		a, b = append(a, fmt.Sprintf("old %d\n", i)), append(b, fmt.Sprintf("new %d\n", i))
	}
	var w strings.Builder
	unified(&w, strings.Join(a, ""), strings.Join(b, ""))
	if want := fmt.Sprintf("@@ -1,%d +1,%d @@\n-old 0\n", maxEdits, maxEdits); !strings.HasPrefix(w.String(), want) {
		t.Errorf("got %.80q", w.String())
	}
}

func TestUnified(t *testing.T) {
	numbers := func(n int) []string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%d\n", i+1))
		}
		return out
	}
	far := numbers(20)
	far[1], far[18] = "two\n", "nineteen\n"
	near := numbers(12)
	near[1], near[8] = "two\n", "nine\n"
	for _, c := range []struct{ name, old, now, want string }{
		{"new", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"gone", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"no newline", "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"equal", "a\n", "a\n", ""},
		{"apart", strings.Join(numbers(20), ""), strings.Join(far, ""), "@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n@@ -16,5 +16,5 @@\n 16\n 17\n 18\n-19\n+nineteen\n 20\n"},
		{"together", strings.Join(numbers(12), ""), strings.Join(near, ""), "@@ -1,12 +1,12 @@\n 1\n-2\n+two\n 3\n 4\n 5\n 6\n 7\n 8\n-9\n+nine\n 10\n 11\n 12\n"},
	} {
		var w strings.Builder
		if unified(&w, c.old, c.now); w.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, w.String(), c.want)
		}
	}
}
