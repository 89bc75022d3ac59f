// Package store is the port between agentd and what keeps its facts.
//
// # Contract
//
// An engine implements [Store] and knows nothing of turns or tasks: it keeps
// sessions of records, snapshots, index entries and blobs. store/storetest is
// the suite that every engine must pass; where this comment and the suite
// disagree, the suite is right.
//
// Durability: when [Store.Append] returns nil for a batch, everything in the
// batch survives kill -9 and power loss. When it returns an error for a batch,
// nothing of that batch is visible, now or later, except after
// [ErrUnknownOutcome].
//
// Safety: a session's records are numbered from 1 without gaps; only its beginning
// can be removed, by a [Trim], and never the last record. A batch is
// written only if its First is the session's head plus one and its Epoch is the
// epoch of the session's newest claim; both are checked atomically with the
// write. So two owners can never both write, regardless of clocks and leases.
//
// After a failed write to the medium an engine acknowledges nothing more: every
// later Append fails with [ErrFailed] until the store was reopened and checked.
// Reads go on as far as they can. A full disk is not such a failure: Append
// answers [ErrNoSpace], nothing is written, and appends succeed again when
// there is space.
//
// # Concurrency
//
// All methods may be called by many goroutines. Records passed to Append must
// not be changed afterwards; records that are returned are the caller's.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// Errors that an engine returns, alone or wrapped. Callers use [errors.Is].
var (
	// ErrConflict: the batch's First is not the session's head plus one.
	ErrConflict = errors.New("store: the session's head is not where the batch expects it")
	// ErrFenced: the batch's epoch is not the session's newest claim.
	ErrFenced = errors.New("store: the session has another owner now")
	// ErrExists: an index entry that had to be absent is there.
	ErrExists = errors.New("store: an index entry with that key exists")
	// ErrNotFound: no such session, snapshot, index entry or blob.
	ErrNotFound = errors.New("store: not found")
	// ErrNoSpace: the disk is full; nothing was written.
	ErrNoSpace = errors.New("store: no space left")
	// ErrFailed: an earlier write failed; the store must be reopened.
	ErrFailed = errors.New("store: a write failed, nothing is acknowledged until the store is reopened")
	// ErrUnknownOutcome: the connection broke while the engine committed; the
	// batch may or may not be there. The caller reads the head to find out.
	ErrUnknownOutcome = errors.New("store: the outcome of the append is unknown")
	// ErrCorrupt: stored bytes are damaged.
	ErrCorrupt = errors.New("store: stored data is damaged")
	// ErrTrimmed: records were asked for that were removed, see [TrimmedError].
	ErrTrimmed = errors.New("store: the records were removed")
	// ErrPosition: the text isn't a position of this store, see [Store.Changes].
	ErrPosition = errors.New("store: not a position of this store")
	// ErrNewer: the data was written by a newer version of agentd.
	ErrNewer = errors.New("store: the data was written by a newer version of agentd")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("store: in use by another process")
	// ErrReplaced: another process took over the name of this node.
	ErrReplaced = errors.New("store: the node was replaced")
	// ErrRestored: the store is in an earlier state than this process has seen.
	ErrRestored = errors.New("store: the database was restored to an earlier moment")
	// ErrFull: the database has no connection left; nothing was written.
	ErrFull = errors.New("store: the database has no connection left")
	// ErrUnavailable: the database can't be reached, or takes no writes, for now.
	ErrUnavailable = errors.New("store: the database is not available")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
)

// OwnedError says which node owns a session that was claimed in vain.
type OwnedError struct {
	SessionID string
	// Owner is the node's id, Address where it listens, if it said so.
	Owner, Address string
	// Until is when the owner's lease ends unless it is renewed.
	Until time.Time
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("store: session %s is owned by node %s until %s", e.SessionID, e.Owner, e.Until.Format(time.RFC3339))
}

// TrimmedError says that records were asked for which are not there any more. It
// is an [ErrTrimmed].
type TrimmedError struct {
	SessionID string
	// Through is the last record that was removed.
	Through uint64
}

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("store: the records of session %s through %d were removed", e.SessionID, e.Through)
}

// Is makes the error an [ErrTrimmed].
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

// Hash is a SHA-256 sum.
type Hash [32]byte

// Record is one stored event.
type Record struct {
	Sequence uint64
	// Data is the event's JSON, the bytes that are delivered.
	Data []byte
	// Hash is the chain's hash through this record. The engine keeps it and
	// doesn't interpret it.
	Hash Hash
}

// Head is the end of a session.
type Head struct {
	// Sequence of the last record; 0 for a session that doesn't exist.
	Sequence uint64
	// Hash of the last record; zero for a session that doesn't exist.
	Hash Hash
}

