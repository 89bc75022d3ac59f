package usage

import (
	"cmp"
	"slices"
	"time"
)

// candidate is a row of an answer while it is looked at: its texts are parts of packs.
type candidate struct {
	parts [keyParts][]byte
	Figures
}

// firstRows are those rows of an answer that come first, so many as are wanted. Buckets
// are offered in their order.
type firstRows struct {
	wanted int
	rows   []foundRow
	// last is the last of the wanted rows, once there were more of them. What comes after
	// it is not kept.
	last *foundRow
}

type foundRow struct {
	bucket string
	Key
	Figures
}

// full reports whether no row of another bucket is wanted.
func (f *firstRows) full() bool { return len(f.rows) >= f.wanted }

// offer keeps a row if it may be one of the first.
func (f *firstRows) offer(bucket string, c *candidate) {
	if f.wanted == 0 || f.last != nil && c.compareTo(f.last, bucket) >= 0 {
		return
	}
	f.rows = append(f.rows, foundRow{bucket, c.key(), c.Figures})
	if len(f.rows)/2 >= f.wanted {
		f.cut()
		last := f.rows[f.wanted-1]
		f.last = &last
	}
}

// cut sorts the rows, and forgets those that aren't wanted.
func (f *firstRows) cut() {
	slices.SortFunc(f.rows, func(a, b foundRow) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), compareFigures(&a.Figures, &b.Figures), cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Tool, b.Tool))
	})
	f.rows = f.rows[:min(f.wanted, len(f.rows))]
}

// inOrder returns the rows.
func (f *firstRows) inOrder() []Row {
	f.cut()
	var out []Row
	for i := range f.rows {
		r := &f.rows[i]
		out = append(out, Row{Start: startOf(r.bucket), Key: r.Key, Figures: r.Figures})
	}
	return out
}

// compareFigures orders rows of a bucket: those that used most come first.
func compareFigures(a, b *Figures) int {
	for _, figure := range [...]int{CostNanoUSD, Turns, ToolCalls} {
		if c := cmp.Compare(b[figure], a[figure]); c != 0 {
			return c
		}
	}
	return 0
}

// compareTo orders a candidate and a row as [firstRows.cut] does.
func (c *candidate) compareTo(r *foundRow, bucket string) int {
	if n := cmp.Or(cmp.Compare(bucket, r.bucket), compareFigures(&c.Figures, &r.Figures)); n != 0 {
		return n
	}
	for i, text := range [keyParts]string{r.Account, r.Workspace, r.Session, r.Model, r.Tool} {
		if part := c.parts[i]; string(part) != text {
			if string(part) < text {
				return -1
			}
			return 1
		}
	}
	return 0
}

func (c *candidate) key() Key {
	p := &c.parts
	return Key{string(p[0]), string(p[1]), string(p[2]), string(p[3]), string(p[4])}
}

// startOf returns the time that a bucket begins at.
func startOf(bucket string) time.Time {
	if bucket == "" {
		return time.Time{}
	}
	t, _ := time.Parse(hourForm[:len(bucket)], bucket) // keys have times; the zero time stands for a strange one
	return t
}
