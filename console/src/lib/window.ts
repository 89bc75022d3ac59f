// Windowing: which rows of a long list are in sight.

export interface Span {
  first: number;
  last: number;
}

/** span returns the rows between which a scrolled viewport lies, with a few more on both sides. */
export function span(top: number, height: number, row: number, count: number, more = 6): Span {
  const first = Math.max(0, Math.floor(top / row) - more);
  const last = Math.min(count, Math.ceil((top + height) / row) + more);
  return { first, last: Math.max(first, last) };
}

/** Browsers can't draw elements taller than some ten million pixels: longer lists are scaled. */
export const tallest = 8_000_000;

/**
 * staysPinned says whether a list that grows goes on showing its end after it was scrolled. Who scrolls back leaves the end; what
 * was added before the browser told of a scroll doesn't.
 */
export function staysPinned(pinned: boolean, before: number, top: number, end: number, near: number): boolean {
  return end - top < near || (pinned && top >= before - 1);
}
