// Numbers, times and sizes for people.

/** ago says how long ago a time is: 5s, 3m, 2h, 4d. */
export function ago(time: string | number | undefined, now: number = Date.now()): string {
  if (!time) return "—";
  const s = Math.max(0, Math.round((now - new Date(time).getTime()) / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86400)}d`;
}

/** duration of milliseconds: 12 ms, 3.4 s, 2m 05s, 1h 02m. */
export function duration(ms: number | undefined | null): string {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return "—";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
  return `${Math.floor(s / 3600)}h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")}m`;
}

/** money in dollars, with as many digits as a small sum needs. Not known: a dash. */
export function money(usd: number | undefined | null): string {
  if (usd === undefined || usd === null) return "—";
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : usd < 100 ? `$${usd.toFixed(2)}` : `$${Math.round(usd).toLocaleString("en")}`;
}

/** count writes a number short: 950, 12.3k, 4.5M. */
export function count(n: number | undefined | null): string {
  if (n === undefined || n === null) return "—";
  if (n < 10_000) return n.toLocaleString("en");
  if (n < 1e6) return `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
}

/** bytes for people. */
export function bytes(n: number | undefined | null): string {
  if (n === undefined || n === null) return "—";
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1 << 30) return `${(n / (1 << 20)).toFixed(1)} MiB`;
  return `${(n / (1 << 30)).toFixed(1)} GiB`;
}

/** clock is the time of day; with a date if it isn't today. */
export function clock(time: string | number | undefined): string {
  if (!time) return "—";
  const d = new Date(time);
  const t = d.toLocaleTimeString("en-GB");
  return d.toDateString() === new Date().toDateString() ? t : `${d.toLocaleDateString("en-CA")} ${t}`;
}

/** shortId keeps an id's prefix and its end, which differ; ids that people chose stay. */
export function shortId(id: string | undefined): string {
  if (!id) return "—";
  const m = /^([a-z]+_)[0-9a-z]{26}$/i.exec(id);
  return m ? `${m[1]}…${id.slice(-6)}` : visible(id.length > 28 ? `${id.slice(0, 18)}…${id.slice(-6)}` : id);
}

/** oneLine makes a text fit into a line of a table. What can't be seen is written out, as visible does. */
export function oneLine(text: string | undefined, most = 160): string {
  if (!text) return "";
  const line = text.slice(0, most * 2).replace(/[^\S\u2028\u2029\ufeff]+/g, " ").replace(/^ | $/g, "");
  return visible(line.length > most ? `${line.slice(0, most - 1)}…` : line);
}

/**
 * What a text can have without a reader seeing it: control characters, those that turn the direction of text, those that
 * have no width or are left out when text is drawn, blanks that are no space, and halves of a character.
 */
const unseen = /[\0-\x08\x0b-\x1f\x7f-\x9f\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\p{Cs}\u2028\u2029\u2800\ufff9-\ufffb]/u;
const everyUnseen = new RegExp(unseen, "gu");
/** A quick look first: most texts have plain characters only. */
const beyondPlain = /[^\t\n -~]/;
/** Those that may be a part of what is seen before them. */
const dependent = /[\u180b-\u180f\u200c\u200d\ufe00-\ufe0f\u{e0020}-\u{e007f}\u{e0100}-\u{e01ef}]/u;

/** Scripts in which a joiner or its opposite changes how a word is written. */
const joining = ["Arabic", "Syriac", "Mongolian", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Khmer", "Myanmar", "Tibetan"]
  .map((s) => `\\p{Script=${s}}`)
  .join("");
const afterJoining = new RegExp(`[${joining}]$`, "u");
const beforeJoining = new RegExp(`^[${joining}]`, "u");

/** belongs says whether an unseen character is a part of the one that is seen before it: of an emoji, or of a word in a script that has such. */
function belongs(c: string, before: string, after: string): boolean {
  switch (c) {
    case "\u200d":
      if (/[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after)) return true;
      return afterJoining.test(before) && beforeJoining.test(after);
    case "\u200c":
      return afterJoining.test(before) && beforeJoining.test(after);
    case "\ufe0e":
    case "\ufe0f":
      return /\p{Extended_Pictographic}$/u.test(before) || (/[0-9#*]$/.test(before) && after.startsWith("\u20e3"));
  }
  // The flags of parts of a country are letters that aren't seen, behind a black flag and up to their end.
  if (/[\u{e0061}-\u{e007a}\u{e0030}-\u{e0039}\u{e007f}]/u.test(c)) return /\u{1f3f4}[\u{e0061}-\u{e007a}\u{e0030}-\u{e0039}]{0,6}$/u.test(before) && (c === "\u{e007f}" || /^[\u{e0061}-\u{e007a}\u{e0030}-\u{e0039}\u{e007f}]/u.test(after));
  if (/[\u180b-\u180d\u180f]/.test(c)) return /\p{Script=Mongolian}$/u.test(before);
  return /[\ufe00-\ufe02\u{e0100}-\u{e01ef}]/u.test(c) && /\p{Script=Han}$/u.test(before);
}

/** visible writes what a reader wouldn't see as symbols; letters of every script and emoji stay as they are. */
export function visible(text: string): string {
  if (!beyondPlain.test(text) || !unseen.test(text)) return text;
  return text.replace(everyUnseen, (c, at: number) => {
    const code = c.codePointAt(0)!;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (dependent.test(c) && belongs(c, text.slice(Math.max(0, at - 16), at), text.slice(at + c.length, at + c.length + 4))) return c;
    return `⟨${code.toString(16).padStart(4, "0")}⟩`;
  });
}

/** tableOf is a table with no other entries than these: a name that comes from elsewhere, such as constructor, finds nothing that every object has. */
export function tableOf<T>(entries: Record<string, T>): Record<string, T> {
  return Object.assign(Object.create(null) as Record<string, T>, entries);
}
