package storetest

import (
	"bytes"
	"errors"
	"testing"

	"agentd/store"
)

func TestRecords(t *testing.T) {
	all := Records("s", 1, 20, 300)
	if err := VerifyChain("s", all); err != nil {
		t.Error(err)
	}
	for _, r := range all {
		if len(r.Data) != 300 {
			t.Errorf("record %d has %d bytes, want 300", r.Sequence, len(r.Data))
		}
	}
	if d := diffRecords(Records("s", 8, 5, 300), all[7:12]); d != "" {
		t.Errorf("records from the middle: %s", d)
	}
	mixed := append(Records("s", 1, 3, 10), Continue("s", HeadOf(Records("s", 1, 3, 10)), 4, 1000)...)
	if err := VerifyChain("s", mixed); err != nil {
		t.Errorf("records of two sizes: %v", err)
	}
	if bytes.Equal(all[0].Data, Records("t", 1, 1, 300)[0].Data) {
		t.Error("two sessions have the same records")
	}
}

func TestVerifyChainFindsDamage(t *testing.T) {
	damage := map[string]func(r []store.Record) []store.Record{
		"a changed byte":    func(r []store.Record) []store.Record { r[3].Data[5] ^= 1; return r },
		"a missing record":  func(r []store.Record) []store.Record { return append(r[:3:3], r[4:]...) },
		"a changed hash":    func(r []store.Record) []store.Record { r[9].Hash[0] ^= 1; return r },
		"another session's": func([]store.Record) []store.Record { return Records("t", 1, 10, 100) },
		"no start":          func(r []store.Record) []store.Record { return r[1:] },
	}
	for name, do := range damage {
		if VerifyChain("s", do(Records("s", 1, 10, 100))) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestMemExpire is a former owner that wakes up after its lease.
func TestMemExpire(t *testing.T) {
	a := NewMem()
	b := a.Node()
	c, err := a.Claim(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	var owned *store.OwnedError
	if _, err := b.Claim(t.Context(), "s"); !errors.As(err, &owned) {
		t.Fatalf("Claim while the owner lives: %v", err)
	}
	a.Expire()
	if _, err := b.Claim(t.Context(), "s"); err != nil {
		t.Fatalf("Claim after the lease: %v", err)
	}
	err = appendOne(t.Context(), a, &store.Batch{SessionID: "s", Epoch: c.Epoch, Records: Records("s", 1, 1, 50)})
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("the former owner's append: %v, want ErrFenced", err)
	}
}
