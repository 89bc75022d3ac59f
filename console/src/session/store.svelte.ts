// One open session: its snapshot, its story, and a window into its facts. What comes live waits in a buffer outside
// of everything reactive and is shown once per frame.
import { call, get, Problem } from "$lib/api";
import { line } from "$lib/line.svelte";
import { follow } from "$lib/live";
import type { Envelope, Gap } from "$lib/wire";
import type { SessionRead } from "$types/commands";
import { Story, type Turn } from "./story";

const pageSize = 200;
const mostPages = 40;
const firstWindow = 300;
/** How many facts a story is read back over at most: what lies before is reached with the time line. */
const mostRead = 50_000;
/** How long facts are taken in during one frame, in milliseconds; what is left waits for the next one. */
const foldFor = 8;
/** How many are taken in between two looks at the clock. */
const foldStep = 200;

interface EventPage {
  events: Envelope[];
  lastSequence: number;
  nextAfter: number;
}

export class SessionStore {
  snapshot = $state.raw<SessionRead | null>(null);
  problem = $state.raw<Problem | null>(null);
  turns = $state.raw<Turn[]>([]);
  notes = $state.raw<Story["notes"]>([]);
  gaps = $state.raw<Story["gaps"]>([]);
  /** The newest sequence. */
  last = $state(0);
  /** The oldest sequence that the story has; 1 if it has all. */
  first = $state(0);
  loadingEarlier = $state(false);
  /** Why earlier facts can't be read. */
  earlierProblem = $state.raw<Problem | null>(null);
  /** Whether the story goes back as far as it may. */
  full = $state(false);
  /** Counts how often facts in the cache changed, for who shows them. */
  factsVersion = $state(0);
  /** Why facts can't be read. */
  factsProblem = $state.raw<Problem | null>(null);
  /** The last sequence that retention removed. */
  removed = $state(0);

  #story = new Story();
  #waiting: Envelope[] = [];
  #waitingGaps: Gap[] = [];
  #frame = 0;
  #stop: (() => void) | undefined;
  #pages = new Map<number, (Envelope | undefined)[]>();
  #loading = new Set<number>();
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #folded = 0;

  constructor(
    readonly id: string,
    /** The sequence up to which the session is shown; null for live. */
    readonly until: number | null = null,
  ) {}

  async open(): Promise<void> {
    try {
      const snapshot = await call("get_session", { sessionId: this.id, limit: firstWindow, ...(this.until !== null ? { atSequence: this.until } : {}) });
      if (this.#closed) return;
      this.snapshot = snapshot;
      this.problem = null;
      this.removed = snapshot.history.removedThrough ?? 0;
      const events = (snapshot.history.events as unknown as Envelope[]).filter((e) => e.sessionId === this.id);
      this.#story.fold(events);
      this.#story.last ||= snapshot.sequence ?? 0;
      this.#keep(events);
      this.#show();
      if (this.until === null) this.#follow(Math.max(snapshot.sequence ?? 0, this.#story.last));
    } catch (err) {
      this.problem = err as Problem;
    }
  }

  close(): void {
    this.#closed = true;
    this.#stop?.();
    clearTimeout(this.#refreshTimer);
    cancelAnimationFrame(this.#frame);
  }

  #follow(after: number): void {
    this.#stop = follow(this.id, after, {
      events: (events) => {
        for (const e of events) this.#waiting.push(e);
        this.#schedule();
      },
      gap: (gap) => {
        this.#waitingGaps.push(gap);
        this.#schedule();
      },
      ended: (why) => {
        this.problem = new Problem(why.code as Problem["code"], 0, why.detail, why.requestId);
      },
      resumed: () => {
        this.problem = null;
      },
    });
  }

  #schedule(): void {
    // A page that isn't seen has no frames: what it missed is taken in at once when it is seen again.
    if (document.hidden) setTimeout(() => this.#flush(), 200);
    else this.#frame ||= requestAnimationFrame(() => this.#flush());
  }

