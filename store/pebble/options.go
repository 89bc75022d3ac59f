package pebble

import (
	"log/slog"

	pdb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Defaults of [Options].
const (
	DefaultCacheBytes    = 32 << 20
	DefaultMemTableBytes = 64 << 20
	DefaultReserveBytes  = 512 << 20
)

// Options configure a store. Nil and the zero value are valid.
type Options struct {
	// FS is the file system. If nil, it is the operating system's. Tests put
	// faults or a file system in memory here.
	FS vfs.FS
	// Logger gets what the engine and Pebble report. If nil, nothing is logged.
	Logger *slog.Logger
	// CacheBytes is the memory for blocks of tables while two buffers are full;
	// blocks may take what buffers leave. If zero, it is DefaultCacheBytes.
	CacheBytes int64
	// MemTableBytes is the size of the sorted buffer that is written out as a
	// table, and so about the size of a log. If zero, it is DefaultMemTableBytes.
	// Buffers start small and grow to it.
	MemTableBytes int64
	// ReserveBytes is the free space below which appends are refused with
	// store.ErrNoSpace. It must hold what is already accepted: the buffers that
	// wait to be written and the compactions that follow. If zero, it is
	// DefaultReserveBytes; if negative, free space isn't looked at.
	ReserveBytes int64
	// Salvage opens a store although files are missing or damaged that hold
	// acknowledged data, as far as Pebble can. What was found is listed in
	// store.Meta's Recovery. Use it on a copy.
	Salvage bool
}

// withDefaults returns a copy in which every field has its value.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = DefaultMemTableBytes
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = DefaultReserveBytes
	}
	return c
}

// tableFormat is the on-disk format that new stores get and old ones are
// upgraded to. It is fixed here so that a new release of Pebble doesn't change
// what an older agentd can open.
const tableFormat = pdb.FormatValueSeparation

// pebbleOptions returns how the engine runs Pebble.
func pebbleOptions(o Options, fs vfs.FS, sig *signal, exists bool) *pdb.Options {
	l := logger{o.Logger}
	events := l.listener()
	sig.listen(events)
	po := &pdb.Options{
		FS:            fs,
		Logger:        l,
		EventListener: events,
		// Pebble takes the buffers' memory out of the cache: without their share a
		// busy store would have no cache at all.
		CacheSize:                   o.CacheBytes + 2*o.MemTableBytes,
		FormatMajorVersion:          tableFormat,
		ErrorIfNotExists:            exists,
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: outOfReach,
		// A table of level 0 has a little of every session that was busy, so each
		// compaction rewrites all that the level below holds of them: it has to pay
		// for many tables at once; docs/benchmarks.md has what other thresholds cost.
		// Reading a session looks at up to half as many layers. Also, every start
		// leaves a small table here, and a low threshold would have every second
		// start compact, which takes longer than the start itself.
		L0CompactionThreshold:      2 * layers,
		L0StopWritesThreshold:      outOfReach,
		LBaseMaxBytes:              256 << 20,
		MaxOpenFiles:               2000,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
	}
	// The filters serve lookups of index entries and blobs that aren't there.
	// Upper levels are short-lived, so compressing them hard is wasted work.
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		po.Levels[i].BlockSize = 32 << 10
	}
	po.ApplyCompressionSettings(func() pdb.DBCompressionSettings { return pdb.DBCompressionBalanced })
	return po
}
