package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"unicode/utf8"
)

// maxHashed bounds the files whose content an approval is tied to. Nothing larger can
// be approved for a session.
const maxHashed = 16 << 20

// maxScript bounds the scripts that are read to find out what they run.
const maxScript = 16 << 10

// scriptText returns the content of a short regular text file, and false for anything
// else.
func scriptText(path string) (string, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxScript {
		return "", false
	}
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close() // opened for reading
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err != nil || len(text) > maxScript || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", false
	}
	return string(text), true
}

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
