// What an undo goes back to. A turn is taken back with those after it: what stays is the turn before it, wherever that is.
import type { Rollback, RollbackThreadResult, SessionRead, TurnSummary } from "$types/commands";
import { call, callNumbered, get, Problem } from "$lib/api";
import type { Envelope } from "$lib/wire";

export type Target = { toTurnId: string } | { toStart: true };
export interface Preview {
  turn: TurnSummary;
  to: Target;
  result: RollbackThreadResult;
}

const pageSize = 200;

/** removedBy returns the turns that rollbacks took back. A snapshot names the first ones of a long list only: the fact names all. */
export async function removedBy(id: string, rollbacks: Rollback[]): Promise<Set<string>> {
  const lists = await Promise.all(
    rollbacks.map(async (r) => {
      const named = r.removedTurns ?? [];
      if (named.length >= r.removedCount || !r.sequence) return named;
      const page = await get<{ events: Envelope[] }>(`/v1/sessions/${encodeURIComponent(id)}/events?after=${r.sequence - 1}&limit=1`);
      return (page.events[0]?.payload?.removedTurns as string[] | undefined) ?? named;
    }),
  );
  return new Set(lists.flat());
}

/** turnsBefore yields the turns of a thread before a fact, the newest first, page by page as they are needed. */
async function* turnsBefore(sessionId: string, threadId: string | undefined, before: number): AsyncGenerator<TurnSummary> {
  for (let cursor: string | undefined; ; ) {
    const page = await call("list_turns", { sessionId, limit: pageSize, ...(cursor ? { cursor } : {}) });
    yield* page.turns.filter((t) => (!threadId || t.threadId === threadId) && t.firstSequence < before).sort((a, b) => b.firstSequence - a.firstSequence);
    cursor = page.nextCursor;
    if (!cursor) return;
  }
}

/** candidates yields what may stay, the nearest first: turns before it, in a fork also those of the sessions that its history is from. */
async function* candidates(t: TurnSummary, session: SessionRead): AsyncGenerator<TurnSummary> {
  yield* turnsBefore(t.sessionId, t.threadId, t.firstSequence);
  const role = session.threads.find((x) => x.threadId === t.threadId)?.role;
  if (role !== "main" && role !== "fork") return; // no other thread has a history from elsewhere
  for (let from = session.forkedFrom; from; ) {
    yield* turnsBefore(from.sessionId, from.threadId, from.sequence);
    from = (await call("get_session", { sessionId: from.sessionId, limit: 1 })).forkedFrom;
  }
}

/**
 * previewUndo finds what an undo of a turn goes back to, and returns what the server says would go: that turn first. The
 * beginning is only gone back to if every list was read to its end and nothing in it can stay.
 */
export async function previewUndo(t: TurnSummary, session: SessionRead): Promise<Preview> {
  const ask = async (to: Target): Promise<Preview> => {
    const { result, requestId } = await callNumbered("rollback_thread", { sessionId: t.sessionId, threadId: t.threadId, ...to, files: "restore", preview: true, diff: true });
    if (result.removedTurns[0] === t.turnId) return { turn: t, to, result };
    throw new Problem("conflict", 0, result.removedTurns.includes(t.turnId) ? "turns before this one would be taken back, too" : "this turn is no longer part of the thread", requestId);
  };
  const gone = await removedBy(t.sessionId, session.historySummary.rollbacks ?? []);
  for await (const before of candidates(t, session)) {
    if (gone.has(before.turnId)) continue;
    try {
      return await ask({ toTurnId: before.turnId });
    } catch (err) {
      // It was taken back long ago, or never began: the one before it may stay.
      if (!(err instanceof Problem && err.code === "not_found")) throw err;
    }
  }
  return ask({ toStart: true });
}
