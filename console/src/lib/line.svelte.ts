// The state of the line to the server, as pages see it.
import type { LineState } from "./wire";

class Line {
  state = $state<LineState>("connecting");
  /** Since when, in milliseconds since 1970. */
  since = $state(Date.now());
  #onBack = new Set<() => void>();
  #wasLive = false;

  set(state: LineState, since: number): void {
    const back = state === "live" && this.#wasLive && this.state !== "live";
    this.state = state;
    this.since = since;
    if (state === "live") this.#wasLive = true;
    if (back) this.missed();
  }

  /** missed has everything read again that is shown: something may have happened that wasn't told. */
  missed(): void {
    for (const f of this.#onBack) f();
  }

  /** reset forgets that there was a line: the next one is another login's, and what is shown is read for it anyway. */
  reset(): void {
    this.#wasLive = false;
  }

  /** onBack tells when what is shown is to be read again: the line was lost and is there, or left something out. It returns how to stop. */
  onBack(f: () => void): () => void {
    this.#onBack.add(f);
    return () => void this.#onBack.delete(f);
  }

  /** Whether what is shown may be old. */
  get down(): boolean {
    return this.state === "offline" || this.state === "out";
  }
}

export const line = new Line();
