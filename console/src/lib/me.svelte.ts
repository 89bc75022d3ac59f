// Who is logged in, and what they may do.
import type { CommandName } from "$types/commands";
import { get, loseLogin, Problem, send } from "./api";
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

  /** check asks the server who we are. */
  async check(): Promise<void> {
    try {
      this.status = await get<Status>("/v1/status");
      this.state = "in";
      this.why = null;
      this.left = null;
    } catch (err) {
      this.why = err as Problem;
      if (this.why.code === "unauthenticated") this.state = "out";
      else if (this.state === "checking") setTimeout(() => void this.check(), 1000);
    }
  }

  /** login exchanges a token, or the code of a link, for the cookie. */
  async login(by: { token: string } | { code: string }): Promise<void> {
    await send("/ui/login", { method: "POST", body: JSON.stringify(by), headers: { "Content-Type": "application/json" } });
    await this.check();
  }

  async logout(): Promise<void> {
    const res = await send("/ui/logout", { method: "POST" });
    this.left = res.status === 200 ? ((await res.json()) as { provider: string; path?: string }) : null;
    this.status = null;
    this.why = null;
    this.state = "out";
  }
}

export const me = new Me();

loseLogin((p) => {
  if (me.state !== "in") return;
  me.why = p;
  me.status = null;
  me.state = "out";
});
