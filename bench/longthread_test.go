package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentd/bench/rig"
)

// The threads of [BenchmarkLongThread].
const (
	longThreads = 12
	longRounds  = 8
	// Each round measures so many turns of every thread: from the tenth of threads
	// made for the round, and around the thousandth of the old ones, one of these and
	// one of those.
	longWindow = 6
	shortTurn  = 10
	longTurn   = 1000
)

// BenchmarkLongThread is the cost of a turn (model, read_file, model) late in a
// thread against that of one early in it, over HTTP: processor time and bytes
// written of the server. Both are measured in turn in one store, turn by turn, so
// that neither the load of the machine nor the size of the store nor what the store
// writes now and then tells them apart.
//
// The provider reads and drops what it is sent. What grows with the thread by the
// nature of the protocol, sending the whole conversation with each request, is in
// the figures. What it costs a thread of this process to send that much more to
// the same provider is sending-more-cpu-ms.
func BenchmarkLongThread(b *testing.B) {
	const scenario = "read_file"
	model := rig.NewModel(b, map[string]rig.Scenario{scenario: {Tool: "read_file", Arguments: `{"path":"note.txt"}`}})
	s := rig.Start(b, rig.Build(b), model.URL(scenario))
	old := threads(b, s, longTurn-longRounds*longWindow/2)
	var early, late cost
	for range longRounds {
		fresh := threads(b, s, shortTurn-1)
		for range longWindow {
			early.measure(b, s, model, fresh)
			late.measure(b, s, model, old)
		}
		for _, c := range fresh {
			c.Close()
		}
	}
	for _, c := range old {
		c.Close()
	}
	early.report(b, "turn-10")
	late.report(b, "turn-1000")
	b.ReportMetric(float64(late.used.CPU)/float64(early.used.CPU), "cpu-ratio")
	b.ReportMetric(float64(late.used.Written)/float64(early.used.Written), "written-ratio")
	sent := sendCost(b, model, scenario, int(late.sent)/(2*late.turns)) - sendCost(b, model, scenario, int(early.sent)/(2*early.turns))
	b.ReportMetric(rig.Millis(sent), "sending-more-cpu-ms")
	b.ReportMetric(float64(late.used.CPU-sent*time.Duration(late.turns))/float64(early.used.CPU), "cpu-ratio-without-sending")
	b.ReportMetric(0, "ns/op")
}

// threads makes sessions and does so many turns in each.
func threads(b *testing.B, s *rig.Server, n int) []*rig.Session {
	b.Helper()
	sessions := make([]*rig.Session, longThreads)
	for i := range sessions {
		var err error
		if sessions[i], err = s.Session(b.Context(), rig.Ends); err != nil {
			b.Fatal(err)
		}
	}
	turns(b, sessions, n)
	return sessions
}

// cost is what turns cost the server, and what it sent to the provider.
type cost struct {
	used  rig.Usage
	sent  int64
	turns int
}

func (c *cost) measure(b *testing.B, s *rig.Server, m *rig.Model, sessions []*rig.Session) {
	b.Helper()
	before, received := s.Usage(b), m.Received()
	turns(b, sessions, 1)
	used := s.Usage(b).Sub(before)
	c.used.CPU += used.CPU
	c.used.Written += used.Written
	c.sent += m.Received() - received
	c.turns += len(sessions)
}

func (c *cost) report(b *testing.B, name string) {
	b.Helper()
	n := float64(c.turns)
	b.ReportMetric(rig.Millis(c.used.CPU)/n, "cpu-ms/"+name)
	b.ReportMetric(float64(c.used.Written)/n/1024, "written-KiB/"+name)
	b.ReportMetric(float64(c.sent)/n/1024, "sent-KiB/"+name)
}

// turns does so many turns in each session, all sessions at once.
func turns(b *testing.B, sessions []*rig.Session, n int) {
	b.Helper()
	var wg sync.WaitGroup
	for _, c := range sessions {
		wg.Go(func() {
			for range n {
				if _, err := c.Turn(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// sendCost is the processor time of sending a turn's two requests of a size: that
// of the thread which writes them, from memory, and reads the answers.
func sendCost(b *testing.B, m *rig.Model, scenario string, size int) time.Duration {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	to, err := url.Parse(m.URL(scenario))
	if err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", to.Host)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	request := fmt.Appendf(nil, "POST %s/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", to.Path, to.Host, size)
	request = append(request, bytes.Repeat([]byte(" "), size)...)
	const rounds = 100
	before := threadTime(b)
	for range rounds {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // it was read to its end
		if err != nil {
			b.Fatal(err)
		}
	}
	return (threadTime(b) - before) * 2 / rounds
}

// threadTime is the processor time of this thread.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
