//go:build unix

package find_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/find"
	"agentd/index"
	"agentd/internal/runtimetest"
	"agentd/model/provider/script"
	"agentd/store"
	"agentd/store/pebble"
)

// counting counts the bytes that a store is given, and those that are taken away again.
type counting struct {
	store.Store
	written, removed atomic.Int64
	sizes            sync.Map
	// blind hides all sessions from the index.
	blind atomic.Bool
}

func (c *counting) Sessions(ctx context.Context, after string) iter.Seq2[string, error] {
	if c.blind.Load() {
		return func(func(string, error) bool) {}
	}
	return c.Store.Sessions(ctx, after)
}

func (c *counting) Append(ctx context.Context, batches []*store.Batch) []error {
	for _, b := range batches {
		n := 0
		for i := range b.Records {
			n += len(b.Records[i].Data)
		}
		for i := range b.Snapshots {
			n += len(b.Snapshots[i].Data)
		}
		for i := range b.Index {
			op := &b.Index[i]
			size := len(op.Key) + len(op.Value)
			if old, ok := c.sizes.LoadAndDelete(op.Entry.ID()); ok {
				c.removed.Add(int64(old.(int)))
			}
			if !op.Delete {
				c.sizes.Store(op.Entry.ID(), size)
				n += size
			}
		}
		for _, blob := range b.Blobs {
			n += len(blob)
		}
		c.written.Add(int64(n))
	}
	return c.Store.Append(ctx, batches)
}

// cpuTime is what the process has used of the processors.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// vocabulary has words as a language has them: few are frequent, most are rare.
type vocabulary struct {
	rng  *rand.Rand
	zipf *rand.Zipf
}

func newVocabulary() *vocabulary {
	rng := rand.New(rand.NewPCG(1, 2))
	return &vocabulary{rng: rng, zipf: rand.NewZipf(rng, 1.1, 8, 50_000)}
}

func (v *vocabulary) text(words int) string {
	var b strings.Builder
	for range words {
		fmt.Fprintf(&b, "w%s ", strings.ToLower(fmt.Sprintf("%x", v.zipf.Uint64()*2654435761%(1<<24))))
	}
	return strings.TrimSpace(b.String())
}

// benchTurns is how many turns the benchmark of the cost runs.
const benchTurns = 2000

