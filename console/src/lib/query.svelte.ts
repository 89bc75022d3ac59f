// A small cache of reads. A page asks with a key; who asks again gets what is known at once and
// what is new when it comes. Facts that a query names make it ask again.
import { untrack } from "svelte";
import { activity } from "./activity.svelte";
import { Problem, read as readCommand } from "./api";
import { line } from "./line.svelte";
import { onFacts } from "./live";
import type { CommandName, Commands } from "$types/commands";

/** An entry of the cache: what is known, since when, and what went wrong since. */
export class Query<T> {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<Problem | null>(null);
  /** When the data was read, in milliseconds since 1970; 0 if never. */
  at = $state(0);
  loading = $state(false);
  #again = false;
  #read: (signal: AbortSignal) => Promise<T>;
  #stop: AbortController | undefined;
  users = 0;

  constructor(read: (signal: AbortSignal) => Promise<T>) {
    this.#read = read;
  }

  /** refresh reads again; a read that is under way is followed by one more. */
  refresh = async (): Promise<void> => {
    if (untrack(() => this.loading)) {
      this.#again = true;
      return;
    }
    this.loading = true;
    do {
      this.#again = false;
      this.#stop = new AbortController();
      try {
        const data = await this.#read(this.#stop.signal);
        this.data = data;
        this.error = null;
        this.at = Date.now();
      } catch (err) {
        const p = err instanceof Problem ? err : new Problem("internal", 0, String(err));
        if (p.code === "aborted") continue;
        this.error = p;
        // What may not be seen, or isn't there any more, isn't shown either.
        if (p.code === "forbidden" || p.code === "not_found" || p.code === "unauthenticated") [this.data, this.at] = [undefined, 0];
      }
    } while (this.#again && this.users > 0);
    this.loading = false;
  };

  /** cancel gives up the read that is under way. */
  cancel(): void {
    this.#stop?.abort();
  }
}

const cache = new Map<string, Query<unknown>>();
const mostKept = 100;

/** forgetReads empties the cache: what one login may see isn't for the next. */
export function forgetReads(): void {
  for (const q of cache.values()) q.cancel();
  cache.clear();
}

export interface QueryOptions {
  /** Globs over types of facts, such as "action.*": such a fact makes the query read again. */
  on?: string[];
  /** Only facts of this session do. */
  session?: string;
  /** Read again this often, in milliseconds. */
  every?: number;
  /** How many entries of a list are shown at first, and with each "Show more", where they aren't drawn by a table. */
  size?: number;
  /** Names a query whose parameters are made anew with each read, as those that depend on the time are. */
  key?: string;
}

/** Params are parameters of a command, or what makes them for each read: then the options need a key. */
type Params<C extends CommandName> = Commands[C]["params"] | (() => Commands[C]["params"]);

const now = <C extends CommandName>(params: Params<C>): Commands[C]["params"] => (typeof params === "function" ? params() : params);
const named = <C extends CommandName>(params: Params<C>, opt?: QueryOptions) => (typeof params === "function" ? opt?.key : JSON.stringify(params));

function matcher(globs: string[]): RegExp {
  return new RegExp(`^(?:${globs.map((g) => g.replaceAll(".", "\\.").replaceAll("*", ".*")).join("|")})$`);
}

/**
 * query returns the entry of a key and keeps it fresh while the component lives. Call it in a component's
 * script; if the key depends on state, through $derived.
 */
export function query<T>(key: string, read: (signal: AbortSignal) => Promise<T>, opt: QueryOptions = {}): Query<T> {
  return use(key, () => new Query<T>(read), opt);
}

function use<T, Q extends Query<T>>(key: string, make: () => Q, opt: QueryOptions): Q {
  let q = cache.get(key) as Q | undefined;
  if (!q) {
    q = make();
    cache.set(key, q as Query<unknown>);
    for (const [k, old] of cache) {
      if (cache.size <= mostKept) break;
      if (old.users === 0 && k !== key) cache.delete(k);
    }
  }
  const entry = q;
  $effect(() => {
    entry.users++;
    void entry.refresh();
    const ends: (() => void)[] = [line.onBack(() => void entry.refresh())];
    if (opt.on) {
      const fits = matcher(opt.on);
      let timer: ReturnType<typeof setTimeout> | undefined;
      ends.push(
        onFacts((facts) => {
          if (timer || !facts.some((f) => fits.test(f.type) && (!opt.session || f.sessionId === opt.session))) return;
          timer = setTimeout(() => {
            timer = undefined;
            void entry.refresh();
          }, 150);
        }),
        () => clearTimeout(timer),
      );
    }
    if (opt.every) {
      const timer = setInterval(() => void entry.refresh(), opt.every);
      ends.push(() => clearInterval(timer));
    }
    return () => {
      entry.users--;
      if (entry.users === 0) entry.cancel();
      for (const end of ends) end();
    };
  });
  return entry;
}

/** command is the query of a command that only reads. */
export function command<C extends CommandName>(name: C, params: Params<C>, opt?: QueryOptions): Query<Commands[C]["result"]> {
  return query(`${name} ${named(params, opt)}`, () => readCommand(name, now(params)), opt);
}

/** The commands that list something, page by page. */
type ListName = Extract<CommandName, `list_${string}`>;

/** most bounds what is read of a list that is shown whole. */
const most = 10_000;

/** all is the query of a list with the entries of all its pages; a page that shows it says if it was cut. */
export function all<C extends ListName>(name: C, params: Params<C>, opt?: QueryOptions): Query<Commands[C]["result"]> {
  return query(`all ${name} ${named(params, opt)}`, () => activity.during(firstOf(name, now(params), most)), opt);
}

/** How many entries of a list are read at first, and with each "Show more". */
const pageSize = 200;
/** How many entries one read returns at most. */
const mostPerRead = 1000;

/** List is the query of a list whose first entries are read, and more of them when they are asked for. */
export class List<T> extends Query<T> {
  #wanted: { count: number };

  constructor(
    read: (wanted: number) => Promise<T>,
    readonly size = pageSize,
  ) {
    const wanted = { count: size };
    super(() => read(wanted.count));
    this.#wanted = wanted;
  }

  /** more reads the next entries, too. */
  more = (): Promise<void> => {
    this.#wanted.count += this.size;
    return this.refresh();
  };
}

/** pages is the query of a list that is shown page by page: show how many there are with More of $ui. */
export function pages<C extends ListName>(name: C, params: Params<C>, opt: QueryOptions = {}): List<Commands[C]["result"]> {
  return use(`pages ${opt.size ?? ""} ${name} ${named(params, opt)}`, () => new List((wanted) => activity.during(firstOf(name, now(params), wanted)), opt.size), opt);
}

/** firstOf reads the first entries of a list, in as many reads as that takes. */
async function firstOf<C extends ListName>(name: C, params: Commands[C]["params"], wanted: number): Promise<Commands[C]["result"]> {
  const whole = await readCommand(name, { ...params, limit: Math.min(wanted, mostPerRead) });
  const rows = rowsOf(whole);
  for (let cursor = whole.nextCursor; cursor && rows.length < wanted; ) {
    const page = await readCommand(name, { ...params, limit: Math.min(wanted - rows.length, mostPerRead), cursor });
    rows.push(...rowsOf(page));
    cursor = page.nextCursor;
  }
  return whole;
}

/** rowsOf returns the entries of a page: each list has one member with many. */
function rowsOf(page: object): unknown[] {
  return Object.values(page).find((v) => Array.isArray(v)) ?? [];
}
