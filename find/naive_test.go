package find_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/find"
	"agentd/index"
	"agentd/store"
)

// history is a store with facts that were made up, and an index of it.
type history struct {
	*testing.T
	rng   *rand.Rand
	store store.Store
	now   time.Time
	// sessions are all that there ever were, deleted those that are gone.
	sessions []string
	accounts sync.Map       // session id → account
	deleted  sync.Map       // session id → true
	open     []*event.Event // the submissions of turns that have not ended
	made     int

	indexer *index.Indexer
	finder  *find.Finder
	table   *command.Table
}

func newHistory(t *testing.T, s store.Store, seed uint64) *history {
	h := &history{
		T: t, rng: rand.New(rand.NewPCG(seed, 0)), store: s, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	h.openIndex()
	return h
}

func (h *history) account(id string) string {
	account, _ := h.accounts.Load(id)
	name, _ := account.(string)
	return name
}

func (h *history) isDeleted(id string) bool {
	_, ok := h.deleted.Load(id)
	return ok
}

// openIndex starts the index anew, as after a restart.
func (h *history) openIndex() {
	h.indexer = index.New(index.Options{
		Store: h.store, Projections: find.Projections(), Delay: time.Hour, MaxFacts: 1 + h.rng.IntN(40),
		Owner: func(_ context.Context, id string) (index.Owner, error) {
			if h.isDeleted(id) {
				return index.Owner{}, fault.New(fault.NotFound, "there is no session %s", id)
			}
			return index.Owner{Account: h.account(id), Workspace: "/" + h.account(id)}, nil
		},
	})
	h.indexer.Start(h.Context())
	h.finder = find.New(find.Options{Store: h.store, CatchUp: h.indexer.CatchUp, See: func(_ context.Context, c command.Caller, id string) error {
		if _, ok := h.accounts.Load(id); !ok || h.isDeleted(id) || !c.Sees(h.account(id)) {
			return fault.New(fault.NotFound, "there is no session %s", id)
		}
		return nil
	}})
	h.table = command.NewTable(command.TableOptions{Repeats: noRepeats{}})
	h.finder.Register(h.table)
}

// noRepeats is for a table whose commands only read.
type noRepeats struct{}

func (noRepeats) Enter(context.Context, command.Caller, command.Params) (func(), error) {
	return func() {}, nil
}

func (noRepeats) Admit(context.Context, command.Caller, command.Params) error { return nil }
func (noRepeats) Overtaken(error) bool                                        { return false }

func (noRepeats) First(context.Context, command.Caller, command.Params, any) (bool, error) {
	return false, nil
}

// append adds facts to a session, and with trim removes those before them.
func (h *history) append(id string, trim bool, facts ...*event.Event) {
	h.Helper()
	claim, err := h.store.Claim(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	b := &store.Batch{SessionID: id, Epoch: claim.Epoch}
	for i, e := range facts {
		h.made++
		h.now = h.now.Add(time.Duration(h.rng.IntN(3000)) * time.Microsecond)
		e.SessionID, e.Sequence, e.ID, e.Time = id, claim.Head.Sequence+uint64(i)+1, fmt.Sprintf("evt_%d", h.made), h.now
		b.Records = append(b.Records, store.Record{Sequence: e.Sequence, Data: event.AppendJSON(nil, e)})
	}
	if trim {
		b.Trim = &store.Trim{Through: claim.Head.Sequence, Hash: claim.Head.Hash, Data: []byte("{}")}
	}
	if err := h.store.Append(h.Context(), []*store.Batch{b})[0]; err != nil {
		h.Fatal(err)
	}
	if err := h.store.Release(h.Context(), id, claim.Epoch); err != nil {
		h.Fatal(err)
	}
}

var someWords = strings.Fields("alpha Beta gamma delta epsilon zeta ETA theta iota kappa Lambda über 東 alphabet")

func (h *history) text(n int) string {
	words := make([]string, 1+h.rng.IntN(n))
	for i := range words {
		words[i] = someWords[h.rng.IntN(len(someWords))]
	}
	return strings.Join(words, []string{" ", ", ", "/", "_", "\n"}[h.rng.IntN(5)])
}

// accountOf says whose the nth session is.
func accountOf(n int) string { return []string{"", "acme", "globex"}[n%3] }

func (h *history) livingSession() string {
	var living []string
	for _, id := range h.sessions {
		if !h.isDeleted(id) {
			living = append(living, id)
		}
	}
	if len(living) == 0 || h.rng.IntN(8) == 0 {
		id := fmt.Sprintf("sess_%d", len(h.sessions))
		h.sessions = append(h.sessions, id)
		h.accounts.Store(id, accountOf(len(h.sessions)-1))
		h.append(id, false, &event.Event{Type: event.TypeSessionCreated, Payload: &event.SessionCreated{Account: h.account(id), Workspace: &event.Workspace{Root: "/" + h.account(id)}}})
		return id
	}
	return living[h.rng.IntN(len(living))]
}

// step does something at random.
func (h *history) step() {
	h.Helper()
	switch n := h.rng.IntN(100); {
	case n < 35:
		h.made++
		e := &event.Event{Type: event.TypeTurnSubmitted, Payload: &event.TurnSubmitted{
			Status: []string{"accepted", "queued"}[h.rng.IntN(2)], Source: "user", Input: event.Raw(fmt.Sprintf(`[{"type":"text","text":%q}]`, h.text(6))),
		}}
		e.TurnID, e.ThreadID = fmt.Sprintf("turn_%d", h.made), "thread_1"
		h.append(h.livingSession(), false, e)
		h.open = append(h.open, e)
	case n < 85 && len(h.open) > 0:
		h.continueTurn(h.rng.IntN(len(h.open)))
	case n < 88 && len(h.sessions) > 3:
		h.removeFacts(h.livingSession(), true)
	case n < 91 && len(h.sessions) > 3:
		h.removeFacts(h.livingSession(), false)
	case n < 94:
		h.indexer.Close()
		h.openIndex()
	case n < 97:
		if err := h.indexer.CatchUp(h.Context()); err != nil {
			h.Fatal(err)
		}
	}
}

func (h *history) continueTurn(i int) {
	h.Helper()
	turn := h.open[i]
	e := &event.Event{Scope: turn.Scope}
	usage := event.Usage{InputTokens: h.rng.Int64N(1000), OutputTokens: h.rng.Int64N(1000)}
	cost := float64(h.rng.IntN(1000)) / 1000
	switch h.rng.IntN(7) {
	case 0:
		e.Type, e.Payload = event.TypeTurnStarted, &event.TurnStarted{Status: "running"}
	case 1:
		e.Type, e.Payload = event.TypeModelCompleted, &event.ModelCompleted{
			ModelRequestID: "req_1", Provider: "p", Model: []string{"small", "large"}[h.rng.IntN(2)], StopReason: "end_turn", Usage: usage, Message: &event.ModelMessage{Text: h.text(12)},
		}
	case 2:
		e.Type, e.Payload = event.TypeToolStarted, &event.ToolStarted{ToolName: []string{"shell", "read_file"}[h.rng.IntN(2)], Policy: "pending", SafeArgs: event.Raw(fmt.Sprintf(`{"path":%q}`, h.text(3)))}
		e.ToolCallID = "tool_1"
	case 3:
		e.Type, e.Payload = event.TypeToolResult, &event.ToolResult{ToolName: "shell", Status: "ok", Preview: h.text(12), ChangedFiles: []event.FileChange{{Path: h.text(2), Change: "created"}}}
		e.ToolCallID = "tool_1"
	case 4:
		e.Type, e.Payload = event.TypeCostRecorded, &event.CostRecorded{CostUSD: &cost, Currency: "USD", Basis: "price", ModelRequestID: "req_1"}
	case 5:
		e.Type, e.Payload = event.TypeTurnCompleted, &event.TurnCompleted{Status: "completed", Outcome: "answered", DurationMs: h.rng.Int64N(5000), Usage: &usage, CostUSD: cost}
	default:
		e.Type, e.Payload = event.TypeTurnFailed, &event.TurnFailed{Status: "failed", Outcome: "model_failed", FailureCategory: "model_failed", Error: &event.Failure{Message: "x"}, DurationMs: h.rng.Int64N(5000)}
	}
	h.append(turn.SessionID, false, e)
	if e.Type == event.TypeTurnCompleted || e.Type == event.TypeTurnFailed {
		h.open = slices.Delete(h.open, i, i+1)
	}
}

// removeFacts deletes a session, or trims it.
func (h *history) removeFacts(id string, whole bool) {
	h.Helper()
	head, err := h.store.Head(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	h.open = slices.DeleteFunc(h.open, func(e *event.Event) bool { return e.SessionID == id })
	if !whole {
		h.append(id, true, &event.Event{Type: event.TypeSnapshotRepaired, Payload: &event.SnapshotRepaired{
			Reason: "retention", GapFrom: 1, GapTo: head.Sequence, RecoveryMode: "snapshot_repair", SnapshotSequence: head.Sequence, Status: "unavailable",
		}})
		return
	}
	h.append(id, true, &event.Event{Type: event.TypeSessionDeleted, Payload: &event.SessionDeleted{DeletedSessionID: id, Account: h.account(id)}})
	h.deleted.Store(id, true)
}

// facts returns what is stored of the sessions that a caller may see.
func (h *history) facts(caller command.Caller) []*event.Event {
	h.Helper()
	var out []*event.Event
	for _, id := range h.sessions {
		if h.isDeleted(id) || !caller.Sees(h.account(id)) {
			continue
		}
		base, err := h.store.Base(h.Context(), id)
		if err != nil {
			base.Sequence = 0
		}
		for rec, err := range h.store.Read(h.Context(), id, store.Range{After: base.Sequence}) {
			if err != nil {
				h.Fatal(err)
			}
			e, err := event.Decode(rec.Data)
			if err != nil {
				h.Fatal(err)
			}
			out = append(out, e)
		}
	}
	return out
}

// scanTurns is list_turns without an index, in any order.
func (h *history) scanTurns(caller command.Caller, keep func(*command.TurnSummary) bool) []command.TurnSummary {
	turns := map[string]*command.TurnSummary{}
	for _, e := range h.facts(caller) {
		s := turns[e.TurnID]
		if p, ok := e.Payload.(*event.TurnSubmitted); ok {
			var parts []command.Part
			h.decode(p.Input, &parts)
			turns[e.TurnID] = &command.TurnSummary{
				TurnID: e.TurnID, SessionID: e.SessionID, ThreadID: e.ThreadID, Account: h.account(e.SessionID), Workspace: "/" + h.account(e.SessionID),
				Status: p.Status, Preview: parts[0].Text, FirstSequence: e.Sequence, LastSequence: e.Sequence, StartedAt: e.Time,
			}
			continue
		}
		if s == nil {
			continue
		}
		switch p := e.Payload.(type) {
		case *event.TurnStarted:
			s.Status, s.StartedAt = "running", e.Time
		case *event.ModelCompleted:
			s.Model = p.Provider + "/" + p.Model
			s.Usage.InputTokens += p.Usage.InputTokens
			s.Usage.OutputTokens += p.Usage.OutputTokens
		case *event.ToolStarted:
			if !slices.Contains(s.Tools, p.ToolName) {
				s.Tools = append(s.Tools, p.ToolName)
				slices.Sort(s.Tools)
			}
		case *event.CostRecorded:
			s.CostUSD += *p.CostUSD
		case *event.TurnCompleted:
			s.Status, s.Outcome, s.DurationMs, s.Usage, s.CostUSD = "completed", p.Outcome, p.DurationMs, *p.Usage, p.CostUSD
		case *event.TurnFailed:
			s.Status, s.Outcome, s.DurationMs = "failed", p.Outcome, p.DurationMs
		default:
			continue
		}
		s.LastSequence = e.Sequence
	}
	var out []command.TurnSummary
	for _, s := range turns {
		if keep(s) {
			out = append(out, *s)
		}
	}
	return out
}

// naiveWords splits a text as a reader would.
func naiveWords(text string) []string {
	text = strings.ReplaceAll(strings.ToLower(text), "東", " 東 ")
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// checkSearchFilters compares searches for what few facts have.
func (h *history) checkSearchFilters(caller command.Caller) {
	h.Helper()
	words := []string{"al*", "et*"}
	h.checkWords(caller, words, command.Search{Types: []string{"tool.*"}}, func(e *event.Event) bool { return strings.HasPrefix(string(e.Type), "tool.") })
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	from, to := day.Add(h.now.Sub(day)/4).Truncate(time.Millisecond), day.Add(h.now.Sub(day)/3).Truncate(time.Millisecond)
	h.checkWords(caller, words, command.Search{From: from, To: to}, func(e *event.Event) bool {
		at := e.Time.Truncate(time.Millisecond)
		return !at.Before(from) && at.Before(to)
	})
	for _, id := range h.sessions {
		if !h.isDeleted(id) && caller.Sees(h.account(id)) {
			h.checkWords(caller, words[1:], command.Search{SessionID: id}, func(e *event.Event) bool { return e.SessionID == id })
			return
		}
	}
}

// scanWords is search without an index: which facts have all words, as session/sequence.
func (h *history) scanWords(caller command.Caller, words []string, keep func(*event.Event) bool) []string {
	out := []string{}
	for _, e := range h.facts(caller) {
		if !keep(e) {
			continue
		}
		text := ""
		switch p := e.Payload.(type) {
		case *event.TurnSubmitted:
			var parts []command.Part
			h.decode(p.Input, &parts)
			text = parts[0].Text
		case *event.ModelCompleted:
			text = p.Message.Text
		case *event.ToolStarted:
			var args map[string]string
			h.decode(p.SafeArgs, &args)
			text = p.ToolName + " " + strings.Join(slices.Collect(maps.Values(args)), " ")
		case *event.ToolResult:
			text = p.Preview + " " + p.ChangedFiles[0].Path
		}
		have := naiveWords(text)
		all := !slices.ContainsFunc(words, func(w string) bool {
			prefix, star := strings.CutSuffix(w, "*")
			return !slices.ContainsFunc(have, func(x string) bool { return x == w || star && strings.HasPrefix(x, prefix) })
		})
		if all {
			out = append(out, fmt.Sprintf("%s/%d", e.SessionID, e.Sequence))
		}
	}
	slices.Sort(out)
	return out
}

func ask[R any](h *history, caller command.Caller, p command.Params) *R {
	h.Helper()
	res, err := h.table.Do(h.Context(), caller, p)
	if err != nil {
		h.Fatalf("%s: %v", p.Command(), err)
	}
	return res.(*R)
}

// check compares answers with what a scan of all facts says.
func (h *history) check() {
	h.Helper()
	for _, caller := range []command.Caller{{Admin: true}, {Account: "acme"}, {Account: "nobody"}, {}} {
		turns := h.allTurns(caller, command.ListTurns{})
		want := h.scanTurns(caller, func(*command.TurnSummary) bool { return true })
		slices.SortFunc(want, func(a, b command.TurnSummary) int {
			if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
				return c
			}
			return strings.Compare(b.SessionID, a.SessionID)
		})
		if diff := cmp.Diff(want, turns); diff != "" {
			h.Fatalf("turns for %+v (- scan, + index):\n%s", caller, diff)
		}
		h.checkFilters(caller)
		for _, words := range [][]string{{"alpha"}, {"beta", "gamma"}, {"alph*"}, {"über", "東"}, {"shell", "eta"}, {"absent"}, {"al*", "et*"}, {"ep*", "alpha"}} {
			h.checkWords(caller, words, command.Search{}, func(*event.Event) bool { return true })
		}
		h.checkSearchFilters(caller)
	}
}

func (h *history) checkFilters(caller command.Caller) {
	h.Helper()
	middle := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(h.now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) / 2)
	for _, c := range []struct {
		p    command.ListTurns
		keep func(*command.TurnSummary) bool
	}{
		{command.ListTurns{Status: "completed"}, func(s *command.TurnSummary) bool { return s.Status == "completed" }},
		{command.ListTurns{Status: "running", Account: "acme"}, func(s *command.TurnSummary) bool { return s.Status == "running" && s.Account == "acme" }},
		{command.ListTurns{Model: "small"}, func(s *command.TurnSummary) bool { return s.Model == "p/small" }},
		{command.ListTurns{Model: "p/large", Outcome: "answered"}, func(s *command.TurnSummary) bool { return s.Model == "p/large" && s.Outcome == "answered" }},
		{command.ListTurns{Tool: "shell"}, func(s *command.TurnSummary) bool { return slices.Contains(s.Tools, "shell") }},
		{command.ListTurns{Workspace: "/acme"}, func(s *command.TurnSummary) bool { return s.Workspace == "/acme" }},
		{command.ListTurns{From: middle}, func(s *command.TurnSummary) bool { return !s.StartedAt.Before(middle) }},
		{command.ListTurns{To: middle, Sort: "cost", Order: "asc"}, func(s *command.TurnSummary) bool { return s.StartedAt.Before(middle) }},
		{command.ListTurns{Query: "alpha bet*", Sort: "tokens"}, func(s *command.TurnSummary) bool {
			words := naiveWords(s.Preview)
			return slices.Contains(words, "alpha") && slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "bet") })
		}},
	} {
		got := h.allTurns(caller, c.p)
		want := h.scanTurns(caller, c.keep)
		byID := func(a, b command.TurnSummary) int { return strings.Compare(a.TurnID, b.TurnID) }
		for i := 1; i < len(got) && c.p.Sort == "cost"; i++ {
			if got[i].CostUSD < got[i-1].CostUSD {
				h.Fatalf("%+v: %v comes after %v", c.p, got[i].CostUSD, got[i-1].CostUSD)
			}
		}
		slices.SortFunc(got, byID)
		slices.SortFunc(want, byID)
		if diff := cmp.Diff(want, got); diff != "" {
			h.Fatalf("%+v for %+v (- scan, + index):\n%s", c.p, caller, diff)
		}
	}
}

