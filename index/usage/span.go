package usage

import (
	"errors"
	"iter"
	"strings"
	"time"

	"agentd/store"
)

// wholeMonths returns the months that lie in a span of time.
func wholeMonths(first, end time.Time) (from, to time.Time) {
	from = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC)
	if from.Before(first) {
		from = from.AddDate(0, 1, 0)
	}
	return from, time.Date(end.Year(), end.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// wholeDays returns the days that lie in a span of time.
func wholeDays(first, end time.Time) (from, to time.Time) {
	from = first.Truncate(24 * time.Hour)
	if from.Before(first) {
		from = from.AddDate(0, 0, 1)
	}
	return from, end.Truncate(24 * time.Hour)
}

// readMonths reads the packs of whole months, and of the days around them.
func (a *answer) readMonths(first, end time.Time) error {
	from, to := wholeMonths(first, end)
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
	from, to := wholeDays(first, end)
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
	for p, err := range a.packs(level, form, first, end) {
		if err != nil {
			return err
		}
		a.addSource(p.bucket, p.source)
	}
	return nil
}

// bucketPack is a pack and the bucket that it is of.
type bucketPack struct {
	bucket string
	*source
}

// packs yields the packs of a level in a span of time.
func (a *answer) packs(level, form string, first, end time.Time) iter.Seq2[bucketPack, error] {
	return func(yield func(bucketPack, error) bool) {
		if !first.Before(end) {
			return
		}
		prefix := packID{a.rollup.name, a.scope, level, ""}.key()
		from, stop := first.Format(form), end.Format(form)
		start := from
		if level == levelHour {
			start = from[:len(dayForm)]
		}
		for e, err := range a.entries.Scan(a.ctx, store.Scan{Kind: Name, Prefix: prefix, After: before(prefix + start)}) {
			if err != nil {
				yield(bucketPack{}, err)
				return
			}
			bucket := strings.TrimPrefix(e.Key, prefix)
			if bucket >= stop {
				return
			}
			packs, err := packsOf(level, bucket, &e)
			if err != nil {
				yield(bucketPack{}, err)
				return
			}
			for _, p := range packs {
				if p.bucket >= from && p.bucket < stop && !yield(p, nil) {
					return
				}
			}
		}
	}
}

// packsOf returns the packs that an entry has: its own, or those of the hours of a day.
func packsOf(level, bucket string, e *store.Entry) ([]bucketPack, error) {
	if level != levelHour {
		s, err := openPack(e.Key, e.Value)
		return []bucketPack{{bucket, s}}, err
	}
	segments, err := openSegments(e.Key, e.Value)
	packs := make([]bucketPack, 0, len(segments))
	for _, s := range segments {
		packs = append(packs, bucketPack{s.hour, s.source})
	}
	return packs, err
}

// packOf returns the pack of a bucket, which there is.
func (a *answer) packOf(level, bucket string) (*source, error) {
	id := packID{a.rollup.name, a.scope, level, bucket}
	if level == levelHour {
		id.bucket = bucket[:len(dayForm)]
	}
	e := store.Entry{Key: id.key()}
	if a.opened.key != e.Key {
		var err error
		if e.Value, err = a.entries.Get(a.ctx, Name, e.Key); errors.Is(err, store.ErrNotFound) {
			return nil, damaged(e.Key, err)
		}
		if err != nil {
			return nil, err
		}
		if a.opened.packs, err = packsOf(level, bucket, &e); err != nil {
			return nil, err
		}
		a.opened.key = e.Key
	}
	for _, p := range a.opened.packs {
		if p.bucket == bucket {
			return p.source, nil
		}
	}
	return nil, damaged(e.Key, errPack)
}

// before returns a key before one that ends with a digit, and after all before it that are
// as long.
func before(key string) string { return key[:len(key)-1] + string(key[len(key)-1]-1) + "~" }