// Claim is the right to append to one session.
type Claim struct {
	Epoch uint64
	Head  Head
}

// Snapshot is a named value that belongs to a session: a read model, or the
// record of something that left the working set.
type Snapshot struct {
	SessionID string
	Name      string
	// Sequence is the session's sequence that the snapshot reflects.
	Sequence uint64
	// Hash is the chain's hash at Sequence.
	Hash Hash
	Data []byte
}

// Entry is an index entry. Kinds are separate name spaces; within a kind keys
// are unique and ordered bytewise.
type Entry struct {
	Kind  string
	Key   string
	Value []byte
}

// IndexOp changes one index entry.
type IndexOp struct {
	Entry
	// Delete removes the entry; removing an absent one is not an error. In a store that several
	// nodes share, one that another session puts at the same time may stay.
	Delete bool
	// IfAbsent makes the whole batch fail with ErrExists if the key exists.
	IfAbsent bool
	// Fresh says that the key is hardly there yet, because its id was just made up. An engine may
	// put such an entry for less. Nothing else depends on it: one that is there is replaced.
	Fresh bool
}

// Trim removes the beginning of a session. What replaces it stays, see
// [Store.Base].
type Trim struct {
	// Through is the last record to remove, Hash the chain's hash at it.
	Through uint64
	Hash    Hash
	// Data is what the records folded to.
	Data []byte
	// Later says that the engine may keep the removed records for a while if that is cheaper,
	// as long as nobody can read them.
	Later bool
}

// Batch is an atomic write to one session.
type Batch struct {
	SessionID string
	Epoch     uint64
	// Records are appended in order; Records[0].Sequence must be head plus one.
	// A batch without records writes only snapshots and index entries.
	Records   []Record
	Snapshots []Snapshot
	Index     []IndexOp
	// Blobs are stored in the same atomic write; use them for small content that
	// a record refers to, and [Store.PutBlob] for what is large.
	Blobs [][]byte
	// Trim, if not nil, removes records in the same atomic write. The last of them
	// must be stored already, with that hash, and at least one record must be left
	// after the batch; else the batch fails with ErrConflict.
	Trim *Trim
}

// Range selects records of a session: After < sequence < Before.
type Range struct {
	After uint64
	// Before is exclusive; 0 means no bound.
	Before uint64
	// Limit is the most that is returned; 0 means no bound.
	Limit int
	// Reverse returns the newest first.
	Reverse bool
}

// Scan selects index entries of a kind, ordered by key.
type Scan struct {
	Kind string
	// Prefix restricts to keys that begin with it.
	Prefix string
	// After is exclusive: the last key that the caller has seen.
	After string
	// Limit is the most that is returned; 0 means no bound.
	Limit int
	// Reverse goes from the last key to the first; After is then the upper bound.
	Reverse bool
}

// BlobInfo describes a blob.
type BlobInfo struct {
	// Ref is "sha256:" and the hex sum of the content.
	Ref  string
	Size int64
}

// Blob is an open blob. Reads may seek; Close must be called.
type Blob interface {
	io.ReadSeekCloser
	Info() BlobInfo
}

// Appended tells that a session has new records, perhaps by another node.
type Appended struct {
	SessionID string
	// Sequence is that of the last of them.
	Sequence uint64
	// First is the first sequence that the hint stands for, 0 if the engine doesn't
	// know: then records before those that were hinted at last may be new too.
	First uint64
}

// Change is a write to one session, as it is found among the writes to all.
type Change struct {
	SessionID string
	// First and Last are the sequences of the records that it added.
	First, Last uint64
	// Position is where [Store.Changes] goes on after the change.
	Position string
}

