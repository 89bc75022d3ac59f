// What a tab of a session shows when the session is shown as it was at a fact.

/** upTo keeps the turns that had begun by then, and some more: when a turn began to run is told to the millisecond. */
export function upTo(time: string | null): { to?: string } {
  return time ? { to: new Date(Date.parse(time) + 1000).toISOString() } : {};
}
