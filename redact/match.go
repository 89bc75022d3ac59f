package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// class is a set of bytes.
type class [256]bool

func classOf(ranges string) *class {
	var c class
	for i := 0; i < len(ranges); i++ {
		if i+2 < len(ranges) && ranges[i+1] == '-' {
			for b := int(ranges[i]); b <= int(ranges[i+2]); b++ {
				c[b] = true
			}
			i += 2
			continue
		}
		c[ranges[i]] = true
	}
	return &c
}

// classExcept is the set of all bytes but those.
func classExcept(not string) *class {
	c := classOf(not)
	for b := range c {
		c[b] = !c[b]
	}
	return c
}

var (
	digits    = classOf("0-9")
	letters   = classOf("A-Za-z")
	alnum     = classOf("A-Za-z0-9")
	upperNum  = classOf("A-Z0-9")
	lowerHex  = classOf("0-9a-f")
	words     = classOf("A-Za-z0-9_")
	base64URL = classOf("A-Za-z0-9_-")
	dotted    = classOf("A-Za-z0-9_.-")
	base64Std = classOf("A-Za-z0-9+/")
	bearers   = classOf("A-Za-z0-9._~+/=-")

	base64Padded = classOf("A-Za-z0-9+/=")
)

// runEnd returns the end of the bytes of a class from i, of which it looks at limit.
func runEnd(s string, i int, c *class, limit int) int {
	end := min(len(s), i+limit)
	for i < end && c[s[i]] {
		i++
	}
	return i
}

// maxToken is how much of a long run of characters is looked at to judge it, so
// that a text of nothing but begins costs a bounded amount for each. What is
// judged a secret goes whole.
const maxToken = 256

// shape is a secret that begins with a telling prefix.
type shape struct {
	rule, prefix string
	chars        *class
	// The part after the prefix has min to max characters, and none of the class
	// follows. A max of 0 is the bound of all tokens.
	min, max int
	// proof is what else the part has to show, because the prefix alone says too little.
	proof proof
	// inWord finds the prefix also behind a letter.
	inWord bool
}

// proof is what tells a secret from a word that begins like one.
type proof int

const (
	// anyChars is enough behind a prefix that nothing else has.
	anyChars proof = iota
	// mixedChars asks for letters and digits: words that are no secrets have hyphens
	// between the two, and the class of the shape has none.
	mixedChars
	// drawnChars asks for letters and digits that look drawn at random.
	drawnChars
)

func (p proof) holds(v string) bool {
	switch p {
	case anyChars:
	case mixedChars:
		return strings.ContainsFunc(v, isDigit) && strings.ContainsFunc(v, isLetter)
	case drawnChars:
		return drawn(v)
	}
	return true
}

func isDigit(r rune) bool  { return '0' <= r && r <= '9' }
func isLetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' }

func (h shape) matcher() matcher {
	most := max(h.max, maxToken)
	return func(s string, at int, final bool) (int, int, verdict) {
		if !isBoundary(s, at) && !glued(s, at, h.inWord) {
			return at, at, no
		}
		begin := at + len(h.prefix)
		end := runEnd(s, begin, h.chars, most+1)
		if n := end - begin; h.max != 0 && n > h.max {
			return at, at, no
		}
		return judgeRun(s, at, begin, end, final, h.chars, func(v string) bool {
			return len(v) >= h.min && h.proof.holds(v)
		})
	}
}

// judgeRun decides on a run of chars that was read from begin to end. A run that
// meets the end of a text that goes on is undecided; one that is a secret goes
// with all that follows of it, but for a dot that ends a sentence.
func judgeRun(s string, at, begin, end int, final bool, chars *class, secret func(string) bool) (int, int, verdict) {
	if end == len(s) && !final {
		return at, end, undecided
	}
	if !secret(s[begin:end]) {
		return at, at, no
	}
	end = runEnd(s, end, chars, len(s))
	if end == len(s) && !final {
		return at, end, undecided
	}
	if s[end-1] == '.' {
		end--
	}
	return at, end, yes
}

// isBoundary reports whether a token may begin at a place: not in the middle of a
// word. Letters that belong to an escape before it (\n, %3D, \u0026, a colour of
// the terminal) are no part of a word.
func isBoundary(s string, at int) bool {
	if at == 0 || !alnum[s[at-1]] {
		return true
	}
	before := s[max(0, at-12):at]
	n := len(before)
	switch {
	case n >= 2 && before[n-2] == '\\' && strings.IndexByte("nrtbfv0", before[n-1]) >= 0:
		return true
	case n >= 3 && before[n-3] == '%' && isHex(before[n-2:]):
		return true
	case n >= 6 && before[n-6:n-4] == `\u` && isHex(before[n-4:]):
		return true
	case n >= 4 && before[n-4:n-2] == `\x` && isHex(before[n-2:]):
		return true
	case before[n-1] == 'm':
		return strings.HasSuffix(strings.TrimRight(before[:n-1], "0123456789;"), "[")
	}
	return false
}

