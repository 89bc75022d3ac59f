// The facts of a session that fit a filter: a stretch of the journal around what is looked at, that grows on both sides.
// Where it reaches the end it is live.
import { get, Problem } from "$lib/api";
import type { Envelope } from "$lib/wire";
import type { SessionStore } from "./store.svelte";

/** How many rows are kept at most. */
const mostRows = 20_000;
/** How many facts a step back looks at, and how many steps are made without being asked again if little fits. */
const stepSize = 2000;
const mostSteps = 5;
/** With fewer rows than this a step back is followed by another. */
const enough = 60;

export class FilteredFacts {
  rows = $state.raw<Envelope[]>([]);
  /** Rows are those of the facts behind from, through to. */
  from = $state(0);
  to = $state(0);
  reading = $state(false);
  problem = $state.raw<Problem | null>(null);
  /** How many rows were put before those that there were, in all. */
  prepended = $state(0);
  #fits: RegExp;
  /** Counts the places that were looked at: what was read for one before is dropped. */
  #place = 0;
  #work = Promise.resolve();
  #advancing = false;
  /** Whether the rows reach the end and grow with it. */
  #live = false;

  constructor(
    readonly store: SessionStore,
    readonly types: string,
  ) {
    this.#fits = new RegExp(`^(?:${types.split(",").map((g) => g.replace(/[^\w*]/g, "\\$&").replaceAll("*", ".*")).join("|")})$`);
  }

  close(): void {
    this.#place++;
  }

  /** Whether there is nothing before the rows, or no room for more. */
  get begun(): boolean {
    return this.from <= this.store.removed || this.rows.length >= mostRows;
  }

  /** show moves to a fact, or to the end for null, unless it is there already. */
  show(at: number | null): void {
    if (this.#place > 0 && (at === null ? this.#live : at > this.from && at <= this.to)) return;
    this.#place++;
    this.#live = at === null;
    this.rows = [];
    this.from = this.to = at === null ? this.store.last : Math.max(this.store.removed, Math.min(at, this.store.last));
    void this.older();
    if (at !== null) void this.newer();
  }

  /** older reads on before the rows. */
  older(): Promise<void> {
    return this.#next(async (still) => {
      for (let step = 0; step < mostSteps && !this.begun; step++) {
        const found = await this.#read(Math.max(this.store.removed, this.from - stepSize), this.from);
        if (!still()) return;
        this.from = Math.max(this.store.removed, this.from - stepSize);
        if (found.length > 0) {
          this.rows = [...found, ...this.rows];
          this.prepended += found.length;
        }
        if (this.rows.length >= enough) return;
      }
    });
  }

  /** newer reads on behind the rows. */
  newer(): Promise<void> {
    return this.#next(async (still) => {
      const to = Math.min(this.store.last, this.to + stepSize);
      const found = await this.#read(this.to, to);
      if (!still()) return;
      if (this.to < to) this.#append(found.filter((e) => e.sequence > this.to), to);
      if (this.to >= this.store.last) this.#live = true;
    });
  }

  /** advance takes in what came behind rows that reach the end: from the facts at hand, else from the server. */
  advance(): void {
    if (!this.#live || this.#advancing) return;
    const found: Envelope[] = [];
    let to = this.to;
    for (; to < this.store.last; to++) {
      const e = this.store.peek(to + 1);
      if (!e) break;
      if (this.#fits.test(e.type)) found.push(e);
    }
    if (to > this.to) this.#append(found, to);
    if (to >= this.store.last) return;
    this.#advancing = true;
    void this.newer().finally(() => (this.#advancing = false));
  }

  #append(found: Envelope[], to: number): void {
    this.to = to;
    if (found.length === 0) return;
    const rows = [...this.rows, ...found];
    if (rows.length > mostRows) this.from = rows[rows.length - mostRows]!.sequence - 1;
    this.rows = rows.slice(-mostRows);
  }

  /** next does one piece of reading after the other. */
  #next(run: (still: () => boolean) => Promise<void>): Promise<void> {
    const place = this.#place;
    const still = () => place === this.#place;
    this.#work = this.#work.then(async () => {
      if (!still()) return;
      this.reading = true;
      this.problem = null;
      try {
        await run(still);
      } catch (err) {
        if (still()) this.problem = err as Problem;
      } finally {
        this.reading = false;
      }
    });
    return this.#work;
  }

  async #read(after: number, through: number): Promise<Envelope[]> {
    const found: Envelope[] = [];
    while (after < through) {
      const page = await get<{ events: Envelope[]; nextAfter: number }>(`/v1/sessions/${encodeURIComponent(this.store.id)}/events?after=${after}&limit=1000&types=${encodeURIComponent(this.types)}`);
      found.push(...page.events.filter((e) => e.sequence <= through));
      if (page.nextAfter <= after) break;
      after = page.nextAfter;
    }
    return found;
  }
}
