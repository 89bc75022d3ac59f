//go:build interopfixtures

package a2a

import "testing"

func TestFixturePrefixes(t *testing.T) {
	o := fixtureOptions{Fixtures: true}
	for id, want := range map[string]string{
		"tck-artifact-file-1": "tck-artifact-file", "tck-artifact-file-url-1": "tck-artifact-file-url", "tck-stream-artifact-file-1": "tck-stream-artifact-file",
		"tck-anything-else": "tck-complete-task", "other": "", "test-resubscribe-message-id-9": "test-resubscribe-message-id",
	} {
		if got := o.fixture(id); got != want {
			t.Errorf("%s: %q", id, got)
		}
	}
	if o.Fixtures = false; o.fixture("tck-artifact-file-1") != "" {
		t.Error("a server without fixtures has some")
	}
	if got := FixtureIn("x [fixture a] y [fixture b] z"); got != "b" {
		t.Errorf("the newest mark is %q", got)
	}
}
