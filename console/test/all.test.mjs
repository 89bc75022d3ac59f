// What holds for every page.
import { readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { assert, axe, eventually, go, noSidewaysScroll, ownServer, screen, server, settle, typeToken, visit } from "./kit.mjs";

const source = readFileSync(new URL("../src/routes.ts", import.meta.url), "utf8");
const paths = [...source.matchAll(/\{ path: "([^"]+)"/g)].map((m) => m[1]);

let made;

/** command says whether a command of the catalogue takes what a line gives it. */
function command(name, line) {
  const given = Object.keys(JSON.parse(/'(.*)'/.exec(line)[1]));
  const types = readFileSync(new URL("../../internal/gen/types/commands.ts", import.meta.url), "utf8");
  const form = types.split(`export interface ${name.replace(/(^|_)(.)/g, (_, __, c) => c.toUpperCase())}Params {`)[1]?.split("\n}\n")[0] ?? "";
  return given.every((k) => new RegExp(`^  ${k}\\??:`, "m").test(form));
}

/** pages are all routes, with a real session where one is asked for. */
async function pages(s) {
  made ??= s.turn("hello").then((turn) => s.done(turn).then(() => turn));
  const { sessionId } = await made;
  return paths.map((p) => p.replace("/s/:id", `/s/${sessionId}`).replace(/:\w+/, sessionId));
}

async function open(page, path) {
  await go(page, path);
  await page.locator("main h1").first().waitFor();
  if (path.startsWith("/s/")) await page.locator("svg .node").first().waitFor({ state: "attached" });
}

export default {
  "an empty page shows a command that fills it, and the command exists": async (t) => {
    const s = await ownServer(t);
    const page = await visit(t, s, "/");
    const told = {};
    for (const path of ["/", "/inbox", "/sessions", "/tasks", "/jobs", "/schedules", "/usage", "/compare", "/bench", "/evidence", "/peers"]) {
      await go(page, path);
      told[path] = await page.locator("main .empty .command code").first().innerText();
    }
    for (const [path, line] of Object.entries(told)) {
      const words = line.split(" ").slice(1);
      const end = words.findIndex((w) => !/^[a-z]+$/.test(w));
      const r = spawnSync(process.env.AGENTD_PROGRAM, [...words.slice(0, end < 0 ? undefined : end), "--help"], { encoding: "utf8", env: s.env() });
      const flags = words.filter((w) => w.startsWith("--"));
      assert.ok(r.status === 0 && r.stdout.includes(`Usage:\n  agentd ${words.slice(0, end < 0 ? undefined : end).join(" ")}`) && flags.every((f) => r.stdout.includes(f)) && (words[0] !== "call" || command(words[1], line)), `${path}: ${line}\n${r.stdout}${r.stderr}`);
    }
  },
  "an error has its code, its request and what to do": async (t) => {
    const s = await ownServer(t);
    const page = await visit(t, s, "/s/sess_nowhere");
    const box = page.getByRole("alert").first();
    await box.getByText("not_found").waitFor();
    await box.getByText("It may have been deleted, or it belongs to another account.").waitFor();
    const id = await box.getByText(/^Request /).locator("code").innerText();
    // It is logged when it was answered, and the log comes over another pipe.
    await eventually(() => s.log.includes(id), (logged) => logged);
    // What was tried and refused has them, too.
    await go(page, "/evidence");
    await page.getByLabel("Session", { exact: true }).fill("sess_nowhere");
    await page.getByRole("button", { name: "Export", exact: true }).click();
    const notice = page.locator(".notice.bad");
    await notice.getByText("not_found", { exact: true }).waitFor();
    await notice.getByText("It may have been deleted, or it belongs to another account.").waitFor();
    await notice.getByText(/req_/).waitFor();
    // So have those that a page finds itself, and a session that goes while it is looked at.
    await go(page, "/compare?a=nowhere&b=x");
    await page.getByText("there is no session, turn or trial nowhere").waitFor();
    await page.getByRole("alert").getByText(/req_/).waitFor();
    await s.done(await s.turn("hello", { sessionId: "gone" }));
    await go(page, "/s/gone");
    await s.call("delete_session", { sessionId: "gone" });
    await page.locator(".moment").getByRole("alert").getByText(/req_/).waitFor();
    // And an id in the address that nothing has is said to be that.
    const nowhere = [["/inbox?id=action_nowhere", "There is no question action_nowhere"], ["/evidence?id=evidence_nowhere", "There is no export evidence_nowhere"], ["/tasks?id=task_nowhere", "there is no task task_nowhere"], ["/jobs?id=job_nowhere", "there is no job job_nowhere"], ["/schedules?id=schedule_nowhere", "There is no schedule schedule_nowhere here"], ["/peers?id=chan_nowhere", "There is no channel chan_nowhere here"], ["/bench?q=trial_nowhere", "No trial fits trial_nowhere"], ["/replay/replay_nowhere", "there is no replay replay_nowhere"]];
    const unknown = async () => {
      for (const [path, says] of nowhere) {
        await go(page, path);
        await page.getByText(says).first().waitFor();
      }
    };
    await unknown();
    // Beside others of their kind, too.
    await s.call("create_schedule", { title: "every hour", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    await s.call("connect_channel", { channelId: "chan_here", transport: "websocket", peerRole: "client" });
    await unknown();
    await go(page, "/peers?id=chan_nowhere");
    await page.getByRole("link", { name: "All channels" }).click();
    await page.getByRole("cell", { name: "chan_here" }).waitFor();
    await go(page, "/schedules?id=schedule_nowhere");
    await page.getByRole("link", { name: "All schedules" }).click();
    await page.getByRole("cell", { name: "every hour" }).waitFor();
  },
  "offline, data stays in grey with its age": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "kept" }));
    const page = await visit(t, s, "/");
    await page.locator("[data-session=kept]").waitFor();
    await s.kill();
    await page.getByText(/^Offline: this is .* old/).waitFor();
    await page.locator(".old [data-session=kept]").waitFor();
    await page.locator(".figures.old").waitFor();
    await axe(page, "offline");
    // What can't be looked up isn't said not to be there.
    await page.keyboard.press("Control+k");
    await page.keyboard.type("kept");
    await page.getByRole("option", { name: /offline: the server can't be reached.*is “agentd serve” running/ }).waitFor();
    assert.equal(await page.getByText("Nothing fits").count(), 0);
    await page.keyboard.press("Escape");
    await s.start();
    await page.locator(".line.live").waitFor();
    await page.locator(".data:not(.old) [data-session=kept]").waitFor();
  },
  "every status of the catalogue has a look of its own": async () => {
    const enums = readFileSync(new URL("../../event/enum.go", import.meta.url), "utf8");
    const looks = readFileSync(new URL("../src/ui/Status.svelte", import.meta.url), "utf8");
    const named = [...enums.matchAll(/"\w*Status":\s*"([^"]+)"/g)].flatMap((m) => m[1].split(" "));
    assert.ok(named.includes("timed_out") && named.includes("pending"), named.join(" "));
    assert.deepEqual([...new Set(named)].filter((x) => !new RegExp(`\\b${x}: \\["`).test(looks)), []);
  },
  "who wants less motion sees none": async (t) => {
    const s = await ownServer(t);
    await s.call("create_task", { objective: "go on", worker: "external", start: true });
    // What moves for longer than a frame, once the page is settled.
    const moving = async (motion) => {
      const page = await visit(t, s, "/tasks");
      await page.emulateMedia({ reducedMotion: motion });
      await page.locator(".status.live svg").first().waitFor();
      await settle(page);
      return page.evaluate(() => document.getAnimations().filter((a) => a.effect.getComputedTiming().iterations > 1).length);
    };
    assert.ok((await moving("no-preference")) > 0, "a task that runs is seen to run");
    assert.equal(await moving("reduce"), 0);
  },
  "the figures of the fleet are those of the API, and go on with the time": async (t) => {
    const s = await ownServer(t, {
      answers: [
        { when: { contains: "migrate" }, text: "too late", stall: "1h" },
        { when: { contains: "deploy" }, ask: { prompt: "Which?", schema: { type: "object", properties: { one: { type: "string" } } } } },
        { when: { contains: "summarize" }, text: "paid", usage: { inputTokens: 100_000, outputTokens: 1000 } },
        { when: { contains: "dependencies" }, error: { category: "invalid_request", message: "no such thing" } },
      ],
    });
    await s.turn("migrate the schema", { sessionId: "runs" });
    for (const [id, text] of [["asks", "deploy the docs"], ["asks_too", "deploy to staging"]]) await s.asked(await s.turn(text, { sessionId: id }));
    for (const [id, text] of [["fails", "update the dependencies"], ["fails_too", "list outdated dependencies"], ["fails_once", "pin the dependencies"]]) await s.done(await s.turn(text, { sessionId: id }));
    await s.done(await s.turn("summarize what changed", { sessionId: "fails_once" })); // it doesn't stand as failed any more, and its turn did fail
    const page = await visit(t, s, "/");
    const shows = (label, value) => page.locator(".figure", { hasText: label }).locator("strong").getByText(value, { exact: true }).waitFor();
    const total = async (name, params) => String((await s.call(name, { ...params, limit: 1 })).total);
    assert.equal(await eventually(() => total("list_sessions", { status: "running" }), (n) => n === "1"), "1");
    await shows("Running", "1");
    assert.equal(await total("list_sessions", { status: "blocked" }), "2");
    await shows("Blocked", "2");
    const failures = await total("list_turns", { status: "failed" });
    assert.equal(failures, "3");
    await shows("Failed turns", failures);
    const { rows } = await s.call("usage", {});
    assert.ok(rows[0].costUSD > 0.01);
    await shows("Spent this hour", `$${rows[0].costUSD.toFixed(2)}`);
    const { actions } = await s.call("list_actions", { status: "pending", sort: "created", order: "asc", limit: 1 });
    await page.locator(`.figure time[datetime="${new Date(actions[0].createdAt).toISOString()}"]`).waitFor();
    // The fullest limits are shown; what is stored grows meanwhile.
    const full = (await s.call("get_quotas")).quotas.filter((q) => q.limit).sort((x, y) => y.used / y.limit - x.used / x.limit).slice(0, 2);
    const meters = await page.locator(".figure meter").evaluateAll((all) => all.map((m) => [m.ariaLabel, m.value]));
    assert.deepEqual(meters.map(([name]) => name), full.map((q) => `${q.quota} used`));
    for (const [i, q] of full.entries()) if (q.quota !== "storedBytes") assert.ok(Math.abs(meters[i][1] - q.used / q.limit) < 1e-9, q.quota);
    // A turn of just now is seen at the end of its lane, not cut off there.
    const bars = await page.locator(".strip .bar").evaluateAll((all) => all.map((b) => [b.getBoundingClientRect(), b.parentElement.getBoundingClientRect()]).map(([b, strip]) => b.width >= 4 && b.right <= strip.right + 0.5));
    assert.deepEqual(bars, Array(7).fill(true));
    await screen(page, "fleet", { width: 1200, height: 660 });
    // Each leads to as many as it counts.
    await page.getByRole("link", { name: /Failed turns/ }).click();
    const list = page.getByRole("table", { name: "Failed turns" });
    await list.waitFor();
    assert.equal(await list.getAttribute("aria-rowcount"), String(Number(failures) + 1));
    await axe(page, "failed turns");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: /Blocked/ }).click();
    await settle(page, "/sessions?status=blocked");
    assert.equal(await page.getByRole("table", { name: "Sessions" }).getAttribute("aria-rowcount"), "3");
    // A day later nothing of it was in the last 24 hours.
    await page.clock.install();
    await page.goto(`${s.url}/ui/`);
    await shows("Failed turns", failures);
    await page.clock.fastForward("25:00:00");
    await shows("Failed turns", "0");
  },
  "what waits has a lane however many were active since, all can be shown, and limits say of what and whose they are": async (t) => {
    const s = await ownServer(t, { config: { quotas: { sessions: 50, storedBytes: "unlimited" } }, answers: [{ when: { contains: "deploy" }, ask: { prompt: "Which?", schema: { type: "object", properties: { one: { type: "string" } } } } }] });
    await s.asked(await s.turn("deploy the docs", { sessionId: "asks" }));
    for (let i = 0; i < 45; i++) await s.done(await s.turn("hello", { sessionId: `session_${i}` }));
    const { token } = await s.call("create_token", { name: "someone", role: "client", account: "team" });
    await s.call("submit_turn", { create: true, sessionId: "theirs", input: "hello" }, token);
    const page = await visit(t, s, "/");
    await page.locator("[data-session=asks]").waitFor();
    assert.equal(await page.locator(".lane").count(), 41);
    await page.getByRole("button", { name: "Show more" }).click();
    await page.locator(".lane").nth(46).waitFor();
    assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
    await page.locator(".limit").getByText(/of team$/).first().waitFor();
    await page.locator(".limit").getByText(/^1 of 50$/).first().waitFor();
  },
  "what is lost or unknown is drawn as such": async (t) => {
    const s = await ownServer(t);
    const { taskId } = await s.call("create_task", { objective: "go silent", worker: "external", heartbeatTimeoutMs: 1000, start: true });
    const { sessionId } = await s.call("get_task", { taskId });
    await s.awaitEvent(sessionId, (e) => e.taskId === taskId && e.type === "task.lost");
    const page = await visit(t, s, `/tasks?id=${taskId}`);
    await page.getByRole("complementary", { name: "Task" }).locator(".status.odd", { hasText: "lost" }).first().waitFor();
    await page.goto(`${s.url}/ui/`);
    await page.getByRole("link", { name: /Lost tasks\s*1/ }).waitFor();
  },
  "the store's health is shown: what was repaired, and why nothing can be written": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "kept" }));
    await s.kill();
    await s.start();
    const told = async () => (await (await fetch(`${s.url}/v1/status`, { headers: { Authorization: `Bearer ${s.token}` } })).json()).runtime;
    const { recovered, engine, evidenceKeyId } = await told();
    const page = await visit(t, s, "/");
    const figure = page.getByRole("link", { name: /^Store ready/ });
    if (recovered.length > 0) await figure.getByText(`${recovered.length} ${recovered.length === 1 ? "repair" : "repairs"} at start`).waitFor();
    await figure.click();
    const store = page.getByRole("region", { name: "Store" });
    await store.getByText(new RegExp(`^${engine}, data version`)).waitFor();
    await store.getByText(evidenceKeyId).waitFor();
    for (const line of recovered) await store.getByText(line).waitFor();
    if (recovered.length === 0) await store.getByText("the last stop was a clean one").waitFor();
    await axe(page, "the store");
    // A store that takes no writes says why, on both pages. The answer is the server's, but for the store's own word.
    await page.route("**/v1/status", async (route) => {
      const res = await route.fetch();
      const body = await res.json();
      await route.fulfill({ response: res, json: { ...body, runtime: { ...body.runtime, ready: false, problem: "store: write 000002.log: no space left on device" } } });
    });
    await page.reload();
    await store.getByRole("alert").getByText("no space left on device").waitFor();
    await store.locator(".status.bad", { hasText: "failed" }).waitFor();
    await axe(page, "a store that fails");
    await page.goto(`${s.url}/ui/`);
    await page.getByRole("link", { name: /^Store failed/ }).getByText("no space left on device").waitFor();
    // One who may only look sees how it stands, and not where it is.
    const { token } = await s.call("create_token", { name: "watcher", role: "observer" });
    const watcher = await visit(t, s, "/", { token });
    await watcher.locator(".figures .figure", { hasText: "Store" }).getByText("ready").waitFor();
    assert.equal(await watcher.getByRole("link", { name: /^Store/ }).count(), 0);
    // By its address the page says no more than the server did.
    await watcher.goto(`${s.url}/ui/admin?view=store`);
    const seen = watcher.getByRole("region", { name: "Store" });
    await seen.getByText("Your role is told whether the store is ready").waitFor();
    await seen.locator("h3", { hasText: "Repaired at the start" }).locator("+ .status", { hasText: "unknown" }).waitFor();
    assert.equal(await seen.getByText("clean").count(), 0);
    await axe(watcher, "the store, for an observer");
  },
  "no page breaks the policy or leaves the origin": async (t) => {
    const s = await server();
    const all = await pages(s);
    const page = await visit(t, s, "/");
    for (const path of all) await open(page, path);
    const res = await page.request.get(`${s.url}/ui/`);
    const policy = res.headers()["content-security-policy"];
    assert.ok(policy.includes("frame-ancestors 'none'") && !policy.includes("unsafe"), policy);
    assert.equal(all.length, paths.length);
  },
  "axe finds nothing on any page in both themes": async (t) => {
    const s = await server();
    const all = await pages(s);
    for (const theme of ["light", "dark"]) {
      const page = await visit(t, s, "/", { theme });
      for (const path of all) {
        await open(page, path);
        await axe(page, `${path} ${theme}`);
      }
    }
  },
  "axe finds nothing in the middle of a session, of what was undone, and offline": async (t) => {
    const s = await ownServer(t);
    const turn = await s.turn("hello", { sessionId: "one" });
    await s.done(turn);
    await s.done(await s.turn("and on", { sessionId: "one" }));
    await s.call("rollback_thread", { sessionId: "one", threadId: turn.threadId, toTurnId: turn.turnId, files: "restore" });
    const opened = [];
    for (const theme of ["light", "dark"]) {
      const page = await visit(t, s, "/s/one?at=6", { theme });
      await page.locator(".fact.after").nth(3).waitFor();
      await axe(page, `in the middle, ${theme}`);
      await go(page, "/s/one");
      await page.locator(".turn.undone .said").waitFor();
      await axe(page, `undone, ${theme}`);
      opened.push(page);
    }
    await s.kill();
    for (const page of opened) {
      await page.locator(".session.old").waitFor();
      await axe(page, "offline");
    }
  },
  "Ctrl-K finds anything wherever the focus is": async (t) => {
    const s = await server();
    const page = await visit(t, s, "/");
    const palette = page.getByRole("combobox", { name: "Find anything" });
    const tried = new Set();
    for (const path of await pages(s)) {
      await open(page, path);
      // One of each kind of what can have the focus, on the first page that has it.
      const kinds = await page.evaluate((before) => {
        const seen = new Map();
        for (const x of document.querySelectorAll("main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])")) {
          const kind = `${x.tagName} ${x.getAttribute("role")} ${x.getAttribute("class")}`;
          if (x.checkVisibility() && !x.disabled && !seen.has(kind) && !before.includes(kind)) seen.set(kind, x);
        }
        window.kinds = [...seen.values()];
        return [...seen.keys()];
      }, [...tried]);
      for (const [i, kind] of kinds.entries()) {
        await page.evaluate((n) => window.kinds[n].focus(), i);
        await page.keyboard.press("Control+k");
        await palette.waitFor();
        await page.keyboard.press("Escape");
        await page.waitForFunction(() => !document.querySelector("dialog[open]"));
        tried.add(kind);
      }
    }
    assert.ok(tried.size > 20, String(tried.size));
  },
  "a dialog that is asked for in the moment in which it closes opens": async (t) => {
    const page = await visit(t, await server(), "/");
    const [finds, keys] = [page.getByRole("combobox", { name: "Find anything" }), page.getByRole("dialog", { name: "Keys" })];
    /** again closes what is open as Escape does, and presses a key before the browser's event says that it closed. */
    const again = (key) => page.evaluate((init) => {
      document.querySelector("dialog[open]").requestClose();
      document.body.dispatchEvent(new KeyboardEvent("keydown", { ...init, bubbles: true, cancelable: true }));
    }, key);
    await page.keyboard.press("Control+k");
    await finds.waitFor();
    await again({ key: "k", ctrlKey: true });
    // Once more, with another of the ways to it; then another dialog.
    await finds.waitFor();
    await again({ key: "/" });
    await finds.waitFor();
    await again({ key: "?", shiftKey: true });
    await keys.waitFor();
    await again({ key: "?", shiftKey: true });
    await page.waitForTimeout(100);
    assert.ok(await keys.isVisible());
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
  },
  "a page that was left while it was on its way doesn't come": async (t) => {
    const s = await ownServer(t);
    const page = await visit(t, s, "/");
    let release;
    const held = new Promise((resolve) => (release = resolve));
    let chunk;
    await page.route(/\/assets\/Tasks-[^/]*\.js$/, async (route) => {
      chunk = route.request().url();
      await held;
      await route.continue();
    });
    const asked = page.waitForRequest(/\/assets\/Tasks-[^/]*\.js$/);
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await asked;
    await go(page, "/usage");
    await page.getByRole("heading", { name: "Usage", level: 1 }).waitFor();
    release();
    await page.evaluate((url) => import(url), chunk);
    await settle(page, "/usage");
    assert.equal(await page.getByRole("heading", { name: "Usage", level: 1 }).count(), 1);
  },
  "a second press while the first is on its way does nothing": async (t) => {
    const s = await ownServer(t);
    const turn = await s.turn("hello", { sessionId: "one" });
    await s.done(turn);
    await s.call("create_task", { taskId: "task_one", objective: "go on", worker: "external" });
    await s.call("create_schedule", { title: "hourly", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    await s.call("create_token", { name: "someone", role: "client" });
    const page = await visit(t, s, "/sessions");
    const sent = [];
    page.on("request", (r) => r.method() === "POST" && r.url().includes("/v1/commands/") && r.postDataJSON().idempotencyKey && sent.push(r.url().split("/").at(-1)));
    /** twice presses a control again before what it began can have ended. */
    const twice = async (command, control) => {
      sent.length = 0;
      const answered = page.waitForResponse((r) => r.url().endsWith(`/v1/commands/${command}`));
      await control.evaluate((b) => (b.click(), b.click()));
      await answered;
      assert.deepEqual(sent, [command]);
    };
    const button = (name) => page.getByRole("button", { name, exact: true });
    await button("New session").click();
    await page.getByRole("dialog").getByRole("textbox").fill("say hello");
    await twice("submit_turn", button("Start"));
    await page.waitForURL(/\/s\/sess_/);
    for (const [path, name, command] of [
      ["/s/one", "Export", "export_evidence"], ["/s/one?tab=context", "Compact now", "compact_thread"], ["/tasks?id=task_one", "Start", "start_task"],
      ["/schedules", "Run now", "run_schedule"], ["/evidence?session=one", "Export", "export_evidence"], ["/s/one?at=3", "Fork at #3", "fork_thread"],
    ]) {
      await go(page, path);
      await button(name).first().waitFor();
      await twice(command, button(name).first());
    }
    await page.waitForURL((url) => /\/s\/(?!one)/.test(url.pathname));
    await go(page, "/admin");
    await button("Revoke").first().click();
    await twice("revoke_token", page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }));
    // With a key, too, and what was done is done again when it is asked for later.
    await go(page, "/s/one");
    const exported = (await s.call("list_exports", { sessionId: "one" })).total;
    const saved = page.waitForEvent("download");
    await page.keyboard.press("e");
    await saved;
    assert.equal((await s.call("list_exports", { sessionId: "one" })).total, exported + 1);
  },
  "what goes wrong in a dialog is told in it": async (t) => {
    const s = await ownServer(t);
    const page = await visit(t, s, "/sessions");
    await page.route("**/v1/commands/submit_turn", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ code: "unavailable", detail: "not now", requestId: "req_told" }) }));
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.getByRole("textbox").fill("say hello");
    await dialog.getByRole("button", { name: "Start" }).click();
    const notice = dialog.locator(".notice.bad");
    await notice.getByText("req_told").waitFor();
    await axe(page, "a notice in a dialog");
    await notice.getByRole("button", { name: "Dismiss" }).click();
    await notice.waitFor({ state: "detached" });
    // What is said while it closes is said on the page.
    await page.unrouteAll();
    await dialog.getByRole("button", { name: "Start" }).click();
    await page.waitForURL(/\/s\/sess_/);
  },
  "over plain http from elsewhere it works, but for the clipboard, which says so": async (t) => {
    const s = await ownServer(t, { config: { allowedHosts: ["agentd.test"] } });
    await s.call("create_task", { taskId: "task_one", objective: "go on", worker: "external" });
    const far = { url: s.url.replace("127.0.0.1", "agentd.test"), token: s.token };
    const page = await visit(t, far, "/", { login: false, errors: ["Cross-Origin-Opener-Policy"] });
    await typeToken(page, far);
    assert.equal(await page.evaluate(() => isSecureContext), false);
    await page.locator(".line.live").waitFor();
    await go(page, "/tasks?id=task_one");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByText(/^Start: the task is/).waitFor();
    await page.getByRole("complementary", { name: "Task" }).getByRole("button", { name: "task_one" }).click();
    await page.locator(".notice.bad").getByText(/Copy it from here: task_one/).waitFor();
  },
  "every page fits, and says in each row what it is, on a phone and in windows of any width": async (t) => {
    const s = await server();
    const all = await pages(s);
    await s.call("create_schedule", { title: "every hour", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    const page = await visit(t, s, "/", { viewport: { width: 390, height: 844 } });
    let rows = 0;
    for (const width of [390, 641, 820, 1000]) {
      await page.setViewportSize({ width, height: 844 });
      for (const path of all) {
        await open(page, path);
        await noSidewaysScroll(page, `${path} ${width}`);
        const firsts = await page.locator("[role=table] .all .line").evaluateAll((lines) => lines.map((l) => [l.querySelector("[role=cell]:not(:has(input))"), l].map((x) => Math.round(x.getBoundingClientRect().width))));
        rows += firsts.length;
        assert.ok(firsts.every(([w, line]) => w >= (line < 600 ? 60 : 120)), `${path} ${width}: ${JSON.stringify(firsts)}`);
      }
    }
    assert.ok(rows > 12, String(rows));
  },
};
