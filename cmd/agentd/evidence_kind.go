package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"agentd/evidence"
)

// kindHead is how much of a file is looked at to say what it is.
const kindHead = 1 << 20

// fileKind is what a file is that was given to a command, in words, and which command
// takes it.
type fileKind struct {
	name, what string
	// use is the command for it; empty if there is none.
	use string
}

const (
	kindCase    = "case"
	kindPack    = "pack"
	kindSession = "session"
	kindOther   = "other"
	// kindPlain can't carry a proof, kindUnknown could if it was damaged.
	kindPlain   = "plain"
	kindUnknown = "unknown"
)

// kindsByFormat are the documents that name their format.
var kindsByFormat = map[string]fileKind{
	evidence.Format:              {kindPack, "an evidence pack", "agentd evidence verify"},
	evidence.ReplayFormat:        {kindCase, "a replay case", "agentd replay"},
	evidence.EarlierReplayFormat: {kindCase, "a replay case", "agentd replay"},
	evidence.ReviewFormat:        {kindPack, "a review", "agentd evidence verify"},
	evidence.TrialFormat:         {kindPack, "the pack of a benchmark trial", "agentd evidence verify"},
}

// kindsByMember are those that are told by a member.
var kindsByMember = []struct {
	member string
	kind   fileKind
}{
	{"agentd.session", fileKind{kindSession, "an exported session", "agentd sessions import"}},
	{"evidence_pack_id", fileKind{kindOther, "evidence in the shape of the Agent Evidence standard", ""}},
	{"replay_id", fileKind{kindOther, "a replay in the shape of the Agent Evidence standard", ""}},
	{"target_project", fileKind{kindOther, "a benchmark in the shape of Agent QC", ""}},
	{"specversion", fileKind{kindPlain, "CloudEvents, without their proof", ""}},
	{"resourceSpans", fileKind{kindOther, "telemetry", ""}},
	{"eventId", fileKind{kindPlain, "events, one per line, without their proof", ""}},
	{"steps", fileKind{kindOther, "a trajectory", ""}},
	{"partial", fileKind{kindOther, "the summary of an export; its reference names the rest", ""}},
}

// kindOf says what a file is.
func kindOf(path string) (fileKind, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileKind{}, err
	}
	if info.IsDir() {
		for _, name := range []string{"manifest.json", "evidence.json", "export-manifest.json"} {
			if _, err := os.Stat(filepath.Join(path, name)); err == nil {
				return fileKind{kindPack, "a bundle of evidence", "agentd evidence verify"}, nil
			}
		}
		return fileKind{kindPlain, "a directory that isn't a bundle", ""}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fileKind{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head, err := io.ReadAll(io.LimitReader(f, kindHead))
	if err != nil {
		return fileKind{}, err
	}
	return kindOfHead(head), nil
}

// kindOfHead says what begins like this.
func kindOfHead(head []byte) fileKind {
	text := bytes.TrimSpace(head)
	switch {
	case len(text) == 0:
		return fileKind{kindPlain, "empty", ""}
	case bytes.HasPrefix(text, []byte("PK\x03\x04")):
		return fileKind{kindPack, "a bundle of evidence", "agentd evidence verify"}
	case text[0] == '#' || text[0] == '<':
		return fileKind{kindOther, "a page for people", ""}
	}
	format, members := topMembers(text)
	if k, ok := kindsByFormat[format]; ok {
		return k
	}
	for _, m := range kindsByMember {
		if members[m.member] {
			return m.kind
		}
	}
	return fileKind{kindUnknown, "none of the files that agentd exports", ""}
}

// topMembers returns the members of a JSON object as far as they can be read, and its
// format.
func topMembers(text []byte) (format string, members map[string]bool) {
	members = map[string]bool{}
	dec := json.NewDecoder(bytes.NewReader(text))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return "", members
	}
	for dec.More() {
		tok, err := dec.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			break
		}
		members[name] = true
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		if name == "format" {
			_ = json.Unmarshal(value, &format) // another type is no format that is known
		}
	}
	return format, members
}

// isNot is the error of a command that was given a file of another kind.
func (k fileKind) isNot(path, wanted, makes string) error {
	says := []string{fmt.Sprintf("%s is not %s: it is %s", path, wanted, k.what)}
	if k.use != "" {
		says = append(says, fmt.Sprintf("use %q for it", k.use+" "+path))
	}
	return fmt.Errorf("%s; %q makes %s", strings.Join(says, "; "), makes, wanted)
}
