package usage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"agentd/index"
	"agentd/store"
)

// packID names a pack: its rollup, its account or everyone's, its level and its bucket. The
// hours of a day are together.
type packID struct{ rollup, account, level, bucket string }

// groupID names a group of a pack: its hour, if the pack has hours, and its session.
type groupID struct{ hour, session string }

func (id packID) key() string {
	return "p/" + id.rollup + "/" + id.account + "/" + id.level + "/" + id.bucket
}

// chunkKey returns the key of rows of a pack that are not in its own entry.
func chunkKey(pack string, i int) string { return "q" + pack[1:] + "/" + strconv.Itoa(i) }

// addition is what is added to a group. Its rows are those of others, too, until there are
// more than theirs.
type addition struct {
	rows sums
	own  bool
}

// addRows adds rows, which must not be changed afterwards.
func (a *addition) addRows(rows sums) {
	if a.rows == nil {
		a.rows = rows
		return
	}
	if !a.own {
		shared := a.rows
		a.rows, a.own = make(sums, len(shared)+len(rows)), true
		a.rows.addAll(shared)
	}
	a.rows.addAll(rows)
}

// packer adds sums to packs.
type packer struct {
	read      index.Reader
	chunkSize int
	// packs are what is added.
	packs map[packID]map[groupID]*addition
	// counts are how many rows buckets have.
	counts map[bucketID]*bucketCounts
	ops    []store.IndexOp
	// rows is how many the largest pack has.
	rows int
}

// addSums adds the sums of a session in an hour: to all levels of its account and of all
// accounts.
func (w *packer) addSums(k liveKey, s sums) error {
	at, err := time.Parse(hourForm, k.hour)
	if err != nil {
		return damaged(k.entryKey(0), err)
	}
	day := at.Format(dayForm)
	levels := [...][3]string{{levelHour, day, k.hour}, {levelDay, day, ""}, {levelMonth, at.Format(monthForm), ""}}
	own := escapeAccount(k.account)
	for _, r := range rollups {
		// A session has few rows that differ in what the rollup has: they are summed up
		// before they go into many packs.
		kept, session := s, k.session
		if r != whole {
			session = ""
			kept = make(sums, len(s))
			for key, f := range s {
				kept.record(r.has.keepParts(key), f)
			}
		}
		for _, level := range levels {
			in := groupID{level[2], session}
			w.addTo(packID{r.name, everyone, level[0], level[1]}, in, kept)
			w.addTo(packID{r.name, own, level[0], level[1]}, in, kept)
		}
	}
	return nil
}

func (w *packer) addTo(id packID, in groupID, rows sums) {
	groups := w.packs[id]
	if groups == nil {
		groups = map[groupID]*addition{}
		w.packs[id] = groups
	}
	s := groups[in]
	if s == nil {
		s = &addition{}
		groups[in] = s
	}
	s.addRows(rows)
}

// finish returns the changes: the packs with what they had before, and the counts.
func (w *packer) finish(ctx context.Context) ([]store.IndexOp, error) {
	for id, added := range w.packs {
		rewrite := w.rewrite
		if id.level == levelHour {
			rewrite = w.rewriteHours
		}
		if err := rewrite(ctx, id, added); err != nil {
			return nil, err
		}
	}
	if err := w.storeCounts(ctx); err != nil {
		return nil, err
	}
	return w.ops, nil
}

// rewrite adds sums to a pack. Groups that nothing is added to are copied as they are: the
// texts that a pack has keep their places.
func (w *packer) rewrite(ctx context.Context, id packID, added map[groupID]*addition) error {
	key := id.key()
	value, err := w.oldValue(ctx, key)
	if err != nil {
		return err
	}
	var old *source
	d := newDictionary()
	if value != nil {
		if old, err = openPack(key, value); err != nil {
			return err
		}
		d.adopt(old.texts)
	}
	groups, err := w.joinGroups(ctx, d, old, "", added)
	if err != nil {
		return err
	}
	value, chunks := appendGroups(d.encodeTexts(), groups, w.chunkSize)
	w.ops = append(w.ops, storeOp(key, value))
	for i, rows := range chunks {
		w.ops = append(w.ops, storeOp(chunkKey(key, i+1), rows))
	}
	if old != nil {
		for i := len(chunks) + 1; i+1 < len(old.starts); i++ {
			w.ops = append(w.ops, deleteOp(chunkKey(key, i)))
		}
	}
	return w.countRows(id, id.bucket, d, groups)
}

// rewriteHours is rewrite for the hours of a day. Hours that nothing is added to are copied.
func (w *packer) rewriteHours(ctx context.Context, id packID, added map[groupID]*addition) error {
	key := id.key()
	value, err := w.oldValue(ctx, key)
	if err != nil {
		return err
	}
	var segments []segment
	d := newDictionary()
	if value != nil {
		if segments, err = openSegments(key, value); err != nil {
			return err
		}
		d.adopt(segments[0].texts)
	}
	hours := map[string]map[groupID]*addition{}
	for in, s := range added {
		if hours[in.hour] == nil {
			hours[in.hour] = map[groupID]*addition{}
		}
		hours[in.hour][in] = s
	}
	for hour, added := range hours {
		i := slices.IndexFunc(segments, func(s segment) bool { return s.hour == hour })
		if i < 0 {
			i = len(segments)
			segments = append(segments, segment{hour: hour})
		}
		groups, err := w.joinGroups(ctx, d, segments[i].source, hour, added)
		if err != nil {
			return err
		}
		segments[i].body, _ = appendGroups(nil, groups, maxGroup)
		if err := w.countRows(id, hour, d, groups); err != nil {
			return err
		}
	}
	w.ops = append(w.ops, storeOp(key, d.encodeSegments(segments)))
	return nil
}

// adopt takes over the texts of a pack that has none here yet, with their places.
func (d *dictionary) adopt(texts *sourceTexts) {
	for _, text := range texts.list[1:] {
		d.place(string(text))
	}
}

// oldValue returns the entry that is there, nil if there is none.
func (w *packer) oldValue(ctx context.Context, key string) ([]byte, error) {
	value, err := w.read.Get(ctx, Name, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// joinGroups returns the groups that were there, if any, and those that are added.
func (w *packer) joinGroups(ctx context.Context, d *dictionary, old *source, hour string, added map[groupID]*addition) ([]group, error) {
	var groups []group
	if old != nil {
		var err error
		if groups, err = w.keptGroups(ctx, old, hour, added); err != nil {
			return nil, err
		}
	}
	for in, s := range added {
		groups = append(groups, d.groupOf(in.session, s.rows))
	}
	return groups, nil
}

// keptGroups returns the groups of a pack that stay as they are, and adds up the others.
func (w *packer) keptGroups(ctx context.Context, old *source, hour string, added map[groupID]*addition) ([]group, error) {
	var kept []group
	var failed error
	err := old.eachGroup(func(g *group, _, at int) {
		if failed != nil {
			return
		}
		s := added[groupID{hour, string(g.session)}]
		if s == nil {
			r, err := old.rowsOf(ctx, w.read, g, at)
			copied := *g
			copied.rows, failed = r.rest, err
			kept = append(kept, copied)
			return
		}
		had, err := old.sums(ctx, w.read, g, at)
		s.addRows(had)
		failed = err
	})
	return kept, cmp.Or(err, failed)
}
