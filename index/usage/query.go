package usage

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"agentd/store"
)

// Bucket is what times are grouped by.
type Bucket string

// Buckets. Without one everything is one row.
const (
	NoBucket Bucket = ""
	Hour     Bucket = "hour"
	Day      Bucket = "day"
	Month    Bucket = "month"
)

// Query asks for sums.
type Query struct {
	// By are the parts of the key that rows have.
	By Dimension
	// Bucket is how rows are split by time.
	Bucket Bucket
	// From and To bound the time, To excluded; both are moved outwards to whole hours. A
	// zero time is no bound.
	From, To time.Time
	// Account is whose sums are asked for; with Everyone those of all accounts.
	Account  string
	Everyone bool
}

// Row is what was used in a bucket.
type Row struct {
	// Start of the bucket; zero without one.
	Start time.Time
	Key   Key
	Figures
}

// Entries is what queries read.
type Entries interface {
	// Get returns one index entry's value, or [store.ErrNotFound].
	Get(ctx context.Context, kind, key string) ([]byte, error)
	// Scan yields index entries. See [store.Store].
	Scan(ctx context.Context, s store.Scan) iter.Seq2[store.Entry, error]
}

// Rows answers a query with all rows, ordered as [Query.First] orders them.
func (q Query) Rows(ctx context.Context, s Entries) ([]Row, error) {
	rows, _, err := q.First(ctx, s, math.MaxInt)
	return rows, err
}

// First answers a query with its first rows, by bucket and then those that used most, and
// with how many rows there are.
func (q Query) First(ctx context.Context, s Entries, n int) (rows []Row, total int, err error) {
	for {
		before, err := loadState(ctx, s)
		if err != nil {
			return nil, 0, err
		}
		a := newAnswer(ctx, q, s, n)
		failed := a.findRows(before.Generation)
		after, err := loadState(ctx, s)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case after.Generation != before.Generation: // sums went elsewhere while they were read
		case failed != nil:
			return nil, 0, failed
		default:
			return a.rows, a.total, nil
		}
	}
}

// answer is a query that is being answered.
type answer struct {
	Query
	ctx     context.Context //nolint:containedctx // an answer lives within one call
	entries Entries
	// scope is the part of keys that says whose packs are read.
	scope string
	// by are the parts of keys that rows differ in, parts their places.
	by     Dimension
	parts  []int
	rollup rollup
	// from and end bound the hours that are asked for.
	from, end time.Time
	// opened has the packs of the entry that was read last by its key.
	opened struct {
		key   string
		packs []bucketPack
	}
	// buckets have what is not in the one pack that a bucket of the answer mostly has.
	buckets map[string][]*source
	// texts sums up what isn't by session, sessions what is.
	texts    textSums
	sessions *sessionSums
	// rows are those that come first, of which so many are wanted; total is how many there are.
	rows   []Row
	wanted int
	total  int
}

func newAnswer(ctx context.Context, q Query, s Entries, n int) *answer {
	a := &answer{Query: q, ctx: ctx, entries: s, wanted: n, scope: everyone, by: q.By, buckets: map[string][]*source{}}
	if !q.Everyone { // all rows have the same account
		a.scope = escapeAccount(q.Account)
		a.by &^= ByAccount
	}
	a.rollup = rollupFor(a.by)
	for part := range keyParts {
		if a.by&(1<<part) != 0 {
			a.parts = append(a.parts, part)
		}
	}
	a.from, a.end = earliest, latest
	if !q.From.IsZero() && q.From.After(earliest) {
		a.from = q.From.UTC().Truncate(time.Hour)
	}
	if !q.To.IsZero() && q.To.Before(latest) {
		if a.end = q.To.UTC().Truncate(time.Hour); a.end.Before(q.To) {
			a.end = a.end.Add(time.Hour)
		}
	}
	return a
}

// Bounds of time: what is outside has no buckets in keys.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// full reports whether no more rows are wanted.
func (a *answer) full() bool { return len(a.rows) >= a.wanted }

