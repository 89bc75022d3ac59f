// A long text in portions. All of it can be read, and no more than one portion is drawn at a time, so that ten
// megabytes are shown as quickly as ten lines.

/** How many characters and lines a portion has at most. */
const mostCharacters = 60_000;
const mostLines = 600;

/** whole moves a cut before a character that it would go through. */
const whole = (text: string, at: number) => (at < text.length && /[\ud800-\udbff]/.test(text[at - 1] ?? "") ? at - 1 : at);

/** cutText returns where the portions of a text end. A portion ends with a line where one ends in its last quarter. */
export function cutText(text: string, most = mostCharacters): number[] {
  const ends: number[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + most);
    if (end < text.length) {
      const line = text.lastIndexOf("\n", end - 1) + 1;
      end = line > at + most * 0.75 ? line : whole(text, end);
    }
    ends.push(end);
    at = end;
  }
  return ends.length > 0 ? ends : [0];
}

export interface DiffFile {
  name: string;
  added: number;
  removed: number;
}

export interface DiffLine {
  kind: "add" | "del" | "hunk" | "ctx" | "meta";
  text: string;
  /** It goes on with a line that began in the portion before. */
  continues: boolean;
}

/** A portion of a diff: a part of its text, and what has to be known to read it. */
export interface DiffPortion {
  from: number;
  to: number;
  start: DiffState;
  /** The kind of the line that the portion begins in the middle of. */
  within?: Kind;
}

type Kind = DiffLine["kind"] | "head";

/** What the lines before say about the next: the file, and how many lines of its hunk are still to come. */
interface DiffState {
  file: number;
  removed: number;
  added: number;
  /** Whether a hunk of the file was seen: no name stands behind it. */
  hunks: boolean;
}

/**
 * next reads the line at a place. Within a hunk only its counts say what is a line of the file: a removed "-- x" looks like
 * the head of the next file.
 */
function next(diff: string, at: number, end: number, s: DiffState, files?: DiffFile[]): Kind {
  const starts = (prefix: string) => diff.startsWith(prefix, at);
  const newFile = () => {
    s.file++;
    s.hunks = false;
    files?.push({ name: "", added: 0, removed: 0 });
  };
  const file = () => files?.[s.file];
  const sign = diff[at];
  if (s.removed > 0 && sign === "-") {
    s.removed--;
    const f = file();
    if (f) f.removed++;
    return "del";
  }
  if (s.added > 0 && sign === "+") {
    s.added--;
    const f = file();
    if (f) f.added++;
    return "add";
  }
  if (s.removed > 0 && s.added > 0 && (sign === " " || at === end)) {
    s.removed--;
    s.added--;
    return "ctx";
  }
  if (starts("\\")) return "meta";
  s.removed = s.added = 0;
  if (starts("diff ")) {
    newFile();
    const f = file();
    if (f) f.name = / b\/(.*)$/.exec(diff.slice(at, end))?.[1] ?? "";
    return "head";
  }
  if (s.file < 0 || (starts("--- ") && s.hunks)) newFile();
  if (starts("index ")) return "head";
  if ((starts("--- ") || starts("+++ ")) && !s.hunks) {
    const f = file();
    const name = diff.slice(at + 4, end).replace(/^[ab]\//, "").replace(/\t.*$/, "");
    if (f && name !== "/dev/null" && (sign === "+" || !f.name)) f.name = name;
    return "head";
  }
  const counts = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(diff.slice(at, Math.min(end, at + 80)));
  if (counts) {
    s.removed = Number(counts[1] ?? 1);
    s.added = Number(counts[2] ?? 1);
    s.hunks = true;
    return "hunk";
  }
  if (starts("@@")) {
    s.removed = s.added = Infinity;
    s.hunks = true;
    return "hunk";
  }
  return "meta";
}

/** cutDiff returns the files of a unified diff, and its portions. */
export function cutDiff(diff: string): { files: DiffFile[]; portions: DiffPortion[] } {
  const files: DiffFile[] = [];
  const portions: DiffPortion[] = [];
  const s: DiffState = { file: -1, removed: 0, added: 0, hunks: false };
  let current: DiffPortion = { from: 0, to: 0, start: { ...s } };
  let lines = 0;
  const close = (to: number, within?: Kind) => {
    current.to = to;
    if (to > current.from) portions.push(current);
    current = { from: to, to, start: { ...s }, within };
    lines = 0;
  };
  for (let at = 0; at < diff.length; ) {
    const found = diff.indexOf("\n", at);
    const end = found < 0 ? diff.length : found;
    if (lines === mostLines || (lines > 0 && end - current.from > mostCharacters)) close(at);
    const kind = next(diff, at, end, s, files);
    lines++;
    while (end - current.from > mostCharacters) close(whole(diff, current.from + mostCharacters), kind);
    at = end + 1;
  }
  close(diff.length);
  return { files, portions };
}

/** readPortion returns the lines of a portion, file by file. */
export function readPortion(diff: string, p: DiffPortion): { file: number; lines: DiffLine[] }[] {
  const s = { ...p.start };
  const out: { file: number; lines: DiffLine[] }[] = [];
  const add = (kind: Kind, text: string, continues: boolean) => {
    if (out.at(-1)?.file !== s.file) out.push({ file: s.file, lines: [] });
    if (kind !== "head" && (text || kind !== "meta")) out.at(-1)!.lines.push({ kind, text, continues });
  };
  for (let at = p.from, begun = p.within; at < p.to; begun = undefined) {
    const found = diff.indexOf("\n", at);
    const end = found < 0 || found > p.to ? p.to : found;
    if (begun) add(begun, diff.slice(at, end), true);
    else {
      const kind = next(diff, at, found < 0 ? diff.length : found, s);
      add(kind, diff.slice(kind === "add" || kind === "del" || kind === "ctx" ? at + 1 : at, end), false);
    }
    at = end + 1;
  }
  return out;
}
