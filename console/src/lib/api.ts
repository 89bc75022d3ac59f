// The way to the server: the same addresses that every other client uses, with the login's
// cookie instead of a token.
import type { CommandName, Commands, ProblemCode } from "$types/commands";
import { activity } from "./activity.svelte";

/** A problem is an answer of the server that is an error, or why there was no answer. */
export class Problem extends Error {
  constructor(
    readonly code: ProblemCode | "offline" | "aborted",
    readonly status: number,
    readonly detail: string,
    readonly requestId?: string,
    readonly param?: string,
    readonly retryAfter?: number,
    /** The parts of what was sent that break its schema, each with its path. */
    readonly errors: { param: string; detail: string }[] = [],
  ) {
    super(detail);
  }

  /** What a person can do about it. */
  get advice(): string {
    switch (this.code) {
      case "offline":
        return "The server can't be reached. The console tries again by itself; is “agentd serve” running?";
      case "unauthenticated":
        return "Log in again: the token was revoked, has expired, or the server has another admin token now.";
      case "forbidden":
        return "Your token's role doesn't allow this. An admin can make another: agentd tokens create --role client NAME.";
      case "not_found":
        return "It may have been deleted, or it belongs to another account.";
      case "conflict":
        return "It has changed meanwhile. Look at its state now, then decide again.";
      case "policy_rejected":
        return "A policy of the thread or of the host refuses it.";
      case "rate_limited":
        return this.retryAfter ? `A limit was reached; try again in ${this.retryAfter} s.` : "A limit was reached; try again in a moment.";
      case "unavailable":
        return "The server can't do this now; try again in a moment.";
      case "internal":
        return "This is a defect of agentd. The server's log has more under the request id.";
      default:
        return this.param ? `Look at “${this.param}”.` : "Check what was sent.";
    }
  }
}

let onUnauthenticated: (p: Problem) => void = () => {};

/** loseLogin sets what happens when the server no longer accepts the login. */
export function loseLogin(handler: (p: Problem) => void): void {
  onUnauthenticated = handler;
}

async function problemOf(res: Response): Promise<Problem> {
  const id = res.headers.get("X-Request-ID") ?? undefined;
  try {
    const p = (await res.json()) as { code: ProblemCode; detail?: string; title?: string; requestId?: string; param?: string; retryAfter?: number; errors?: { param: string; detail: string }[] };
    return new Problem(p.code, res.status, p.detail ?? p.title ?? res.statusText, p.requestId ?? id, p.param, p.retryAfter, p.errors);
  } catch {
    return new Problem("unavailable", res.status, `the server answered ${res.status} ${res.statusText}`, id);
  }
}

/** send makes a request and returns its answer if it is a good one. */
export function send(path: string, init: RequestInit = {}): Promise<Response> {
  return activity.during(request(path, init));
}

async function request(path: string, init: RequestInit): Promise<Response> {
  let res: Response;
  try {
    res = await fetch(path, { ...init, credentials: "same-origin", headers: { "X-Agentd-Console": "1", ...init.headers } });
  } catch (err) {
    if ((err as Error).name === "AbortError") throw new Problem("aborted", 0, "the request was given up");
    throw new Problem("offline", 0, "the server can't be reached");
  }
  if (res.ok) return res;
  const p = await problemOf(res);
  if (p.code === "unauthenticated" && !path.startsWith("/ui/")) onUnauthenticated(p);
  throw p;
}

/** call carries out a command. */
export async function call<C extends CommandName>(command: C, params: Commands[C]["params"], signal?: AbortSignal): Promise<Commands[C]["result"]> {
  return (await callNumbered(command, params, signal)).result;
}

/** callNumbered carries out a command and also returns the request's id, for who finds fault with the answer. */
export function callNumbered<C extends CommandName>(command: C, params: Commands[C]["params"], signal?: AbortSignal): Promise<{ result: Commands[C]["result"]; requestId?: string }> {
  return activity.during(
    send(`/v1/commands/${command}`, { method: "POST", body: JSON.stringify(params), headers: { "Content-Type": "application/json" }, signal }).then(async (res) => ({
      result: (await res.json()) as Commands[C]["result"],
      requestId: res.headers.get("X-Request-ID") ?? undefined,
    })),
  );
}

interface Waiting {
  method: string;
  params: unknown;
  resolve: (result: unknown) => void;
  reject: (err: Problem) => void;
}

let batch: Waiting[] = [];

/**
 * read carries out a command that only reads. Reads that begin at the same moment, as when a page opens, go in
 * one request.
 */
export function read<C extends CommandName>(command: C, params: Commands[C]["params"]): Promise<Commands[C]["result"]> {
  return activity.during(
    new Promise((resolve, reject) => {
      if (batch.length === 0) setTimeout(() => void sendBatch(batch.splice(0)));
      batch.push({ method: command, params, resolve: resolve as (r: unknown) => void, reject });
    }),
  );
}

async function sendBatch(all: Waiting[]): Promise<void> {
  if (all.length === 1) {
    const one = all[0]!;
    call(one.method as CommandName, one.params as never).then(one.resolve, one.reject);
    return;
  }
  try {
    const res = await send("/v1/rpc", {
      method: "POST",
      body: JSON.stringify(all.map((w, id) => ({ jsonrpc: "2.0", id, method: w.method, params: w.params }))),
      headers: { "Content-Type": "application/json" },
    });
    type Answer = { id: number; result?: unknown; error?: { message: string; data?: { code: ProblemCode; status: number; detail?: string; requestId?: string; param?: string; retryAfter?: number } } };
    for (const a of (await res.json()) as Answer[]) {
      const p = a.error?.data;
      if (a.error) all[a.id]?.reject(new Problem(p?.code ?? "internal", p?.status ?? 0, p?.detail ?? a.error.message, p?.requestId, p?.param, p?.retryAfter));
      else all[a.id]?.resolve(a.result);
    }
    for (const w of all) w.reject(new Problem("unavailable", 0, "the server gave no answer")); // no effect on those that have one
  } catch (err) {
    for (const w of all) w.reject(err as Problem);
  }
}

/** get reads JSON from an address. */
export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return activity.during(send(path, { signal }).then((res) => res.json() as Promise<T>));
}

/** outputPath is the address of the bytes behind a reference. */
export function outputPath(ref: string): string {
  return `/v1/outputs/${ref.split("/").map(encodeURIComponent).join("/")}`;
}

/** outputText reads the first bytes behind a reference as text. */
export async function outputText(ref: string, most = 256 << 10): Promise<{ text: string; size: number; cut: boolean }> {
  const res = await send(outputPath(ref), { headers: { Range: `bytes=0-${most - 1}` } });
  const text = await res.text();
  const total = Number(/\/(\d+)$/.exec(res.headers.get("Content-Range") ?? "")?.[1] ?? text.length);
  return { text, size: total, cut: total > most };
}

/** download saves bytes as a file of the user's. */
export function download(name: string, content: Blob | string): void {
  const url = URL.createObjectURL(typeof content === "string" ? new Blob([content]) : content);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
