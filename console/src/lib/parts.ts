// A text that grows, in parts: what comes behind changes the last one only, so that an answer of a megabyte is drawn as
// quickly as one of a line.

export interface Part {
  text: string;
  /** Whether it is drawn as markdown: the beginning of a long text is, the rest as it is. */
  markdown: boolean;
}

/** How much of a text is drawn as markdown. */
const mostMarkdown = 60_000;
/** How long a part of markdown is at least; it ends with the block that it is in. */
const partSize = 2000;
/** How long a part of plain text is at most. */
const plainSize = 8000;

/** Parts cuts one text. Parts that are complete stay the same objects. */
export class Parts {
  #text = "";
  #done: Part[] = [];
  /** Where the part begins that isn't complete. */
  #at = 0;

  /** of cuts a text; one that goes on from the text before is cut from where that ended. */
  of(text: string, plain: boolean): Part[] {
    if (!text.startsWith(this.#text) || (this.#done[0] && this.#done[0].markdown === plain)) {
      this.#done = [];
      this.#at = 0;
    }
    this.#text = text;
    for (;;) {
      const markdown = !plain && this.#at < mostMarkdown;
      const end = markdown ? blockEnd(text, this.#at) : lineEnd(text, this.#at);
      if (end < 0) return this.#at < text.length ? [...this.#done, { text: text.slice(this.#at), markdown }] : [...this.#done];
      this.#done.push({ text: text.slice(this.#at, end), markdown });
      this.#at = end;
    }
  }
}

/** blockEnd returns where the first empty line ends that is far enough and in no block of code; -1 if there is none yet. */
function blockEnd(text: string, from: number): number {
  const gap = /\n[ \t]*\n/g;
  gap.lastIndex = from + partSize;
  for (let m = gap.exec(text); m; m = gap.exec(text)) {
    const end = m.index + m[0].length;
    // It must not be the last thing that is known: what follows may be more of it.
    if (end >= text.length) return -1;
    const fences = text.slice(from, end).match(/^[ \t]*(```|~~~)/gm)?.length ?? 0;
    if (fences % 2 === 0 || end - from > mostMarkdown) return end;
    gap.lastIndex = end - 1;
  }
  return text.length - from > mostMarkdown ? lineEnd(text, from) : -1;
}

/** lineEnd returns where the last line ends that is not too far, or a place in one that is too long; -1 if the text ends before. */
function lineEnd(text: string, from: number): number {
  const far = from + plainSize;
  if (far >= text.length) return -1;
  const line = text.lastIndexOf("\n", far - 1) + 1;
  if (line > from) return line;
  return /[\ud800-\udbff]/.test(text[far - 1]!) ? far - 1 : far; // not within a character of two units
}
