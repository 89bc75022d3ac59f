package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentd/fault"
	"agentd/internal/wire"
)

// quick makes failures cheap to wait for.
var quick = Options{MinBackoff: time.Microsecond, MaxBackoff: time.Millisecond}

// envelope is an event that is enough for a client.
func envelope(sequence uint64, part int) string {
	return fmt.Sprintf(`{"type":"turn.started","eventId":"evt_%d.%d","sessionId":"s","sequence":%d,"payload":{}}`, sequence, part, sequence)
}

// stream is a log that is served as server-sent events, in pieces.
type stream struct {
	last uint64
	// parts is how many frames an event is.
	parts int
	// cut says after how many bytes a connection breaks.
	cut func() int
	// stay keeps the connection open at the end of the log.
	stay        bool
	connections atomic.Int64
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.connections.Add(1)
	after, _ := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		after, _ = strconv.ParseUint(id, 10, 64)
	}
	w.Header().Set("Content-Type", wire.SSEType+"; charset=utf-8")
	out := wire.AppendSSEComment(nil, "hello")
	for n := after + 1; n <= s.last; n++ {
		for part := range s.parts {
			f := wire.SSEFrame{Data: []byte(envelope(n, part))}
			if part == s.parts-1 {
				f.ID = strconv.FormatUint(n, 10)
			}
			out = wire.AppendSSE(out, &f)
		}
	}
	if s.cut != nil {
		if n := s.cut(); n < len(out) {
			_, _ = w.Write(out[:n])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = w.Write(out)
	if s.stay {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// collect follows until n events came, and returns their ids.
func collect(t *testing.T, c *Client, after uint64, n int, opt *FollowOptions) []string {
	t.Helper()
	var got []string
	for e, err := range c.Follow(t.Context(), "s", after, opt) {
		if err != nil {
			t.Fatalf("after %d events: %v", len(got), err)
		}
		if got = append(got, e.ID); len(got) == n {
			break
		}
	}
	return got
}

func wantIDs(from, to uint64, parts int) []string {
	var want []string
	for n := from; n <= to; n++ {
		for part := range parts {
			want = append(want, fmt.Sprintf("evt_%d.%d", n, part))
		}
	}
	return want
}

func TestFollowDeliversOnceAndInOrderAcrossBrokenConnections(t *testing.T) {
	const last = 200
	for _, parts := range []int{1, 3} {
		for seed := range uint64(10) {
			rnd := rand.New(rand.NewPCG(seed, uint64(parts)))
			s := &stream{last: last, parts: parts, stay: true, cut: func() int { return rnd.IntN(3000) }}
			c := serve(t, s.ServeHTTP, &quick)
			opt := &FollowOptions{}
			if parts > 1 {
				opt.View = "items"
			}
			got := collect(t, c, 0, last*parts, opt)
			if want := wantIDs(1, last, parts); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%d parts, seed %d: got %v", parts, seed, got)
			}
			if s.connections.Load() < 2 {
				t.Errorf("%d parts, seed %d: nothing was cut", parts, seed)
			}
		}
	}
}

func TestFollowBeginsAfterTheCursor(t *testing.T) {
	c := serve(t, (&stream{last: 10, parts: 1, stay: true}).ServeHTTP, &quick)
	if got, want := collect(t, c, 7, 3, nil), wantIDs(8, 10, 1); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v", got)
	}
}

// endOf follows to the end and returns how many events came and the last error.
func endOf(ctx context.Context, c *Client, after uint64, opt *FollowOptions) (events []Event, err error) {
	for e, failed := range c.Follow(ctx, "s", after, opt) {
		if failed != nil {
			err = failed
			continue
		}
		events = append(events, e)
	}
	return events, err
}

func TestFollowEndsWhenTheServerRefuses(t *testing.T) {
	for _, kind := range []fault.Kind{fault.NotFound, fault.Unauthenticated, fault.Forbidden, fault.InvalidParams} {
		var calls atomic.Int64
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			problem(w, fault.New(kind, "no"))
		}, &quick)
		if _, err := endOf(t.Context(), c, 0, nil); fault.KindOf(err) != kind || calls.Load() != 1 {
			t.Errorf("%s: %v after %d requests", kind, err, calls.Load())
		}
	}
}

func TestFollowGoesOnAfterOverloadAndGivesUpWhenTold(t *testing.T) {
	var calls atomic.Int64
	ok := &stream{last: 3, parts: 1, stay: true}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			problem(w, fault.New(fault.Unavailable, "starting"))
		case 2:
			problem(w, fault.New(fault.RateLimited, "busy"))
		case 3:
			w.WriteHeader(http.StatusBadGateway)
		case 4:
			_, _ = io.WriteString(w, "not a stream")
		default:
			ok.ServeHTTP(w, r)
		}
	}, &quick)
	if got := collect(t, c, 0, 3, nil); len(got) != 3 {
		t.Errorf("got %v", got)
	}
	down := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		problem(w, fault.New(fault.Unavailable, "down"))
	}, &quick)
	for retries, want := range map[int]int64{-1: 1, 3: 4} {
		calls.Store(0)
		if _, err := endOf(t.Context(), down, 0, &FollowOptions{Retries: retries}); fault.KindOf(err) != fault.Unavailable || calls.Load() != want {
			t.Errorf("%d retries: %v after %d requests", retries, err, calls.Load())
		}
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	c := serve(t, (&stream{last: 2, parts: 1, stay: true}).ServeHTTP, &quick)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var last error
	for _, err := range c.Follow(ctx, "s", 0, nil) {
		if last = err; err != nil {
			continue
		}
		if n++; n == 2 {
			cancel()
		}
	}
	if n != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d events, %v", n, last)
	}
}

