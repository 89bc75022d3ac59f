// Figures that are bounded: requests to the first page, what a long session costs, what a busy one does to a tab, and
// what is lost or doubled over a line that was cut. Each has a long variant: TestLongFigures.
import { existsSync, readFileSync } from "node:fs";
import { anyPort, assert, eventually, ownServer, quiet, settle, through, visit } from "./kit.mjs";

/** The size of a variant: that of the quick test, unless the environment says otherwise. */
const size = (name, quick) => Number(process.env[`AGENTD_TEST_${name}`] ?? quick);

/** counter makes facts in a session: reports of an outside worker, one fact each. */
async function counter(s, sessionId) {
  await s.done(await s.turn("hello", { sessionId }));
  const { taskId } = await s.call("create_task", { sessionId, objective: "count", worker: "external", heartbeatTimeoutMs: 3_600_000, start: true });
  let n = 0;
  return async (facts) => {
    for (let left = facts; left > 0; left -= 100) {
      const batch = Array.from({ length: Math.min(100, left) }, () => ({ jsonrpc: "2.0", id: n++, method: "append_task_progress", params: { taskId, progress: { summary: `step ${n}`, percent: n % 100 } } }));
      const res = await fetch(`${s.url}/v1/rpc`, { method: "POST", headers: { Authorization: `Bearer ${s.token}`, "Content-Type": "application/json" }, body: JSON.stringify(batch) });
      const answers = await res.json();
      assert.ok(answers.every((a) => !a.error), JSON.stringify(answers.find((a) => a.error)));
    }
  };
}

/**
 * taken watches how long processors were taken away by the host of a virtual machine, and returns the spans of a page's time in
 * which they were. Nothing that runs meanwhile says anything about a page. Where the system doesn't tell there are no spans.
 */
async function taken(page) {
  const stolen = () => (existsSync("/proc/stat") ? Number(readFileSync("/proc/stat", "utf8").split(/\s+/)[8]) : 0);
  const began = performance.now() - (await page.evaluate(() => performance.now()));
  const spans = [];
  let [sum, from] = [stolen(), performance.now()];
  const timer = setInterval(() => {
    const [now, at] = [stolen(), performance.now()];
    // The system counts a moment later than it happens.
    if (now > sum) spans.push({ from: from - began - 100, to: at - began });
    [sum, from] = [now, at];
  }, 250);
  return () => {
    clearInterval(timer);
    return spans;
  };
}

/**
 * longTasks watches for tasks of the page that keep a person waiting, with what ran in them and what they took of a processor.
 * What runs during without() is asked for by the test, and counts for neither.
 */
async function longTasks(page) {
  await page.evaluate(() => {
    window.watched = { tasks: [], frames: [], spans: [] };
    const span = (e) => ({ from: e.startTime, to: e.startTime + e.duration, ms: Math.round(e.duration) });
    new PerformanceObserver((list) => window.watched.tasks.push(...list.getEntries().map(span))).observe({ type: "longtask" });
    new PerformanceObserver((list) =>
      window.watched.frames.push(
        ...list.getEntries().map((e) => ({
          ...span(e),
          what: [...e.scripts].map((x) => `${x.invokerType} ${x.invoker} ${x.sourceFunctionName} ${Math.round(x.duration)} ms, layout ${Math.round(x.forcedStyleAndLayoutDuration)} ms`),
        })),
      ),
    ).observe({ type: "long-animation-frame" });
  });
  const now = () => page.evaluate(() => performance.now());
  const processor = await processorTime(page);
  const away = await taken(page);
  return {
    without: async (run) => {
      const from = await now();
      await processor.stop();
      await run();
      await processor.start();
      await page.evaluate((span) => window.watched.spans.push(span), { from, to: await now() });
    },
    /** end returns what was seen: how many tasks took longer than 50 ms, the longest of them, and what all tasks took of a processor. */
    end: async () => {
      await processor.stop();
      // Entries are handed over when the page has time: after two frames all are there.
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve)))));
      const { tasks, frames, spans } = await page.evaluate(() => window.watched);
      const aways = away();
      const within = (x, list) => list.some((y) => x.from < y.to && x.to > y.from);
      const long = tasks.filter((x) => x.ms > 50 && !within(x, spans));
      const asked = tasks.filter((x) => x.ms > 50 && within(x, spans));
      const own = long.filter((x) => !within(x, aways));
      const seconds = aways.reduce((sum, x) => sum + x.to - x.from, 0) / 1000;
      const what = own.slice(0, 5).map((x) => `${x.ms} ms at ${Math.round(x.from)}: ${frames.filter((f) => f.from < x.to && f.to > x.from).flatMap((f) => f.what).join("; ") || "no script"}`);
      const { count, perSecond } = processor;
      const longest = Math.max(0, ...processor.longest.filter((x) => !within(x, aways)).map((x) => x.ms));
      const says = `no task of ${count} used more than ${Math.max(16, longest).toFixed(0)} ms of a processor, all ${perSecond.toFixed(0)} ms a second; ${own.length} tasks longer than 50 ms, the longest ${Math.max(0, ...own.map((x) => x.ms))} ms${asked.length ? `, beside ${asked.length} while the test measured` : ""}${seconds ? `, and ${long.length - own.length} in ${seconds.toFixed(0)} s in which the machine had its processors taken away` : ""}${what.map((x) => `\n      ${x}`).join("")}`;
      return { says, long: own.length, count, longest, perSecond };
    },
  };
}