  #flush(): void {
    this.#frame = 0;
    if (this.#closed || (this.#waiting.length === 0 && this.#waitingGaps.length === 0)) return;
    const until = performance.now() + foldFor;
    let changed = this.#waitingGaps.length > 0;
    let refresh = false;
    do {
      // What came before a gap is told before it.
      const gap = this.#waitingGaps[0];
      const before = gap ? this.#waiting.findIndex((e) => e.sequence > gap.gapTo) : -1;
      if (gap && (before === 0 || this.#waiting.length === 0)) {
        this.#waitingGaps.shift();
        this.#story.gap({ from: gap.gapFrom, to: gap.gapTo, reason: gap.reason });
        continue;
      }
      const events = this.#waiting.splice(0, before > 0 ? Math.min(before, foldStep) : foldStep);
      changed = this.#story.fold(events) || changed;
      this.#folded += events.length;
      this.#keep(events);
      refresh ||= events.some((e) => /^(turn|action|queue|session|policy|thread|subagent|history|context)\./.test(e.type));
    } while ((this.#waiting.length > 0 || this.#waitingGaps.length > 0) && performance.now() < until);
    this.#show(changed);
    if (refresh) this.#refresh();
    if (this.#waiting.length > 0 || this.#waitingGaps.length > 0) this.#schedule();
  }

  /** refresh reads the snapshot again: the queue, the status and what waits are the server's to say. */
  #refresh(): void {
    this.#refreshTimer ??= setTimeout(() => {
      this.#refreshTimer = undefined;
      call("get_session", { sessionId: this.id, limit: 1 }).then(
        (s) => !this.#closed && (s.sequence ?? 0) >= (this.snapshot?.sequence ?? 0) && (this.snapshot = s),
        // What passes is read with the next fact; what is gone stays gone.
        (err: Problem) => err.code === "not_found" && (this.problem = err),
      );
    }, 120);
  }

  #show(changed = true): void {
    // Facts that change nothing in the story draw nothing of it again.
    if (changed) {
      this.turns = [...this.#story.turns];
      this.notes = this.#story.notes;
      this.gaps = [...this.#story.gaps];
    }
    this.last = Math.max(this.#story.last, this.snapshot?.sequence ?? 0);
    this.first = this.#story.first || this.last;
    this.factsVersion++;
  }

  /** Sequences that came twice or out of order: none, ever. */
  get odd(): number[] {
    return this.#story.odd;
  }

  /** How many facts were folded since the page was opened, each once. */
  get folded(): number {
    return this.#folded;
  }

  /** earlier takes older facts into the story. */
  async earlier(): Promise<void> {
    if (this.loadingEarlier || this.full || this.first <= this.removed + 1) return;
    this.loadingEarlier = true;
    this.earlierProblem = null;
    try {
      // At least as much again as there is: however long a turn is, its beginning is soon reached.
      const have = this.#story.last - this.first + 1;
      const after = Math.max(this.removed, this.first - 1 - Math.max(2 * firstWindow, have));
      const story = new Story(Infinity);
      // Until the story has what was shown meanwhile, too. What waits to be shown is folded behind it.
      for (let at = after; at < this.#story.last; ) {
        const page = await get<EventPage>(`/v1/sessions/${encodeURIComponent(this.id)}/events?after=${at}&limit=1000`);
        story.fold(page.events.filter((e) => e.sequence <= this.#story.last));
        if (page.nextAfter <= at) break;
        at = page.nextAfter;
      }
      if (this.#closed) return;
      story.settle();
      story.gaps = this.#story.gaps;
      story.odd.push(...this.#story.odd);
      this.#story = story;
      this.full = story.last - story.first >= mostRead && story.first > this.removed + 1;
      this.#show();
    } catch (err) {
      this.earlierProblem = err as Problem;
    } finally {
      this.loadingEarlier = false;
    }
  }

  // Facts: pages of the journal, the ones last looked at.

  #keep(events: Envelope[]): void {
    for (const e of events) {
      const at = Math.floor((e.sequence - 1) / pageSize);
      let page = this.#pages.get(at);
      if (!page) this.#pages.set(at, (page = new Array<Envelope | undefined>(pageSize)));
      page[(e.sequence - 1) % pageSize] = e;
    }
    this.#evict();
  }

  #evict(): void {
    for (const at of this.#pages.keys()) {
      if (this.#pages.size <= mostPages) break;
      this.#pages.delete(at);
    }
  }

  /** fact returns a fact that is loaded, and loads it otherwise. */
  fact(sequence: number): Envelope | undefined {
    const at = Math.floor((sequence - 1) / pageSize);
    const page = this.#pages.get(at);
    const e = page?.[(sequence - 1) % pageSize];
    if (!e && sequence > this.removed && sequence <= this.last) void this.#load(at);
    return e;
  }

  /** peek returns a fact that is loaded. */
  peek(sequence: number): Envelope | undefined {
    return this.#pages.get(Math.floor((sequence - 1) / pageSize))?.[(sequence - 1) % pageSize];
  }

  /** rereadFacts has facts that couldn't be read asked for again. */
  rereadFacts(): void {
    this.#loading.clear();
    this.factsProblem = null;
    this.factsVersion++;
  }

  async #load(at: number): Promise<void> {
    if (this.#loading.has(at) || line.down) return;
    this.#loading.add(at);
    try {
      const page = await get<EventPage>(`/v1/sessions/${encodeURIComponent(this.id)}/events?after=${at * pageSize}&limit=${pageSize}`);
      this.#pages.delete(at); // to the end: the newest stays longest
      this.#keep(page.events.filter((e) => Math.floor((e.sequence - 1) / pageSize) === at));
      setTimeout(() => this.#loading.delete(at), 500);
      this.factsProblem = null;
      this.factsVersion++;
    } catch (err) {
      // It isn't asked for again until the user or the line says so.
      this.factsProblem = err as Problem;
    }
  }
}
