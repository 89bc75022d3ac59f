package usage

import (
	"context"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
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
	a := &answer{Query: q, ctx: ctx, entries: s, rollup: rollupFor(q.By), first: firstRows{wanted: n}}
	for i, part := range [keyParts]Dimension{ByAccount, ByWorkspace, BySession, ByModel, ByTool} {
		if q.By&part != 0 {
			a.parts = append(a.parts, i)
		}
	}
	a.bound()
	if err := a.readLive(); err != nil {
		return nil, 0, err
	}
	switch q.Bucket {
	case Hour:
		err = a.readHours(a.from, a.end)
	case Day:
		err = a.readDays(a.from, a.end)
	default:
		err = a.readMonths(a.from, a.end)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, bucket := range slices.Sorted(maps.Keys(a.buckets)) {
		if err := a.sumUp(bucket, a.buckets[bucket]); err != nil {
			return nil, 0, err
		}
	}
	return a.first.inOrder(), a.total, nil
}

// answer is a query that is being answered.
type answer struct {
	Query
	ctx     context.Context //nolint:containedctx // an answer lives within one call
	entries Entries
	rollup  rollup
	// parts are the places of the parts of keys that are asked for.
	parts []int
	// from and end bound the hours that are asked for.
	from, end time.Time
	// buckets have the packs of each bucket of the answer.
	buckets map[string][]pack
	// texts sums up what isn't by session.
	texts textSums
	// first are the rows that come first, total is how many there are.
	first firstRows
	total int
}

// pack is what is stored in an entry.
type pack struct {
	key  string
	rows []byte
	// has are the parts of the keys of its rows.
	has Dimension
}

// Bounds of time: what is outside has no buckets in keys.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (a *answer) bound() {
	a.from, a.end = earliest, latest
	if !a.From.IsZero() && a.From.After(earliest) {
		a.from = a.From.UTC().Truncate(time.Hour)
	}
	if !a.To.IsZero() && a.To.Before(latest) {
		if a.end = a.To.UTC().Truncate(time.Hour); a.end.Before(a.To) {
			a.end = a.end.Add(time.Hour)
		}
	}
}

// bucketOf returns the bucket of the answer that one of a pack is in.
func (a *answer) bucketOf(bucket string) string {
	switch a.Bucket {
	case Hour:
		return bucket
	case Day:
		return bucket[:len(dayForm)]
	case Month:
		return bucket[:len(monthForm)]
	default:
		return ""
	}
}

// addPack adds a pack to the bucket of the answer that it is in.
func (a *answer) addPack(bucket string, p pack) {
	if a.buckets == nil {
		a.buckets = map[string][]pack{}
	}
	bucket = a.bucketOf(bucket)
	a.buckets[bucket] = append(a.buckets[bucket], p)
}

// readLive adds what is in no pack yet.
func (a *answer) readLive() error {
	prefix := "l/"
	if !a.Everyone {
		prefix += escapeAccount(a.Account) + "/"
	}
	first, end := a.from.Format(hourForm), a.end.Format(hourForm)
	for e, err := range a.entries.Scan(a.ctx, store.Scan{Kind: Name, Prefix: prefix}) {
		if err != nil {
			return err
		}
		k, ok := parseLiveKey(e.Key)
		if !ok {
			return damaged(e.Key, errPack)
		}
		if k.hour < first || k.hour >= end {
			continue
		}
		a.addPack(k.hour, pack{e.Key, e.Value, whole.has})
	}
	return nil
}

// readMonths reads the packs of whole months, and of the days around them.
func (a *answer) readMonths(first, end time.Time) error {
	from := time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
	if from.Before(first) {
		from = from.AddDate(0, 1, 0)
	}
	to := time.Date(end.Year(), end.Month(), 1, 0, 0, 0, 0, time.UTC)
	if !from.Before(to) {
		return a.readDays(first, end)
	}
	if err := a.readDays(first, from); err != nil {
		return err
	}
	if err := a.readPacks(levelMonth, monthForm, from, to); err != nil {
		return err
	}
	return a.readDays(to, end)
}

// readDays reads the packs of whole days, and of the hours around them.
func (a *answer) readDays(first, end time.Time) error {
	from := first.Truncate(24 * time.Hour)
	if from.Before(first) {
		from = from.AddDate(0, 0, 1)
	}
	to := end.Truncate(24 * time.Hour)
	if !from.Before(to) {
		return a.readHours(first, end)
	}
	if err := a.readHours(first, from); err != nil {
		return err
	}
	if err := a.readPacks(levelDay, dayForm, from, to); err != nil {
		return err
	}
	return a.readHours(to, end)
}

func (a *answer) readHours(first, end time.Time) error {
	return a.readPacks(levelHour, hourForm, first, end)
}

// readPacks adds the packs of a level in a span of time.
func (a *answer) readPacks(level, form string, first, end time.Time) error {
	if !first.Before(end) {
		return nil
	}
	account, r := everyone, a.rollup
	if !a.Everyone {
		account = escapeAccount(a.Account)
		if level == levelHour {
			r = whole
		}
	}
	prefix := packKey(r, account, level, "")
	// The key before the first one: no bucket is as short.
	after := prefix + first.Format(form)
	after = after[:len(after)-1] + string(after[len(after)-1]-1) + "~"
	stop := end.Format(form)
	for e, err := range a.entries.Scan(a.ctx, store.Scan{Kind: Name, Prefix: prefix, After: after}) {
		if err != nil {
			return err
		}
		bucket := strings.TrimPrefix(e.Key, prefix)
		if bucket >= stop {
			return nil
		}
		a.addPack(bucket, pack{e.Key, e.Value, r.has})
	}
	return nil
}
