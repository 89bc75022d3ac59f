// The registry of keys. A component adds its keys while it lives; "?" lists what holds now.
import { untrack } from "svelte";

export interface Key {
  /** What is pressed: "a", "Ctrl+k", "g i" (one after the other), "Escape". */
  keys: string;
  /** What it does, for the list. */
  does: string;
  /** The heading in the list. */
  group?: string;
  run: (e: KeyboardEvent) => void;
  /** Also while a field is edited. */
  always?: boolean;
  /** Also while it is held down: for what moves. What acts does so once for each press. */
  repeats?: boolean;
  /** Only while nothing has the focus that the key may be for, such as a button. */
  unfocused?: boolean;
  /** Left out while this is false. */
  when?: () => boolean;
}

const registered: Key[] = [];
let version = $state(0);
/** The first of two keys, until another is pressed: who types slowly is not too slow. */
let pending = "";

/** plain says whether a key is there for what has the focus: with Ctrl or Alt, or as the second of two, it means something else. */
export const plain = (e: KeyboardEvent): boolean => !e.ctrlKey && !e.metaKey && !e.altKey && pending === "";

/** allKeys are those that hold now, the newest first. */
export function allKeys(): Key[] {
  void version;
  return registered.filter((k) => !k.when || k.when()).reverse();
}

/** addKeys registers keys and returns how to take them back. */
export function addKeys(...keys: Key[]): () => void {
  registered.push(...keys);
  untrack(() => version++);
  return () => {
    for (const k of keys) registered.splice(registered.indexOf(k), 1);
    untrack(() => version++);
  };
}

/** useKeys registers keys for as long as the component lives. */
export function useKeys(...keys: Key[]): void {
  $effect(() => addKeys(...keys));
}

function pressed(e: KeyboardEvent): string {
  const mods = [e.ctrlKey || e.metaKey ? "Ctrl" : "", e.altKey ? "Alt" : ""].filter(Boolean);
  return [...mods, e.key === " " ? "Space" : e.key].join("+");
}

/** editing reports whether keys go into a field. */
export function editing(target: EventTarget | null): boolean {
  const el = target as HTMLElement | null;
  return !!el?.closest?.("input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable]");
}

/** scrolls says whether a key moves what has the focus, which is wider than its place. */
function scrolls(e: KeyboardEvent): boolean {
  const el = e.target as HTMLElement;
  return /^Arrow(Left|Right)$/.test(e.key) && el.scrollWidth > el.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(el).overflowX);
}

/** listenForKeys hands key presses to who registered them. */
export function listenForKeys(): void {
  addEventListener("keydown", (e) => {
    if (e.defaultPrevented || e.isComposing || scrolls(e) || ["Shift", "Control", "Alt", "Meta"].includes(e.key)) return;
    const inField = editing(e.target);
    const inDialog = !!document.querySelector("dialog[open]");
    const one = pressed(e);
    const two = pending ? `${pending} ${one}` : "";
    const onPage = [document.body, document.querySelector("main")].includes(document.activeElement as HTMLElement);
    const usable = allKeys().filter((k) => k.always || (!inField && !inDialog && (onPage || !k.unfocused)));
    const hit = usable.find((k) => two && k.keys === two) ?? usable.find((k) => k.keys === one);
    if (e.repeat && !hit?.repeats) {
      if (hit) e.preventDefault();
      return;
    }
    pending = "";
    if (hit) {
      e.preventDefault();
      hit.run(e);
    } else if (!inField && usable.some((k) => k.keys.startsWith(`${one} `))) {
      pending = one;
    }
  });
}
