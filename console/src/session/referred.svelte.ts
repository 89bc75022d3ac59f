// What is too long for a fact is kept behind a reference. It is read from there as text, once it is looked at.
import { untrack } from "svelte";
import { outputText, Problem } from "$lib/api";
import { line } from "$lib/line.svelte";
import { inputText } from "./story";

/** The beginning of what is behind a reference, or all of it. */
export type Output = Awaited<ReturnType<typeof outputText>>;

/** How much is read at once; the rest can be downloaded. */
export const mostRead = 256 << 10;

const mostKept = 24;
const kept = new Map<string, Promise<Output>>();

/** readOutput reads what is behind a reference, which never changes; what was read last is not read again. */
function readOutput(ref: string): Promise<Output> {
  const known = kept.get(ref);
  kept.delete(ref); // to the end: what was asked for last stays longest
  const output = known ?? outputText(ref, mostRead);
  kept.set(ref, output);
  if (!known) output.catch(() => kept.delete(ref));
  for (const old of kept.keys()) {
    if (kept.size <= mostKept) break;
    kept.delete(old);
  }
  return output;
}

/** Referred is what a part of a page has behind a reference. Make it in a component's script. */
export class Referred {
  output = $state.raw<Output | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** Whether it is wanted: an element that has `use:whenSeen` sets it when it comes into sight. */
  wanted = $state(false);
  #of: () => string | undefined;

  constructor(ref: () => string | undefined) {
    this.#of = ref;
    $effect(() => {
      if (ref() && this.wanted) untrack(() => this.read());
    });
    $effect(() => line.onBack(() => this.problem?.code === "offline" && this.read()));
  }

  read = (): void => {
    const ref = this.#of();
    if (!ref) return;
    this.problem = null;
    readOutput(ref).then(
      (output) => this.#of() === ref && (this.output = output),
      (err) => this.#of() === ref && (this.problem = err instanceof Problem ? err : new Problem("internal", 0, String(err))),
    );
  };
}

/** whenSeen calls a function once, when its element comes into sight. */
export function whenSeen(node: Element, seen: () => void): { destroy(): void } {
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((e) => e.isIntersecting)) return;
    observer.disconnect();
    seen();
  });
  observer.observe(node);
  return { destroy: () => observer.disconnect() };
}

/** messageOf returns what a model said, from the message behind a reference: JSON, or its text alone. */
export function messageOf({ text, cut }: Output): { text: string; reasoning: string } {
  if (cut) return { text: memberText(text, "text") ?? text, reasoning: "" };
  const m = parsed(text);
  return isObject(m) && typeof m.text === "string" ? { text: m.text, reasoning: typeof m.reasoning === "string" ? m.reasoning : "" } : { text, reasoning: "" };
}

/** promptOf returns what was asked, from the parts behind a reference. */
export function promptOf({ text, cut }: Output): string {
  if (cut) return memberText(text, "text") ?? text;
  const input = parsed(text);
  return typeof input === "string" || Array.isArray(input) ? inputText({ input }) : text;
}

/** argumentsOf returns a call's arguments; undefined if they are longer than what was read. */
export function argumentsOf({ text, cut }: Output): unknown {
  return cut ? undefined : parsed(text);
}

/** memberText decodes the first text that a member of that name has in JSON which may be cut off anywhere. */
export function memberText(json: string, name: string): string | undefined {
  const begin = new RegExp(`(?:^|[{,\\s])"${name}"\\s*:\\s*"`).exec(json);
  if (!begin) return undefined;
  const from = begin.index + begin[0].length;
  let at = from;
  while (at < json.length && json[at] !== '"') {
    const next = at + (json[at] !== "\\" ? 1 : json[at + 1] === "u" ? 6 : 2);
    if (next > json.length) break; // within an escape
    at = next;
  }
  const decoded = parsed(`"${json.slice(from, at)}"`);
  return typeof decoded === "string" ? decoded : undefined;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