// findRows reads what is stored in a generation, and answers.
func (a *answer) findRows(generation uint64) error {
	if err := a.readFresh(generation); err != nil {
		return err
	}
	switch a.Bucket {
	case Hour:
		return a.findBuckets(levelHour, hourForm, a.from, a.end)
	case Day:
		from, to := wholeDays(a.from, a.end)
		if !from.Before(to) {
			return a.findRest(a.readHours(a.from, a.end))
		}
		if err := cmp.Or(a.readHours(a.from, from), a.readHours(to, a.end)); err != nil {
			return err
		}
		return a.findBuckets(levelDay, dayForm, from, to)
	case Month:
		from, to := wholeMonths(a.from, a.end)
		if !from.Before(to) {
			return a.findRest(a.readDays(a.from, a.end))
		}
		if err := cmp.Or(a.readDays(a.from, from), a.readDays(to, a.end)); err != nil {
			return err
		}
		return a.findBuckets(levelMonth, monthForm, from, to)
	default:
		return a.findRest(a.readMonths(a.from, a.end))
	}
}

// findRest answers from what was read.
func (a *answer) findRest(err error) error {
	if err != nil {
		return err
	}
	for _, bucket := range slices.Sorted(maps.Keys(a.buckets)) {
		if err := a.sumUp(bucket); err != nil {
			return err
		}
	}
	return nil
}

// findBuckets answers from the packs of buckets and from what was read beside them: with
// rows as long as some are wanted, then it counts.
func (a *answer) findBuckets(level, form string, from, to time.Time) error {
	last, beside := "", slices.Sorted(maps.Keys(a.buckets))
	// sumTo sums up what was read of buckets before one.
	sumTo := func(end string) error {
		for ; len(beside) > 0 && beside[0] < end && !a.full(); beside = beside[1:] {
			last = beside[0]
			if err := a.sumUp(last); err != nil {
				return err
			}
		}
		return nil
	}
	for p, err := range a.packs(level, form, from, to) {
		if err != nil {
			return err
		}
		if err := sumTo(p.bucket); err != nil {
			return err
		}
		if a.full() {
			break
		}
		if len(beside) > 0 && beside[0] == p.bucket {
			beside = beside[1:]
		}
		a.addSource(p.bucket, p.source)
		last = p.bucket
		if err := a.sumUp(p.bucket); err != nil {
			return err
		}
	}
	if !a.full() {
		if err := sumTo("~"); err != nil || !a.full() {
			return err
		}
	}
	return a.countRest(level, last, from.Format(form), to.Format(form))
}

// countRest counts the rows of the buckets after one.
func (a *answer) countRest(level, last, first, end string) error {
	var both []string // are packed, and something was read beside
	err := a.countPacked(level, last, first, end, func(bucket string, rows int) {
		if a.buckets[bucket] == nil {
			a.total += rows
		} else {
			both = append(both, bucket)
		}
	})
	if err != nil {
		return err
	}
	for _, bucket := range both {
		s, err := a.packOf(level, bucket)
		if err != nil {
			return err
		}
		a.addSource(bucket, s)
	}
	return a.findRest(nil)
}

// addSource adds what was read to the bucket of the answer that it is in.
func (a *answer) addSource(bucket string, s *source) {
	switch a.Bucket {
	case Hour:
	case Day:
		bucket = bucket[:len(dayForm)]
	case Month:
		bucket = bucket[:len(monthForm)]
	default:
		bucket = ""
	}
	a.buckets[bucket] = append(a.buckets[bucket], s)
}

// readFresh reads what is in no pack yet.
func (a *answer) readFresh(generation uint64) error {
	first, end := a.from.Format(hourForm), a.end.Format(hourForm)
	fresh := func(hour string, s *source) {
		s.repeats = true
		if hour >= first && hour < end && (a.Everyone || s.keepAccount(a.Account)) {
			a.addSource(hour, s)
		}
	}
	prefix := livePrefix(generation)
	if !a.Everyone {
		prefix += a.scope + "/"
	}
	for e, err := range a.entries.Scan(a.ctx, store.Scan{Kind: Name, Prefix: prefix}) {
		if err != nil {
			return err
		}
		k, ok := parseLiveKey(e.Key)
		if !ok {
			return damaged(e.Key, errPack)
		}
		s, err := openPack(e.Key, e.Value)
		if err != nil {
			return err
		}
		fresh(k.hour, s)
	}
	recent, err := openRecent(a.ctx, a.entries)
	for _, s := range recent {
		fresh(s.hour, s.source)
	}
	return err
}
