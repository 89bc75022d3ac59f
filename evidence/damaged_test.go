package evidence_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agentd"
	"agentd/evidence"
	"agentd/store/storetest"
)

// giveUp is less than what a replay waits where nothing tells that it can't go on, and
// more than it ever has to.
const giveUp = 5 * time.Second

// endsWhenDamaged runs a case again with one damage at a time. Each replay ends, and none
// has to be waited for: in a bubble time passes only if there is nothing else to do.
func endsWhenDamaged(tb testing.TB, c *evidence.Case) {
	tb.Helper()
	t, ok := tb.(*testing.T)
	if !ok {
		return
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	all := damages(t, raw, func(int, string, func() []byte) {})
	step := 1 + all/6
	if os.Getenv("AGENTD_TEST_LONG") != "" {
		step = 1
	}
	damages(t, raw, func(i int, name string, encode func() []byte) {
		if i%step == all%step {
			data := encode()
			synctest.Test(t, func(t *testing.T) { endsDamaged(t, name, data) })
		}
	})
}

func endsDamaged(t *testing.T, name string, data []byte) {
	t.Helper()
	var c evidence.Case
	if json.Unmarshal(data, &c) != nil {
		return // it is no case any more
	}
	began, s := time.Now(), storetest.NewMem()
	diff, err := agentd.Replay(t.Context(), s, &c)
	if took := time.Since(began); took > giveUp {
		t.Errorf("%s: the replay was waited for (%v, %v)", name, diff, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// damages counts all that can be done to what a case plays: each element is left out,
// each member, each number is one more, each text another. Do may have the damaged
// document encoded, which takes long.
func damages(t *testing.T, raw []byte, do func(i int, name string, encode func() []byte)) (n int) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	encode := func() []byte {
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	save := func(name string) {
		do(n, name, encode)
		n++
	}
	for _, k := range []string{"acts", "answers", "decisions", "inherited", "parties", "results", "tools", "turns"} {
		if doc[k] != nil {
			damageIn(doc[k], k, func(v any) { doc[k] = v }, save)
		}
	}
	return n
}

// damageIn saves the document with each damage to a value, which set replaces in it.
func damageIn(v any, name string, set func(any), save func(string)) {
	instead := func(x any, how string) {
		set(x)
		save(name + " " + how)
		set(v)
	}
	switch x := v.(type) {
	case []any:
		for i := range x {
			at := fmt.Sprintf("%s[%d]", name, i)
			instead(slices.Delete(slices.Clone(x), i, i+1), fmt.Sprintf("without %d", i))
			damageIn(x[i], at, func(y any) { x[i] = y }, save)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			less := maps.Clone(x)
			delete(less, k)
			instead(less, "without "+k)
			damageIn(x[k], name+"."+k, func(y any) { x[k] = y }, save)
		}
	case float64:
		instead(x+1, "is one more")
	case string:
		instead(x+"x", "is another")
	}
}
