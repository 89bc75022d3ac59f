package pebble_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentd/store"
	"agentd/store/pebble"
)

// killedProcess names the directory that the test binary appends to when it is started
// again, until it is killed.
const killedProcess = "AGENTD_TEST_KILLED_PROCESS"

// runKilled appends records to a store, says that they are durable, and waits to be killed.
func runKilled(dir string) int {
	s, err := pebble.Open(dir, &pebble.Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return 3
	}
	ctx := context.Background()
	c, err := s.Claim(ctx, "a")
	if err != nil {
		fmt.Println(err)
		return 3
	}
	// 37 records are less than a buffer the first time, and several of them later.
	for i := range 37 * (c.Head.Sequence/8 + 1) {
		seq := c.Head.Sequence + 1 + i
		b := &store.Batch{SessionID: "a", Epoch: c.Epoch, Records: []store.Record{{Sequence: seq, Data: payload(3000, int(seq))}}}
		if err := s.Append(ctx, []*store.Batch{b})[0]; err != nil {
			fmt.Println(err)
			return 3
		}
	}
	used, length, err := lastLog(dir)
	fmt.Println("durable", length > used+4, err)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	return 0
}

// TestReservedSpaceIsNoRecord: while a log is written it is as long as the space that was
// reserved for it. What a process that was killed then leaves opens with everything that
// was acknowledged and nothing to report, with logs that were new and logs that were used
// before; a log that was closed ends with its records.
func TestReservedSpaceIsNoRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	longer := false
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedProcess+"="+dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(said, "durable") || !strings.Contains(said, "<nil>") {
			t.Fatalf("round %d: %v, %q", round, err, said)
		}
		longer = longer || strings.Contains(said, "true")
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it says that it was killed
		_ = in.Close()

		s := mustOpen(t, dir, nil)
		if found := recovery(t, s); len(found) > 0 {
			t.Errorf("round %d: %q is reported", round, found)
		}
		n := 0
		for r, err := range s.Read(context.Background(), "a", store.Range{}) {
			if n++; err != nil || r.Sequence != uint64(n) || !bytes.Equal(r.Data, payload(3000, n)) {
				t.Fatalf("round %d: record %d: %v", round, n, err)
			}
		}
		if round == 0 && n != 37 || n < 37*(round+1) {
			t.Errorf("round %d: %d records are there", round, n)
		}
		mustClose(t, s)
		// What closes a log may end with zeros itself.
		if used, length, err := lastLog(dir); err != nil || length > used+4 {
			t.Errorf("round %d: the log that was closed is %d bytes long with records of %d, %v", round, length, used, err)
		}
	}
	if !longer {
		t.Skip("this file system reserves nothing")
	}
}

// lastLog is how much of the newest log isn't zeros at its end, and how long it is.
func lastLog(dir string) (used, length int, err error) {
	logs, err := filepath.Glob(filepath.Join(dir, "db", "*.log"))
	if err != nil || len(logs) == 0 {
		return 0, 0, errors.Join(err, fmt.Errorf("no log in %s", dir))
	}
	data, err := os.ReadFile(logs[len(logs)-1])
	return len(strings.TrimRight(string(data), "\x00")), len(data), err
}
