package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"reflect"

	"agentd/fault"
)

// Paged is implemented by commands that answer in pages.
type Paged interface {
	Params
	// Paging returns the page that is asked for.
	Paging() *Page
}

// Paging implements [Paged].
func (p *Page) Paging() *Page { return p }

// cursorMark is how much of a hash tells a cursor that a list returned from one that
// a client made up. It isn't a secret: a client that computes one continues from a place of its
// choice, which is harmless.
const cursorMark = 6

func markOf(name Name, place string) []byte {
	sum := sha256.Sum256([]byte(string(name) + "\n" + place))
	return sum[:cursorMark]
}

// SealCursor makes the place in a list that a command gives out a cursor.
func SealCursor(name Name, place string) string {
	if place == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(markOf(name, place), place...))
}

// OpenCursor returns the place that a cursor of the same command stands for.
// Anything else is refused: a list that went on from nowhere would seem to be whole.
func OpenCursor(name Name, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= cursorMark || !bytes.Equal(b[:cursorMark], markOf(name, string(b[cursorMark:]))) {
		return "", fault.Param("cursor", "%q was not returned by %s: pass the nextCursor of its last result, or leave it out to start from the beginning", clipQuoted(cursor), name)
	}
	return string(b[cursorMark:]), nil
}

// inPages carries out a command; if it answers in pages, the cursor that the caller
// gave is opened before and that of the answer sealed after. The parameters are left
// as they were.
func inPages(p Params, do func() (any, error)) (any, error) {
	list, ok := p.(Paged)
	if !ok {
		return do()
	}
	page := list.Paging()
	given := page.Cursor
	place, err := OpenCursor(p.Command(), given)
	if err != nil {
		return nil, err
	}
	page.Cursor = place
	defer func() { page.Cursor = given }()
	res, err := do()
	if err == nil {
		sealNext(p.Command(), res)
	}
	return res, err
}

// EachPage asks for the pages of a list, one after the other, until the last. ask carries
// the command out and returns the nextCursor of its answer.
func EachPage(list Paged, ask func() (next string, err error)) error {
	page := list.Paging()
	for {
		next, err := ask()
		if err != nil || next == "" {
			return err
		}
		page.Cursor = next
	}
}

// sealNext seals the nextCursor of a result, whichever struct it is.
func sealNext(name Name, res any) {
	v := reflect.Indirect(reflect.ValueOf(res))
	if v.Kind() != reflect.Struct {
		return
	}
	if next := v.FieldByName("NextCursor"); next.IsValid() && next.Kind() == reflect.String && next.CanSet() {
		next.SetString(SealCursor(name, next.String()))
	}
}