// allTurns reads a list in small pages.
func (h *history) allTurns(caller command.Caller, p command.ListTurns) []command.TurnSummary {
	h.Helper()
	p.Limit = 1 + h.rng.IntN(9)
	var out []command.TurnSummary
	for {
		res := ask[command.ListTurnsResult](h, caller, &p)
		out = append(out, res.Turns...)
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			if res.Total != int64(len(out)) {
				h.Fatalf("the total is %d, the pages have %d turns", res.Total, len(out))
			}
			return out
		}
	}
}

func (h *history) checkWords(caller command.Caller, words []string, filter command.Search, keep func(*event.Event) bool) {
	h.Helper()
	var ordered []string
	tunings := slices.Sorted(maps.Keys(find.Tunings))
	if h.rng.IntN(4) > 0 {
		tunings = []string{tunings[h.rng.IntN(len(tunings))]}
	}
	for _, tuning := range tunings {
		find.Tune(h.finder, tuning)
		got := h.searchAll(caller, words, filter)
		if ordered == nil {
			ordered = slices.Clone(got)
		}
		if diff := cmp.Diff(ordered, got); diff != "" {
			h.Fatalf("%v %+v for %+v has another order %s:\n%s", words, filter, caller, tuning, diff)
		}
		slices.Sort(got)
		if diff := cmp.Diff(h.scanWords(caller, words, keep), got); diff != "" {
			h.Fatalf("%v %+v for %+v, %s (- scan, + index):\n%s", words, filter, caller, tuning, diff)
		}
	}
}

