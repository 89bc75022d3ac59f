package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/event"
)

// parse turns the text of a scalar into the value that its type wants: a string,
// an int64, a float64 or a bool. Durations stay text in their normal form.
func (s *Setting) parse(text string) (any, error) {
	switch s.Type {
	case Text, Texts:
		return text, nil
	case Choice, Choices:
		return s.choice(text)
	case ID:
		return parseID(text)
	case Integer:
		return parseInteger(text)
	case Bound:
		return parseBound(text)
	case Number, Fraction:
		return s.number(text)
	case Boolean:
		return parseBoolean(text)
	case Duration:
		return parseDuration(text)
	case Size:
		return ParseSize(text)
	case SizeBound:
		return parseSizeBound(text)
	case URL:
		return parseURL(text)
	case Address:
		return parseAddress(text)
	case Objects:
	}
	return nil, fmt.Errorf("a %s can't be given as text", s.Type)
}

func (s *Setting) choice(text string) (any, error) {
	if slices.Contains(s.Values, text) {
		return text, nil
	}
	hint := ""
	if near := nearest(text, s.Values); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return nil, fmt.Errorf("%q is not one of %s%s", text, strings.Join(s.Values, ", "), hint)
}

func parseID(text string) (any, error) {
	if text != "" && !event.ValidID(text) {
		return nil, fmt.Errorf("%q is not an id: 1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or a digit", text)
	}
	return text, nil
}

func parseInteger(text string) (any, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%q is not a whole number of at least 0", text)
	}
	return n, nil
}

// Unlimited is the word for a bound that isn't one.
const Unlimited = "unlimited"

// parseBound returns a bound as text. A zero is refused: some would mean nothing by
// it, and others everything.
func parseBound(text string) (any, error) {
	if text == Unlimited {
		return text, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil || n <= 0 || n > maxBound {
		return nil, fmt.Errorf("%q is neither a whole number from 1 to %d nor %s", text, int64(maxBound), Unlimited)
	}
	return strconv.FormatInt(n, 10), nil
}

// parseSizeBound is [parseBound] for sizes.
func parseSizeBound(text string) (any, error) {
	if text == Unlimited {
		return text, nil
	}
	n, err := ParseSize(text)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is neither a size over 0, such as 64kB or 10GiB, nor %s", text, Unlimited)
	}
	return strconv.FormatInt(n, 10), nil
}

// maxBound is more than any machine has, and small enough to be counted in bytes.
const maxBound = 1 << 40

func (s *Setting) number(text string) (any, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1e15 {
		return nil, fmt.Errorf("%q is not a number of at least 0", text)
	}
	if s.Type == Fraction && (f == 0 || f > 1) {
		return nil, fmt.Errorf("%q is not a fraction over 0 and up to 1", text)
	}
	return f, nil
}

func parseBoolean(text string) (any, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, fmt.Errorf("%q is neither true nor false", text)
}

func parseDuration(text string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%q is not a duration such as 500ms, 30s, 10m or 720h", text)
	}
	return d.String(), nil
}

// ParseSize returns a number of bytes. Units are powers of 1000 (kB, MB, GB) and
// of 1024 (KiB, MiB, GiB).
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "kKMGiB ")
	unit := strings.TrimSpace(text[len(digits):])
	factors := map[string]int64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	factor, ok := factors[unit]
	if err != nil || !ok || n < 0 || n > (1<<62)/factor {
		return 0, fmt.Errorf("%q is not a size such as 4096, 64kB or 4MiB", text)
	}
	return n * factor, nil
}

func parseURL(text string) (any, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("%q is not an address that begins with http:// or https://", ShownURL(text))
	}
	if u.User != nil {
		return nil, fmt.Errorf("the address %q holds a name or a password; keys belong in the environment", ShownURL(text))
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("%q has the port %s; ports are from 1 to 65535", ShownURL(text), port)
		}
	}
	return text, nil
}

// ShownURL returns an address as it may be shown to anyone: without a name and password,
// and without the values of its query and its fragment, in which some services have their
// keys.
func ShownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		shown := address[:len(address)-len(strings.TrimLeftFunc(address, func(r rune) bool { return r != '?' && r != '#' }))]
		scheme, rest, _ := strings.Cut(shown, "://")
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			return scheme + "://" + hiddenPart + rest[at:]
		}
		return shown
	}
	if u.User != nil {
		u.User = url.User(hiddenPart)
	}
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = hiddenPart, ""
	}
	if u.RawQuery != "" {
		pairs := strings.Split(u.RawQuery, "&")
		for i, pair := range pairs {
			name, _, named := strings.Cut(pair, "=")
			if pairs[i] = name + "=" + hiddenPart; !named || strings.Contains(pair, ";") {
				pairs[i] = hiddenPart // it can't be told what is a name
			}
		}
		u.RawQuery = strings.Join(pairs, "&")
	}
	return u.String()
}

// hiddenPart stands for what isn't shown.
const hiddenPart = "xxxxx"

func parseAddress(text string) (any, error) {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not an address such as 127.0.0.1:8700", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return nil, fmt.Errorf("%q is not an address such as 127.0.0.1:8700: the port must be a number from 0 to 65535", text)
	}
	return text, nil
}

// nearest returns the candidate that a person may have meant, or "".
func nearest(word string, candidates []string) string {
	most := max(2, len(word)/3)
	if len(word) < 4 {
		most = 1 // short words are near to everything
	}
	best, least := "", most+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of single-byte edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost = 1 + min(before, row[j], row[j+1])
			}
			before, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
