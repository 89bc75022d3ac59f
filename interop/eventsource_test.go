package interop_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestEventSourceLosesNothingWhenItIsCut(t *testing.T) {
	k := newProtoKit(t, "holding event streams against the eventsource package")
	dir := acpFolder(t)
	s := serve(t, dir, nil)
	for range 3 {
		k.node(t, "eventsource.mjs", dir, s.url, s.token, strconv.FormatUint(uint64(rand.Uint32()), 10))
	}
}
