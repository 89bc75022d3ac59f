// Who is logged in, and what they may do. All tabs of a browser have one login: a tab that finds another tells the
// others, and nothing that was read for one login is there for the next.
import type { CommandName } from "$types/commands";
import { get, loseLogin, Problem, send } from "./api";
import { line } from "./line.svelte";
import { tellLine } from "./live";
import { notices } from "./notices.svelte";
import { forgetReads } from "./query.svelte";
import { scopes, type Role } from "./scopes";

export interface Status {
  version: string;
  startedAt: string;
  uptimeSeconds: number;
  connections: number;
  streams: number;
  caller: { name: string; role: Role; account?: string; expiresAt?: string };
  runtime: { runtimeId: string; data?: string; ready?: boolean; problem?: string; [key: string]: unknown };
}

const rank: Record<Role, number> = { observer: 0, client: 1, admin: 2 };

class Me {
  /** What the server says of itself and of us; null until it is known, or if nobody is logged in. */
  status = $state.raw<Status | null>(null);
  state = $state<"checking" | "in" | "out">("checking");
  /** Why the login ended, or why it couldn't be checked. */
  why = $state.raw<Problem | null>(null);
  /** The identity provider at which the login goes on that was left here, with the way to end it there. */
  left = $state.raw<{ provider: string; path?: string } | null>(null);

  get role(): Role {
    return this.status?.caller.role ?? "observer";
  }

  /** can reports whether the role suffices for a command: what can't be done isn't offered. */
  can(command: CommandName): boolean {
    return rank[this.role] >= rank[scopes[command]];
  }

  /** Changes with each other login, so that what is drawn of one goes with it. */
  login = $state(0);
  #who = "";
  #asked = 0;
  /** Tells the other tabs. */
  #tabs = new BroadcastChannel("agentd-login");

  constructor() {
    // Another tab may be mistaken, as when its question was on the way during a login: the server knows.
    this.#tabs.onmessage = (e) => {
      if (e.data !== this.#who && this.state !== "checking") void this.check();
    };
    addEventListener("pageshow", (e) => e.persisted && void this.check());
  }

  /** check asks the server who we are. */
  async check(): Promise<void> {
    const mine = ++this.#asked;
    try {
      const status = await get<Status>("/v1/status");
      if (mine !== this.#asked) return; // what was asked later counts
      const { name, role, account } = status.caller;
      this.#become(JSON.stringify([name, role, account]));
      this.status = status;
      this.state = "in";
      this.why = null;
      this.left = null;
      tellLine(this.#who);
    } catch (err) {
      if (mine !== this.#asked) return;
      const why = err as Problem;
      if (why.code === "unauthenticated") this.leave(why);
      else {
        // That the server can't be reached is told by the line.
        if (this.state === "checking" || why.code !== "offline") this.why = why;
        if (this.state === "checking") setTimeout(() => void this.check(), 1000);
      }
    }
  }

  /** become drops what was read for another login, and tells the other tabs. */
  #become(who: string): void {
    if (who === this.#who) return;
    this.#who = who;
    this.login++;
    forgetReads();
    line.reset();
    notices.clear();
    this.#tabs.postMessage(who);
  }

  /** leave ends the login in this tab. */
  leave(why: Problem | null): void {
    this.#asked++;
    this.#become("");
    this.status = null;
    this.why = why;
    this.state = "out";
    tellLine("");
  }

  /** enter exchanges a token, or the code of a link, for the cookie. */
  async enter(by: { token: string } | { code: string }): Promise<void> {
    await send("/ui/login", { method: "POST", body: JSON.stringify(by), headers: { "Content-Type": "application/json" } });
    await this.check();
  }

  async logout(): Promise<void> {
    const res = await send("/ui/logout", { method: "POST" });
    const left = res.status === 200 ? ((await res.json()) as { provider: string; path?: string }) : null;
    this.leave(null);
    this.left = left;
  }
}

export const me = new Me();

loseLogin((p) => {
  if (me.state === "in") me.leave(p);
});
