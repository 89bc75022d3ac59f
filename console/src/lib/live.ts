// The tab's side of the line to the server.
import workerURL from "./worker.ts?worker&url";
import { line } from "./line.svelte";
import { randomId } from "./random";
import type { Ended, Envelope, Fact, FromWorker, Gap, ToWorker } from "./wire";

export interface Follower {
  events(events: Envelope[]): void;
  gap(gap: Gap): void;
  ended(why: Ended): void;
  /** After it ended it goes on, with nothing missed. */
  resumed(): void;
}

type Trusting = { createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string } };

const factListeners = new Set<(facts: Fact[]) => void>();
const followers = new Map<number, { follower: Follower; session: string; last: number }>();
let post: ((m: ToWorker) => void) | undefined;
let nextId = 1;

/** trusted lets the URL of one of our own scripts pass the page's policy. */
const trusted = ((): ((url: string) => string) => {
  const types = (globalThis as { trustedTypes?: Trusting }).trustedTypes;
  if (!types) return (url) => url;
  const policy = types.createPolicy("agentd", {
    createScriptURL: (url) => {
      if (!url.startsWith("/ui/")) throw new TypeError(`not a script of the console: ${url}`);
      return url;
    },
  });
  return (url) => policy.createScriptURL(url);
})();

/** ownWorker starts a worker of the console's own. */
export function ownWorker(url: string): Worker {
  return new Worker(trusted(url), { type: "module" });
}

/** tellLine says who is logged in, or "" after a logout: the line is theirs. The first login connects the tab. */
export function tellLine(who: string): void {
  if (!post && who) startLine();
  post?.({ op: "who", who });
}

function startLine(): void {
  const handle = (e: MessageEvent) => received(e.data as FromWorker);
  if ("SharedWorker" in globalThis) {
    const w = new SharedWorker(trusted(workerURL), { type: "module", name: "agentd" });
    w.port.onmessage = handle;
    post = (m) => w.port.postMessage(m);
    const lock = `agentd-tab-${randomId()}`;
    if (navigator.locks) {
      void navigator.locks.request(lock, () => {
        post?.({ op: "hello", lock });
        return new Promise<void>(() => {});
      });
    } else {
      addEventListener("pagehide", () => post?.({ op: "bye" }));
      addEventListener("pageshow", (e) => e.persisted && post?.({ op: "hello" }));
    }
  } else {
    const w = ownWorker(workerURL);
    w.onmessage = handle;
    post = (m) => w.postMessage(m);
  }
  for (const [id, f] of followers) post({ op: "follow", id, session: f.session, after: f.last });
}

/** retryLine asks for an attempt to connect now. */
export function retryLine(): void {
  post?.({ op: "retry" });
}

function received(m: FromWorker): void {
  switch (m.kind) {
    case "state":
      line.set(m.state, m.since);
      break;
    case "facts":
      for (const listener of factListeners) listener(m.facts);
      break;
    case "events": {
      const f = followers.get(m.id);
      f?.follower.events(m.events);
      break;
    }
    case "gap":
      followers.get(m.id)?.follower.gap(m.gap);
      break;
    case "missed":
      line.missed();
      break;
    case "ended":
      followers.get(m.id)?.follower.ended(m.why);
      break;
    case "resumed":
      followers.get(m.id)?.follower.resumed();
  }
}

/** onFacts tells of facts of all sessions as they come. It returns how to stop. */
export function onFacts(listener: (facts: Fact[]) => void): () => void {
  factListeners.add(listener);
  return () => void factListeners.delete(listener);
}

/** follow delivers a session's events after a sequence, each once and in order. It returns how to stop. */
export function follow(session: string, after: number, follower: Follower): () => void {
  const id = nextId++;
  followers.set(id, { follower, session, last: after });
  post?.({ op: "follow", id, session, after });
  return () => {
    followers.delete(id);
    post?.({ op: "unfollow", id });
  };
}
