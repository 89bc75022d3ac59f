package redact

import "strings"

// A name that tells a secret, then a sign of assignment, then a value that looks
// drawn: API_KEY=…, "client_secret": "…", token => '…'.

// nameChars go on after a keyword: api_key_prod, secretKey, password2.
var nameChars = dotted

// valueChars are what an assigned value consists of.
var valueChars = classExcept(" \t\r\n\"'`<>\\,;(){}[]|&")

const (
	maxName  = 40
	minDrawn = 10
	minWeak  = 16
)

// assigned returns the matcher of a name. A weak name (token, auth) is also used
// for things that are no secrets, so ids beside it stay.
func assigned(keyword string, weak bool) matcher {
	return func(s string, at int, final bool) (int, int, verdict) {
		i := runEnd(s, at+len(keyword), nameChars, maxName)
		i, ok := separator(s, i)
		if i == len(s) && !final {
			return at, i, undecided
		}
		if !ok {
			return at, at, no
		}
		_, end, v := judgeRun(s, at, i, runEnd(s, i, valueChars, maxToken), final, valueChars, func(v string) bool {
			return secretValue(v, weak)
		})
		if v != yes {
			return at, end, v
		}
		return i, end, yes
	}
}

// separator reads what stands between a name and its value, from i: closing
// quotes, blanks, a sign of assignment, blanks, an opening quote, each also with
// the backslash of JSON in JSON. It returns where the value begins.
func separator(s string, i int) (int, bool) {
	i = skipQuote(s, i)
	i = skipBlanks(s, i)
	switch {
	case strings.HasPrefix(s[i:], "=>"), strings.HasPrefix(s[i:], ":="):
		i += 2
	case i < len(s) && (s[i] == '=' || s[i] == ':'):
		i++
	default:
		return i, false
	}
	i = skipBlanks(s, i)
	return skipQuote(s, i), true
}

func skipBlanks(s string, i int) int { return runEnd(s, i, blanks, 4) }

func skipQuote(s string, i int) int {
	for i < len(s) && s[i] == '\\' {
		i++
	}
	if i < len(s) && strings.IndexByte("\"'`", s[i]) >= 0 {
		i++
	}
	return i
}

var blanks = classOf(" \t")

// secretValue reports whether an assigned value looks like a secret.
func secretValue(v string, weak bool) bool {
	v = strings.TrimRight(v, ".:!?")
	if len(v) < minDrawn || placeholder(v) || !drawn(v) {
		return false
	}
	if isRef(v) || isID(v) || strings.Contains(v, "://") || isPath(v) {
		return false
	}
	return !weak || len(v) >= minWeak && !isUUID(v)
}

// isRef reports whether a value is a digest with its algorithm before it.
func isRef(v string) bool {
	for _, p := range []string{"sha256:", "sha512:", "sha1:", "md5:", "sha256-", "sha384-", "sha512-", "blake3:"} {
		if strings.HasPrefix(v, p) {
			return true
		}
	}
	return false
}

// isID reports whether a value is one of our own ids: a word, an underscore and
// 26 characters of base 32.
func isID(v string) bool {
	i := strings.IndexByte(v, '_')
	if i < 1 || len(v)-i-1 != 26 {
		return false
	}
	for k := range len(v) {
		if c := v[k]; k != i && !lowerAlnum[c] {
			return false
		}
	}
	return true
}

var lowerAlnum = classOf("0-9a-z")

func isUUID(v string) bool {
	if len(v) != 36 {
		return false
	}
	for i := range len(v) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (v[i] == '-') || (!dash && !lowerHex[lower(v[i])]) {
			return false
		}
	}
	return true
}

// isPath reports whether a value is a path: it begins like one.
func isPath(v string) bool {
	return v[0] == '/' && strings.Count(v, "/") > 1 || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~/")
}
