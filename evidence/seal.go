package evidence

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"agentd/store"
)

// TrialFormat is what a trial's pack is called in its proof. Its members are those
// of the standard's trial pack, which has none for a format.
const TrialFormat = "agentd-trial-1"

// sealedFormats are the documents beside packs that carry a proof: what they hold
// is derived from facts, and the facts are not in them.
var sealedFormats = map[string]string{
	ReplayFormat: "replay case", EarlierReplayFormat: "replay case", ReviewFormat: "review", TrialFormat: "trial pack",
}

// Seal says what a document is and which facts it was made of.
type Seal struct {
	// Format is one of the formats of sealed documents.
	Format string
	// SessionID is the session of the facts, Through the last of them, Head the
	// chain's hash at it, Events their number.
	SessionID string
	Through   uint64
	Head      store.Hash
	Events    int64
	Key       ed25519.PrivateKey
	// Indent writes the members for people, over several lines.
	Indent bool
}

// Sealed returns a document as JSON with the proof as its last member: the hash of
// every other member, and the place in the chain that it was made at, signed. Who
// has the facts can make the document again and compare; who has not can at least
// tell that what the runtime wrote is unchanged.
func Sealed(doc any, s Seal) ([]byte, error) {
	raw, err := plainJSON(doc)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("evidence: seal: a %s must be a JSON object", s.Format)
	}
	genesis := store.Genesis(s.SessionID)
	proof := &integrity{Document: s.Format, Chain: chainProof{
		Algorithm: "sha256", Genesis: hex.EncodeToString(genesis[:]), Through: s.Through, HeadHash: hex.EncodeToString(s.Head[:]), Events: s.Events,
	}}
	out := []byte("{")
	for dec.More() {
		if out, err = proof.member(dec, out, s.Indent); err != nil {
			return nil, fmt.Errorf("evidence: seal: %w", err)
		}
	}
	out = append(out, proofLine...)
	m := newMarker()
	_, _ = m.Write(out) // never fails
	proof.Marks = m.marks()
	if err := proof.sign(s.Key); err != nil {
		return nil, err
	}
	b, err := canonicalOf(proof)
	if err != nil {
		return nil, err
	}
	return append(append(out, b...), "\n}\n"...), nil
}

// member copies the next member of a document, and adds its hash to the proof.
func (i *integrity) member(dec *json.Decoder, out []byte, pretty bool) ([]byte, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	name, _ := t.(string)
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil || name == "integrity" { // the proof of an earlier form
		return out, err
	}
	b, err := canonical(raw)
	if err != nil {
		return nil, err
	}
	h, err := hashSection(name, b)
	if err != nil {
		return nil, err
	}
	i.Sections = append(i.Sections, h)
	quoted, err := plainJSON(name)
	if err != nil {
		return nil, err
	}
	out = append(append(append(out, '\n'), quoted...), ':')
	// What models and tools wrote stays as they wrote it; the hash is of the content.
	if !pretty {
		return append(append(out, raw...), ','), nil
	}
	var lines bytes.Buffer
	err = json.Indent(&lines, raw, "", "  ")
	return append(append(out, lines.Bytes()...), ','), err
}

// hashSection hashes a section in canonical form: a list item by item.
func hashSection(name string, b []byte) (sectionHash, error) {
	h := sectionHash{Name: name}
	if b[0] == '[' {
		var err error
		h.Items, h.SHA256, err = digestList(b)
		return h, err
	}
	d := newDigest(false)
	d.add(b)
	h.SHA256 = d.hex()
	return h, nil
}

// strangers are documents that have no proof, by a member that only they have.
var strangers = []struct{ member, says string }{
	{"evidence_pack_id", "this is in the shape of the Agent Evidence standard, which carries no proof: verify the pack that its refs name"},
	{"replay_id", "this is a replay in the shape of the Agent Evidence standard, which carries no proof: verify the case that its refs name"},
	{"agent", "this is a trajectory, which carries no proof: the trial's pack names it by its hash"},
	{"specversion", "this is a CloudEvent, which carries no proof: verify an evidence pack of its session"},
	{"comparison", "this is a comparison, which carries no proof: the fact that records it names it by its hash"},
	{"chain", "this is an exported session: agentd sessions import verifies its chain"},
	{"target_project", "this is a benchmark in the shape of Agent QC, which carries no proof: verify the packs of its trials"},
	{"evidenceId", "the proof is missing: this was exported before such documents were signed, or the proof was taken out"},
}

// unproven says what a document is that has no proof. A pack that has lost its own
// was changed.
func (v *verifier) unproven() {
	if _, begun := v.at["integrity"]; begun && v.res.Finding != nil {
		return // there is a proof, and it can't be read any more
	}
	says := "the proof is missing: this is a summary, or a part of a pack"
	if v.res.Format != Format {
		for _, s := range strangers {
			if _, ok := v.at[s.member]; ok {
				v.res.Unproven, v.res.Finding = true, &Finding{Section: "integrity", Detail: s.says}
				return
			}
		}
	}
	if v.res.Finding == nil {
		v.res.Unproven = v.res.Format != Format
		v.found(Finding{Byte: v.dec.InputOffset(), Section: "integrity", Detail: says})
	}
}

// seal is that of a document which was made of what was exported.
func (x *Exported) seal(format string, scope Scope, opt Options) Seal {
	return Seal{Format: format, SessionID: scope.SessionID, Through: x.Through, Head: x.Head, Events: x.Events, Key: opt.Key}
}