// Store keeps facts. See the package comment for its obligations.
type Store interface {
	// Claim makes the caller the one writer of a session and returns the new
	// epoch, which is greater than any before, and the head. The session need
	// not exist. If another live node owns it the error is an *OwnedError.
	Claim(ctx context.Context, sessionID string) (Claim, error)
	// Release gives a claim up, so that another node need not wait for the lease.
	// A claim that isn't the newest any more is ignored.
	Release(ctx context.Context, sessionID string, epoch uint64) error

	// Append writes batches, each atomically, in the order given, all made
	// durable together. The result has one error (or nil) for each batch. Several
	// batches may belong to one session; if one fails, later batches of the same
	// session fail with ErrConflict.
	Append(ctx context.Context, batches []*Batch) []error

	// Head returns the end of a session; the zero Head if it doesn't exist.
	Head(ctx context.Context, sessionID string) (Head, error)
	// Read yields records of a session. A damaged record ends the sequence with an
	// error that wraps ErrCorrupt and names the place. A session that doesn't
	// exist yields nothing. A range that takes in records which were removed yields
	// a *TrimmedError in their place: so that no caller takes what is left for everything.
	Read(ctx context.Context, sessionID string, r Range) iter.Seq2[Record, error]
	// Base returns what replaced the records that were removed from a session: the
	// last of them by its sequence and hash, with the data of its [Trim]. It is
	// ErrNotFound for a session that has all its records.
	Base(ctx context.Context, sessionID string) (Snapshot, error)
	// Snapshot returns the newest snapshot of that name, or ErrNotFound.
	Snapshot(ctx context.Context, sessionID, name string) (Snapshot, error)
	// Snapshots yields all snapshots of a session, ordered by name.
	Snapshots(ctx context.Context, sessionID string) iter.Seq2[Snapshot, error]
	// Get returns one index entry's value, or ErrNotFound.
	Get(ctx context.Context, kind, key string) ([]byte, error)
	// Scan yields index entries.
	Scan(ctx context.Context, s Scan) iter.Seq2[Entry, error]
	// Sessions yields the ids of all sessions that have records, in ascending
	// order, those after the given id.
	Sessions(ctx context.Context, after string) iter.Seq2[string, error]

	// PutBlob stores content under its hash and returns when it is durable.
	// Storing what is there already is cheap.
	PutBlob(ctx context.Context, r io.Reader) (BlobInfo, error)
	// OpenBlob opens a blob, or returns ErrNotFound.
	OpenBlob(ctx context.Context, ref string) (Blob, error)
	// DeleteBlob removes a blob; removing an absent one is not an error.
	DeleteBlob(ctx context.Context, ref string) error

	// Follow yields what is appended by other nodes until ctx ends. Hints may
	// be merged and repeated, but every append of another node is covered by a
	// hint with its sequence or a later one, and with a First, if it has one, that
	// is not above it. An engine that only one process can open yields nothing
	// until ctx ends.
	Follow(ctx context.Context) iter.Seq2[Appended, error]

	// Changes yields what was written to all sessions after a position, by this node
	// and by others, and ends with what is durable when it gets there. The changes of
	// one session come in the order of their sequences, without a gap; those of
	// different sessions in the order in which they were written, more or less. However
	// often it is left and begun again with the position of the last change that it
	// yielded, every change comes once. Changes are kept when the records that they
	// added are removed. The position before all of them is empty.
	Changes(ctx context.Context, after string) iter.Seq2[Change, error]
	// Position returns the position after everything that is durable now.
	Position(ctx context.Context) (string, error)

	// Meta returns the store's own facts, for the runtime's start and for people.
	Meta(ctx context.Context) (Meta, error)
	// SetMeta stores a small named value that belongs to the whole store (such as
	// the runtime's id) unless it is set already, and returns the stored one.
	SetMeta(ctx context.Context, name string, value []byte) ([]byte, error)

	// Err returns why the store acknowledges nothing any more, or nil.
	Err() error
	// Close releases everything. It waits for calls under way.
	Close() error
}

// Shared is a store that several nodes have open at once. A node that dies loses its
// claims; the others find what it left.
type Shared interface {
	Store
	// Nodes returns the nodes that are registered, this one first. It costs the same however
	// many sessions there are.
	Nodes(ctx context.Context) ([]Node, error)
	// CountOwned counts the sessions that each of the nodes owns, but for the one that belongs to
	// all nodes, which the last one that wrote there has.
	CountOwned(ctx context.Context, shared string, nodeIDs ...string) (map[string]int64, error)
	// ClaimAnyway is Claim for a session that belongs to all nodes: it succeeds also if
	// a live node owns it, which is fenced from then on.
	ClaimAnyway(ctx context.Context, sessionID string) (Claim, error)
	// ClaimNew is Claim for a session whose id was made up just now, so that no one else can
	// have it. The first append carries the claim out, and is fenced if it was wrong.
	ClaimNew(ctx context.Context, sessionID string) (Claim, error)
	// Adopt makes this node the owner of sessions that no live node owns, that have
	// an index entry of a kind whose key is the session's id, and whose place it reaches.
	// It takes at most limit of them and returns their ids; no two nodes are given the
	// same one. It costs next to nothing if there is none, so that a node can ask every
	// moment.
	Adopt(ctx context.Context, which *Adoption, limit int) ([]string, error)
	// Displaced returns such sessions whose place is none of those that this node reaches
	// for sure, and which are not marked as being away; at most limit of them, first those
	// whose turn this node is. It takes none.
	Displaced(ctx context.Context, which *Adoption, limit int) ([]Displaced, error)
	// Forget takes a node whose lease has ended off the list; one that gives a sign of life
	// is on it again. It does nothing to a node whose lease holds, or which gave one after
	// it was last seen as the caller says: so it can be repeated.
	Forget(ctx context.Context, nodeID string, seen time.Time) error
	// Describe says what tells the other nodes about this one; it is asked at each sign of
	// life. Announce gives one now.
	Describe(about func() About)
	Announce(ctx context.Context) error
	// Yield gives up a claim of a session that has such an entry: the next node that
	// adopts gets it, without waiting for the lease. A claim that isn't the newest any
	// more is ignored.
	Yield(ctx context.Context, sessionID string, epoch uint64) error
	// Now returns the node's time: that of its machine's clock, but for jumps which the
	// database's clock didn't make as well.
	Now() time.Time
	// Term returns the number of this node's lease, and whether it holds. After a lease
	// that lapsed the number is another one: what the node owned before may have been
	// taken in between.
	Term() (n uint64, held bool)
	// Await says how to find out whether anyone here waits for what [Store.Follow] yields;
	// while no one does, it may be late by half a second. Awaited says that someone begins
	// to.
	Await(awaited func() bool)
	Awaited()
	// Owned returns the sessions with such an entry that this node owns, also by a claim
	// of an earlier process of its name.
	Owned(ctx context.Context, kind string) ([]string, error)
	// SweepBlob deletes a blob unless something needs it. It is atomic with the appends and
	// puts of all nodes: a batch that stores the content again keeps it or stores it anew,
	// and content that was stored ahead of its record is left alone for a while.
	SweepBlob(ctx context.Context, sweep *Sweep) (Swept, error)
	// HoldBlob says that a record will refer to a blob that is there, so that no sweep takes
	// it meanwhile; ErrNotFound if there is none.
	HoldBlob(ctx context.Context, ref string) error
}

