// A text that grows, in parts: what comes behind changes the last one only, so that an answer of a megabyte is drawn as
// quickly as one of a line.

export interface Part {
  text: string;
  /** Whether it is drawn as markdown: the beginning of a long text is, the rest as it is. */
  markdown: boolean;
  /** The lines that a part needs before it to be read as what it is: it goes on with the code or the table of the part before. */
  lead: string;
}

/** How much of a text is drawn as markdown. */
const mostMarkdown = 60_000;
/** How long a part of markdown is at least; it ends with the block that it is in. */
const partSize = 1000;
/** How long a block may be before it is cut: it is drawn anew with each piece that it grows by. */
const mostBlock = 4000;
/** How long a part of plain text is at most. */
const plainSize = 8000;

/** Parts cuts one text. Parts that are complete stay the same objects. */
export class Parts {
  #text = "";
  #done: Part[] = [];
  /** Where the part begins that isn't complete, and what leads it. */
  #at = 0;
  #lead = "";

  /** of cuts a text; one that goes on from the text before is cut from where that ended. */
  of(text: string, plain: boolean): Part[] {
    if (!text.startsWith(this.#text) || (this.#done[0] && this.#done[0].markdown === plain)) {
      this.#done = [];
      this.#at = 0;
      this.#lead = "";
    }
    this.#text = text;
    for (;;) {
      const markdown = !plain && this.#at < mostMarkdown;
      const lead = markdown ? this.#lead : "";
      const next = markdown ? blockEnd(text, this.#at, lead) : { end: lineEnd(text, this.#at, plainSize), lead: "" };
      if (next.end < 0) return this.#at < text.length ? [...this.#done, { text: text.slice(this.#at), markdown, lead }] : [...this.#done];
      this.#done.push({ text: text.slice(this.#at, next.end), markdown, lead });
      this.#at = next.end;
      this.#lead = next.lead;
    }
  }
}

/** fenceAfter returns the line that opened the code that a line is in or leaves open; "" for none. */
function fenceAfter(open: string, line: string): string {
  const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
  if (!mark) return open;
  if (!open) return mark[0] === "`" && line.trim().slice(mark.length).includes("`") ? "" : line;
  const began = /(`{3,}|~{3,})/.exec(open)![1]!;
  return mark[0] === began[0] && mark.length >= began.length && line.trim() === mark ? "" : open;
}

/**
 * blockEnd returns where a part ends, with what leads the next one: after the first empty line that is far enough and in no
 * code; in a block that is too long, after one of its lines. The end is -1 if the text ends before.
 */
function blockEnd(text: string, from: number, lead: string): { end: number; lead: string } {
  let fence = lead.startsWith("|") || !lead ? "" : lead.trimEnd();
  let table = fence ? "" : lead;
  let before = "";
  /** Behind the last line with something in it: an empty line at the end of code wouldn't be seen. */
  let full = from;
  for (let at = from; ; ) {
    const newline = text.indexOf("\n", at);
    if (newline < 0 || newline + 1 - from > mostBlock) {
      if (text.length - from <= mostBlock) return { end: -1, lead: "" };
      if (full > from) return { end: full, lead: fence ? `${fence}\n` : table };
      return { end: lineEnd(text, from, mostBlock), lead: "" };
    }
    const line = text.slice(at, newline);
    at = newline + 1;
    const inside = fence;
    fence = fenceAfter(fence, line);
    if (inside || fence) {
      table = "";
    } else if (line.trim() === "") {
      table = "";
      // It must not be the last thing that is known: what follows may be more of it.
      if (at - from >= partSize && at < text.length) return { end: at, lead: "" };
    } else if (/^ {0,3}\|?[ :|-]*-[ :|-]*$/.test(line) && line.includes("|") && before.includes("|")) {
      table = `|${before.trim().replace(/^\|/, "")}\n|${line.trim().replace(/^\|/, "")}\n`;
    }
    before = line;
    if (line.trim() !== "") full = at;
  }
}

/** lineEnd returns where the last line ends that is not too far, or a place in one that is too long; -1 if the text ends before. */
function lineEnd(text: string, from: number, most: number): number {
  const far = from + most;
  if (far >= text.length) return -1;
  const line = text.lastIndexOf("\n", far - 1) + 1;
  if (line > from) return line;
  return /[\ud800-\udbff]/.test(text[far - 1]!) ? far - 1 : far; // not within a character of two units
}