// searchAll reads the answer to a search in small pages.
func (h *history) searchAll(caller command.Caller, words []string, p command.Search) []string {
	h.Helper()
	got := []string{}
	p.Query = strings.Join(words, " ")
	p.Limit = 1 + h.rng.IntN(9)
	for {
		res := ask[command.SearchResult](h, caller, &p)
		for _, hit := range res.Hits {
			got = append(got, fmt.Sprintf("%s/%d", hit.SessionID, hit.Sequence))
			if !strings.Contains(hit.Snippet, "**") {
				h.Errorf("nothing is marked in %q", hit.Snippet)
			}
		}
		if p.Cursor = res.NextCursor; p.Cursor == "" {
			return got
		}
	}
}

// checkNothingIsLeft looks into the entries themselves for sessions that were deleted.
func (h *history) checkNothingIsLeft() {
	h.Helper()
	for _, kind := range []string{find.WordsName, find.TurnsName} {
		for e, err := range h.store.Scan(h.Context(), store.Scan{Kind: kind}) {
			if err != nil {
				h.Fatal(err)
			}
			for _, id := range h.sessions {
				if h.isDeleted(id) && (strings.Contains(string(e.Value), id+"\x00") || strings.Contains(e.Key, id+"/")) {
					h.Errorf("%s %s still has %s", kind, e.Key, id)
				}
			}
		}
	}
}

func (h *history) decode(raw event.Raw, into any) {
	h.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		h.Fatal(err)
	}
}