// frames serves the given frames, one connection each, and says what was asked.
func frames(t *testing.T, asked *[]string, connections ...[]wire.SSEFrame) *Client {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.Query().Get("snapshot")+"/"+r.Header.Get("Last-Event-ID"))
		if len(*asked) > len(connections) {
			problem(w, fault.New(fault.NotFound, "no more"))
			return
		}
		w.Header().Set("Content-Type", wire.SSEType)
		var out []byte
		for i := range connections[len(*asked)-1] {
			out = wire.AppendSSE(out, &connections[len(*asked)-1][i])
		}
		_, _ = w.Write(out)
	}, &quick)
}

func eventFrame(n uint64) wire.SSEFrame {
	return wire.SSEFrame{ID: strconv.FormatUint(n, 10), Data: []byte(envelope(n, 0))}
}

func sequences(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s%d ", e.Frame, e.Sequence)
	}
	return strings.TrimSpace(b.String())
}

func TestFollowAsksForTheSnapshotOnce(t *testing.T) {
	var asked []string
	c := frames(t, &asked,
		[]wire.SSEFrame{{Event: "snapshot", Data: []byte(`{}`)}, eventFrame(1)},
		[]wire.SSEFrame{eventFrame(2)})
	events, err := endOf(t.Context(), c, 0, &FollowOptions{Snapshot: true})
	if got := sequences(events); got != "snapshot0 1 2" || fault.KindOf(err) != fault.NotFound {
		t.Errorf("%s, %v", got, err)
	}
	if got := strings.Join(asked, " "); got != "1/ /1 /2" {
		t.Errorf("asked %s", got)
	}
}

func TestFollowGoesOnWhereARepairSays(t *testing.T) {
	var asked []string
	c := frames(t, &asked,
		[]wire.SSEFrame{
			{Event: "snapshot", Data: []byte(`{}`)},
			{Event: "snapshot.repaired", Data: []byte(`{"recoveryMode":"snapshot_repair","gapFrom":11,"gapTo":90,"continuesAfter":10}`)},
			eventFrame(11), eventFrame(12),
		})
	events, _ := endOf(t.Context(), c, 90, nil)
	if got := sequences(events); got != "snapshot0 snapshot.repaired0 11 12" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(asked, " "); got != "/90 /12" {
		t.Errorf("asked %s", got)
	}
}

func TestFollowDropsWhatComesAgainAndNoticesWhatIsMissing(t *testing.T) {
	var asked []string
	c := frames(t, &asked,
		[]wire.SSEFrame{eventFrame(1), eventFrame(2), eventFrame(1), eventFrame(2), eventFrame(4)},
		[]wire.SSEFrame{eventFrame(2), eventFrame(3), eventFrame(4)})
	events, _ := endOf(t.Context(), c, 0, nil)
	if got := sequences(events); got != "1 2 3 4" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(asked, " "); got != "/ /2 /4" {
		t.Errorf("asked %s", got)
	}
}

func TestFollowEndsWithAProblemInTheStream(t *testing.T) {
	var asked []string
	c := frames(t, &asked, []wire.SSEFrame{
		eventFrame(1),
		{Event: "problem", Data: []byte(`{"title":"Not authenticated","status":401,"detail":"the token has expired","code":"unauthenticated"}`)},
	})
	events, err := endOf(t.Context(), c, 0, nil)
	if got := sequences(events); got != "1" || fault.KindOf(err) != fault.Unauthenticated || len(asked) != 1 {
		t.Errorf("%s, %v, %v", got, err, asked)
	}
}

func TestFollowComesBackWhenNothingArrives(t *testing.T) {
	var calls atomic.Int64
	ok := &stream{last: 1, parts: 1, stay: true}
	opt := quick
	opt.StallTimeout = 20 * time.Millisecond
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) < 3 {
			w.Header().Set("Content-Type", wire.SSEType)
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		ok.ServeHTTP(w, r)
	}, &opt)
	if got := collect(t, c, 0, 1, nil); len(got) != 1 || calls.Load() < 3 {
		t.Errorf("%v after %d connections", got, calls.Load())
	}
}

func TestFollowSendsItsFilters(t *testing.T) {
	var query string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		problem(w, fault.New(fault.NotFound, "no"))
	}, &quick)
	_, _ = endOf(t.Context(), c, 5, &FollowOptions{Types: []string{"tool.*", "action.*"}, Profile: "standard", View: "items"})
	if query != "after=5&profile=standard&types=tool.%2A%2Caction.%2A&view=items" {
		t.Errorf("asked %s", query)
	}
}

func TestEventsReadsAPage(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/sessions/a%2Fb/events" || r.URL.RawQuery != "after=3&limit=2" {
			t.Errorf("asked %s?%s", r.URL.EscapedPath(), r.URL.RawQuery)
		}
		_, _ = fmt.Fprintf(w, `{"events":[%s,%s],"lastSequence":9,"nextAfter":5}`, envelope(4, 0), envelope(5, 0))
	}, nil)
	page, err := c.Events(t.Context(), "a/b", 3, 2)
	if err != nil || len(page.Events) != 2 || page.Events[1].Sequence != 5 || page.LastSequence != 9 || page.NextAfter != 5 {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := page.Events[0].Decode(); err == nil {
		t.Error("an event that isn't complete was decoded")
	}
}

func TestBackoffGrowsWithinItsBounds(t *testing.T) {
	c, err := New("http://localhost", &Options{MinBackoff: 100, MaxBackoff: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for failures, most := range map[int]time.Duration{1: 100, 2: 200, 4: 800, 5: 1000, 100: 1000} {
		for range 100 {
			if d := c.backoff(failures); d < most/2 || d > most {
				t.Fatalf("%d failures: %d, want %d to %d", failures, d, most/2, most)
			}
		}
	}
}
