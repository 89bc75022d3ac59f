//go:build unix && !race

package work_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"agentd/command"
	"agentd/model/provider/script"
	"agentd/store/storetest"
)

// itemCost is what an item of a job of n items takes: the memory that was allocated
// for it and the entries that were read from the store. Unlike time neither depends
// on what else the machine does.
func itemCost(t *testing.T, n int) (bytes, reads float64) {
	t.Helper()
	c := &counted{Store: storetest.NewMem()}
	k := &stage{TB: t, store: c, mode: "bypass", script: &script.Script{}}
	k.open()
	defer k.stop()
	k.session("sess_cost")
	var before, after runtime.MemStats
	given := items(n, numberWord)
	runtime.ReadMemStats(&before)
	c.reads.Store(0)
	k.job(command.CreateJob{JobID: "job_cost", SessionID: "sess_cost", Items: given, Concurrency: 16})
	k.jobDone("sess_cost")
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n), float64(c.reads.Load()) / float64(n)
}

// TestAnItemCostsTheSameInAJobOfAnyLength compares jobs of growing length: what an
// item takes must not grow with their number.
func TestAnItemCostsTheSameInAJobOfAnyLength(t *testing.T) { costOver(t, 100, 1000) }

func TestLongAnItemCostsTheSameInAJobOfAnyLength(t *testing.T) {
	if os.Getenv("AGENTD_TEST_LONG") == "" {
		t.Skip("set AGENTD_TEST_LONG for 10,000 items")
	}
	costOver(t, 100, 10_000)
}

func costOver(t *testing.T, sizes ...int) {
	t.Helper()
	var bytes, reads []float64
	said := ""
	for _, n := range sizes {
		b, r := itemCost(t, n)
		bytes, reads = append(bytes, b), append(reads, r)
		said += fmt.Sprintf("%d items: %.0f bytes and %.1f reads each; ", n, b, r)
	}
	t.Log(said)
	last := len(sizes) - 1
	if bytes[last] > 1.3*bytes[0] || reads[last] > 1.3*reads[0] || reads[0] == 0 {
		t.Errorf("an item costs more in a longer job: %s", said)
	}
}
