// Package redact takes secrets out of text before it is stored, delivered,
// logged, exported or sent to a model.
//
// # Contract
//
// A [Redactor] finds two things: values that it was given, as they are and in
// the common disguises (base64, percent-encoding, JSON escapes, hexadecimal), and
// the well-known shapes of secrets, which it knows by a table of rules. What it
// finds is replaced by "[redacted:rule]", and [Found] counts it. The value itself
// is nowhere: not in the result, not in Found, not in an error.
//
// Values are found always; shapes are a net with holes. A shape must be told from
// hashes, ids and ordinary code, so a secret that looks like neither a known
// vendor's nor a random one beside a telling name goes through. A caller that knows a
// value must give it.
//
// Text in which nothing is found is returned as it is, without a copy and without
// an allocation. [Redactor.JSON] returns valid JSON. A [Stream] gives, over all
// its pieces, what [Redactor.Text] gives for the whole, whatever the pieces are,
// up to a bound on what it holds back.
//
// # Concurrency
//
// A Redactor never changes: goroutines may share it. A Stream has one user.
package redact

import (
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"agentd/event"
)

// MinValue is the length in bytes from which a value is looked for. Shorter ones
// would be found in text that has nothing to do with them.
const MinValue = 6

// RuleValue is the rule's name of values that were given.
const RuleValue = "value"

// Options configure a [Redactor]. The zero value finds well-known shapes.
type Options struct {
	// Values are secrets that are known. Those shorter than [MinValue], and those
	// that are part of a replacement's own text, are not looked for.
	Values []string
	// Patterns are looked for besides the built-in rules.
	Patterns []Pattern
	// ValuesOnly turns the built-in rules off.
	ValuesOnly bool
}

// Pattern is a rule of the host's own.
type Pattern struct {
	// Name of the rule, as it stands in the replacement.
	Name string
	// Keyword stands in every line that Regexp can match, in any case; it has at
	// least three bytes. Lines without it cost nothing.
	Keyword string
	// Regexp is matched against the line around the keyword, at most 1,024 bytes
	// to each side. What it matches before the keyword stays.
	Regexp *regexp.Regexp
	// Group of the match that is replaced; 0 is all of it.
	Group int
}

// Found says what was taken out.
type Found struct {
	// Count of replacements.
	Count int64
	// Rules that found something, sorted, each once.
	Rules []string
}

// Any reports whether something was found.
func (f Found) Any() bool { return f.Count > 0 }

// Add returns the sum of both.
func (f Found) Add(g Found) Found {
	if g.Count == 0 {
		return f
	}
	sum := Found{Count: f.Count + g.Count, Rules: f.Rules}
	for _, r := range g.Rules {
		sum.Rules = withRule(sum.Rules, r)
	}
	return sum
}

// withRule returns the sorted list with a rule in it; a list that others may
// hold is not changed.
func withRule(rules []string, rule string) []string {
	i, has := slices.BinarySearch(rules, rule)
	if has {
		return rules
	}
	return slices.Insert(slices.Clip(rules), i, rule)
}

// Payload is that of output.redacted.
func (f Found) Payload(outputRef, where string) *event.OutputRedacted {
	rules := f.Rules
	if rules == nil {
		rules = []string{}
	}
	return &event.OutputRedacted{OutputRef: outputRef, Count: f.Count, Rules: rules, Where: where}
}

// Redactor takes secrets out. The zero value is not valid; use [New].
type Redactor struct {
	index index
	// longest is the length of the longest value in any disguise.
	longest int
}

// New returns a redactor.
func New(opt Options) *Redactor {
	r := &Redactor{}
	var entries []entry
	names := []string{RuleValue}
	if !opt.ValuesOnly {
		entries = builtin()
	}
	for _, p := range opt.Patterns {
		if len(p.Keyword) >= gram && p.Regexp != nil {
			entries = append(entries, entry{rule: p.Name, keyword: p.Keyword, fold: true, match: byRegexp(p)})
		}
	}
	for _, e := range entries {
		names = append(names, e.rule)
	}
	for _, v := range opt.Values {
		for _, form := range disguises(v) {
			if partOfMarker(form, names) {
				continue
			}
			entries = append(entries, entry{rule: RuleValue, keyword: form})
			r.longest = max(r.longest, len(form))
		}
	}
	r.index.build(entries)
	return r
}

func partOfMarker(form string, rules []string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(marker(rule), form) })
}

func marker(rule string) string { return "[redacted:" + rule + "]" }

// Text returns s without secrets. If there are none, it is s itself.
func (r *Redactor) Text(s string) (string, Found) {
	spans, _ := r.index.scan(s, 0, true)
	if len(spans) == 0 {
		return s, Found{}
	}
	var found Found
	return string(replaceSpans(nil, s, 0, len(s), spans, &found)), found
}

// Bytes returns b without secrets. If there are none, it is b itself; otherwise b
// is left as it is.
func (r *Redactor) Bytes(b []byte) ([]byte, Found) {
	if len(b) == 0 {
		return b, Found{}
	}
	s := bytesAsString(b)
	spans, _ := r.index.scan(s, 0, true)
	if len(spans) == 0 {
		return b, Found{}
	}
	var found Found
	return replaceSpans(nil, s, 0, len(s), spans, &found), found
}

// bytesAsString returns the bytes as a string without a copy, for as long as no one
// changes them.
func bytesAsString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// replaceSpans appends s[from:to] to dst with the spans replaced. The spans are sorted,
// don't overlap, and lie within from and to.
func replaceSpans(dst []byte, s string, from, to int, spans []span, found *Found) []byte {
	if dst == nil {
		dst = make([]byte, 0, to-from+16*len(spans))
	}
	for _, sp := range spans {
		dst = append(dst, s[from:sp.start]...)
		dst = append(dst, marker(sp.rule)...)
		found.Count++
		found.Rules = withRule(found.Rules, sp.rule)
		from = sp.end
	}
	return append(dst, s[from:to]...)
}
