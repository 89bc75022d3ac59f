package storetest

import (
	"flag"
	"strings"
	"testing"
)

// broken is an engine with a defect, and the checks that must find it.
type broken struct {
	name   string
	breaks func(h *hooked, e *brokenEngine)
	found  []string
}

// brokenEngines has at least one engine for every check of the suite.
func brokenEngines() []broken {
	return []broken{
		{"ignores epochs", ignoresEpochs, []string{
			"append/batch without anything", "epoch/append without a claim is fenced", "epoch/append with another epoch is fenced",
			"epoch/a second claim fences the first", "epoch/release", "epoch/concurrent claims get different epochs",
			"atomic/ErrFenced leaves nothing", "model/random calls give what the reference gives",
			"linearizable/clients of one node",
		}},
		{"loses writes", losesWrites(3), []string{
			"append/next records", "read/ids that are prefixes of each other",
			"concurrent/many writers, each with a session", "linearizable/clients of one node", "linearizable/clients of two nodes",
		}},
		{"acknowledges early", acknowledgesEarly, []string{
			"append/first records", "concurrent/readers see whole batches and no gaps", "linearizable/clients of one node",
			"lifecycle/context that ends during an append",
		}},
		{"ignores the head", ignoresHead, []string{
			"append/behind the head", "append/ahead of the head", "append/sequences with gaps are refused", "atomic/ErrConflict leaves nothing",
			"concurrent/writers of one session: one wins each sequence", "linearizable/clients of one node",
		}},
		{"tears batches", tearsBatches, []string{
			"atomic/ErrConflict leaves nothing", "atomic/ErrFenced leaves nothing", "atomic/ErrExists leaves nothing",
			"concurrent/readers see whole batches and no gaps",
		}},
		{"ignores IfAbsent", ignoresIfAbsent, []string{
			"index/only if absent", "concurrent/one of many gets a key", "nodes/one of many gets a key, on two nodes",
			"linearizable/clients of one node", "model/random calls give what the reference gives",
		}},
		{"believes that entries are fresh", believesFresh, []string{"index/fresh ones, and some that are said to be"}},
		{"looks at the index before the call", judgesTogether, []string{"index/only if absent, across sessions in one call"}},
		{"stops at the first failure", stopsAtFailure, []string{"append/a failed batch leaves other sessions alone"}},
		{"goes on after a failure", goesOnAfterFailure, []string{
			"append/after a failed batch the session's later ones conflict", "model/random calls give what the reference gives",
		}},
		{"calls everything a conflict", anyError, []string{"append/order of judgement", "linearizable/clients of one node"}},
		{"refuses batches without records", refusesEmpty, []string{"append/batch without records", "append/several batches of one session"}},
		{"takes few batches", takesFew, []string{"append/a call with many sessions", "sessions/many"}},
		{"takes blobs back", undoesBlobs, []string{"atomic/a blob that was there survives a failed batch"}},
		{"sorts index operations", sortsOps, []string{"index/operations of a batch apply in order"}},
		{"commits after cancellation", commitsAnyway, []string{"lifecycle/ended context"}},
		{"epochs from 0 and no head", startsAtZero, []string{"epoch/claim of a session that doesn't exist", "epoch/claim returns the head"}},
		{"epochs restart", restartsEpochs, []string{"epoch/epochs grow over a reopen"}},
		{"shares claims", sharesClaims, []string{"epoch/a second claim fences the first", "epoch/concurrent claims get different epochs"}},
		{"one claim for all", claimsAll, []string{"epoch/a claim of one session leaves others alone"}},
		{"releases anything", releasesAnything, []string{"epoch/release of an old claim is ignored", "nodes/release lets another node in"}},
		{"steals sessions", stealsSessions, []string{"nodes/a session with a live owner is refused"}},
		{"remembers heads", remembersHeads, []string{
			"nodes/what one node wrote the other reads", "linearizable/clients of one node", "linearizable/clients of two nodes",
		}},
		{"forgets all", forgetsAll, []string{
			"lifecycle/reopen", "atomic/success leaves everything", "nodes/another node takes over from a closed one",
			"blob/every size", "blob/blobs of a batch",
		}},
		{"forgets the last append", forgetsLast, []string{"lifecycle/reopen", "nodes/another node takes over from a closed one", "read/large records", "lifecycle/close during calls"}},
		{"prints JSON again", reprints, []string{"read/bytes are exact"}},
		{"truncates", truncates, []string{
			"read/large records", "index/empty and large values", "snapshot/empty and large data",
		}},
		{"shortens ids", shortensIDs, []string{"read/ids of 128 characters"}},
		{"shares its memory", sharesMemory, []string{"read/what is yielded is the caller's"}},
		{"reuses buffers", reusesBuffers, []string{"read/every range", "read/many records", "index/stop early, and what is yielded is the caller's"}},
		{"takes the lower bound in", includesAfter, []string{"read/every range", "index/keys with any bytes", "index/scans against a map"}},
		{"reads one page", readsOnePage, []string{"read/many records", "sessions/many"}},
		{"ignores cursors", ignoresCursor, []string{"index/paging with a cursor", "index/scans against a map"}},
		{"iterates once", iteratesOnce, []string{"read/an iterator can be used twice"}},
		{"hangs on to a loop that was left", hangsOn, []string{"read/stop early"}},
		{"mixes prefixes", mixesPrefixes, []string{
			"read/ids that are prefixes of each other", "index/kinds that are prefixes of each other",
			"snapshot/sessions and names that are prefixes of each other",
		}},
		{"sorts by language", sortsByLanguage, []string{"sessions/in order, after an id", "snapshot/list in order"}},
		{"keeps keys as text", cleansKeys, []string{"index/keys with any bytes"}},
		{"drops empty values", dropsEmpty, []string{"index/empty and large values"}},
		{"never replaces", keepsFirst, []string{"index/put, replace, delete", "snapshot/put, replace, not found", "blob/delete"}},
		{"calls what is left of a session all", goneSilently, []string{
			"trim/what was removed is told, what is left is read", "trim/another node sees it",
		}},
		{"removes nothing", neverTrims, []string{"trim/again, further on", "trim/in one batch with its last record's successor"}},
		{"removes before it judges", trimsFirst, []string{
			"trim/what can't be removed is refused and leaves nothing", "trim/a batch that fails removes nothing", "trim/twice in one call",
		}},
		{"removes by prefix", trimsByPrefix, []string{"trim/other sessions are left alone"}},
		{"invents bases", inventsBases, []string{"trim/a session that was never trimmed has no base"}},
		{"forgets bases", forgetsBases, []string{"trim/what was removed is told, what is left is read", "trim/another node sees it"}},
		{"never moves a base", keepsFirstBase, []string{"trim/again, further on"}},
		{"reads in pages and sees no hole", readsInPages, []string{"trim/readers beside it see all, or that something is gone"}},
		{"loses changes", losesChanges, []string{
			"changes/on from the position of each", "changes/readers beside writers get each once", "changes/readers beside writers on two nodes get each once",
		}},
		{"counts changes for each reader", countsForEachReader, []string{"changes/on from the position of each"}},
		{"tells of writes that failed", tellsOfFailures, []string{"changes/what failed, and what has no records, is none"}},
		{"forgets changes", forgetsChanges, []string{"changes/every write of records, in order"}},
		{"removes changes with their records", trimsChanges, []string{"changes/they stay when records go"}},
		{"positions that lag", positionsLag, []string{"changes/a position is after everything"}},
		{"takes any position", takesAnyPosition, []string{"changes/a text that is no position"}},
		{"lists empty sessions", listsEmpty, []string{"sessions/only those with records", "read/a session that doesn't exist"}},
		{"puts partial blobs", putsPartial, []string{"blob/a reader that fails leaves nothing"}},
		{"loses the last chunk", losesLastChunk, []string{"blob/every size", "blob/reads in small pieces"}},
		{"seeks to chunks", seeksToChunks, []string{"blob/seek and range reads"}},
		{"puts blobs once", putsOnce, []string{"blob/the same content again", "blob/the same content concurrently"}},
		{"opens anything", opensAnything, []string{"blob/not found and bad references"}},
		{"drops the blobs of batches", dropsBatchBlobs, []string{"blob/blobs of a batch", "atomic/success leaves everything"}},
		{"the last meta value wins", replacesMeta, []string{
			"lifecycle/meta", "lifecycle/the first value of a meta name wins", "nodes/one of two gets a meta name",
		}},
		{"stays open", staysOpen, []string{"lifecycle/closed", "lifecycle/close ends follow"}},
		{"allows one thing at a time", allowsOne, []string{"concurrent/calls inside an iteration"}},
		{"ignores the context", ignoresContext, []string{"lifecycle/ended context"}},
		{"ends silently", endsSilently, []string{"lifecycle/context that ends during a read"}},
		{"follows badly", followsBadly, []string{"concurrent/follow ends with its context", "nodes/follow covers every append of the other node"}},
		{"follows in part", followsInPart, []string{"nodes/follow covers every append of the other node"}},
	}
}

