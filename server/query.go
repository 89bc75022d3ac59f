package server

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/command"
	"agentd/event"
	"agentd/fault"
	"agentd/internal/wire"
)

// Bounds of a page of events.
const (
	maxPage     = 1000
	defaultPage = 200
)

// eventQuery is what a client asks of events.
type eventQuery struct {
	after    uint64
	limit    int
	snapshot bool
	filter   filter
	// channelID is the channel that a stream belongs to, if it does.
	channelID string
}

// queryNames are the parameters of the addresses that serve events.
var queryNames = []string{"after", "lastEventId", "limit", "snapshot", "types", "profile", "view", "channelId"}

// parseQuery reads the parameters and the Last-Event-ID header of a request.
func parseQuery(r *http.Request) (*eventQuery, error) {
	values, err := queryValues(r, queryNames)
	if err != nil {
		return nil, err
	}
	q := &eventQuery{limit: defaultPage, channelID: values.Get("channelId")}
	if err := q.cursor(r.Header, values); err != nil {
		return nil, err
	}
	if v := values.Get("limit"); values.Has("limit") {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxPage {
			return nil, fault.Param("limit", "%q is not between 1 and %d", wire.Clip(v), maxPage)
		}
		q.limit = n
	}
	if q.snapshot, err = parseFlag("snapshot", values.Get("snapshot")); err != nil {
		return nil, err
	}
	q.filter, err = newFilter(values.Get("types"), values.Get("profile"), values.Get("view"))
	return q, err
}

// queryValues reads a query of known parameters, each given once.
func queryValues(r *http.Request, names []string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidParams, err, "the query can't be read: a %% must be followed by two hexadecimal digits, and ; is not allowed")
	}
	for name, v := range values {
		if !slices.Contains(names, name) {
			return nil, fault.Param(wire.Clip(name), "unknown parameter; use one of %s", strings.Join(names, ", "))
		}
		if len(v) > 1 {
			return nil, fault.Param(name, "is given twice")
		}
	}
	return values, nil
}

// feedNames are the parameters of the feed.
var feedNames = []string{"after", "lastEventId", "types", "profile", "view"}

// maxCursor bounds the length of a feed's cursor.
const maxCursor = 4096

// cursorText is a cursor of the feed as a client gave it, and the name that it gave it under.
type cursorText struct{ name, value string }

// parseFeedQuery reads what a client asks of the feed. The header wins over lastEventId,
// which wins over after.
func parseFeedQuery(r *http.Request) (after cursorText, f filter, err error) {
	values, err := queryValues(r, feedNames)
	if err != nil {
		return after, f, err
	}
	for _, from := range []cursorText{
		{"after", values.Get("after")}, {"lastEventId", values.Get("lastEventId")}, {"Last-Event-ID", r.Header.Get("Last-Event-ID")},
	} {
		switch {
		case from.value == "" && values.Has(from.name):
			return after, f, fault.Param(from.name, "is empty; leave it out to begin now")
		case len(from.value) > maxCursor:
			return after, f, fault.Param(from.name, "is longer than %d bytes: it is not a cursor of this feed", maxCursor)
		case from.value != "":
			after = from
		}
	}
	f, err = newFilter(values.Get("types"), values.Get("profile"), values.Get("view"))
	return after, f, err
}

// cursor reads the place to continue from: the header wins over lastEventId, which
// wins over after. What is given must be a number even where it loses.
func (q *eventQuery) cursor(h http.Header, values url.Values) error {
	for _, from := range []struct{ name, value string }{
		{"after", values.Get("after")}, {"lastEventId", values.Get("lastEventId")}, {"Last-Event-ID", h.Get("Last-Event-ID")},
	} {
		if from.value == "" {
			if values.Has(from.name) {
				return fault.Param(from.name, "is empty")
			}
			continue
		}
		n, err := strconv.ParseUint(from.value, 10, 63)
		if err != nil {
			return fault.Param(from.name, "%q is not a sequence", wire.Clip(from.value))
		}
		q.after = n
	}
	return nil
}

func parseFlag(name, value string) (bool, error) {
	switch value {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, fault.Param(name, "%q is not 1 or 0", wire.Clip(value))
}

// filter says which events are delivered, and as what.
type filter struct {
	globs    []string
	standard bool
	items    bool
}

// Bounds of the filter by type.
const (
	maxGlobs      = 50
	maxGlobLength = 100
)

// newFilter reads the three filters as they are in a query.
func newFilter(types, profile, view string) (filter, error) {
	f := filter{}
	switch profile {
	case "":
	case "standard":
		f.standard = true
	default:
		return f, fault.Param("profile", "%q is not standard", wire.Clip(profile))
	}
	switch view {
	case "", "events":
	case "items":
		f.items = true
	default:
		return f, fault.Param("view", "%q is not one of events, items", wire.Clip(view))
	}
	if types == "" {
		return f, nil
	}
	f.globs = strings.Split(types, ",")
	if len(f.globs) > maxGlobs {
		return f, fault.Param("types", "has more than %d patterns", maxGlobs)
	}
	for i, g := range f.globs {
		f.globs[i] = strings.TrimSpace(g)
		if err := f.checkGlob(f.globs[i]); err != nil {
			return f, err
		}
	}
	return f, nil
}

// checkGlob refuses a pattern that no type fits: it is a slip of the pen.
func (f *filter) checkGlob(g string) error {
	if g == "" || len(g) > maxGlobLength || strings.Trim(g, "abcdefghijklmnopqrstuvwxyz_.*") != "" {
		return fault.Param("types", "%q is not a pattern: an event type in which * stands for any characters", wire.Clip(g))
	}
	for t := range event.Types() {
		if glob(g, string(t)) {
			return nil
		}
	}
	if f.items && slices.ContainsFunc(itemTypes, func(t string) bool { return glob(g, t) }) {
		return nil
	}
	return fault.Param("types", "no event type matches %q", g)
}

// glob reports whether a name matches a pattern in which * stands for any characters.
func glob(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, more, again := strings.Cut(rest, "*")
		if !again {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], more
	}
}

// wants reports whether a type fits one of the globs.
func (f *filter) wants(t string) bool {
	return len(f.globs) == 0 || slices.ContainsFunc(f.globs, func(g string) bool { return glob(g, t) })
}

// idle reports whether the filter lets everything through as it is.
func (f *filter) idle() bool { return len(f.globs) == 0 && !f.standard && !f.items }

// apply returns what is delivered of an event: its own bytes, the items derived
// from it, or nothing.
func (f *filter) apply(e *command.Delivered) ([][]byte, error) {
	if f.idle() {
		return [][]byte{e.Data}, nil
	}
	t := typeOf(e.Data)
	if f.standard && event.Type(t).SchemaVersion() != event.SchemaStandard {
		return nil, nil
	}
	if !f.items {
		if f.wants(t) {
			return [][]byte{e.Data}, nil
		}
		return nil, nil
	}
	items, err := itemsOf(e.Data)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for i := range items {
		if f.wants(t) || f.wants(items[i].Type) {
			out = append(out, items[i].json())
		}
	}
	return out, nil
}

// typeOf returns the type of a stored envelope without reading the rest: it is
// the first field that the encoder writes.
func typeOf(data []byte) string {
	const head = `{"type":"`
	if len(data) > len(head) && string(data[:len(head)]) == head {
		if i := bytes.IndexByte(data[len(head):], '"'); i >= 0 {
			return string(event.TypeOf(data[len(head) : len(head)+i]))
		}
	}
	var e event.Event
	if _, err := event.DecodeHeader(data, &e); err != nil {
		return ""
	}
	return string(e.Type)
}