// BenchmarkCost says what turns cost, each with two model calls and one tool call, and
// what it costs to index them.
func BenchmarkCost(b *testing.B) {
	var turn, indexed time.Duration
	var turnBytes, indexWritten, indexKept int64
	n := 0
	for b.Loop() {
		n++
		p, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
		if err != nil {
			b.Fatal(err)
		}
		s := &counting{Store: p}
		s.blind.Store(true)
		words := newVocabulary()
		answers := []script.Answer{runtimetest.CallsTool("list_files", map[string]any{"path": "."}), runtimetest.Says(words.text(60))}
		r, err := agentd.Open(b.Context(), agentd.Options{
			Store: s, Provider: script.New("script", &script.Script{Answers: answers, Repeat: true}), Model: "test", IndexDelay: 24 * time.Hour,
		})
		if err != nil {
			b.Fatal(err)
		}
		before := cpuTime(b)
		runTurns(b, r, words)
		turn += cpuTime(b) - before
		if err := r.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		s.blind.Store(false)
		turnBytes += s.written.Load()
		s.written.Store(0)
		s.removed.Store(0)
		before = cpuTime(b)
		x := index.New(index.Options{
			Store: s, Projections: find.Projections(),
			Owner: func(context.Context, string) (index.Owner, error) { return index.Owner{}, nil },
		})
		x.Start(b.Context())
		if err := x.Settle(b.Context()); err != nil {
			b.Fatal(err)
		}
		x.Close()
		indexed += cpuTime(b) - before
		indexWritten += s.written.Load()
		indexKept += s.written.Load() - s.removed.Load()
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
	per := float64(n * benchTurns)
	b.ReportMetric(float64(turn.Microseconds())/per, "µs-cpu/turn")
	b.ReportMetric(float64(indexed.Microseconds())/per, "µs-cpu-index/turn")
	b.ReportMetric(100*float64(indexed)/float64(turn), "%-cpu")
	b.ReportMetric(float64(turnBytes)/per, "B/turn")
	b.ReportMetric(float64(indexWritten)/per, "B-index-written/turn")
	b.ReportMetric(float64(indexKept)/per, "B-index/turn")
	b.ReportMetric(100*float64(indexKept)/float64(turnBytes), "%-bytes")
	b.ReportMetric(0, "ns/op")
}

// runTurns runs turns by eight clients at once.
func runTurns(b *testing.B, r *agentd.Runtime, words *vocabulary) {
	b.Helper()
	const clients = 8
	inputs := make(chan string, benchTurns)
	for range benchTurns {
		inputs <- words.text(20)
	}
	close(inputs)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			id := fmt.Sprintf("sess_%d", i)
			sub, err := r.Subscribe(b.Context(), command.Local(), id, 0)
			if err != nil {
				res, err := r.Do(b.Context(), command.Local(), &command.CreateSession{SessionID: id})
				if err != nil {
					b.Error(res, err)
					return
				}
				if sub, err = r.Subscribe(b.Context(), command.Local(), id, 0); err != nil {
					b.Error(err)
					return
				}
			}
			defer sub.Close()
			for input := range inputs {
				if _, err := r.Do(b.Context(), command.Local(), &command.SubmitTurn{SessionID: id, Input: command.Text(input)}); err != nil {
					b.Error(err)
					return
				}
				for ended := false; !ended; {
					records, err := sub.Next(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					for _, rec := range records {
						ended = ended || strings.HasPrefix(string(rec.Data), `{"type":"`+string(event.TypeTurnCompleted))
					}
				}
			}
		})
	}
	wg.Wait()
}

// sessionsEnv is how many sessions BenchmarkScale begins with.
const sessionsEnv = "AGENTD_BENCH_SESSIONS"

// smallAccount is the account of few of the sessions.
const smallAccount = "small"

// turnsPerSession is how many turns each of them has.
const turnsPerSession = 10

// BenchmarkScale says how long a page of 50 takes at most in 99 of 100 cases, for each
// filter, over some sessions and over ten times as many.
func BenchmarkScale(b *testing.B) {
	size := 1000
	if text := os.Getenv(sessionsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("%s=%s is not a number of sessions", sessionsEnv, text)
		}
		size = n
	}
	for b.Loop() {
		small := scaleOf(b, size)
		large := scaleOf(b, 10*size)
		for _, q := range slices.Sorted(maps.Keys(large)) {
			b.ReportMetric(milliseconds(large[q].p50), q+"-p50-ms")
			b.ReportMetric(milliseconds(large[q].p99), q+"-p99-ms")
			b.ReportMetric(milliseconds(large[q].processor), q+"-cpu-ms")
			b.ReportMetric(float64(large[q].processor)/float64(small[q].processor), q+"-cpu-ratio")
		}
		b.ReportMetric(0, "ns/op")
	}
}

