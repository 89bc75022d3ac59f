//go:build unix

package mcp

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestToolNames(t *testing.T) {
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		server string
		tools  []string
		want   []string
	}{
		{"files", []string{"read", "write-it", "a_b"}, []string{"mcp__files__read", "mcp__files__write-it", "mcp__files__a_b"}},
		{"files", []string{"a.b"}, []string{"mcp__files__a_b"}},
		{"files", []string{"a.b", "a_b"}, []string{"mcp__files__a_b_" + hash("a.b"), "mcp__files__a_b"}},
		{"files", []string{"a.b", "a:b"}, []string{"mcp__files__a_b_" + hash("a.b"), "mcp__files__a_b_" + hash("a:b")}},
		{"files", []string{long}, []string{"mcp__files__" + long[:64-12-9] + "_" + hash(long)}},
		{"files", []string{"日本"}, []string{"mcp__files_____"[:12] + "__"}},
		{"my files", []string{"a"}, []string{"mcp__my_files_" + hash("my files") + "__a"}},
		{"a__b", []string{"c"}, []string{"mcp__a_b_" + hash("a__b") + "__c"}},
	} {
		if got := toolNames(serverPrefix(c.server), c.tools); !slices.Equal(got, c.want) {
			t.Errorf("%s %q: got %q, want %q", c.server, c.tools, got, c.want)
		}
	}
}

func TestToolNamesAreUniqueAndStable(t *testing.T) {
	allowed := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	name := rapid.OneOf(rapid.StringMatching(`[ab_.:]{1,4}`), rapid.StringMatching(`[a-z_.]{50,80}`), rapid.String().Filter(func(s string) bool { return s != "" }))
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab_. ]{1,30}`), 1, 3, rapid.ID[string]).Draw(t, "servers")
		tools := rapid.SliceOfNDistinct(name, 1, 8, rapid.ID[string]).Draw(t, "tools")
		seen := map[string]bool{}
		for _, id := range ids {
			got := toolNames(serverPrefix(id), tools)
			for _, n := range got {
				if !allowed.MatchString(n) || seen[n] {
					t.Fatalf("%q of server %q is not allowed, or there twice", n, id)
				}
				seen[n] = true
			}
			reversed := slices.Clone(tools)
			slices.Reverse(reversed)
			again := toolNames(serverPrefix(id), reversed)
			slices.Reverse(again)
			if !slices.Equal(got, again) {
				t.Fatalf("the order matters: %q, %q", got, again)
			}
		}
	})
}
