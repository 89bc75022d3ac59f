package server

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/command"
	"agentd/fault"
)

// TestTokensThatTwoNodesChange: whatever two nodes do to a token at the same moment, and in
// whatever order they hear of it, both let in the same secret, or none if one of them revoked
// the token.
func TestTokensThatTwoNodesChange(t *testing.T) {
	rotate := func(n *Tokens, id string) { _, _, _ = n.Rotate(id, time.Time{}) } // one that was revoked can't be
	revoke := func(n *Tokens, id string) { _, _ = n.Revoke(id) }
	twice := func(n *Tokens, id string) { rotate(n, id); rotate(n, id) }
	for name, c := range map[string]struct {
		a, b    func(*Tokens, string)
		revoked bool
	}{
		"rotated and revoked":       {rotate, revoke, true},
		"rotated twice and revoked": {twice, revoke, true},
		"revoked at both":           {revoke, revoke, true},
		"rotated at both":           {rotate, rotate, false},
		"rotated twice and once":    {twice, rotate, false},
	} {
		a, b := openNodeTokens(t), openNodeTokens(t)
		made, _, err := a.Create(NewToken{Name: "ci", Role: command.RoleClient})
		if err != nil {
			t.Fatal(err)
		}
		shareToken(t, a, b, made.ID)
		c.a(a, made.ID)
		c.b(b, made.ID)
		ofA, ofB := entryOf(t, a, made.ID), entryOf(t, b, made.ID)
		for n, entries := range map[*Tokens][][]byte{a: {ofA, ofB}, b: {ofB, ofA}} {
			if err := n.TakeTokens(entries); err != nil {
				t.Fatal(err)
			}
		}
		atA, atB := a.byID[made.ID], b.byID[made.ID]
		if atA.Hash != atB.Hash || atA.RevokedAt.IsZero() == c.revoked || atB.RevokedAt.IsZero() == c.revoked {
			t.Errorf("%s: %+v at one node, %+v at the other", name, atA, atB)
		}
		third := openNodeTokens(t) // it starts after all of that
		if err := third.TakeTokens([][]byte{ofB, ofA}); err != nil || third.byID[made.ID].Hash != atA.Hash || third.byID[made.ID].RevokedAt.IsZero() == c.revoked {
			t.Errorf("%s: %+v at a third, %v", name, third.byID[made.ID], err)
		}
	}
}

// TestTokensOfOneName: two nodes may give a name away at the same moment. The name then names
// neither; the ids do, and an id wins over a name.
func TestTokensOfOneName(t *testing.T) {
	a, b := openNodeTokens(t), openNodeTokens(t)
	var ids []string
	for _, n := range []*Tokens{a, b} {
		made, _, err := n.Create(NewToken{Name: "ci", Role: command.RoleClient})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	shareToken(t, b, a, ids[1])
	_, err := a.RevokeToken("ci")
	if _, _, rotating := a.Rotate("ci", time.Time{}); fault.KindOf(err) != fault.Conflict || fault.KindOf(rotating) != fault.Conflict ||
		!strings.Contains(err.Error(), ids[0]) || !strings.Contains(err.Error(), ids[1]) {
		t.Errorf("two tokens of that name: revoked with %v, rotated with %v", err, rotating)
	}
	if _, _, err := a.Create(NewToken{Name: ids[0], Role: command.RoleClient}); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if gone, err := a.RevokeToken(id); err != nil || gone.TokenID != id || gone.Status != "revoked" {
			t.Errorf("%+v, %v", gone, err)
		}
	}
	if gone, err := a.RevokeToken("ci"); err != nil || !slices.Contains(ids, gone.TokenID) {
		t.Errorf("a name of which nothing is left: %+v, %v", gone, err)
	}
}

func openNodeTokens(t *testing.T) *Tokens {
	t.Helper()
	n, err := OpenTokens(filepath.Join(t.TempDir(), "tokens.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func entryOf(t *testing.T, n *Tokens, id string) []byte {
	t.Helper()
	entry, err := n.TokenEntry(id)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// shareToken has a node know what another one knows of a token.
func shareToken(t *testing.T, from, to *Tokens, id string) {
	t.Helper()
	if err := to.TakeTokens([][]byte{entryOf(t, from, id)}); err != nil {
		t.Fatal(err)
	}
}
