package evidence

import (
	"strings"

	"agentd/event"
	"agentd/tool/toolkind"
)

// maxDiffLines bounds what a review shows of one change.
const maxDiffLines = 200

// fileDiff shows a change as the facts have it: the arguments of the file tool that
// made it. Earlier contents are kept for undo alone and are not in the facts, so a
// file that was written over shows its new content. The change of anything else,
// such as a shell command, shows nothing.
func fileDiff(tool string, args event.Raw, f *event.FileChange) string {
	w, err := toolkind.ReadArguments(args)
	if err != nil {
		return ""
	}
	kind := toolkind.Of(tool)
	var b diffText
	switch {
	case kind == toolkind.EditFile && w.Old+w.New != "":
		b.head("the lines that were replaced")
		b.lines('-', w.Old)
		b.lines('+', w.New)
	case kind == toolkind.WriteFile && f.Change == "created":
		b.head("a new file")
		b.lines('+', w.Content)
	case kind == toolkind.WriteFile:
		b.head("the new content; the earlier one is kept for undo alone")
		b.lines('+', w.Content)
	default:
		return ""
	}
	return b.String()
}

// diffText is a diff that is being written, up to a number of lines.
type diffText struct {
	strings.Builder
	count, left int
}

func (b *diffText) head(says string) { b.WriteString("@@ " + says + " @@\n") }

func (b *diffText) lines(sign byte, text string) {
	for l := range strings.Lines(text) {
		if b.count++; b.count > maxDiffLines {
			b.left++
			continue
		}
		b.WriteByte(sign)
		b.WriteString(strings.TrimRight(l, "\r\n"))
		b.WriteByte('\n')
	}
	if b.left > 0 && sign == '+' {
		b.WriteString("… more lines are not shown\n")
	}
}

// fenced makes text that others wrote a block of Markdown: the fence is longer than
// any in the text, and control characters are gone.
func fenced(language, text string) string {
	text = strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && (c < ' ' || c == 0x7f) {
			return -1
		}
		return c
	}, text)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// indent moves a block into the item of a list.
func indent(block string) string {
	return "  " + strings.ReplaceAll(block, "\n", "\n  ")
}
