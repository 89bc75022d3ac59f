package event_test

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"agentd/event"
)

var idShape = regexp.MustCompile(`^turn_[0-7][0-9a-hjkmnp-tv-z]{25}$`)

func TestIDShape(t *testing.T) {
	ids := event.NewIDs(nil, nil)
	for range 1000 {
		id := ids.New(event.PrefixTurn)
		if !idShape.MatchString(id) || !event.ValidID(id) {
			t.Fatalf("%q has another shape", id)
		}
	}
}

// An id says when it was made, and what only looks like one doesn't.
func TestMadeAt(t *testing.T) {
	now := time.Date(2026, 11, 15, 5, 40, 12, 345_000_000, time.UTC)
	ids := event.NewIDs(func() time.Time { return now }, nil)
	for _, p := range []event.Prefix{"", event.PrefixTurn, event.PrefixModelRequest, "a_b_"} {
		id := ids.New(p)
		if at, ok := event.MadeAt(id); !ok || !at.Equal(now) {
			t.Errorf("%s was made at %v %v, want %v", id, at, ok, now)
		}
		for _, other := range []string{"x" + id[len(p):], id + "0", id[:len(id)-1], string(p) + strings.ToUpper(id[len(p):]), string(p) + "u" + id[len(p)+1:]} {
			if at, ok := event.MadeAt(other); ok {
				t.Errorf("%s was made at %v", other, at)
			}
		}
	}
	for _, id := range []string{"", "_", "turn_", "turn_01", "turn_00000000000000000000000000", "turn_7zzzzzzzzzzzzzzzzzzzzzzzzz", "turn_8zzzzzzzzzzzzzzzzzzzzzzzzz", "aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if at, ok := event.MadeAt(id); ok {
			t.Errorf("%s was made at %v", id, at)
		}
	}
}

// TestIDIsUUIDv7 reads an id back into the 128 bits that RFC 9562 lays out.
func TestIDIsUUIDv7(t *testing.T) {
	now := time.Date(2026, 11, 15, 5, 40, 12, 345_000_000, time.UTC)
	random := bytes.Repeat([]byte{0xff}, 4096)
	id := event.NewIDs(func() time.Time { return now }, bytes.NewReader(random)).New("")
	var bits [128]byte
	value := make([]int, 0, 130)
	for _, c := range id {
		n := strings.IndexRune("0123456789abcdefghjkmnpqrstvwxyz", c)
		for shift := 4; shift >= 0; shift-- {
			value = append(value, n>>shift&1)
		}
	}
	for i, b := range value[2:] {
		bits[i] = byte(b)
	}
	number := func(from, to int) (n uint64) {
		for _, b := range bits[from:to] {
			n = n<<1 | uint64(b)
		}
		return n
	}
	if value[0] != 0 || value[1] != 0 {
		t.Error("more than 128 bits")
	}
	if got := number(0, 48); got != uint64(now.UnixMilli()) {
		t.Errorf("time %d, want %d", got, now.UnixMilli())
	}
	if number(48, 52) != 7 || number(64, 66) != 0b10 {
		t.Errorf("version %d, variant %b", number(48, 52), number(64, 66))
	}
	if number(52, 64) != 1<<11-1 || number(66, 128) != 1<<62-1 {
		t.Errorf("random bits %x %x", number(52, 64), number(66, 128))
	}
}

// TestIDsGrow shows that ids grow strictly whatever the clock does: stands
// still, goes on, goes back, or is before 1970; and whatever the random bits
// are, also when all of them are set and the counter has to carry.
func TestIDsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(-10, 1<<47).Draw(t, "start"))
		fill := rapid.SampledFrom([]byte{0x00, 0x7f, 0xff}).Draw(t, "random")
		ids := event.NewIDs(func() time.Time { return now }, forever(fill))
		last := ids.New(event.PrefixEvent)
		for _, step := range rapid.SliceOfN(rapid.Int64Range(-5, 5), 1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Millisecond / 2)
			id := ids.New(event.PrefixEvent)
			if id <= last {
				t.Fatalf("%s after %s", id, last)
			}
			last = id
		}
	})
}

// forever is a source of one byte.
type forever byte

func (f forever) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(f)
	}
	return len(p), nil
}

func TestIDsShared(t *testing.T) {
	ids := event.NewIDs(nil, nil)
	const workers, each = 8, 2000
	made := make([][]string, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				made[w] = append(made[w], ids.New(event.PrefixEvent))
			}
		})
	}
	wg.Wait()
	var all []string
	for _, list := range made {
		if !slices.IsSorted(list) {
			t.Error("ids of one goroutine don't grow")
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != workers*each {
		t.Errorf("%d different ids of %d", n, workers*each)
	}
}

func TestIDsWithoutRandomness(t *testing.T) {
	ids := event.NewIDs(nil, iotest.ErrReader(errors.New("no entropy")))
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "no entropy") {
			t.Errorf("New without randomness: %v", r)
		}
	}()
	ids.New(event.PrefixEvent)
}

func TestValidID(t *testing.T) {
	tests := []struct {
		id   string
		want bool
	}{
		{"a", true},
		{"Z9", true},
		{"0_.:-", true},
		{event.NotApplicable, true},
		{event.RuntimeSession, true},
		{strings.Repeat("a", 128), true},
		{"", false},
		{strings.Repeat("a", 129), false},
		{"_a", false},
		{"-a", false},
		{".", false},
		{":a", false},
		{"a b", false},
		{"a/b", false},
		{"a\n", false},
		{"ä", false},
		{"aä", false},
		{"a\x00", false},
	}
	for _, tt := range tests {
		if got := event.ValidID(tt.id); got != tt.want {
			t.Errorf("ValidID(%q) = %v", tt.id, got)
		}
	}
}

func TestPrefixesAreValid(t *testing.T) {
	ids := event.NewIDs(nil, nil)
	for _, p := range []event.Prefix{
		event.PrefixSession, event.PrefixThread, event.PrefixTurn, event.PrefixTask, event.PrefixRun, event.PrefixAttempt,
		event.PrefixStep, event.PrefixToolCall, event.PrefixAction, event.PrefixSubagent, event.PrefixJob, event.PrefixJobItem,
		event.PrefixProcess, event.PrefixChannel, event.PrefixEvent, event.PrefixEvidence, event.PrefixArtifact,
		event.PrefixRequest, event.PrefixModelRequest, event.PrefixHook, event.PrefixGrant, event.PrefixTrial, event.PrefixCompaction, event.PrefixRollback,
	} {
		if id := ids.New(p); !strings.HasPrefix(id, string(p)) || !strings.HasSuffix(string(p), "_") || !event.ValidID(id) {
			t.Errorf("prefix %q makes %q", p, id)
		}
	}
}

func BenchmarkNewID(b *testing.B) {
	ids := event.NewIDs(nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		ids.New(event.PrefixEvent)
	}
}
