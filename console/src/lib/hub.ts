// One WebSocket for all tabs. The hub follows the feed of all sessions for everyone, and single sessions
// for whoever asks, and goes on after the last sequence that it delivered when the connection was lost. The connection
// is that of one login: with the next one it begins anew.
import type { Ended, Envelope, Fact, FromWorker, Gap, LineState, ToWorker } from "./wire";

/** The types that the feed tells of: all but those that come by the hundred per second. What a page reacts to is among them, which a test checks. */
const feedTypes = [
  "session.*", "thread.*", "turn.*", "queue.*", "action.*", "permission.*", "policy.*", "task.*", "subagent.*", "job.*", "schedule.*",
  "process.started", "process.completed", "process.failed", "process.terminated", "channel.*", "evidence.*", "benchmark.*", "cost.*", "quota.*", "limit.*", "history.*",
  "rate_limit.*", "runtime.*", "snapshot.*", "artifact.*", "tool.result", "tool.failed", "context.*",
];

/**
 * How long events are gathered before tabs get them: a frame. The more there were the last time, the longer, because
 * a tab draws once for each delivery, and nobody reads hundreds of facts a second: drawing them sixty times a second
 * keeps the processors from everything else.
 */
const gatherFor = { least: 16, perEvent: 4, most: 250 };
/** How many events a message has at most: a tab reads one without keeping a person waiting. */
const mostInMessage = 500;
/** After how long an attempt is made again, in milliseconds: each failure in a row doubles it. */
const pause = (failures: number) => Math.min(5000, 250 * 2 ** failures) * (0.75 + Math.random() / 2);
/**
 * How long the server may say nothing before it is asked for a word, and before it is given up, in milliseconds: a network
 * that is gone doesn't say so.
 */
const silence = { asked: 15_000, most: 25_000, look: 5000 };
/** Problems that pass by themselves: what they ended is begun again. */
const passing = ["unavailable", "rate_limited", "internal"];

interface Port {
  post(message: FromWorker): void;
  follows: Map<number, Follow>;
}

interface Follow {
  port: Port;
  id: number;
  session: string;
  /** The last sequence that the tab was given. */
  last: number;
  subscription: string;
  waiting: Envelope[];
  /** How often in a row it couldn't be subscribed, or ended. */
  failures: number;
}

interface Message {
  id?: number;
  method?: string;
  result?: Record<string, unknown>;
  error?: { message: string; data?: Partial<Ended> };
  params?: Record<string, unknown>;
  subscriptionId?: string;
  cursor?: string;
}

export class Hub {
  #ports = new Set<Port>();
  #socket: WebSocket | null = null;
  /** Who is logged in, as tabs found out last; empty while that isn't known, and after a logout. */
  #who = "";
  #state: LineState = "connecting";
  #since = Date.now();
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #requests = new Map<number, (m: Message) => void>();
  #nextRequest = 1;
  /** When the server was heard last, or asked for a connection. */
  #heardAt = 0;
  #bySubscription = new Map<string, Follow>();
  #feed = "";
  #cursor = "";
  #facts: Fact[] = [];
  #flush: ReturnType<typeof setTimeout> | undefined;
  /** How many events the last delivery had. */
  #delivered = 0;

