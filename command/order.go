package command

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"agentd/fault"
)

// Orders are the orders that a list of things can have, by the names that callers give
// in sort. Each returns what a thing is ordered by, as a text; see [TimeKey] and
// [NumberKey].
type Orders[T any] map[string]func(T) string

// TimeKey returns a text that is ordered as times are. The zero time comes first.
func TimeKey(t time.Time) string {
	var at [8]byte
	if !t.IsZero() {
		binary.BigEndian.PutUint64(at[:], uint64(t.UnixMicro()))
	}
	return hex.EncodeToString(at[:])
}

// NumberKey returns a text that is ordered as numbers are that are not negative;
// negative ones count as 0.
func NumberKey(n float64) string { return fmt.Sprintf("%016x", math.Float64bits(max(n, 0))) }

// maxKey bounds what of a key orders: a cursor holds it.
const maxKey = 512

// OrderedPage collects one page of a list: everything in the list is offered, in
// whatever order, and those that come first behind the cursor stay. A cursor holds a
// place in the order, not a thing, so it outlives the thing that it was made of.
type OrderedPage[T any] struct {
	// Total counts what was offered.
	Total int64

	size       int
	sort       string
	descending bool
	key, id    func(T) string
	// behind is where the page begins; nil at the beginning.
	behind *orderedPlace[T]
	// found are the first of those that come behind it, in order: one more than fits.
	found []orderedPlace[T]
}

// orderedPlace is a thing's place in an order.
type orderedPlace[T any] struct {
	key, id string
	thing   T
}

// NewOrderedPage begins a page of a list. The order is asc, desc or absent; then names
// and ids are ascending, and everything else has the largest or newest first. Things
// that are alike in what they are ordered by are ordered by their ids.
func NewOrderedPage[T any](p *Page, sort, order string, orders Orders[T], id func(T) string) (*OrderedPage[T], error) {
	g := &OrderedPage[T]{size: p.Size(), sort: sort, descending: sort != "id" && sort != "title" && sort != "name", key: orders[sort], id: id}
	if g.key == nil {
		return nil, fault.Param("sort", "the list has no order %q", clipQuoted(sort))
	}
	if order != "" {
		g.descending = order == "desc"
	}
	if p.Cursor == "" {
		return g, nil
	}
	given, rest, _ := strings.Cut(p.Cursor, "\n")
	last, key, ok := strings.Cut(rest, "\n")
	if !ok || given != g.order() {
		return nil, fault.Param("cursor", "is of a list in another order; repeat its sort and order, or leave the cursor out to start from the beginning")
	}
	g.behind = &orderedPlace[T]{key: key, id: last}
	return g, nil
}

// order names the order in cursors.
func (g *OrderedPage[T]) order() string {
	if g.descending {
		return g.sort + " desc"
	}
	return g.sort + " asc"
}

// comparePlaces orders two places.
func (g *OrderedPage[T]) comparePlaces(a, b orderedPlace[T]) int {
	c := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	if g.descending {
		return -c
	}
	return c
}

// Offer counts a thing of the list, and keeps it if it is on the page.
func (g *OrderedPage[T]) Offer(thing T) {
	g.Total++
	key := g.key(thing)
	at := orderedPlace[T]{key[:min(len(key), maxKey)], g.id(thing), thing}
	full := len(g.found) > g.size
	if (g.behind != nil && g.comparePlaces(at, *g.behind) <= 0) || (full && g.comparePlaces(at, g.found[g.size]) >= 0) {
		return
	}
	i, _ := slices.BinarySearchFunc(g.found, at, g.comparePlaces)
	if full {
		g.found = g.found[:g.size]
	}
	g.found = slices.Insert(g.found, i, at)
}

// Things returns the things of the page, in order.
func (g *OrderedPage[T]) Things() []T {
	out := make([]T, 0, min(len(g.found), g.size))
	for _, at := range g.found[:min(len(g.found), g.size)] {
		out = append(out, at.thing)
	}
	return out
}

// Next returns the cursor of the next page, "" on the last.
func (g *OrderedPage[T]) Next() string {
	if len(g.found) <= g.size {
		return ""
	}
	last := g.found[g.size-1]
	return g.order() + "\n" + last.id + "\n" + last.key
}
