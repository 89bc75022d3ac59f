package usage

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"

	"agentd/store"
)

// allDimensions is how many sets of parts of a key there are.
const allDimensions = 1 << keyParts

// bucketCounts are how many rows a bucket has, by the parts of the key that they have. So
// a query needn't read buckets of which it answers no row.
type bucketCounts [allDimensions]uint64

// bucketID names a bucket of an account, or of everyone.
type bucketID struct{ account, level, bucket string }

// spanForms say by how many letters of a bucket the entries of counts are named: those of
// the hours of a month, and of the days and months of a year, are together.
var spanForms = map[string]int{levelHour: len(monthForm), levelDay: len("2006"), levelMonth: len("2006")}

func countsKey(account, level, span string) string {
	return "c/" + account + "/" + level + "/" + span
}

// countRows counts the rows of a pack that is written, if others follow from them.
func (w *packer) countRows(id packID, bucket string, d *dictionary, groups []group) error {
	if id.rollup != whole.name && id.rollup != sessionless.name {
		return nil
	}
	at := bucketID{id.account, id.level, bucket}
	c := w.counts[at]
	if c == nil {
		c = &bucketCounts{}
		w.counts[at] = c
	}
	texts := uint64(len(d.texts))
	if id.rollup == sessionless.name {
		for i := range groups {
			if err := groups[i].countDistinct(c, 0, texts); err != nil {
				return damaged(id.key(), err)
			}
		}
		return nil
	}
	rows := 0
	for i := range groups {
		g := &groups[i]
		rows += int(g.pairs)
		if g.mixed {
			if err := g.countDistinct(c, BySession, texts); err != nil {
				return damaged(id.key(), err)
			}
			continue
		}
		for by := range Dimension(allDimensions) {
			if by&BySession != 0 {
				c[by] += uint64(g.countBy(by, 1))
			}
		}
	}
	w.rows = max(w.rows, rows)
	return nil
}

// countDistinct adds how many different rows a group has by each set of parts; with is in
// all of them.
func (g *group) countDistinct(c *bucketCounts, with Dimension, texts uint64) error {
	r := rowReader{packReader: packReader{rest: g.rows}, mixed: g.mixed, texts: texts}
	r.places[accountPart], r.places[workspacePart] = g.account, g.workspace
	var keys []rowKey
	for r.next() {
		r.skipFigures()
		var key rowKey
		for i, n := range r.places {
			key[i] = uint32(n)
		}
		keys = append(keys, key)
	}
	if r.failed {
		return errPack
	}
	var set keySet
	for by := range Dimension(allDimensions) {
		if by&BySession != 0 {
			continue
		}
		set.reset()
		for _, key := range keys {
			for part := range key {
				if by&(1<<part) == 0 {
					key[part] = 0
				}
			}
			set.place(&key)
		}
		c[by|with] += uint64(len(set.keys))
	}
	return nil
}

// storeCounts writes the counts of the buckets that were written.
func (w *packer) storeCounts(ctx context.Context) error {
	entries := map[string]map[string]*bucketCounts{}
	for id, c := range w.counts {
		cut := spanForms[id.level]
		key := countsKey(id.account, id.level, id.bucket[:cut])
		if entries[key] == nil {
			entries[key] = map[string]*bucketCounts{}
		}
		entries[key][id.bucket[cut:]] = c
	}
	for key, buckets := range entries {
		old, err := w.read.Get(ctx, Name, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		err = eachCount(key, old, func(bucket string, c *bucketCounts) {
			if buckets[bucket] == nil {
				copied := *c
				buckets[bucket] = &copied
			}
		})
		if err != nil {
			return err
		}
		w.ops = append(w.ops, storeOp(key, encodeCounts(buckets)))
	}
	return nil
}

func encodeCounts(buckets map[string]*bucketCounts) []byte {
	var b []byte
	for _, bucket := range slices.Sorted(maps.Keys(buckets)) {
		b = binary.AppendUvarint(b, uint64(len(bucket)))
		b = append(b, bucket...)
		for _, n := range buckets[bucket] {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// eachCount calls do with the counts of an entry, in the order of buckets. They are used
// again.
func eachCount(key string, value []byte, do func(bucket string, c *bucketCounts)) error {
	d := packReader{rest: value}
	var c bucketCounts
	for len(d.rest) > 0 && !d.failed {
		bucket := d.bytes(d.number())
		for i := range c {
			c[i] = d.number()
		}
		if !d.failed {
			do(string(bucket), &c)
		}
	}
	if d.failed {
		return damaged(key, errPack)
	}
	return nil
}

// countPacked calls do with how many rows the packed buckets of the answer after one have.
func (a *answer) countPacked(level, after, first, end string, do func(bucket string, rows int)) error {
	cut := spanForms[level]
	prefix := countsKey(a.scope, level, "")
	from := max(first, after)[:cut]
	for e, err := range a.entries.Scan(a.ctx, store.Scan{Kind: Name, Prefix: prefix, After: before(prefix + from)}) {
		if err != nil {
			return err
		}
		span := strings.TrimPrefix(e.Key, prefix)
		if len(span) != cut {
			return damaged(e.Key, errPack)
		}
		if span > end[:cut] {
			return nil
		}
		err := eachCount(e.Key, e.Value, func(rest string, c *bucketCounts) {
			if bucket := span + rest; bucket >= first && bucket < end && bucket > after {
				do(bucket, int(c[a.by]))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
