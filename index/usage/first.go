package usage

import (
	"bytes"
	"slices"
	"time"
)

// topRow is a row of an answer while it is looked at: its texts are parts of packs.
type topRow struct {
	parts [keyParts][]byte
	Figures
	// order is that of the figures, once it is offered.
	order order
}

func (r *topRow) key() Key {
	p := &r.parts
	return Key{string(p[0]), string(p[1]), string(p[2]), string(p[3]), string(p[4])}
}

// compare orders the rows of a bucket: those that used most come first.
func (r *topRow) compare(other *topRow) int {
	if c := r.order.compare(&other.order); c != 0 {
		return c
	}
	return compareParts(&r.parts, &other.parts)
}

func compareParts(a, b *[keyParts][]byte) int {
	for i := range a {
		if c := bytes.Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// topRows are the rows of a bucket that come first, so many as are wanted.
type topRows struct {
	wanted int
	rows   []*topRow
	// last is the last of the wanted rows, once there are so many. What comes after it is
	// not kept.
	last *topRow
}

// offer keeps a copy of a row if it may be one of the first.
func (t *topRows) offer(r *topRow) {
	r.order = r.Figures.order()
	if t.wanted == 0 || t.last != nil && r.compare(t.last) >= 0 {
		return
	}
	kept := *r
	t.rows = append(t.rows, &kept)
	if len(t.rows)/2 >= t.wanted {
		t.cut()
	}
}

// cut sorts the rows, and forgets those that aren't wanted.
func (t *topRows) cut() {
	slices.SortFunc(t.rows, (*topRow).compare)
	if len(t.rows) >= t.wanted && t.wanted > 0 {
		clear(t.rows[t.wanted:])
		t.rows = t.rows[:t.wanted]
		t.last = t.rows[t.wanted-1]
	}
}

func (t *topRows) inOrder() []*topRow {
	t.cut()
	return t.rows
}

// startOf returns the time that a bucket begins at.
func startOf(bucket string) time.Time {
	if bucket == "" {
		return time.Time{}
	}
	t, _ := time.Parse(hourForm[:len(bucket)], bucket) // keys have times; the zero time stands for a strange one
	return t
}