/**
 * processorTime traces the tasks of the page's main thread. What a task took of a processor doesn't depend on what else the
 * machine does, as how long it lasted does. Between stop and start nothing is counted.
 */
async function processorTime(page) {
  const cdp = await page.context().newCDPSession(page);
  let [events, since, traced, sum, marked] = [null, 0, 0, 0, 0];
  cdp.on("Tracing.dataCollected", (d) => events?.push(...d.value.filter((e) => e.name.endsWith("RunTask") || e.name === "page")));
  const used = {
    /** How many tasks there were. */
    count: 0,
    /** Those that took more than a frame, in milliseconds, with when in the page's time. */
    longest: [],
    /** What all of them took in a second. */
    get perSecond() {
      return traced ? (sum * 1000) / traced : 0;
    },
    start: async () => {
      events = [];
      await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { recordMode: "recordAsMuchAsPossible", includedCategories: ["toplevel", "blink.user_timing"] } });
      marked = await page.evaluate(() => performance.mark("page").startTime);
      since = Date.now();
    },
    stop: async () => {
      if (!events) return;
      traced += Date.now() - since;
      const complete = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
      await cdp.send("Tracing.end");
      await complete;
      const thread = (e) => `${e.pid}/${e.tid}`;
      const mark = events.find((e) => e.name === "page");
      const [mine, began] = [thread(mark), mark.ts / 1000 - marked];
      for (const e of events) {
        if (!e.name.endsWith("RunTask") || thread(e) !== mine || e.tdur === undefined) continue;
        used.count++;
        sum += e.tdur / 1000;
        const from = e.ts / 1000 - began;
        if (e.tdur > 16_000) used.longest.push({ from, to: from + e.dur / 1000, ms: e.tdur / 1000 });
      }
      events = null;
    },
  };
  await used.start();
  return used;
}

/** thousandASecond makes the facts of so many seconds, half a second's at a time and no faster, and returns how many seconds it took. */
async function thousandASecond(append, seconds, each = () => {}) {
  const began = Date.now();
  for (let half = 0; half < seconds * 2; half++) {
    await append(500);
    await each(half);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + (half + 1) * 500 - Date.now())));
  }
  return (Date.now() - began) / 1000;
}

/**
 * control opens a page that has nothing but a number, which it changes in each frame, and that uses as much of a processor as
 * it is told. The longer a page computes, the more often the machine takes the processor away from it in the middle of a task,
 * which makes the task long: what happens to this page as well isn't the console's doing.
 */
