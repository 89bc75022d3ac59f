// What the panes of a session show of long texts, long sessions and what can't be read.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { assert, axe, eventually, go, noSidewaysScroll, ownServer, settle, visit } from "./kit.mjs";

const numbered = (letter, n) => Array.from({ length: n }, (_, i) => (i % 40 === 39 ? `${letter}${i}.\n\n` : `${letter}${i} `)).join("");
/** counts returns the numbers of the words that begin with a letter, in the order in which they are read. */
const counts = (text, letter) => [...text.matchAll(new RegExp(`\\b${letter}(\\d+)\\b`, "g"))].map((m) => Number(m[1]));
const upTo = (n) => Array.from({ length: n }, (_, i) => i);
const auto = { options: { permissionMode: "auto" } };
const words = 1800; // more than 10,000 characters

const answers = [
  { when: { contains: "novel" }, reasoning: numbered("r", words), text: numbered("n", words), tools: [{ name: "write_file", arguments: { path: "NOVEL.md", content: numbered("c", words).replaceAll("\n\n", " ") } }] },
  { when: { contains: "novel" }, text: "It is written." },
  { when: { contains: "essay" }, text: numbered("e", words), chunks: 20, delay: "60ms" },
  { when: { contains: "keep" }, tools: [{ name: "write_file", arguments: { path: "kept.txt", content: "kept\n" } }] },
  { when: { contains: "keep" }, text: "Kept." },
  { when: { contains: "later" }, tools: [{ name: "write_file", arguments: { path: "later.txt", content: "later\n" } }] },
  { when: { contains: "later" }, text: "Later." },
  { when: { contains: "crowd" }, tools: Array.from({ length: 120 }, (_, i) => ({ name: "shell", arguments: { command: `echo ${i}` } })) },
  { when: { contains: "crowd" }, text: "Ran." },
  { when: { contains: "run one" }, tools: [{ name: "shell", arguments: { command: "echo the first" } }, { name: "shell", arguments: { command: "echo the second" } }, { name: "shell", arguments: { command: "echo the third" } }] },
  { when: { contains: "run one" }, text: "Ran." },
  { when: { contains: "write" }, tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "remember the milk\n" } }] },
  { when: { contains: "write" }, text: "Done." },
  { when: { contains: "form" }, ask: { prompt: "Which colour?", schema: { type: "object", required: ["colour"], properties: { colour: { type: "string", enum: ["red", "green"] } } } } },
  { when: { contains: "form" }, text: "Thank you." },
];

/** shortPages has the server hand out lists in pages of so many, as if a session were long. */
async function shortPages(page, limit) {
  await page.route("**/v1/{rpc,commands/list_*}", (route) => {
    const body = route.request().postDataJSON();
    for (const call of Array.isArray(body) ? body.filter((c) => c.method.startsWith("list_")) : [{ params: body }]) call.params.limit = limit;
    return route.continue({ postData: JSON.stringify(body) });
  });
}

/** repeated is a session of so many turns. Its first turn writes a file, and one in the middle another. */
async function repeated(s, sessionId, turns, middle) {
  let last;
  for (let i = 1; i <= turns; i++) last = await s.turn(i === 1 ? "keep this" : i === middle ? `later ${i}` : `again ${i}`, { sessionId, ...auto });
  await s.done(last);
}

/** failing has the server refuse what an address fits, and returns the id of the request that it names. */
async function failing(page, glob, detail, [status, code] = [503, "unavailable"]) {
  const requestId = `req_${detail.replace(/\W/g, "_")}`;
  await page.route(glob, (route) => route.fulfill({ status, contentType: "application/problem+json", body: JSON.stringify({ code, detail, requestId }) }));
  return requestId;
}

/** pushBack adds facts until a session that is opened begins in the middle of its last answer: what came before is read when it is needed. */
async function pushBack(s, sessionId) {
  const facts = await s.events(sessionId);
  const pieces = facts.filter((e) => e.type === "model.delta" && e.turnId === facts.findLast((x) => x.turnId)?.turnId);
  assert.ok(pieces.length > 2, `the answer came in ${pieces.length} pieces`);
  const first = pieces.at(-2).sequence;
  for (let i = facts.at(-1).sequence - first + 1; i < 300; i++) await s.call("update_session", { sessionId, title: `title ${i}` });
  assert.equal((await s.events(sessionId)).at(-1).sequence, first + 299, "each call is one fact");
}

