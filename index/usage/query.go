package usage

import (
	"context"
	"iter"
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

// Rows answers a query, in no particular order.
func (q Query) Rows(ctx context.Context, s Entries) ([]Row, error) {
	a := &answer{Query: q, ctx: ctx, entries: s, places: map[rowKey]int{}, texts: []string{""}, numbers: map[string]uint32{"": 0}, rollup: rollupFor(q.By)}
	a.bound()
	if err := a.readLive(); err != nil {
		return nil, err
	}
	var err error
	switch q.Bucket {
	case Hour:
		err = a.readHours(a.first, a.end)
	case Day:
		err = a.readDays(a.first, a.end)
	default:
		err = a.readMonths(a.first, a.end)
	}
	if err != nil {
		return nil, err
	}
	return a.answerRows(), nil
}

// rowKey names a row. Its texts are numbered, because texts are slow to look up, and
// collecting garbage takes long where there are many.
type rowKey [1 + keyParts]uint32

// rowSums is a row that is being summed up.
type rowSums struct {
	key rowKey
	Figures
}

// answer is a query that is being answered.
type answer struct {
	Query
	ctx     context.Context //nolint:containedctx // an answer lives within one call
	entries Entries
	rollup  rollup
	// first and end bound the hours that are asked for.
	first, end time.Time
	// rows are what is answered, places where each is in it.
	rows   []rowSums
	places map[rowKey]int
	// texts are the texts of keys and buckets by their numbers, and the other way round.
	texts   []string
	numbers map[string]uint32
}

// Bounds of time: what is outside has no buckets in keys.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (a *answer) bound() {
	a.first, a.end = earliest, latest
	if !a.From.IsZero() && a.From.After(earliest) {
		a.first = a.From.UTC().Truncate(time.Hour)
	}
	if !a.To.IsZero() && a.To.Before(latest) {
		if a.end = a.To.UTC().Truncate(time.Hour); a.end.Before(a.To) {
			a.end = a.end.Add(time.Hour)
		}
	}
}

// addPack adds the rows of a pack of a bucket.
func (a *answer) addPack(bucket string, pack []byte) error {
	switch a.Bucket {
	case Hour:
	case Day:
		bucket = bucket[:len(dayForm)]
	case Month:
		bucket = bucket[:len(monthForm)]
	default:
		bucket = ""
	}
	number := a.numberOf([]byte(bucket))
	parts := [keyParts]Dimension{ByAccount, ByWorkspace, BySession, ByModel, ByTool}
	return eachRow(pack, a.numberOf, func(texts [keyParts]uint32, f *Figures) {
		key := rowKey{number}
		for i, part := range parts {
			if a.By&part != 0 {
				key[1+i] = texts[i]
			}
		}
		at, ok := a.places[key]
		if !ok {
			at = len(a.rows)
			a.places[key] = at
			a.rows = append(a.rows, rowSums{key: key})
		}
		a.rows[at].Sum(f)
	})
}

// numberOf returns the number of a text.
func (a *answer) numberOf(text []byte) uint32 {
	n, ok := a.numbers[string(text)]
	if !ok {
		n = uint32(len(a.texts))
		a.texts = append(a.texts, string(text))
		a.numbers[a.texts[n]] = n
	}
	return n
}

// answerRows returns the rows with their texts.
func (a *answer) answerRows() []Row {
	out := make([]Row, len(a.rows))
	starts := map[uint32]time.Time{}
	for i := range a.rows {
		k := &a.rows[i].key
		start, ok := starts[k[0]]
		if !ok {
			start = startOf(a.texts[k[0]])
			starts[k[0]] = start
		}
		out[i] = Row{
			Start: start, Figures: a.rows[i].Figures,
			Key: Key{Account: a.texts[k[1]], Workspace: a.texts[k[2]], Session: a.texts[k[3]], Model: a.texts[k[4]], Tool: a.texts[k[5]]},
		}
	}
	return out
}

// startOf returns the time that a bucket begins at.
func startOf(bucket string) time.Time {
	if bucket == "" {
		return time.Time{}
	}
	t, _ := time.Parse(hourForm[:len(bucket)], bucket) // keys have times; the zero time stands for a strange one
	return t
}

// readLive adds what is in no pack yet.
func (a *answer) readLive() error {
	prefix := "l/"
	if !a.Everyone {
		prefix += escapeAccount(a.Account) + "/"
	}
	first, end := a.first.Format(hourForm), a.end.Format(hourForm)
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
		if err := a.addPack(k.hour, e.Value); err != nil {
			return damaged(e.Key, err)
		}
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
		if err := a.addPack(bucket, e.Value); err != nil {
			return damaged(e.Key, err)
		}
	}
	return nil
}
