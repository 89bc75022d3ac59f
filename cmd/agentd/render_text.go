package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/event"
	"agentd/tool"
	"agentd/tool/toolkind"
)

// Marks before lines. They are the same without colour.
const (
	markDone   = "✓"
	markFailed = "✗"
	markNote   = "•"
	markWarn   = "!"
)

// shortArgs says in a few words what a tool is called with.
func shortArgs(name string, args event.Raw) string {
	var v map[string]any
	if json.Unmarshal(args, &v) != nil {
		return plainText(string(args))
	}
	a, _ := toolkind.ReadArguments(args) // what isn't there is not shown
	switch toolkind.Of(name) {
	case toolkind.Shell:
		return plainText(a.Command)
	case toolkind.ReadFile, toolkind.WriteFile, toolkind.EditFile:
		return plainText(a.Path)
	case toolkind.ListFiles:
		return plainText(strings.TrimSpace(a.Path + " " + a.Glob))
	case toolkind.SearchFiles:
		return plainText(strings.TrimSpace(strconv.Quote(a.Pattern) + " " + a.Path + " " + a.Glob))
	case toolkind.RequestInput:
		return plainText(a.Prompt)
	case toolkind.SpawnAgent:
		return plainText(strings.TrimPrefix(a.Role+": "+a.Input, ": "))
	case toolkind.UpdatePlan, toolkind.PresentPlan:
		return ""
	case toolkind.Other:
	}
	if len(v) == 0 {
		return ""
	}
	return plainText(string(args))
}

// planLines are the steps of a plan as a list with boxes.
func planLines(k ink, args event.Raw) []string {
	var plan tool.Plan
	if json.Unmarshal(args, &plan) != nil {
		return nil
	}
	var out []string
	for _, item := range plan.Items {
		text := plainText(item.Step)
		switch item.Status {
		case "completed":
			out = append(out, k.paint(dim, "  ☑ "+text))
		case "in_progress":
			out = append(out, k.paint(bold, "  ▸ "+text))
		case "cancelled":
			out = append(out, k.paint(dim, "  ☒ "+text))
		default:
			out = append(out, "  ☐ "+text)
		}
	}
	return out
}

// took says how long something took, as far as it matters to people.
func took(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	}
	return d.Round(time.Second).String()
}

// money says what something cost. Small sums keep two digits that count.
func money(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd < 0.0001:
		return "<$0.0001"
	case usd < 0.1:
		return "$" + strconv.FormatFloat(usd, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
}

// count writes a number of tokens.
func count(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + "k"
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
}

// tokens says how many a turn took.
func tokens(u *event.Usage) string {
	if u == nil {
		return ""
	}
	in := count(u.InputTokens) + " in"
	if u.CachedInputTokens > 0 {
		in += " (" + count(u.CachedInputTokens) + " cached)"
	}
	return in + " / " + count(u.OutputTokens) + " out"
}

// plural writes a number of things.
func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

// facets joins what is there with dots.
func facets(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}

// excerpt returns the first lines of a text, each behind a bar, and says how many
// are left out.
func excerpt(k ink, text string, most, cols int) []string {
	text = strings.TrimRight(plainBlock(text), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	left := len(lines) - most
	if left > 0 {
		lines = lines[:most]
	}
	out := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		out = append(out, k.paint(dim, "  │ "+clip(strings.ReplaceAll(line, "\t", "  "), max(cols-6, 10))))
	}
	if left > 0 {
		out = append(out, k.paint(dim, fmt.Sprintf("  │ … %s more", plural(int64(left), "line"))))
	}
	return out
}

// lastRows returns the last rows of a text at a width.
func lastRows(text string, most, cols int) []string {
	// Only the end is seen, so only the end is broken into rows.
	if keep := most * cols * 4; len(text) > keep {
		text = strings.ToValidUTF8(text[len(text)-keep:], "")
	}
	lines := wrapped(strings.Trim(text, "\n"), cols)
	return lines[max(0, len(lines)-most):]
}

// plainBlock is plainText that keeps lines and tabs.
func plainBlock(s string) string {
	var b strings.Builder
	for piece := range strings.SplitAfterSeq(s, "\n") {
		body, end := strings.CutSuffix(piece, "\n")
		for i, field := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(plainText(field))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