export default {
  "long answers, arguments and prompts are whole, live and after a reload": async (t) => {
    const s = await ownServer(t, { answers });
    await s.call("create_session", { sessionId: "long" });
    const page = await visit(t, s, "/s/long");
    const whole = async (where, letter) => {
      await where.getByText(new RegExp(`\\b${letter}${words - 1}\\b`)).waitFor();
      // A long text is drawn part by part, behind a preview that has its end.
      await eventually(async () => counts(await where.innerText(), letter), (shown) => shown.join() === upTo(words).join());
    };
    const check = async () => {
      await whole(page.locator(".said", { hasText: "n0 " }), "n");
      // The call says which file it is about before it is opened, and all that is to be in it once it is.
      const call = page.locator(".tool");
      await call.locator(".line").getByText("NOVEL.md").first().waitFor();
      await call.locator(".line").click();
      await whole(call.locator(".inside pre").first(), "c");
    };
    await s.done(await s.turn("novel, please", { sessionId: "long", ...auto }));
    await page.locator(".said", { hasText: "It is written." }).waitFor();
    await check();
    await page.reload();
    await settle(page);
    await check();
    // What was thought is behind the same reference.
    await page.locator(".reasoning summary").click();
    await whole(page.locator(".reasoning > div"), "r");
    assert.ok((await s.events("long")).find((e) => e.type === "tool.started").payload.inputRef, "the arguments are short: nothing is tested");

    await s.done(await s.turn(`${numbered("p", words)} an essay`, { sessionId: "long" }));
    const asked = page.locator(".asked", { hasText: "p0 " });
    await whole(page.locator(".said", { hasText: "e0 " }), "e");
    await asked.scrollIntoViewIfNeeded(); // it is read when somebody looks at it
    await whole(asked, "p");
    await pushBack(s, "long");
    await page.reload();
    await settle(page);
    await whole(page.locator(".said", { hasText: "e0 " }), "e");
    // The prompt lies before what is shown.
    await page.getByText("The turn began before what is shown.").waitFor();
    await page.getByRole("button", { name: "Earlier" }).click();
    await asked.scrollIntoViewIfNeeded();
    await whole(asked, "p");
    const fact = (await s.events("long")).findLast((e) => e.type === "model.completed");
    assert.ok(fact.payload.messageRef && !fact.payload.message?.text, "the answer is short: nothing is tested");
    await axe(page, "a long story");
  },

  "a long answer that can't be read says why, and is read again": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("an essay", { sessionId: "unread" }));
    await pushBack(s, "unread");
    const page = await visit(t, s, "/jobs");
    const request = await failing(page, "**/v1/outputs/*", "the output is elsewhere");
    await go(page, "/s/unread");
    const problem = page.locator(".story").getByRole("alert");
    await problem.getByText("the output is elsewhere").waitFor();
    await problem.getByText(request).waitFor();
    // Its beginning is there, marked as such.
    await page.locator(".said").getByText(/\be0 /).waitFor();
    await page.unroute("**/v1/outputs/*");
    await problem.getByRole("button", { name: "Try again" }).click();
    await page.locator(".said").getByText(new RegExp(`\\be${words - 1}\\b`)).waitFor();
    assert.equal(await problem.count(), 0);
  },

  "a session of many turns is read to its beginning, and undone from any of them": async (t) => {
    const s = await ownServer(t, { answers });
    const [turns, middle] = [130, 31];
    await repeated(s, "many", turns, middle);
    const fork = await s.call("fork_thread", { sessionId: "many", threadId: (await s.call("get_session", { sessionId: "many" })).threads[0].threadId, atSequence: (await s.events("many")).at(-1).sequence });

    const page = await visit(t, s, "/s/many");
    const earlier = page.getByRole("button", { name: "Earlier", exact: true });
    for (let n = 0; n < 40 && (await earlier.count()) > 0; n++) {
      await earlier.click();
      await settle(page);
    }
    const asked = page.locator(".story .asked");
    assert.equal(await asked.count(), turns);
    assert.equal((await asked.first().innerText()).trim(), "keep this");
    // It goes on from there, each fact once.
    await s.done(await s.turn("and on", { sessionId: "many" }));
    await asked.getByText("and on").waitFor();
    assert.deepEqual(await page.evaluate(() => window.agentd.odd), []);

    // The oldest turn of the list: those before it stay.
    await go(page, "/s/many?tab=files");
    const list = page.getByRole("list", { name: "Turns" });
    await list.getByText("again 130").waitFor();
    await list.getByText(/^The newest 100 of 1\d\d$/).waitFor();
    await go(page, "/s/many?tab=cost");
    await page.locator(".cost").getByText(/^The newest 100 of 1\d\d$/).waitFor();
    assert.equal(await page.locator(".cost li").count(), 100);
    await go(page, "/s/many?tab=files");
    await list.getByText("again 32").click();
    await page.getByRole("button", { name: "Undo from here…" }).click();
    const dialog = page.getByRole("dialog", { name: "Undo" });
    await dialog.getByText("100 turns would be taken back").waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    await list.getByRole("button", { name: "Show more" }).click();
    await list.getByText(`later ${middle}`).click();
    await page.getByRole("button", { name: "Undo from here…" }).click();
    await dialog.getByText("101 turns would be taken back").waitFor();
    assert.ok(existsSync(join(s.work, "later.txt")), "a preview changes nothing");
    await dialog.getByRole("button", { name: "Undo" }).click();
    await page.getByText(/101 turns undone/).waitFor();
    assert.ok(!existsSync(join(s.work, "later.txt")));
    assert.equal(readFileSync(join(s.work, "kept.txt"), "utf8"), "kept\n");
    // All of them are shown as undone, also those that the snapshot doesn't name.
    await list.getByText("undone").nth(100).waitFor();
    assert.equal(await list.getByText("undone").count(), 101);
    // Turns that were taken back are no place to go back to.
    await s.done(await s.turn("once more", { sessionId: "many" }));
    await list.getByText("once more").click();
    await page.getByRole("button", { name: "Undo from here…" }).click();
    await dialog.getByText("1 turn would be taken back").waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    await list.getByText("keep this").click();
    await page.getByRole("button", { name: "Undo from here…" }).click();
    await dialog.getByText("31 turns would be taken back").waitFor();

    // A fork's own turn is taken back without the history that it was forked from.
    await s.done(await s.turn("on my own", { sessionId: fork.sessionId }));
    await go(page, `/s/${fork.sessionId}?tab=files`);
    await list.getByText("on my own").waitFor();
    await page.getByRole("button", { name: "Undo from here…" }).click();
    await dialog.getByText("1 turn would be taken back").waitFor();
  },

  "what waits is answered in place, however much was asked before it": async (t) => {
    const s = await ownServer(t, { answers });
    for (let i = 0; i < 3; i++) {
      const turn = await s.turn("write it", { sessionId: "asked" });
      const asked = await s.asked(turn);
      await s.call("respond_action", { actionId: asked.actionId, decision: "allow" });
      await s.done(turn);
    }
    const turn = await s.turn("write it again", { sessionId: "asked" });
    await s.asked(turn);
    const page = await visit(t, s, "/jobs", { viewport: { width: 390, height: 844 } });
    await shortPages(page, 2);
    await go(page, "/s/asked");
    const card = page.locator(".story article.turn").last().getByRole("button", { name: /^Allow/ }).first();
    await card.click();
    await s.done(turn);
    await page.locator(".story article.turn").last().getByText("Done.").waitFor();
    const resolved = (await s.events("asked")).findLast((e) => e.type === "action.resolved");
    assert.equal(resolved.payload.decision, "allow");
  },

  "filtered facts are live, and keys step through what is shown": async (t) => {
    const s = await ownServer(t, { answers });
    for (let i = 0; i < 9; i++) await s.done(await s.turn(`again ${i}`, { sessionId: "facts" }));
    const types = "turn.*,queue.*";
    const ofTurns = async () => (await s.events("facts")).filter((e) => /^(turn|queue)\./.test(e.type)).map((e) => e.sequence);
    // More than fit, so that the list scrolls and is not read again because it is short.
    while ((await ofTurns()).length < 60) await s.done(await s.turn("again and again", { sessionId: "facts" }));
    const page = await visit(t, s, "/s/facts");
    await page.getByRole("combobox", { name: "Which facts" }).selectOption(types);
    const facts = page.getByRole("table", { name: "Facts" });
    const row = (sequence) => facts.locator(`.fact[data-sequence="${sequence}"]`);
    await row((await ofTurns()).at(-1)).getByText("turn.").waitFor();
    await settle(page);
    const counted = async () => (await page.locator("section[aria-label=Facts] header .num").innerText()).replace(",", "");
    assert.equal(await counted(), String((await ofTurns()).length));
    // What comes is shown as it comes.
    await s.done(await s.turn("one more", { sessionId: "facts" }));
    const all = await ofTurns();
    await row(all.at(-1)).getByText("turn.completed").waitFor();
    assert.equal(await counted(), String(all.length));
    assert.deepEqual(await facts.locator(".fact .type").evaluateAll((l) => l.map((x) => x.textContent).filter((x) => !/^(turn|queue)\./.test(x))), []);
    // The keys step from one that is shown to the next.
    await facts.focus();
    const last = (await s.events("facts")).at(-1).sequence;
    const steps = all.filter((n) => n < last).reverse();
    for (const n of steps.slice(0, 4)) {
      await page.keyboard.press("ArrowUp");
      await page.locator(`.session[data-shown="${n}"]`).waitFor();
      await page.locator(`.fact.current[data-sequence="${n}"]`).waitFor();
    }
    await page.keyboard.press("ArrowDown");
    await page.locator(`.session[data-shown="${steps[2]}"]`).waitFor();
    // Enter shows what the fact holds, and why it came to be.
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: new RegExp(`^#${steps[2]} turn`) });
    await dialog.getByText(`"sequence": ${steps[2]}`).waitFor();
    await dialog.getByText("Why?").click();
    await dialog.locator(".chain a[data-sequence]").first().waitFor();
    const fact = (await s.events("facts")).find((e) => e.sequence === steps[2]);
    const why = await s.call("explain", { sessionId: "facts", eventId: fact.eventId });
    assert.deepEqual(await dialog.locator(".chain a[data-sequence]").evaluateAll((l) => l.map((a) => Number(a.dataset.sequence))), why.facts.map((f) => f.sequence));
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    // A filter of one's own in the address, at a moment that it hides: the neighbours are shown.
    const submitted = (await s.events("facts")).filter((e) => e.type === "turn.submitted").map((e) => e.sequence);
    await go(page, `/s/facts?types=turn.submitted&at=${submitted[3] + 2}`);
    await row(submitted[3]).getByText("turn.submitted").waitFor();
    await facts.focus();
    await page.keyboard.press("ArrowDown");
    await page.locator(`.fact.current[data-sequence="${submitted[4]}"]`).waitFor();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await page.locator(`.fact.current[data-sequence="${submitted[2]}"]`).waitFor();
    await go(page, "/s/facts?types=nonsense.*");
    await page.locator("section[aria-label=Facts]").getByRole("alert").getByText("nonsense").waitFor();
  },

  "facts that can't be read say why, and are read again": async (t) => {
    const s = await ownServer(t, { answers });
    await repeated(s, "rows", 40, 0);
    const page = await visit(t, s, "/s/rows");
    await page.locator(".fact .type").first().waitFor();
    const request = await failing(page, "**/v1/sessions/rows/events?*", "no facts for now");
    const list = page.getByRole("table", { name: "Facts" });
    await eventually(() => list.evaluate((x) => x.scrollTop), (top) => top > 0);
    await list.evaluate((x) => (x.scrollTop = 0));
    const problem = page.locator("section[aria-label=Facts]").getByRole("alert");
    await problem.getByText("no facts for now").waitFor();
    await problem.getByText(request).waitFor();
    await page.unroute("**/v1/sessions/rows/events?*");
    await problem.getByRole("button", { name: "Try again" }).click();
    await page.locator('.fact[data-sequence="1"]').getByText("session.created").waitFor();
    assert.equal(await problem.count(), 0);
  },

  "what is scrolled in the moment in which it went to its end stays where the reader went": async (t) => {
    const s = await ownServer(t, { answers });
    await repeated(s, "moved", 40, 0);
    const page = await visit(t, s, "/jobs");
    await page.evaluate(() => {
      // A reader scrolls between the move and the moment in which the browser tells of it.
      const { get, set } = Object.getOwnPropertyDescriptor(Element.prototype, "scrollTop");
      const moved = new Set();
      Object.defineProperty(Element.prototype, "scrollTop", { get, set(y) {
        set.call(this, y);
        const list = this.getAttribute("aria-label");
        if (!["Facts", "Story"].includes(list) || moved.has(list) || get.call(this) === 0) return;
        moved.add(list);
        queueMicrotask(() => set.call(this, get.call(this) / 2));
      } });
    });
    await go(page, "/s/moved");
    const facts = page.getByRole("table", { name: "Facts" });
    const story = page.getByRole("log", { name: "Story" });
    await facts.locator(".fact .type").first().waitFor();
    const places = () => Promise.all([facts, story].map((x) => x.evaluate((list) => [list.scrollTop, list.scrollHeight - list.clientHeight])));
    const before = await eventually(places, (all) => all.every(([top]) => top > 0));
    for (const [top, end] of before) assert.ok(top > 0 && top < 0.6 * end, `${before}`);
    const middle = Math.round(before[0][0] / 27) + 3;
    await facts.locator(`.fact[data-sequence="${middle}"]`).waitFor();
    await s.done(await s.turn("and one more", { sessionId: "moved" }));
    await story.getByText("and one more", { exact: true }).waitFor();
    await page.getByRole("button", { name: "To the end" }).waitFor();
    await facts.locator(`.fact[data-sequence="${middle}"]`).waitFor();
    assert.deepEqual((await places()).map(([top]) => top), before.map(([top]) => top));
  },

  "a moment that can't be shown says why and leads to one that can": async (t) => {
    const s = await ownServer(t, { answers });
    await repeated(s, "moments", 3, 0);
    const end = (await s.events("moments")).at(-1).sequence;
    const page = await visit(t, s, `/s/moments?at=${end + 7}`);
    const told = page.locator(".moment").getByRole("alert");
    await told.getByText("invalid_params").waitFor();
    await told.getByText(`ends at ${end}`).waitFor();
    await told.getByText(/req_\w+/).waitFor();
    await axe(page, "a moment past the end");
    await page.getByRole("button", { name: `The newest moment: #${end}` }).click();
    await page.locator(`.session[data-shown="${end}"]`).waitFor();
    assert.equal(await told.count(), 0);

    await s.call("run_retention", { olderThanMs: 1 });
    await eventually(() => s.call("get_retention"), (r) => r.run?.status === "completed");
    const removed = (await s.call("get_session", { sessionId: "moments" })).history.removedThrough;
    assert.ok(removed > 2, `nothing was removed: ${removed}`);
    await page.goto(`${s.url}/ui/s/moments?at=2`);
    await told.getByText("not_found").waitFor();
    await told.getByText("removed by retention").waitFor();
    await told.getByText(/req_\w+/).waitFor();
    await page.getByRole("button", { name: `The oldest moment that is left: #${removed}` }).click();
    await page.locator(`.session[data-shown="${removed}"]`).waitFor();
    assert.equal(await told.count(), 0);
  },

  "a graph that can't be read says why and draws no other turn": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("write it", { sessionId: "graphs", ...auto }));
    const page = await visit(t, s, "/s/graphs");
    const graph = page.locator("section[aria-label=Graph]");
    await graph.locator(".node").first().waitFor();
    const request = await failing(page, "**/v1/sessions/graphs/events?*", "no graph for now");
    await s.done(await s.turn("again", { sessionId: "graphs" }));
    await graph.getByRole("alert").getByText("no graph for now").waitFor();
    await graph.getByText(request).waitFor();
    assert.equal(await graph.locator(".node").count(), 0);
    await page.unroute("**/v1/sessions/graphs/events?*");
    await graph.getByRole("button", { name: "Try again" }).click();
    await graph.locator(".node").first().waitFor();
    assert.equal(await graph.getByRole("alert").count(), 0);
  },

  "a terminal whose process is gone says so": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("run one", { sessionId: "gone", ...auto }));
    const page = await visit(t, s, "/s/gone?tab=processes");
    const list = page.getByRole("list", { name: "Processes" });
    await page.frameLocator("iframe").getByText("the third").first().waitFor();
    const request = await failing(page, "**/v1/processes/*/output?*", "there is no such process", [404, "not_found"]);
    await list.getByText("echo the first").click();
    const problem = page.getByRole("alert").filter({ hasText: "there is no such process" });
    await problem.getByText("not_found").waitFor();
    await problem.getByText(request).waitFor();
    // It is not tried again and again.
    await page.locator('iframe[data-state="failed"]').waitFor();
  },

  "a form is answered in the story, on a phone": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("form please", { sessionId: "form" });
    await s.asked(turn);
    const page = await visit(t, s, "/s/form", { viewport: { width: 390, height: 844 } });
    const card = page.locator(".story article.turn").getByRole("article");
    await card.getByText("Which colour?").first().waitFor();
    await noSidewaysScroll(page, "a form in the story");
    await axe(page, "a form in the story");
    await card.getByRole("button", { name: "Submit" }).click();
    await card.getByText("is needed").first().waitFor();
    await card.getByLabel("colour *").selectOption("green");
    await card.getByRole("button", { name: "Submit" }).click();
    await s.done(turn);
    await page.locator(".story").getByText("Thank you.").waitFor();
    const resolved = (await s.events("form")).find((e) => e.type === "action.resolved");
    assert.match(JSON.stringify(resolved.payload), /green/);
  },

  "long lists of a session are drawn a hundred at a time": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("crowd", { sessionId: "crowd", ...auto });
    await s.done(turn);
    const end = (await s.events("crowd")).at(-1).sequence;
    const page = await visit(t, s, `/s/crowd?tab=processes&at=${end - 1}`);
    const processes = page.getByRole("list", { name: "Processes" });
    await processes.getByText("The newest 100 of 120").waitFor();
    assert.equal(await processes.locator(".pick").count(), 100);
    await processes.getByRole("button", { name: "Show more" }).click();
    await processes.locator(".pick").nth(119).waitFor();
    // What the address names is among them.
    const first = (await s.events("crowd")).find((e) => e.type === "process.started").processId;
    await page.goto(`${s.url}/ui/s/crowd?tab=processes&at=${end - 1}&process=${first}`);
    await processes.locator(".current").getByText("echo 0").waitFor();
  },

  "a link to a process shows it, however many came after it": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("run one", { sessionId: "ran", ...auto }));
    const started = (await s.events("ran")).filter((e) => e.type === "process.started");
    assert.equal(started.length, 3);
    const page = await visit(t, s, "/jobs");
    await shortPages(page, 1);
    for (const e of started) {
      const word = e.payload.command.at(-1).split(" ").at(-1);
      await go(page, `/s/ran?tab=processes&process=${e.processId}`);
      await page.locator(".current").getByText(`echo the ${word}`).waitFor();
      await page.frameLocator(`iframe[title$="${e.processId}"]`).getByText(`the ${word}`).first().waitFor();
    }
    await go(page, "/s/ran?tab=processes&process=proc_none");
    await page.getByText("There is no process proc_none here").waitFor();
    await page.getByRole("button", { name: "Show the newest" }).click();
    await page.frameLocator("iframe").getByText("the third").first().waitFor();
  },
};