// timing is what a question took: half of the times, 99 of 100 times, and on average of
// the processor.
type timing struct{ p50, p99, processor time.Duration }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// scaleOf returns what each question takes over so many sessions.
func scaleOf(b *testing.B, sessions int) map[string]timing {
	b.Helper()
	s, err := pebble.Open(filepath.Join(b.TempDir(), "data"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	words := newVocabulary()
	fillStore(b, s, sessions, words)
	x := index.New(index.Options{Store: s, Projections: find.Projections(), Owner: func(_ context.Context, id string) (index.Owner, error) {
		owner := index.Owner{Account: "acme", Workspace: "/" + id[len(id)-1:]}
		if strings.HasSuffix(id, "500") { // one of a thousand
			owner.Account = smallAccount
		}
		return owner, nil
	}})
	x.Start(b.Context())
	defer x.Close()
	if err := x.Settle(b.Context()); err != nil {
		b.Fatal(err)
	}
	tagged := map[string]bool{}
	for i := range sessions / 10 {
		tagged[fmt.Sprintf("sess_%07d", i*10)] = true
	}
	f := find.New(find.Options{
		Store: s, CatchUp: x.CatchUp, See: func(context.Context, command.Caller, string) error { return nil },
		Tagged: func(context.Context, command.Caller, []string) (map[string]bool, error) { return tagged, nil },
	})
	begun := time.Now()
	if err := f.Warm(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d sessions: the rows of %d turns were read in %v", sessions, sessions*turnsPerSession, time.Since(begun))
	table := command.NewTable(command.TableOptions{Repeats: noRepeats{}})
	f.Register(table)
	return timeQuestions(b, table, words, sessions)
}

func timeQuestions(b *testing.B, table *command.Table, words *vocabulary, sessions int) map[string]timing {
	b.Helper()
	page := command.Page{Limit: 50}
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	some := func() string { return fmt.Sprintf("sess_%07d", words.rng.IntN(sessions)) }
	questions := map[string]func() command.Params{
		"turns":           func() command.Params { return &command.ListTurns{Page: page} },
		"turns-session":   func() command.Params { return &command.ListTurns{Page: page, SessionID: some()} },
		"turns-status":    func() command.Params { return &command.ListTurns{Page: page, Status: "failed"} },
		"turns-model":     func() command.Params { return &command.ListTurns{Page: page, Model: "p/m3"} },
		"turns-tool":      func() command.Params { return &command.ListTurns{Page: page, Tool: "shell", Sort: "tokens"} },
		"turns-tags":      func() command.Params { return &command.ListTurns{Page: page, Tags: []string{"red"}} },
		"turns-workspace": func() command.Params { return &command.ListTurns{Page: page, Workspace: "/7"} },
		"turns-time": func() command.Params {
			from := day.Add(time.Duration(words.rng.IntN(sessions*turnsPerSession)) * time.Second)
			return &command.ListTurns{Page: page, From: from, To: from.Add(time.Hour), Sort: "cost"}
		},
		"turns-cost": func() command.Params { return &command.ListTurns{Page: page, Sort: "cost", Account: "acme"} },
		"turns-duration": func() command.Params {
			return &command.ListTurns{Page: page, Sort: "duration", Order: "asc", Outcome: "end_turn"}
		},
		"turns-query":                   func() command.Params { return &command.ListTurns{Page: page, Query: words.text(1)} },
		"search-word":                   func() command.Params { return &command.Search{Page: page, Query: words.text(1)} },
		"search-two":                    func() command.Params { return &command.Search{Page: page, Query: words.text(2)} },
		"search-session":                func() command.Params { return &command.Search{Page: page, Query: words.text(1), SessionID: some()} },
		"search-prefix":                 func() command.Params { return &command.Search{Page: page, Query: (words.text(1) + "0")[:3] + "*"} },
		"search-word-" + smallAccount:   func() command.Params { return &command.Search{Page: page, Query: words.text(1)} },
		"search-prefix-" + smallAccount: func() command.Params { return &command.Search{Page: page, Query: (words.text(1) + "0")[:3] + "*"} },
		// As many words as two stars reach: an eighth of all.
		"search-two-prefixes":                 func() command.Params { return &command.Search{Page: page, Query: "w1* w2*"} },
		"search-two-prefixes-" + smallAccount: func() command.Params { return &command.Search{Page: page, Query: "w1* w2*"} },
		"search-two-prefixes-time": func() command.Params {
			from := day.Add(time.Duration(words.rng.IntN(sessions*turnsPerSession)) * time.Second)
			return &command.Search{Page: page, Query: "w1* w2*", From: from, To: from.Add(time.Hour)}
		},
		"search-two-prefixes-session": func() command.Params { return &command.Search{Page: page, Query: "w1* w2*", SessionID: some()} },
		"search-two-prefixes-type": func() command.Params {
			return &command.Search{Page: page, Query: "w1* w2*", Types: []string{"tool.started"}}
		},
	}
	out := map[string]timing{}
	for name, question := range questions {
		caller := command.Caller{Account: "acme"}
		if strings.HasSuffix(name, smallAccount) {
			caller.Account = smallAccount
		}
		var took []time.Duration
		used := cpuTime(b)
		for i := range 220 {
			p := question()
			begun := time.Now()
			if _, err := table.Do(b.Context(), caller, p); err != nil {
				b.Fatal(name, err)
			}
			if i >= 20 {
				took = append(took, time.Since(begun))
			}
		}
		slices.Sort(took)
		out[name] = timing{took[len(took)/2], took[len(took)*99/100], (cpuTime(b) - used) / 220}
	}
	return out
}

// fillStore makes sessions of turns, as they are when they have ended.
func fillStore(b *testing.B, s store.Store, sessions int, words *vocabulary) {
	b.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var batches []*store.Batch
	for n := range sessions {
		id := fmt.Sprintf("sess_%07d", n)
		claim, err := s.Claim(b.Context(), id)
		if err != nil {
			b.Fatal(err)
		}
		batch := &store.Batch{SessionID: id, Epoch: claim.Epoch}
		add := func(e event.Event) {
			e.SessionID, e.Sequence, e.ID, e.Time, e.ThreadID = id, uint64(len(batch.Records)+1), fmt.Sprintf("evt_%d_%d", n, len(batch.Records)), at, "thread_1"
			batch.Records = append(batch.Records, store.Record{Sequence: e.Sequence, Data: event.AppendJSON(nil, &e)})
		}
		add(event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Account: "acme"}})
		for i := range turnsPerSession {
			at = at.Add(time.Second)
			cost := words.rng.Float64()
			usage := event.Usage{InputTokens: words.rng.Int64N(10_000), OutputTokens: words.rng.Int64N(1000)}
			of := event.Scope{TurnID: fmt.Sprintf("turn_%d_%d", n, i)}
			call := of
			call.ToolCallID = "tool_1"
			add(event.Event{Type: event.TypeTurnSubmitted, Scope: of, Payload: &event.TurnSubmitted{Status: "accepted", Source: "user", Input: event.Raw(fmt.Sprintf(`[{"type":"text","text":%q}]`, words.text(20)))}})
			add(event.Event{Type: event.TypeToolStarted, Scope: call, Payload: &event.ToolStarted{ToolName: []string{"shell", "read_file", "list_files"}[words.rng.IntN(3)], Policy: "pending", SafeArgs: event.Raw(fmt.Sprintf(`{"path":%q}`, words.text(2)))}})
			add(event.Event{Type: event.TypeModelCompleted, Scope: of, Payload: &event.ModelCompleted{ModelRequestID: "req_1", Provider: "p", Model: fmt.Sprint("m", words.rng.IntN(8)), StopReason: "end_turn", Usage: usage, Message: &event.ModelMessage{Text: words.text(60)}}})
			if words.rng.IntN(20) == 0 {
				add(event.Event{Type: event.TypeTurnFailed, Scope: of, Payload: &event.TurnFailed{Status: "failed", Outcome: "model_failed", FailureCategory: "model_failed", Error: &event.Failure{Message: "x"}, Usage: &usage, CostUSD: cost, DurationMs: words.rng.Int64N(60_000)}})
			} else {
				add(event.Event{Type: event.TypeTurnCompleted, Scope: of, Payload: &event.TurnCompleted{Status: "completed", Outcome: "end_turn", Usage: &usage, CostUSD: cost, DurationMs: words.rng.Int64N(60_000)}})
			}
		}
		if batches = append(batches, batch); len(batches) == 64 || n == sessions-1 {
			for _, err := range s.Append(b.Context(), batches) {
				if err != nil {
					b.Fatal(err)
				}
			}
			batches = batches[:0]
		}
	}
}