// TestBroken shows that the suite finds what it is for: each defect is found by
// the checks that look for it, and each check finds a defect.
func TestBroken(t *testing.T) {
	quietRapid(t)
	all := checksOf(t)
	untested := checksOf(t)
	for _, b := range brokenEngines() {
		t.Run(b.name, func(t *testing.T) {
			for _, name := range b.found {
				delete(untested, name)
				c, ok := all[name]
				if !ok {
					t.Fatalf("there is no check %q", name)
				}
				if !finds(t, c, b) {
					t.Errorf("%q doesn't find it", name)
				}
			}
		})
	}
	if len(untested) > 0 && t.Run("all", func(*testing.T) {}) {
		t.Errorf("checks that no broken engine trips: %s", strings.Join(sortedKeys(untested), "; "))
	}
}

// finds reports whether a check fails on a broken engine. Where goroutines have
// to meet at a bad moment for that it may take some tries.
func finds(t *testing.T, c check, b broken) bool {
	for range 500 {
		if record(t.Context(), t, c, &brokenEngine{mem: newMemEngine(), breaks: b.breaks}).Failed() {
			return true
		}
	}
	return false
}

// quietRapid keeps rapid from shrinking failures that are wanted, and from
// leaving files about them.
func quietRapid(t *testing.T) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		f := flag.Lookup(name)
		old := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Value.Set(old); err != nil {
				t.Error(err)
			}
		})
	}
}
