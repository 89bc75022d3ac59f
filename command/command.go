// Package command defines what a caller can ask of agentd: each command's
// parameters, its result, and who may call it. It is the contract between the
// doors (HTTP, JSON-RPC, the shell, protocol adapters) and the session layer;
// it decides nothing itself.
//
// # Contract
//
// A command is a pointer to its parameter struct, which implements [Params].
// Validate checks what can be checked without state: required fields, ids,
// enums, bounds. Whether a command can be carried out is decided by the
// session's one writer. Every mutating command takes an idempotency key; the
// same key and parameters give the first result again.
//
// A [Table] has the one handler of each command, registered by the part of the
// runtime that owns it.
//
// What a parameter may be is said once, in the tags of its field, and both
// Validate and the generated schemas follow from them:
//
//   - json: the name; without omitempty or omitzero the parameter is required,
//     and a string or a list must not be empty;
//   - enum: the closed set of a string's values;
//   - min, max: bounds of a number, of a text's or a JSON value's bytes, or of a list's length;
//     without them a number is not negative, a text at most 64 KiB and a list
//     at most 1,000 long;
//   - check: "id" (an id as [event.ValidID] takes it), "object" (a JSON object),
//     "signed" (a number that may be negative);
//   - also: "string" says that a short form is taken.
//
// A result has at least the fields of its struct: readers must ignore
// what they don't know. Of a read model that another package makes, the struct here is
// the part that callers in Go rely on; the reference has the whole.
//
// Everything here is plain data and pure functions, safe for concurrent use. The
// package depends on event, fault and the codecs of internal/wire only.
package command

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentd/event"
)

// Name is a command's name on the wire.
type Name string

// Params are the parameters of one command.
type Params interface {
	// Command returns the command's name.
	Command() Name
	// Validate reports the first parameter that doesn't fit, as a fault.
	Validate() error
}

// Returning is implemented by the parameters of each command whose result is an R. It
// ties the two together, so that a handler with another result doesn't compile.
type Returning[R any] interface {
	Params
	returns(*R)
}

// Creating is implemented by commands that make something whose id the caller may
// choose.
type Creating interface {
	Params
	// NewID returns what is made, as the catalogue's Noun, and its id; "" if the
	// caller chose none.
	NewID() (noun, id string)
}

// Mutation is what every mutating command takes.
type Mutation struct {
	// IdempotencyKey makes a retry safe: the same key with the same parameters
	// gives the first result again, with other parameters a conflict.
	IdempotencyKey string `json:"idempotencyKey,omitempty" max:"256" secret:"refuse"`
}

// Key returns the idempotency key.
func (m *Mutation) Key() string { return m.IdempotencyKey }

// SetKey sets the idempotency key.
func (m *Mutation) SetKey(key string) { m.IdempotencyKey = key }

// Mutating is implemented by commands that change state.
type Mutating interface {
	Params
	Key() string
}

// Page is what every listing command takes.
type Page struct {
	// Limit is the most that is returned; 0 means 100.
	Limit int `json:"limit,omitempty" max:"1000"`
	// Cursor goes on where an earlier answer's nextCursor ended.
	Cursor string `json:"cursor,omitempty" max:"2048" secret:"pass"`
}

// Bounds of a page.
const (
	MaxPage     = 1000
	defaultPage = 100
)

// Size returns the page's limit with the default applied.
func (p *Page) Size() int {
	if p.Limit == 0 {
		return defaultPage
	}
	return p.Limit
}

// Caller is the identity that a command is executed for.
type Caller struct {
	// Account owns what the caller creates and is all that it sees. An admin
	// sees every account's.
	Account string
	Admin   bool
	// Actor is recorded in the facts.
	Actor event.Actor
	// RequestID joins facts to a request's log lines.
	RequestID string
	// Adapter is set where the adapter of a protocol gives the command, and not what its
	// peer sent: only then the id of something new may be one of [IsDerivedID].
	Adapter bool
	// TraceID, SpanID and TraceState are the caller's trace context, if it sent one.
	TraceID, SpanID, TraceState string
	// Workspace is the folder of sessions that the caller opens without naming one;
	// the runtime's own if empty.
	Workspace string
	// Answer has what may wait until the caller was told of the outcome; nil if
	// nothing may.
	Answer *Answer
}

// Answer is what the answer to a command is sent with. It is for one goroutine.
type Answer struct{ then []func() }

// Then has something done once the answer was sent. Who gives commands with an Answer
// must call Sent whatever becomes of them.
func (a *Answer) Then(do func()) { a.then = append(a.then, do) }

// Sent does what waited for the answer.
func (a *Answer) Sent() {
	then := a.then
	a.then = nil
	for _, do := range then {
		do()
	}
}

// derivedIDs begin the ids that an adapter derives from an account and a peer's own ids.
// Anybody can compute them, so only adapters may use them for something new: an account
// that took one would keep the peers of another account out.
var derivedIDs = []string{"sess_a2a_", "chan_a2a_"}

// IsDerivedID reports whether an id is of the form that adapters of protocols derive.
func IsDerivedID(id string) bool {
	return slices.ContainsFunc(derivedIDs, func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

// Sees reports whether the caller may see what belongs to that account.
func (c *Caller) Sees(account string) bool { return c.Admin || c.Account == account }

// Local returns the caller for code that embeds the runtime: an admin.
func Local() Caller {
	return Caller{Admin: true, Actor: event.Actor{Kind: "host"}}
}

// Digest returns a fingerprint of a command's parameters without its
// idempotency key: two calls with the same digest ask for the same thing.
func Digest(p Params) ([sha256.Size]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("command: digest of %s: %w", p.Command(), err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("command: digest of %s: %w", p.Command(), err)
	}
	delete(fields, "idempotencyKey")
	if b, err = json.Marshal(fields); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("command: digest of %s: %w", p.Command(), err)
	}
	return sha256.Sum256(append([]byte(p.Command()+"\n"), b...)), nil
}
