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
  return m ? `${m[1]}…${id.slice(-6)}` : id.length > 28 ? `${id.slice(0, 18)}…${id.slice(-6)}` : id;
}

/** oneLine makes a text fit into a line of a table. */
export function oneLine(text: string | undefined, most = 160): string {
  if (!text) return "";
  const line = text.slice(0, most * 2).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** visible writes control characters, also those that turn the direction of text, as symbols. */
export function visible(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => {
    const code = c.charCodeAt(0);
    if (code === 0x1b) return "␛";
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return `⟨${code.toString(16).padStart(4, "0")}⟩`;
  });
}
