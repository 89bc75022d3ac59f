package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"agentd/internal/clip"
	"agentd/store"
)

// State is what stands at a path. The zero State is nothing.
type State struct {
	// Hash is in the form of event.FileChange.AfterHash; see the package comment.
	Hash string
	// Mode has the permission bits of a file or folder, as chmod takes them.
	Mode int64
}

// What can stand at a path.
const (
	kindNone  = "none"
	kindFile  = "file"
	kindLink  = "link"
	kindDir   = "dir"
	kindOther = "other"
	kindList  = "list" // not at a path: a sealed list of changes
)

const (
	refScheme  = "undo:"
	hashSHA256 = "sha256:"
	hashStat   = "stat:"
	hashLink   = "link:"
)

func (s State) kind() string {
	switch {
	case s.Hash == "":
		return kindNone
	case s.Hash == kindDir, s.Hash == kindOther:
		return s.Hash
	case strings.HasPrefix(s.Hash, hashLink):
		return kindLink
	default:
		return kindFile
	}
}

func fileHash(sum [sha256.Size]byte) string { return hashSHA256 + hex.EncodeToString(sum[:]) }

func linkState(target string) State {
	sum := sha256.Sum256([]byte(target))
	return State{Hash: hashLink + hex.EncodeToString(sum[:])}
}

// location is where sealed bytes are in the blob store.
type location struct {
	blob store.Hash
	// off and n select a part of the blob; n 0 is the whole.
	off, n int64
}

// earlier is a parsed BeforeRef.
type earlier struct {
	state State
	kind  string
	at    location
}

// formatRef returns "undo:KIND:MODE" for a folder, and for the others also
// ":SUM:BLOB", and ":OFFSET+LENGTH" if the content is a part of the blob.
func formatRef(kind string, s State, at location) string {
	ref := refScheme + kind + ":" + strconv.FormatInt(s.Mode, 8)
	if kind == kindDir {
		return ref
	}
	sum := s.Hash[strings.LastIndexByte(s.Hash, ':')+1:]
	ref += ":" + sum + ":" + hex.EncodeToString(at.blob[:])
	if at.n > 0 {
		ref += ":" + strconv.FormatInt(at.off, 10) + "+" + strconv.FormatInt(at.n, 10)
	}
	return ref
}

func parseRef(ref string) (earlier, error) {
	bad := fmt.Errorf("workspace: %q is not a reference to an earlier content", clipText(ref))
	rest, ok := strings.CutPrefix(ref, refScheme)
	if !ok {
		return earlier{}, bad
	}
	parts := strings.Split(rest, ":")
	if len(parts) < 2 {
		return earlier{}, bad
	}
	mode, err := strconv.ParseInt(parts[1], 8, 32)
	if err != nil || mode < 0 || mode > 0o7777 {
		return earlier{}, bad
	}
	e := earlier{kind: parts[0], state: State{Mode: mode}}
	if e.kind == kindDir {
		e.state.Hash = kindDir
		if len(parts) != 2 {
			return earlier{}, bad
		}
		return e, nil
	}
	if len(parts) != 4 && len(parts) != 5 || !e.setHash(parts[2]) {
		return earlier{}, bad
	}
	if e.at, err = parseLocation(parts[3:]); err != nil {
		return earlier{}, bad
	}
	return e, nil
}

func (e *earlier) setHash(sum string) bool {
	if b, err := hex.DecodeString(sum); err != nil || len(b) != sha256.Size {
		return false
	}
	switch e.kind {
	case kindFile, kindList:
		e.state.Hash = hashSHA256 + sum
	case kindLink:
		e.state.Hash = hashLink + sum
	default:
		return false
	}
	return true
}

func parseLocation(parts []string) (location, error) {
	var at location
	var err error
	if at.blob, err = store.ParseRef(hashSHA256 + parts[0]); err != nil {
		return at, err
	}
	if len(parts) == 1 {
		return at, nil
	}
	off, n, _ := strings.Cut(parts[1], "+")
	if at.off, err = strconv.ParseInt(off, 10, 64); err != nil {
		return at, err
	}
	if at.n, err = strconv.ParseInt(n, 10, 64); err != nil {
		return at, err
	}
	if at.off < 0 || at.n <= 0 {
		return at, fmt.Errorf("workspace: a part of a blob from %d with %d bytes", at.off, at.n)
	}
	return at, nil
}

// clipText shortens what came from outside, for messages.
func clipText(s string) string { return clip.Valid(s, 100) }
