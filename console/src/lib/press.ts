// What a press of a key or a button carries out.
import { complain } from "./notices.svelte";
import { randomId } from "./random";

/**
 * press returns what a control calls: it runs what is given, and tells why if that fails. Called again for the same things, which
 * are the arguments that run names, it does nothing while that is on its way. The key of a command that changes something comes
 * from here alone, so that a second press changes nothing twice.
 */
export function press<A extends unknown[]>(run: (once: () => string, ...args: A) => Promise<unknown>): (...args: A) => Promise<void> {
  const underWay = new Set<unknown[]>();
  return async (...args) => {
    const things = args.slice(0, Math.max(0, run.length - 1)); // without the event that a control hands over
    if ([...underWay].some((others) => things.every((x, i) => x === others[i]))) return;
    underWay.add(things);
    try {
      await run(randomId, ...args);
    } catch (err) {
      complain(err);
    } finally {
      underWay.delete(things);
    }
  };
}