// maxGlued is how long a word may be that a secret is glued to. What is longer is
// encoded data, in which every prefix turns up sooner or later.
const maxGlued = 256

// glued reports whether a token may begin within a word: behind a digit or, if
// letters say nothing against it, behind a letter.
func glued(s string, at int, letters bool) bool {
	if !letters && !digits[s[at-1]] {
		return false
	}
	for i := at - 1; i >= 0 && base64URL[s[i]]; i-- {
		if at-i >= maxGlued {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := lower(s[i]); !lowerHex[c] {
			return false
		}
	}
	return true
}

// drawn reports whether a text looks drawn at random: digits in several places
// among letters, and few repetitions.
func drawn(s string) bool {
	var digit, letter, runs int
	for i := range len(s) {
		switch {
		case digits[s[i]]:
			if i == 0 || !digits[s[i-1]] {
				runs++
			}
			digit++
		case letters[s[i]]:
			letter++
		}
	}
	if runs < 2 || letter < 4 || digit < 2 || letter*4 < len(s) {
		return false
	}
	return entropy(s) >= 3
}

// entropy is Shannon's, in bits a byte.
func entropy(s string) float64 {
	var count [256]int
	for i := range len(s) {
		count[s[i]]++
	}
	var h float64
	n := float64(len(s))
	for i := range count {
		if c := count[i]; c > 0 {
			p := float64(c) / n
			h -= p * math.Log2(p)
		}
	}
	return h
}

// maxHeader and maxClaims bound the parts of a token that carries claims.
const (
	maxHeader = 1 << 10
	maxClaims = 8 << 10
)

// matchJWT finds header.payload.signature, each in base64url; the first two are
// JSON objects, which encode to a begin of eyJ.
func matchJWT(s string, at int, final bool) (int, int, verdict) {
	inWord := !isBoundary(s, at)
	if inWord && !glued(s, at, true) {
		return at, at, no
	}
	end := at
	for part := range 3 {
		begin := end
		if part == 2 {
			return judgeRun(s, at, begin, runEnd(s, begin, base64URL, maxToken), final, base64URL, func(v string) bool { return len(v) >= 10 })
		}
		end = runEnd(s, begin, base64URL, []int{maxHeader, maxClaims}[part])
		if end == len(s) && !final {
			return at, end, undecided
		}
		if end-begin < 10 {
			return at, at, no
		}
		if end == len(s) || s[end] != '.' {
			return at, at, no
		}
		if part == 0 && inWord && !isHeader(s[begin:end]) {
			return at, at, no
		}
		end++
	}
	return at, end, no
}

// isHeader reports whether a text is an encoded JSON object, which tells a token
// within a word from a name such as keyJSON.
func isHeader(text string) bool {
	plain, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && json.Valid(plain)
}

// maxBlock bounds a private key. RSA with 16,384 bits has less.
const maxBlock = 16 << 10

// keyChars are what a block consists of, with its line ends as they are or escaped.
var keyChars = classOf("A-Za-z0-9+/=\r\n\\")

// matchBlock finds a whole private key in PEM or PGP armour. Of a block without
// an end, all that can belong to it goes.
func matchBlock(s string, at int, final bool) (int, int, verdict) {
	const begin, finish, dashes = "-----BEGIN ", "-----END ", "-----"
	label := at + len(begin)
	window := s[label:min(len(s), label+64)]
	n := strings.Index(window, dashes)
	if n < 0 {
		if len(window) < 64 && !final {
			return at, len(s), undecided
		}
		return at, at, no
	}
	if !strings.Contains(window[:n], "PRIVATE KEY") {
		return at, at, no
	}
	body := label + n + len(dashes)
	limit := min(len(s), at+maxBlock)
	if e := strings.Index(s[body:limit], finish); e >= 0 {
		tail := body + e + len(finish)
		if d := strings.Index(s[tail:min(len(s), tail+64)], dashes); d >= 0 {
			return at, tail + d + len(dashes), yes
		}
		if len(s)-tail < 64 && !final {
			return at, len(s), undecided
		}
	}
	if len(s) < at+maxBlock && !final {
		return at, len(s), undecided
	}
	end := runEnd(s, body, keyChars, len(s))
	if end == len(s) && !final {
		return at, end, undecided
	}
	return at, end, yes
}

// userInfoEnd are the bytes that end the authority of a URL.
var userInfoEnd = classOf("/?# \t\r\n\"'`<>\\{}|,;()")

// matchURL finds the password of scheme://user:password@host.
func matchURL(s string, at int, final bool) (int, int, verdict) {
	begin := at + len("://")
	limit := min(len(s), begin+1024)
	end := begin
	for end < limit && !userInfoEnd[s[end]] {
		end++
	}
	if end == len(s) && end < begin+1024 && !final {
		return at, end, undecided
	}
	authority := s[begin:end]
	host := strings.LastIndexByte(authority, '@')
	if host < 0 {
		return at, at, no
	}
	colon := strings.IndexByte(authority[:host], ':')
	if colon < 0 || placeholder(authority[colon+1:host]) {
		return at, at, no
	}
	return begin + colon + 1, begin + host, yes
}

// placeholder reports whether a text stands for a secret instead of being one.
func placeholder(s string) bool {
	if s == "" || strings.HasPrefix(s, "[redacted") {
		return true
	}
	if strings.IndexByte("$<{*%", s[0]) >= 0 && (s[0] != '%' || len(s) < 3 || !isHex(s[1:3])) {
		return true
	}
	return strings.Trim(s, "xX*.-") == ""
}

// credential is what the credential of a header consists of.
var credential = classExcept(" \t\r\n\"'`<>\\,;(){}[]")

// matchAuthorization finds the credential of an Authorization header, in HTTP,
// in code or in JSON.
func matchAuthorization(s string, at int, final bool) (int, int, verdict) {
	i, ok := separator(s, at+len("authorization"))
	if i == len(s) && !final {
		return at, i, undecided
	}
	if !ok {
		return at, at, no
	}
	word := runEnd(s, i, words, 32)
	if word == len(s) && !final {
		return at, word, undecided
	}
	scheme := ""
	if word < len(s) && s[word] == ' ' {
		scheme, i = strings.ToLower(s[i:word]), word+1
	}
	_, end, v := judgeRun(s, at, i, runEnd(s, i, credential, maxToken), final, credential, func(v string) bool {
		switch {
		case placeholder(v) || len(v) < MinValue:
			return false
		case scheme == "":
			return len(v) >= 16 && drawn(v)
		}
		return slices.Contains(schemes, scheme)
	})
	if v != yes {
		return at, end, v
	}
	return i, end, yes
}

// schemes of an Authorization header whose credential is the secret.
var schemes = []string{"bearer", "basic", "token", "apikey", "digest", "negotiate"}

// matchBearer finds "Bearer " with a token outside of a header.
func matchBearer(s string, at int, final bool) (int, int, verdict) {
	if !isBoundary(s, at) {
		return at, at, no
	}
	i := at + len("bearer ")
	_, end, v := judgeRun(s, at, i, runEnd(s, i, bearers, maxToken), final, bearers, func(v string) bool {
		return len(v) >= 16 && drawn(v)
	})
	if v != yes {
		return at, end, v
	}
	return i, end, yes
}

// matchBasic finds "Basic " with what decodes to user:password.
func matchBasic(s string, at int, final bool) (int, int, verdict) {
	if !isBoundary(s, at) {
		return at, at, no
	}
	i := at + len("basic ")
	_, end, v := judgeRun(s, at, i, runEnd(s, i, base64Padded, maxToken), final, base64Padded, isUserPassword)
	if v != yes {
		return at, end, v
	}
	return i, end, yes
}

// isUserPassword reports whether a text is the base64 of user:password.
func isUserPassword(v string) bool {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
	return err == nil && len(v) >= 8 && bytes.IndexByte(plain, ':') > 0 && printable(plain)
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

// byRegexp matches a host's own rule on the line around its keyword.
func byRegexp(p Pattern) matcher {
	const around = 1024
	return func(s string, at int, final bool) (int, int, verdict) {
		low := max(0, at-around)
		if nl := strings.LastIndexByte(s[low:at], '\n'); nl >= 0 {
			low += nl + 1
		}
		high := min(len(s), at+around)
		if nl := strings.IndexByte(s[at:high], '\n'); nl >= 0 {
			high = at + nl
		} else if high == len(s) && !final {
			return at, high, undecided
		}
		loc := p.Regexp.FindStringSubmatchIndex(s[low:high])
		if loc == nil || 2*p.Group+1 >= len(loc) || loc[2*p.Group] < 0 || loc[2*p.Group] == loc[2*p.Group+1] {
			return at, at, no
		}
		end := low + loc[2*p.Group+1]
		// What is before the keyword may have been given on by a stream already.
		if start := max(at, low+loc[2*p.Group]); start < end {
			return start, end, yes
		}
		return at, at, no
	}
}
