package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// maxHashed bounds the files whose content an approval is tied to. Nothing larger can
// be approved for a session.
const maxHashed = 16 << 20

// contentHash returns a hash of a regular file's content, and false for anything else.
func contentHash(path string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxHashed {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close() // opened for reading
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, maxHashed+1)); err != nil || n > maxHashed {
		return "", false
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), true
}
