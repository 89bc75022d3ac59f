package repotest

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// link is one link of a Markdown file.
type link struct {
	line   int
	target string
}

var (
	inlineLink    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	referenceLink = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$`)
	inlineCode    = regexp.MustCompile("`[^`]*`")
	heading       = regexp.MustCompile(`^#{1,6}\s+(.+?)\s*#*\s*$`)
	anchorTag     = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// proseLines calls visit for each line of a Markdown text that is not inside a
// fenced block of code.
func proseLines(text string, visit func(number int, line string)) {
	fence := ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"):
			fence = "```"
		case strings.HasPrefix(trimmed, "~~~"):
			fence = "~~~"
		default:
			visit(i+1, line)
		}
	}
}

// markdownLinks returns the links of a Markdown text.
func markdownLinks(text string) []link {
	var links []link
	proseLines(text, func(number int, line string) {
		line = inlineCode.ReplaceAllStringFunc(line, func(code string) string { return strings.Repeat("x", len(code)) })
		for _, m := range inlineLink.FindAllStringSubmatch(line, -1) {
			links = append(links, link{line: number, target: m[1]})
		}
		if m := referenceLink.FindStringSubmatch(line); m != nil {
			links = append(links, link{line: number, target: m[1]})
		}
	})
	return links
}

// markdownAnchors returns the anchors that a Markdown text offers: explicit ones
// and those that a forge makes of headings.
func markdownAnchors(text string) map[string]bool {
	anchors := map[string]bool{}
	proseLines(text, func(_ int, line string) {
		for _, m := range anchorTag.FindAllStringSubmatch(line, -1) {
			anchors[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		base := anchorOf(m[1])
		anchor := base
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", base, n)
		}
		anchors[anchor] = true
	})
	return anchors
}

// anchorOf turns a heading's text into its anchor: lower case, spaces as dashes,
// punctuation dropped, the text of links kept.
func anchorOf(title string) string {
	title = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(title, "$1")
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// checkLinks reports links of Markdown files that lead nowhere within the
// repository. Links to the outside are not followed.
func checkLinks(fsys fs.FS, names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		if path.Ext(name) != ".md" {
			continue
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("repotest: check links: %w", err)
		}
		for _, l := range markdownLinks(string(data)) {
			if problem := checkLink(fsys, name, string(data), l.target); problem != "" {
				found = append(found, fmt.Sprintf("%s:%d: link to %s: %s", name, l.line, l.target, problem))
			}
		}
	}
	return found, nil
}

func checkLink(fsys fs.FS, from, text, target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "not a link"
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	if u.Path != "" {
		to := path.Join(path.Dir(from), u.Path)
		info, err := fs.Stat(fsys, to)
		if err != nil {
			return "no such file"
		}
		if u.Fragment == "" || info.IsDir() || path.Ext(to) != ".md" {
			return ""
		}
		data, err := fs.ReadFile(fsys, to)
		if err != nil {
			return "not readable"
		}
		text = string(data)
	}
	if u.Fragment != "" && !markdownAnchors(text)[u.Fragment] {
		return "no such heading"
	}
	return ""
}

// checkIndex reports pages below docs that can't be reached from its index by
// following links.
func checkIndex(fsys fs.FS, names []string, index string) ([]string, error) {
	reached := map[string]bool{}
	todo := []string{index}
	for len(todo) > 0 {
		page := todo[0]
		todo = todo[1:]
		if reached[page] {
			continue
		}
		reached[page] = true
		data, err := fs.ReadFile(fsys, page)
		if err != nil {
			return nil, fmt.Errorf("repotest: check the index: %w", err)
		}
		todo = append(todo, pagesLinkedFrom(fsys, page, string(data))...)
	}
	var found []string
	for _, name := range names {
		if path.Ext(name) == ".md" && strings.HasPrefix(name, path.Dir(index)+"/") && !reached[name] {
			found = append(found, fmt.Sprintf("%s: no way leads to it from %s", name, index))
		}
	}
	return found, nil
}

// pagesLinkedFrom returns the Markdown pages that a page links to; a link to a
// folder counts for the pages directly in it.
func pagesLinkedFrom(fsys fs.FS, page, text string) []string {
	var pages []string
	for _, l := range markdownLinks(text) {
		u, err := url.Parse(l.target)
		if err != nil || u.Scheme != "" || u.Path == "" {
			continue
		}
		to := path.Join(path.Dir(page), u.Path)
		if matches, _ := fs.Glob(fsys, to+"/*.md"); len(matches) > 0 {
			pages = append(pages, matches...)
		}
		if _, err := fs.Stat(fsys, to); err == nil && path.Ext(to) == ".md" {
			pages = append(pages, to)
		}
	}
	return pages
}
