package evidence

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
)

// signedAs stands before what is signed, so that a signature means this and
// nothing else.
const signedAs = "agentd evidence 1\n"

// KeyID returns the name of a public key: "sha256:" and the hex sum of its bytes.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// integrity is the last section of a pack: what proves the others.
type integrity struct {
	Chain chainProof `json:"chain"`
	// Document is the format of what is proven; empty for an evidence pack.
	Document string `json:"document,omitempty"`
	KeyID    string `json:"keyId"`
	// Marks tell where a change is.
	Marks     *marks        `json:"marks,omitempty"`
	PublicKey []byte        `json:"publicKey"`
	Sections  []sectionHash `json:"sections"`
	Signature []byte        `json:"signature,omitempty"`
	// SignatureAlgorithm is ed25519.
	SignatureAlgorithm string `json:"signatureAlgorithm"`
}

// chainProof places the pack's facts in the session's hash chain.
type chainProof struct {
	Algorithm string `json:"algorithm"`
	// Complete says that every fact from the first to Through is in the pack.
	Complete bool   `json:"complete"`
	Events   int64  `json:"events"`
	Genesis  string `json:"genesis"`
	HeadHash string `json:"headHash"`
	// Removed is the last of the facts that retention removed before the export.
	Removed uint64 `json:"removedThrough,omitempty"`
	Through uint64 `json:"through"`
}

// sectionHash is the SHA-256 sum of a section's canonical form; of "events", of
// the hashes of its facts.
type sectionHash struct {
	Items  int64  `json:"items,omitempty"`
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

// message is what is signed: everything but the signature.
func (i *integrity) message() ([]byte, error) {
	unsigned := *i
	unsigned.Signature = nil
	b, err := canonicalOf(&unsigned)
	return append([]byte(signedAs), b...), err
}

func (i *integrity) sign(key ed25519.PrivateKey) error {
	public := key.Public().(ed25519.PublicKey)
	i.KeyID, i.PublicKey, i.SignatureAlgorithm = KeyID(public), public, "ed25519"
	m, err := i.message()
	if err != nil {
		return err
	}
	i.Signature = ed25519.Sign(key, m)
	return nil
}

// signed reports whether the signature holds under the key that it names.
func (i *integrity) signed() bool {
	m, err := i.message()
	return err == nil && i.SignatureAlgorithm == "ed25519" && len(i.PublicKey) == ed25519.PublicKeySize &&
		i.KeyID == KeyID(i.PublicKey) && ed25519.Verify(i.PublicKey, m, i.Signature)
}