  /** join adds a tab; the function that it returns handles its messages. */
  join(post: (m: FromWorker) => void): (m: ToWorker) => void {
    const port: Port = { post, follows: new Map() };
    this.#ports.add(port);
    post({ kind: "state", state: this.#state, since: this.#since });
    return (m) => this.#told(port, m);
  }

  #told(port: Port, m: ToWorker): void {
    switch (m.op) {
      case "follow": {
        const f: Follow = { port, id: m.id, session: m.session, last: m.after, subscription: "", waiting: [], failures: 0 };
        port.follows.set(m.id, f);
        if (this.#state === "live") this.#subscribe(f);
        break;
      }
      case "unfollow": {
        const f = port.follows.get(m.id);
        port.follows.delete(m.id);
        if (f) this.#unsubscribe(f);
        break;
      }
      case "who":
        this.#identify(m.who);
        break;
      case "retry":
        if (this.#socket || !this.#who) break;
        clearTimeout(this.#timer);
        this.#timer = undefined;
        this.#failures = 0;
        this.#connect();
        break;
      case "hello":
        this.#ports.add(port);
        // The tab holds a lock for as long as it lives.
        if (m.lock) void navigator.locks?.request(m.lock, () => this.#leave(port));
        break;
      case "bye":
        this.#leave(port);
    }
  }

  /** identify says who is logged in; empty after a logout. What came for another login is dropped, and its connection ends. */
  #identify(who: string): void {
    if (who !== this.#who) this.#forget();
    this.#who = who;
    if (!who) this.#say("out");
    else if (!this.#socket && this.#timer === undefined) this.#connect();
  }

  #forget(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#flush);
    this.#timer = this.#flush = undefined;
    this.#failures = 0;
    const socket = this.#socket;
    this.#socket = null; // what it still says is of no use
    socket?.close();
    this.#requests.clear();
    this.#bySubscription.clear();
    this.#feed = this.#cursor = "";
    this.#facts = [];
    for (const p of this.#ports) for (const f of p.follows.values()) [f.subscription, f.waiting] = ["", []];
    this.#say("connecting");
  }

  #leave(port: Port): void {
    if (!this.#ports.delete(port)) return;
    for (const f of port.follows.values()) this.#unsubscribe(f);
    port.follows.clear();
    if (this.#ports.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#socket?.close();
  }

  #say(state: LineState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#since = Date.now();
    for (const p of this.#ports) p.post({ kind: "state", state, since: this.#since });
  }

  #connect(): void {
    this.#timer = undefined;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/ws`);
    this.#socket = socket;
    this.#heardAt = Date.now();
    const watch = setInterval(() => this.#watch(socket), silence.look);
    socket.onopen = () => {
      if (this.#socket !== socket) return;
      this.#failures = 0;
      this.#followFeed(0);
      this.#say("live");
      for (const p of this.#ports) for (const f of p.follows.values()) this.#subscribe(f);
    };
    socket.onmessage = (e) => {
      if (this.#socket !== socket) return;
      this.#heardAt = Date.now();
      this.#received(JSON.parse(e.data as string) as Message);
    };
    socket.onclose = () => {
      clearInterval(watch);
      if (this.#socket === socket) void this.#lost();
    };
  }

  /** watch asks a server for a word that was silent for long, and gives up a connection on which none comes. */
  #watch(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    const silent = Date.now() - this.#heardAt;
    if (silent >= silence.most) {
      socket.close(); // the end that it tells of may take minutes
      void this.#lost();
    } else if (silent >= silence.asked && socket.readyState === WebSocket.OPEN) {
      void this.#request("list_sessions", { limit: 1 });
    }
  }

  /** soon does something on the present connection after a pause, if it is there then. */
  #soon(failures: number, run: () => void): void {
    const socket = this.#socket;
    setTimeout(() => this.#socket === socket && run(), pause(failures));
  }

  /** followFeed subscribes to the feed behind what it told last. */
  #followFeed(failures: number): void {
    this.#feed = "";
    void this.#request("subscribe", { feed: true, types: feedTypes, ...(this.#cursor ? { cursor: this.#cursor } : {}) }).then((m) => {
      if (m.error && this.#cursor && !passing.includes(m.error.data?.code ?? "")) {
        this.#cursor = ""; // not a cursor of this store: follow from now on
        this.#missed();
      }
      if (m.error) {
        this.#soon(failures, () => this.#followFeed(failures + 1));
        return;
      }
      this.#feed = String(m.result?.subscriptionId ?? "");
      this.#cursor ||= String(m.result?.cursor ?? "");
    });
  }

  /** missed tells all tabs that the feed left something out: what they show is read again. */
  #missed(): void {
    for (const p of this.#ports) p.post({ kind: "missed" });
  }

  async #lost(): Promise<void> {
    this.#socket = null;
    this.#requests.clear();
    this.#bySubscription.clear();
    if (this.#ports.size === 0) {
      this.#say("offline");
      return;
    }
    const who = this.#who;
    const out = await this.#loggedOut();
    if (who !== this.#who || this.#socket || this.#timer !== undefined) return; // it went on meanwhile
    this.#say(out ? "out" : "offline");
    if (out) return;
    this.#timer = setTimeout(() => this.#connect(), pause(this.#failures++));
  }

  /** A handshake that is refused says nothing of the reason, so the status is asked. */
  async #loggedOut(): Promise<boolean> {
    try {
      return (await fetch("/v1/status", { credentials: "same-origin", signal: AbortSignal.timeout(silence.look) })).status === 401;
    } catch {
      return false;
    }
  }

  #request(method: string, params: unknown): Promise<Message> {
    return new Promise((resolve) => {
      const id = this.#nextRequest++;
      this.#requests.set(id, resolve);
      this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  #subscribe(f: Follow): void {
    const id = this.#nextRequest++;
    // What was gathered is the tab's already: the subscription goes on behind it.
    this.#requests.set(id, (m) => {
      if (m.error) {
        this.#ended(f, { detail: m.error.message, ...m.error.data });
        return;
      }
      const subscription = String(m.result?.subscriptionId);
      if (!f.port.follows.has(f.id)) {
        void this.#request("unsubscribe", { subscriptionId: subscription });
        return;
      }
      f.subscription = subscription;
      this.#bySubscription.set(subscription, f);
      if (f.failures > 0) f.port.post({ kind: "resumed", id: f.id });
      f.failures = 0;
    });
    this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", id, method: "subscribe", params: { sessionId: f.session, after: f.last } }));
  }

  /** ended tells a tab that it isn't told of a session any more, and why; if that passes, it is subscribed to again. */
  #ended(f: Follow, why: Partial<Ended>): void {
    this.#deliver();
    this.#bySubscription.delete(f.subscription);
    f.subscription = "";
    const code = why.code ?? "internal";
    f.port.post({ kind: "ended", id: f.id, why: { code, detail: why.detail ?? "the stream ended", requestId: why.requestId } });
    const failures = f.failures++;
    if (passing.includes(code)) this.#soon(failures, () => f.port.follows.has(f.id) && this.#subscribe(f));
  }

  #unsubscribe(f: Follow): void {
    if (!f.subscription || !this.#bySubscription.delete(f.subscription)) return;
    void this.#request("unsubscribe", { subscriptionId: f.subscription });
  }

  #received(m: Message): void {
    if (m.id !== undefined && !m.method) {
      const answer = this.#requests.get(m.id);
      this.#requests.delete(m.id);
      answer?.(m);
      return;
    }
    const of = m.subscriptionId ?? "";
    if (of === this.#feed) {
      if (m.cursor) this.#cursor = m.cursor;
      if (m.method === "event" && m.params) this.#gatherFact(m.params as unknown as Envelope);
      else if (m.method === "gap") this.#missed();
      else if (m.method === "subscription.ended") this.#soon(0, () => this.#followFeed(1));
      return;
    }
    const f = this.#bySubscription.get(of);
    if (!f) return;
    if (m.method === "event") this.#gather(f, m.params as unknown as Envelope);
    else if (m.method === "snapshot.repaired" || m.method === "gap") this.#tellGap(f, m.params as unknown as Gap);
    else if (m.method === "subscription.ended") {
      this.#ended(f, (m.params?.problem ?? {}) as Partial<Ended>);
    }
  }

  #gatherFact(e: Envelope): void {
    const { sessionId, sequence, type, timestamp, turnId, actionId, taskId, jobId } = e;
    this.#facts.push({ sessionId, sequence, type, timestamp, turnId, actionId, taskId, jobId });
    this.#schedule();
  }

  #gather(f: Follow, e: Envelope): void {
    if (e.sequence <= f.last) return; // each once
    if (e.sequence > f.last + 1) this.#tellGap(f, { gapFrom: f.last + 1, gapTo: e.sequence - 1, reason: "missing" });
    f.last = e.sequence;
    f.waiting.push(e);
    this.#schedule();
  }

  #tellGap(f: Follow, gap: Gap): void {
    this.#deliver();
    if (gap.gapTo > f.last) f.port.post({ kind: "gap", id: f.id, gap });
    f.last = gap.continuesAfter ?? Math.max(f.last, gap.gapTo);
  }

  #schedule(): void {
    this.#flush ??= setTimeout(() => this.#deliver(), Math.min(gatherFor.most, Math.max(gatherFor.least, gatherFor.perEvent * this.#delivered)));
  }

  #deliver(): void {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    this.#delivered = this.#facts.length;
    if (this.#facts.length > 0) {
      for (let at = 0; at < this.#facts.length; at += mostInMessage) {
        const facts = this.#facts.slice(at, at + mostInMessage);
        for (const p of this.#ports) p.post({ kind: "facts", facts });
      }
      this.#facts = [];
    }
    for (const f of this.#bySubscription.values()) {
      if (f.waiting.length === 0) continue;
      this.#delivered += f.waiting.length;
      for (let at = 0; at < f.waiting.length; at += mostInMessage) f.port.post({ kind: "events", id: f.id, events: f.waiting.slice(at, at + mostInMessage) });
      f.waiting = [];
    }
  }
}