async function control(t, perSecond) {
  const context = await t.browser.newContext({ viewport: { width: 1280, height: 800 } });
  t.ends.push(() => context.close());
  const page = await context.newPage();
  await page.setContent("<p></p>");
  await page.evaluate((each) => {
    const spin = (n) => {
      let x = 0;
      for (let i = 0; i < n; i++) x = (x * 31 + i) | 0;
      return x;
    };
    // The quickest of several: the others were held up.
    let [turns, quickest] = [5e6, Infinity];
    for (let i = 0; i < 20; i++) {
      const from = performance.now();
      spin(turns);
      quickest = Math.min(quickest, performance.now() - from);
    }
    turns *= each / quickest;
    const frame = () => {
      document.querySelector("p").textContent = spin(turns);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }, perSecond / 60);
  return page;
}

/** follower reads the facts of a session as a browser would, and throws them away. */
function follower(t, s, sessionId) {
  const stop = new AbortController();
  const done = (async () => {
    const res = await fetch(`${s.url}/v1/sessions/${sessionId}/events`, { headers: { Authorization: `Bearer ${s.token}`, Accept: "text/event-stream" }, signal: stop.signal });
    for await (const part of res.body) void part;
  })().catch(() => {});
  t.ends.push(() => (stop.abort(), done));
}

/** drawn waits until the answer is drawn to its end, which is looked for in its last part only. */
const drawn = (page, end) => page.waitForFunction((x) => [...document.querySelectorAll(".said > .md")].at(-1)?.lastElementChild?.textContent.includes(x), end);

const lastOf = async (s, sessionId) => (await s.call("get_session", { sessionId, limit: 1 })).sequence;

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

  "a long session opens with little, at its end and in its middle": async (t) => {
    // The session was written into the store before: TestBrowser says where and how long it is.
    const s = await ownServer(t, { config: { data: process.env.AGENTD_LONG_DATA, ...anyPort } });
    // The turn was cut off with the process that began it: the server ends it.
    await eventually(() => s.call("list_turns", { sessionId: "long" }), (r) => ["completed", "failed"].includes(r.turns[0]?.status));
    const last = await lastOf(s, "long");
    assert.ok(last >= Number(process.env.AGENTD_LONG_FACTS), `${last} facts`);
    const line = await through(t, s);
    const page = await visit(t, { ...s, url: line.url }, "/s/long");
    await page.locator(`[data-last="${last}"]`).waitFor();
    await page.locator(`.fact[data-sequence="${last}"] .type`).waitFor();
    const [opened, nodes] = [line.down, await page.evaluate(() => document.querySelectorAll("*").length)];
    // Anywhere in it, without what lies between.
    const middle = Math.floor(last / 2);
    await page.goto(`${line.url}/ui/s/long?at=${middle}`);
    await page.locator(`.fact.current[data-sequence="${middle}"] .type`).waitFor();
    const more = await page.evaluate(() => document.querySelectorAll("*").length);
    t.log = `${last} facts: ${Math.round(opened / 1000)} kB transferred with the console itself, ${nodes} elements; in the middle ${more} elements, ${Math.round(line.down / 1000)} kB together`;
    assert.ok(opened <= 1_000_000 && line.down <= 2_000_000 && Math.max(nodes, more) < 3000, t.log);
  },

  "a tab that follows a thousand facts a second stays small and answers": async (t) => {
    const s = await ownServer(t);
    const seconds = size("FOLLOW", 10);
    const append = await counter(s, "busy");
    const page = await visit(t, s, "/s/busy");
    const cdp = await page.context().newCDPSession(page);
    const tasks = await longTasks(page);
    const heaps = [];
    /** heap is what is used after everything else was thrown away; the page doesn't do that by itself, so its time isn't the page's. */
    const heap = () => tasks.without(async () => {
      await cdp.send("HeapProfiler.collectGarbage");
      heaps.push((await cdp.send("Runtime.getHeapUsage")).usedSize / 1e6);
    });
    const every = Math.max(4, Math.min(60, Math.floor(seconds / 5)));
    const took = await thousandASecond(append, seconds, async (half) => {
      if (half >= 8 && half % every === 0) await heap();
    });
    const last = await lastOf(s, "busy");
    await page.locator(`[data-last="${last}"]`).waitFor();
    // The newest fact was in sight all the time, and still is.
    await page.locator(`.fact[data-sequence="${last}"] .type`).waitFor();
    await heap();
    const middle = heaps[Math.floor(heaps.length / 2)];
    const growth = heaps.at(-1) - middle;
    const seen = await tasks.end();
    t.log = `${seconds * 1000} facts at ${Math.round((seconds * 1000) / took)} a second for ${Math.round(took)} s: heap at most ${Math.max(...heaps).toFixed(1)} MB, ${growth.toFixed(1)} MB more in the second half, ${seen.says}`;
    assert.ok(seen.count > 0 && seen.longest <= 50, t.log);
    assert.deepEqual(await page.evaluate(() => [window.agentd.odd, window.agentd.gaps]), [[], 0]);
    assert.ok(Math.max(...heaps) <= 150 && growth <= 5, t.log);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    // The same again, with an empty page in place of the console.
    await page.close();
    follower(t, s, "busy");
    const empty = await control(t, seen.perSecond);
    const watched = await longTasks(empty);
    const controlled = await thousandASecond(append, size("CONTROL", 2));
    const machine = await watched.end();
    t.log += `\n    an empty page in its place for ${Math.round(controlled)} s: ${machine.says}`;
    assert.ok(machine.count > 0, t.log);
    // Other work on the machine makes tasks long, too: only who knows it to be quiet can hold the page to this. Two counts of
    // the same differ by chance: twice their standard deviation is let pass.
    const usual = (machine.long * took) / controlled;
    if (quiet) assert.ok(seen.long <= usual + 2 * Math.sqrt(seen.long + usual), t.log);
  },

  "a long answer grows without holding up the page": async (t) => {
    // First as markdown, then longer than what is drawn as markdown.
    const part = (n) => `## Part ${n}\n\nSome *words* of \`part\` ${n}, [a link](https://example.org/${n}) and more of them.\n\n- one\n- two\n\n\`\`\`\nconst x = ${n};\n\`\`\`\n\n`;
    const text = Array.from({ length: 5000 }, (_, n) => part(n)).join("");
    const s = await ownServer(t, { answers: [{ when: { contains: "long" }, text, chunks: 400, delay: "10ms" }] });
    await s.call("create_session", { sessionId: "answer" });
    const page = await visit(t, s, "/s/answer");
    const tasks = await longTasks(page);
    const turn = await s.turn("a long one", { sessionId: "answer" });
    const said = page.locator(".said").last();
    // While it is measured the page is asked for elements only: to look for words in all of the answer would be the longest task.
    await said.locator(".part").nth(2).waitFor();
    await s.done(turn);
    await page.locator(".turn > header .status.good").waitFor();
    await drawn(page, "const x = 4999;");
    t.log = `${Math.round(text.length / 1000)} kB: ${(await tasks.end()).says}`;
    // The answer is there to its end, and each part once.
    const shown = await said.evaluate((x) => [...x.textContent.matchAll(/Part (\d+)/g)].map((m) => Number(m[1])));
    assert.deepEqual(shown, Array.from({ length: 5000 }, (_, n) => n));
    // Its end is in sight, since nobody scrolled away from it.
    await page.waitForFunction(() => {
      const story = document.querySelector(".story[role=log]");
      return story.scrollHeight - story.scrollTop - story.clientHeight < 60;
    });
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
  },

  "a block that grows long is cut, and stays what it is": async (t) => {
    const list = Array.from({ length: 900 }, (_, n) => `- item ${n}`).join("\n");
    const code = Array.from({ length: 900 }, (_, n) => `const x${n} = ${n};`).join("\n");
    const table = Array.from({ length: 600 }, (_, n) => `| row ${n} | two |`).join("\n");
    const text = `${list}\n\n\`\`\`\`js\n${code}\n\n\`\`\`\n\`\`\`\`\n\n| a | b |\n| --- | --- |\n${table}\n\nThe end.`;
    const s = await ownServer(t, { answers: [{ when: { contains: "blocks" }, text, chunks: 200, delay: "5ms" }] });
    await s.call("create_session", { sessionId: "blocks" });
    const page = await visit(t, s, "/s/blocks");
    await s.done(await s.turn("blocks", { sessionId: "blocks" }));
    const said = page.locator(".said").last();
    await page.locator(".turn > header .status.good").waitFor();
    await drawn(page, "The end.");
    const look = () => said.evaluate((x) => ({
      items: [...x.querySelectorAll("li")].map((i) => i.textContent.trim()),
      code: [...x.querySelectorAll("pre")].map((p) => p.textContent.replace(/\n$/, "")).join("\n"),
      rows: [...x.querySelectorAll("tbody tr")].map((r) => r.textContent.trim()),
      rest: [...x.querySelectorAll("p")].map((p) => p.textContent),
    }));
    const want = { items: Array.from({ length: 900 }, (_, n) => `item ${n}`), code: `${code}\n\n\`\`\``, rows: Array.from({ length: 600 }, (_, n) => `row ${n}two`), rest: ["The end."] };
    assert.deepEqual(await look(), want, "as it grew");
    // Opened later it is cut the same way.
    await page.reload();
    await settle(page);
    await drawn(page, "The end.");
    assert.deepEqual(await look(), want, "at once");
  },

  "nothing is lost or doubled over a line that was cut": async (t) => {
    const s = await ownServer(t, { config: anyPort });
    const seconds = size("OFFLINE", 2);
    const append = await counter(s, "cut");
    const line = await through(t, s);
    const page = await visit(t, { ...s, url: line.url }, "/s/cut");
    const before = await page.evaluate(() => window.agentd.last);
    await append(200);
    await page.locator(`[data-last="${await lastOf(s, "cut")}"]`).waitFor();
    line.stop();
    const since = Date.now();
    await page.getByText(/Offline for/).waitFor();
    // What is there stays, and says that it may be old.
    await page.locator(".session.old").waitFor();
    do await append(100);
    while (Date.now() - since < seconds * 1000 && (await new Promise((resolve) => setTimeout(resolve, 500, true))));
    line.resume();
    await page.locator(".line.live").waitFor();
    await append(100);
    const last = await lastOf(s, "cut");
    await page.locator(`[data-last="${last}"]`).waitFor();
    const seen = await eventually(() => page.evaluate(() => ({ odd: window.agentd.odd, gaps: window.agentd.gaps, folded: window.agentd.folded, last: window.agentd.last })), (x) => x.last === last);
    t.log = `${Math.round((Date.now() - since) / 1000)} s offline, ${last - before} facts: ${last - before - seen.folded} lost, ${seen.odd.length} doubled or out of order`;
    assert.deepEqual(seen, { odd: [], gaps: 0, folded: last - before, last });
    await page.locator(".session:not(.old)").waitFor();
  },
};