// Adoption says which sessions a node can take over.
type Adoption struct {
	// Kind is that of the index entries of sessions that need a node.
	Kind string
	// Places is the kind of the entries that say where a session's files are, by its id:
	// a mark of the place, and in a second line [PlacedAway] if no node reaches it. Reach
	// are the marks of the places that this node reaches. A session without an entry can
	// be taken over by any node.
	Places string
	Reach  []string
}

// Displaced is a session of [Shared.Displaced]. The live nodes that take work divide these
// among themselves by the session's id.
type Displaced struct {
	SessionID string
	// Turn is 0 for the node that is to try first, 1 for the one after it, and so on: each
	// gives those before it some time, so that they don't all try at once.
	Turn int
}

// PlacedAway is the second line of an entry about a session's place that no node reaches.
const PlacedAway = "away"

// About is what a node says of itself.
type About struct {
	// Pool names the nodes that share a file system with it, Labels are its operator's.
	Pool   string   `json:"pool,omitempty"`
	Labels []string `json:"labels,omitempty"`
	// State is empty, draining or drained.
	State string `json:"state,omitempty"`
	// Running and Waiting count the threads that it works on, and those that wait for room.
	Running int64 `json:"running,omitempty"`
	Waiting int64 `json:"waiting,omitempty"`
	// Forgotten says that the node was taken off the list after its lease had ended.
	Forgotten bool `json:"forgotten,omitempty"`
}

// Span is a part of a session: its records from First to Last.
type Span struct {
	SessionID   string
	First, Last uint64
}

// SpanReader is a store that reads parts of many sessions for the price of one question.
type SpanReader interface {
	// ReadSpans returns the records of each span, in the order of the spans. A span that
	// isn't there as a whole, because records were removed, are damaged or don't exist, has
	// none: [Store.Read] says why.
	ReadSpans(ctx context.Context, spans []Span) ([][]Record, error)
}

// Replicated is a store that may have a copy of its data to spare the original.
type Replicated interface {
	// OnReplica returns a context in which reads are answered by a copy that has everything
	// that is durable now, or the same context if there is none. It costs two small
	// questions, and is worth it before a long read.
	OnReplica(ctx context.Context) context.Context
}

// OnReplica returns a context for a long read of a store that may be [Replicated].
func OnReplica(ctx context.Context, s Store) context.Context {
	if r, ok := s.(Replicated); ok {
		return r.OnReplica(ctx)
	}
	return ctx
}

// Node is one of the processes that share a store.
type Node struct {
	ID, Address string
	About
	// Self says that it is this process, Alive that its lease holds.
	Self, Alive          bool
	LastSeen, LeaseUntil time.Time
}

// Meta describes a store.
type Meta struct {
	// Engine is "pebble" or "postgres".
	Engine string
	// Version of the stored format.
	Version int
	// Recovery lists what opening found and did, each a sentence for people.
	// An unclean stop that lost nothing is not listed.
	Recovery []string
	// Location is where the data is, without credentials.
	Location string
}

// IndexKey names an index entry.
type IndexKey struct{ Kind, Key string }

// ID returns the entry's name.
func (e *Entry) ID() IndexKey { return IndexKey{e.Kind, e.Key} }
