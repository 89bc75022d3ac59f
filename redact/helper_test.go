package redact_test

import (
	"fmt"
	"strings"
)

// Secrets in tests are made when they run: nothing in the source looks like one.

// letters is a text of n characters that looks drawn, the same for the same seed.
func letters(alphabet string, n, seed int) string {
	x := uint32(seed)*2654435761 + 12345
	var b strings.Builder
	for range n {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b.WriteByte(alphabet[x%uint32(len(alphabet))])
	}
	return b.String()
}

const (
	lowercase = "abcdefghijklmnopqrstuvwxyz"
	uppercase = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	numbers   = "0123456789"
	hexadec   = "0123456789abcdef"
	mixed     = lowercase + uppercase + numbers
)

// planted is a value that a redactor is given.
func planted(seed int) string { return fmt.Sprintf("pv%d-%s", seed, letters(mixed, 20, seed)) }
