package usage

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"iter"
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

// Rows answers a query, in no particular order.
func (q Query) Rows(ctx context.Context, s Entries) ([]Row, error) {
	a, err := q.sumUp(ctx, s, math.MaxUint32)
	if err != nil {
		return nil, err
	}
	out := make([]Row, a.count)
	for i := range out {
		out[i] = a.answerRow(a.row(uint32(i)))
	}
	return out, nil
}

// First answers a query with its first rows, by bucket and then those that used most, and
// with how many rows there are.
func (q Query) First(ctx context.Context, s Entries, n int) (rows []Row, total int, err error) {
	a, err := q.sumUp(ctx, s, uint32(n))
	if err != nil {
		return nil, 0, err
	}
	for _, r := range a.firstRows(n) {
		rows = append(rows, a.answerRow(r))
	}
	return rows, int(a.count + a.behind), nil
}

// sumUp sums up at least as many of the first rows as are wanted, and counts the others.
func (q Query) sumUp(ctx context.Context, s Entries, wanted uint32) (*answer, error) {
	a := &answer{Query: q, ctx: ctx, entries: s, wanted: wanted, seed: maphash.MakeSeed(), rollup: rollupFor(q.By)}
	a.numberOf(nil) // 0 is the empty text
	for i, part := range [keyParts]Dimension{ByAccount, ByWorkspace, BySession, ByModel, ByTool} {
		if q.By&part != 0 {
			a.parts = append(a.parts, i)
		}
	}
	a.bound()
	if err := a.readLive(); err != nil {
		return nil, err
	}
	a.live = a.count
	var err error
	switch q.Bucket {
	case Hour:
		err = a.readHours(a.first, a.end)
	case Day:
		err = a.readDays(a.first, a.end)
	default:
		err = a.readMonths(a.first, a.end)
	}
	return a, err
}

// rowKey names a row: the numbers of its bucket and of the texts of its key.
type rowKey [1 + keyParts]uint32

func (k *rowKey) hash() uint32 {
	h := uint64(0)
	for _, n := range k {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return uint32(h >> 32)
}

// rowSums is a row that is being summed up.
type rowSums struct {
	key rowKey
	Figures
}

// answer is a query that is being answered. There may be very many rows: what is kept of
// them has no pointers, and becomes a [Row] only if it is answered.
type answer struct {
	Query
	ctx     context.Context //nolint:containedctx // an answer lives within one call
	entries Entries
	rollup  rollup
	// parts are the places of the parts of keys that are asked for.
	parts []int
	// first and end bound the hours that are asked for.
	first, end time.Time
	// rows are what is answered, in blocks; byKey finds them.
	rows  [][]rowSums
	count uint32
	byKey finder
	// live is how many of them have sums that are in no pack, and liveBuckets are their
	// buckets. wanted is how many rows are answered, behind counts some that come later.
	live, wanted, behind uint32
	liveBuckets          map[string]bool
	// texts are the texts of keys and buckets by their numbers, parts of the packs; byText
	// finds them.
	texts  [][]byte
	byText finder
	seed   maphash.Seed
}

// rowBlock is how many rows are in a block.
const rowBlock = 512

func (a *answer) row(i uint32) *rowSums { return &a.rows[i/rowBlock][i%rowBlock] }

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

// addPack adds the rows of a pack of a bucket.
func (a *answer) addPack(bucket string, pack []byte) error {
	number := a.numberOf([]byte(a.bucketOf(bucket)))
	return eachRow(pack, a.numberOf, func(texts [keyParts]uint32, f *Figures) {
		key := rowKey{number}
		for _, i := range a.parts {
			key[1+i] = texts[i]
		}
		a.rowOf(&key).Sum(f)
	})
}

// addOrCount adds a pack, or only counts its rows if they come after those that are wanted.
// Packs come by their time. One that is a bucket of its own, and has no other parts than
// those that are asked for, has as many rows as the answer has for that bucket.
func (a *answer) addOrCount(bucket string, pack []byte, of rollup) error {
	own := a.Bucket != NoBucket && a.bucketOf(bucket) == bucket
	if !own || of.has != a.By || a.count-a.live < a.wanted || a.liveBuckets[bucket] {
		return a.addPack(bucket, pack)
	}
	n, err := rowsInPack(pack)
	a.behind += n
	return err
}

// rowOf returns the row of a key.
func (a *answer) rowOf(key *rowKey) *rowSums {
	at, found := a.byKey.find(key.hash(), func(at uint32) bool { return a.row(at).key == *key })
	if !found {
		if a.count++; at%rowBlock == 0 {
			a.rows = append(a.rows, make([]rowSums, rowBlock))
		}
		a.row(at).key = *key
	}
	return a.row(at)
}

// numberOf returns the number of a text, which stays as it is.
func (a *answer) numberOf(text []byte) uint32 {
	n, found := a.byText.find(uint32(maphash.Bytes(a.seed, text)), func(n uint32) bool { return bytes.Equal(a.texts[n], text) })
	if !found {
		a.texts = append(a.texts, text)
	}
	return n
}

// compareRows orders rows: by bucket, then those that used most.
func (a *answer) compareRows(x, y *rowSums) int {
	if c := a.compareTexts(x.key[0], y.key[0]); c != 0 {
		return c
	}
	for _, figure := range [...]int{CostNanoUSD, Turns, ToolCalls} {
		if c := cmp.Compare(y.Figures[figure], x.Figures[figure]); c != 0 {
			return c
		}
	}
	for i := 1; i < len(x.key); i++ {
		if c := a.compareTexts(x.key[i], y.key[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (a *answer) compareTexts(x, y uint32) int {
	if x == y {
		return 0
	}
	return bytes.Compare(a.texts[x], a.texts[y])
}

// firstRows returns the first rows in order. Few of many are found without sorting all.
func (a *answer) firstRows(n int) []*rowSums {
	var first []*rowSums
	for i := range a.count {
		r := a.row(i)
		if len(first) == n && (n == 0 || a.compareRows(r, first[n-1]) >= 0) {
			continue
		}
		if len(first) == n {
			first = first[:n-1]
		}
		at, _ := slices.BinarySearchFunc(first, r, a.compareRows)
		first = slices.Insert(first, at, r)
	}
	return first
}

// answerRow returns a row with its texts.
func (a *answer) answerRow(r *rowSums) Row {
	text := func(i int) string { return string(a.texts[r.key[i]]) }
	return Row{
		Start: startOf(text(0)), Figures: r.Figures,
		Key: Key{Account: text(1), Workspace: text(2), Session: text(3), Model: text(4), Tool: text(5)},
	}
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
	a.liveBuckets = map[string]bool{}
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
		a.liveBuckets[a.bucketOf(k.hour)] = true
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
		if err := a.addOrCount(bucket, e.Value, r); err != nil {
			return damaged(e.Key, err)
		}
	}
	return nil
}
