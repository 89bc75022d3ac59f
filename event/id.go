package event

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Prefix is what an id that agentd makes begins with; it says what the id names.
type Prefix string

// The prefixes of all ids that agentd makes.
const (
	PrefixSession  Prefix = "sess_"
	PrefixThread   Prefix = "thread_"
	PrefixTurn     Prefix = "turn_"
	PrefixTask     Prefix = "task_"
	PrefixRun      Prefix = "run_"
	PrefixAttempt  Prefix = "attempt_"
	PrefixStep     Prefix = "step_"
	PrefixToolCall Prefix = "tool_"
	PrefixAction   Prefix = "action_"
	PrefixSubagent Prefix = "sub_"
	PrefixJob      Prefix = "job_"
	PrefixJobItem  Prefix = "item_"
	PrefixSchedule Prefix = "schedule_"
	PrefixProcess  Prefix = "proc_"
	PrefixChannel  Prefix = "chan_"
	PrefixEvent    Prefix = "evt_"
	PrefixEvidence Prefix = "evidence_"
	PrefixArtifact Prefix = "artifact_"
	PrefixRequest  Prefix = "req_"
	// PrefixModelRequest is of requests to models, PrefixRequest of those to agentd.
	PrefixModelRequest Prefix = "mreq_"
	PrefixHook         Prefix = "hook_"
	PrefixGrant        Prefix = "grant_"
	PrefixTrial        Prefix = "trial_"
	PrefixCompaction   Prefix = "compaction_"
	PrefixRollback     Prefix = "rollback_"
)

// idLength is the number of characters after the prefix: 128 bits, five each.
const idLength = 26

// idAlphabet is Crockford's base 32 in lower case. It is in ASCII order, so ids
// of one prefix sort as the numbers that they stand for.
const idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// IDs makes ids: a prefix and a version 7 UUID (RFC 9562) in base 32. The ids
// of one source grow strictly, also when its clock stands still or goes back.
// Goroutines may share a source.
type IDs struct {
	clock func() time.Time

	mu   sync.Mutex
	rand *bufio.Reader
	// milli, high and low are the last id: its time, and the 12 and 62
	// random bits beside those that a UUID fixes.
	milli uint64
	high  uint64
	low   uint64
}

// Layout of the random bits: 12 beside the version, 62 beside the variant.
const (
	highBits = 12
	lowBits  = 62
)

// NewIDs returns a source of ids. If clock is nil it defaults to [time.Now]; if
// random is nil it defaults to crypto/rand. Randomness is read ahead, so that
// an id costs no system call. random must not fail.
func NewIDs(clock func() time.Time, random io.Reader) *IDs {
	if clock == nil {
		clock = time.Now
	}
	if random == nil {
		random = rand.Reader
	}
	return &IDs{clock: clock, rand: bufio.NewReader(random)}
}

// New returns a new id. It panics when the source of randomness fails, since an
// id that may not be unique must never get into a fact.
func (s *IDs) New(p Prefix) string {
	now := uint64(max(0, s.clock().UnixMilli()))
	s.mu.Lock()
	s.advance(now)
	hi := s.milli<<16 | 0x7<<12 | s.high
	lo := 0b10<<lowBits | s.low
	s.mu.Unlock()

	var buf [32 + idLength]byte
	b := append(buf[:0], p...)
	return string(appendBase32(b, hi, lo))
}

// advance moves on to the next id. In a new millisecond the random bits are
// drawn anew, with the top one clear to leave room for growth; within one they
// grow by a random step, so that ids stay hard to guess.
func (s *IDs) advance(now uint64) {
	const milliMask = 1<<48 - 1
	if now &= milliMask; now > s.milli {
		s.milli = now
		s.high = uint64(s.random32()) & (1<<(highBits-1) - 1)
		s.low = (uint64(s.random32())<<32 | uint64(s.random32())) & (1<<lowBits - 1)
		return
	}
	s.low += 1 + uint64(s.random32())
	if s.low < 1<<lowBits {
		return
	}
	s.low &= 1<<lowBits - 1
	s.high++
	if s.high < 1<<highBits {
		return
	}
	s.high = 0
	s.milli++
}

func (s *IDs) random32() uint32 {
	const size = 4
	b, err := s.rand.Peek(size)
	if err != nil {
		panic(fmt.Sprintf("event: source of randomness for ids failed: %v", err))
	}
	v := binary.LittleEndian.Uint32(b)
	_, err = s.rand.Discard(size)
	if err != nil {
		panic(fmt.Sprintf("event: source of randomness for ids failed: %v", err))
	}
	return v
}

// appendBase32 appends the 128 bits of hi and lo as 26 characters, the first
// of which carries three bits.
func appendBase32(dst []byte, hi, lo uint64) []byte {
	start := len(dst)
	for range idLength {
		dst = append(dst, '0')
	}
	for i := start + idLength - 1; i >= start; i-- {
		dst[i] = idAlphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return dst
}

// MadeAt returns when an id was made. It is false for one that agentd can't have made.
func MadeAt(id string) (at time.Time, ok bool) {
	text := id[strings.LastIndexByte(id, '_')+1:]
	if len(text) != idLength || text[0] > '7' {
		return at, false
	}
	var hi, lo uint64
	for i := range len(text) {
		n := strings.IndexByte(idAlphabet, text[i])
		if n < 0 {
			return at, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(n)
	}
	if hi>>12&0xf != 0x7 || lo>>lowBits != 0b10 {
		return at, false // not a version 7 UUID
	}
	return time.UnixMilli(int64(hi >> 16)).UTC(), true
}

// maxIDLength is the length of the longest id that a caller may give.
const maxIDLength = 128

// ValidID reports whether s may be an id: 1 to 128 of A-Z, a-z, 0-9 and _.:-,
// the first a letter or a digit.
func ValidID(s string) bool {
	if s == "" || len(s) > maxIDLength || !isAlphanumeric(s[0]) {
		return false
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case isAlphanumeric(c), c == '_', c == '.', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
