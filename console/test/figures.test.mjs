// Figures that are bounded: requests to the first page, and what a long session costs.
import { assert, ownServer, visit } from "./kit.mjs";

/** long makes a session with so many facts: reports of an outside worker, one fact each. */
async function long(s, facts) {
  await s.turn("hello", { sessionId: "long" });
  const { taskId } = await s.call("create_task", { sessionId: "long", objective: "count", worker: "external", heartbeatTimeoutMs: 3_600_000, start: true });
  for (let n = 0; n < facts; ) {
    const batch = Array.from({ length: Math.min(200, facts - n) }, () => ({ jsonrpc: "2.0", id: n++, method: "append_task_progress", params: { taskId, progress: { summary: `step ${n}`, percent: n % 100 } } }));
    const res = await fetch(`${s.url}/v1/rpc`, { method: "POST", headers: { Authorization: `Bearer ${s.token}`, "Content-Type": "application/json" }, body: JSON.stringify(batch) });
    const answers = await res.json();
    assert.ok(answers.every((a) => !a.error), JSON.stringify(answers.find((a) => a.error)));
  }
}

export default {
  "the first page needs at most eight requests, none of them elsewhere": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "first" }));
    const page = await visit(t, s, "/", { login: true });
    const asked = [];
    page.on("request", (r) => asked.push(new URL(r.url()).pathname));
    await page.reload();
    await page.locator("[data-session=first]").waitFor();
    t.log = `${asked.length} requests: ${asked.join(" ")}`;
    assert.ok(asked.length <= 8, t.log);
  },

  "a long session opens with little": async (t) => {
    const s = await ownServer(t);
    const facts = Number(process.env.AGENTD_TEST_FACTS ?? 3000);
    await long(s, facts);
    const page = await visit(t, s, "/");
    let bytes = 0;
    page.on("requestfinished", (r) => r.sizes().then((z) => (bytes += z.responseBodySize + z.responseHeadersSize), () => {}));
    await page.goto(`${s.url}/ui/s/long`);
    const last = (await s.call("get_session", { sessionId: "long", limit: 1 })).sequence;
    await page.locator(`[data-last="${last}"]`).waitFor();
    await page.locator(`.fact[data-sequence="${last}"]`).waitFor();
    // Anywhere in it, without what lies between.
    const middle = Math.floor(last / 2);
    await page.goto(`${s.url}/ui/s/long?at=${middle}`);
    await page.locator(`.fact.current[data-sequence="${middle}"]`).waitFor();
    const nodes = await page.evaluate(() => document.querySelectorAll("*").length);
    t.log = `${last} facts: ${Math.round(bytes / 1000)} kB transferred, ${nodes} nodes`;
    assert.ok(bytes <= 1_000_000 && nodes < 3000, t.log);
  },
};
