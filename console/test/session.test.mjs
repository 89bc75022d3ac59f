import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { assert, axe, go, ownServer, screen, settle, visit } from "./kit.mjs";

const words = Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ");
const answers = [
  { when: { contains: "stream" }, text: words, delay: "40ms", chunks: 60 },
  { when: { contains: "slowly" }, text: words, delay: "80ms", chunks: 60 },
  { when: { contains: "licence" }, reasoning: "Look first.", text: "I look, then I write it down.", tools: [{ name: "list_files", arguments: { path: "." } }, { name: "update_plan", arguments: { items: [{ text: "look around", status: "completed" }, { text: "write the licence", status: "in_progress" }] } }, { name: "write_file", arguments: { path: "LICENCE.txt", content: "All rights reserved.\n" } }], usage: { inputTokens: 1400, outputTokens: 220 } },
  { when: { contains: "licence" }, tools: [{ name: "shell", arguments: { command: "wc -c LICENCE.txt && rm -f notes.txt" } }], usage: { inputTokens: 1900, outputTokens: 40 } },
  { when: { contains: "licence" }, text: "Done. **LICENCE.txt** is there, and `notes.txt` is gone.", usage: { inputTokens: 2400, outputTokens: 40 } },
  { when: { contains: "stall" }, text: "never", stall: "1h" },
];
const auto = { options: { permissionMode: "auto" } };

/** licensed is a server with a session that changed files. */
async function licensed(t) {
  const s = await ownServer(t, { answers });
  writeFileSync(join(s.work, "notes.txt"), "remember the milk\n");
  const turn = await s.turn("add a licence", { sessionId: "licence", ...auto });
  await s.done(turn);
  return { s, turn };
}

export default {
  "a session from a shell appears at once, and its answer grows to what the fact says": async (t) => {
    const s = await ownServer(t, { answers });
    const page = await visit(t, s, "/");
    await page.getByText("No session yet").waitFor();
    // The page measures itself: from the fact that began the session to the frame that shows it.
    await page.evaluate(() => {
      new MutationObserver((_, o) => {
        if (!document.querySelector("[data-session]")) return;
        window.shownAt = Date.now();
        o.disconnect();
      }).observe(document.body, { childList: true, subtree: true });
    });
    const turn = JSON.parse(s.cli("submit", "--json", "stream please"));
    const lane = page.locator(`[data-session="${turn.sessionId}"]`);
    await lane.waitFor();
    const began = Date.parse((await s.events(turn.sessionId))[0].timestamp);
    const took = (await page.evaluate(() => window.shownAt)) - began;
    // A machine that is slow at this is slow at a whole page, too: a page that only asked now and then would be slower by far.
    const asked = Date.now();
    await page.reload();
    await lane.waitFor();
    const whole = Date.now() - asked;
    t.log = `shown ${took} ms after its first fact, a whole page in ${whole} ms`;
    assert.ok(took < 1000 + 5 * whole, t.log);
    await lane.click();
    const said = page.locator(".said").last();
    await said.getByText("word3").waitFor();
    const early = (await said.innerText()).length;
    await s.done(turn);
    await said.getByText(/word59/).waitFor();
    const fact = (await s.events(turn.sessionId)).findLast((e) => e.type === "model.completed");
    assert.equal((await said.innerText()).trim(), fact.payload.message.text);
    assert.ok(early <= fact.payload.message.text.length);
    await page.getByRole("article", { name: /Turn from fact/ }).getByText("completed").waitFor();
    await screen(page, "session");
  },

  "every sequence comes once and in order over a crash in mid-stream": async (t) => {
    const s = await ownServer(t, { answers });
    // The page is there before the answer begins, so that it ends in the middle of it however slow the page is.
    await s.call("create_session", { sessionId: "crash" });
    const page = await visit(t, s, "/s/crash");
    const turn = await s.turn("slowly please", { sessionId: "crash" });
    await page.locator(".said").getByText("word5").waitFor();
    await s.kill();
    await page.getByText(/Offline for/).waitFor();
    await s.start();
    await page.locator(".line.live").waitFor();
    await s.done(turn);
    const last = (await s.events("crash")).at(-1).sequence;
    await page.locator(`[data-last="${last}"]`).waitFor();
    // What the page folded: each sequence after the one before it.
    assert.deepEqual(await page.evaluate(() => window.agentd.odd), []);
    assert.equal(await page.evaluate(() => window.agentd.last), last);
    await page.getByRole("article", { name: /Turn from fact/ }).getByText(/completed|failed/).first().waitFor();
  },

  "interrupt and steer from the keyboard": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("stall", { sessionId: "stall" });
    await s.awaitEvent("stall", (e) => e.type === "model.requested");
    const page = await visit(t, s, "/s/stall");
    await page.getByRole("button", { name: "Interrupt", exact: true }).waitFor();
    await page.keyboard.press("c");
    await page.keyboard.type("next one");
    await page.keyboard.press("Enter");
    await page.getByRole("list", { name: "Queue" }).getByText("next one").waitFor();
    await page.getByRole("button", { name: "Take out of the queue" }).click();
    await page.getByRole("list", { name: "Queue" }).waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    await page.keyboard.press("i");
    const end = await s.done(turn);
    assert.equal(end.type, "turn.failed");
    await page.getByText(/interrupted/).first().waitFor();
  },

  "scrubbing shows the server's state at that fact, and a fork there has that history": async (t) => {
    const { s } = await licensed(t);
    const all = await s.events("licence");
    const at = all.find((e) => e.type === "tool.result" && e.payload.toolName === "list_files").sequence;
    const page = await visit(t, s, `/s/licence?at=${at}`);
    await page.locator(`.session[data-shown="${at}"]`).waitFor();
    await page.getByText(`#${at} of`).waitFor();
    const then = await s.call("get_session", { sessionId: "licence", atSequence: at });
    const main = then.threads.find((x) => x.role === "main");
    await page.locator("header.top").getByText(main.status, { exact: false }).first().waitFor();
    // What came later isn't there.
    assert.equal(await page.locator(".story").getByText("Done.").count(), 0);
    assert.equal(await page.locator(`[data-call]`).count(), all.filter((e) => e.type === "tool.started" && e.sequence <= at).length);
    await page.locator(`.fact.current[data-sequence="${at}"]`).waitFor();
    await page.locator("svg .node").first().waitFor();
    await screen(page, "session-past", { width: 1400, height: 820 });
    await page.keyboard.press("ArrowRight");
    await page.locator(`.session[data-shown="${at + 1}"]`).waitFor();
    await page.keyboard.press("ArrowLeft");
    await page.locator(`.session[data-shown="${at}"]`).waitFor();
    await page.keyboard.press("f");
    await page.waitForURL((u) => !u.pathname.endsWith("/licence"));
    const fork = decodeURIComponent(new URL(page.url()).pathname.split("/").pop());
    const made = await s.call("get_session", { sessionId: fork });
    assert.deepEqual([made.forkedFrom.sessionId, made.forkedFrom.sequence], ["licence", at]);
    await page.getByText("fork of").waitFor();
    // It has the history up to there, and nothing of what came later.
    await page.locator(".story p.note", { hasText: "Forked from" }).waitFor();
    await settle(page);
    assert.deepEqual((await page.locator(".story .asked").allInnerTexts()).map((x) => x.trim()), ["add a licence"]);
    assert.equal(await page.locator(`[data-call]`).count(), all.filter((e) => e.type === "tool.started" && e.sequence <= at).length);
    // Back in the session: live again with one key.
    await page.goto(`${s.url}/ui/s/licence?at=${at}`);
    await page.getByText("Return to live").waitFor();
    await page.keyboard.press("l");
    await page.locator(".story").getByText("is there, and").waitFor();
  },

  "a page that is left while it scrolls makes no error": async (t) => {
    const s = await ownServer(t, { answers });
    for (let i = 0; i < 3; i++) await s.done(await s.turn("add a licence", { sessionId: "left", ...auto }));
    const page = await visit(t, s, "/s/left");
    for (let i = 0; i < 5; i++) {
      await page.locator(".fact .type").first().waitFor();
      // Both in one go: the browser tells of the scroll when the panes are gone. visit fails the test on an error of a script.
      await page.evaluate(() => {
        for (const x of document.querySelectorAll(".story, [aria-label=Facts]")) x.scrollTop = x.scrollTop > 0 ? 0 : 40;
        history.pushState(null, "", "/ui/jobs");
        dispatchEvent(new PopStateEvent("popstate"));
      });
      await settle(page, "/jobs");
      await go(page, "/s/left");
    }
  },

  "every tab shows the session as it was": async (t) => {
    const s = await ownServer(t, { answers });
    writeFileSync(join(s.work, "notes.txt"), "remember the milk\n");
    await s.done(await s.turn("add a licence", { sessionId: "past", ...auto }));
    const all = await s.events("past");
    const end = all.at(-1).sequence;
    const wrote = all.find((e) => e.type === "tool.result" && e.payload.toolName === "write_file").sequence;
    const sums = (await s.call("get_session", { sessionId: "past", atSequence: end })).threads[0].costState;
    // More turns than a thread's state keeps: none of them was undone because it is old.
    for (let i = 0; i < 25; i++) await s.done(await s.turn(`later ${i}`, { sessionId: "past" }));
    const page = await visit(t, s, "/s/past?tab=files");
    const turns = page.getByRole("list", { name: "Turns" });
    await turns.getByText("add a licence").waitFor();
    assert.deepEqual([await turns.getByRole("listitem").count(), await turns.getByText("undone").count()], [26, 0]);
    await go(page, `/s/past?tab=files&at=${end}`);
    await page.locator(`.session[data-shown="${end}"]`).waitFor();
    // The list goes away before the one of that moment is there.
    await turns.getByText("later 0").waitFor({ state: "detached" });
    await turns.getByText("add a licence").waitFor();
    assert.equal(await turns.getByRole("listitem").count(), 1);
    await page.getByText("LICENCE.txt").first().waitFor();
    assert.equal(await page.getByRole("button", { name: /Undo from here/ }).count(), 0, "the past can't be changed");
    // In the middle of the turn: what it had changed by then.
    await go(page, `/s/past?tab=files&at=${wrote}`);
    await page.locator(`.session[data-shown="${wrote}"]`).waitFor();
    await page.locator(".chip", { hasText: "notes.txt" }).waitFor({ state: "detached" });
    await page.locator(".chip", { hasText: "LICENCE.txt" }).waitFor();
    await turns.getByText("running").waitFor();
    await go(page, `/s/past?tab=cost&at=${end}`);
    await page.locator(`.session[data-shown="${end}"]`).waitFor();
    await page.getByText("later 0").waitFor({ state: "detached" });
    const figures = page.locator(".figures");
    await figures.getByText(`$${sums.totalUSD.toFixed(4)}`).or(figures.getByText(`$${sums.totalUSD.toFixed(2)}`)).first().waitFor();
    await figures.getByText(sums.usage.inputTokens.toLocaleString("en"), { exact: true }).waitFor();
    await go(page, `/s/past?tab=context&at=${end}`);
    const resolved = all.findLast((e) => e.type === "context.resolved").sequence;
    await page.getByText(`Resolved at fact #${resolved},`).waitFor();
    await go(page, `/s/past?tab=processes&at=${wrote}`);
    await page.getByText("No process had been started").waitFor();
    await page.keyboard.press("l");
    await page.getByRole("list", { name: "Processes" }).getByText("wc -c LICENCE.txt").waitFor();
  },

  "why, diff and undo are those of the program": async (t) => {
    const { s, turn } = await licensed(t);
    const page = await visit(t, s, "/s/licence");
    const call = page.locator(".tool", { hasText: "write_file" });
    await call.locator(".line").click();
    await call.getByRole("button", { name: "Why?" }).click();
    await call.locator(".chain li").first().waitFor();
    const id = await call.getAttribute("data-call");
    const explained = await s.call("explain", { sessionId: "licence", toolCallId: id });
    assert.deepEqual(await call.locator(".chain a[data-sequence]").evaluateAll((l) => l.map((a) => Number(a.dataset.sequence))), explained.facts.map((f) => f.sequence));

    await page.getByRole("link", { name: "Files" }).click();
    await page.locator(".lines .add").first().waitFor();
    await settle(page);
    await axe(page, "files");
    await screen(page, "session-files");
    const shown = (await page.locator(".lines .add .text, .lines .del .text").allInnerTexts()).map((x) => x.trim()).sort();
    const told = s.cli("diff", turn.turnId, "--json");
    const diff = JSON.parse(told).diff ?? told;
    const lines = diff.split("\n").filter((l) => /^[+-](?![+-]{2} )/.test(l)).map((l) => l.slice(1).trim()).sort();
    assert.deepEqual(shown, lines);

    await page.getByRole("button", { name: "Undo from here…" }).click();
    const dialog = page.getByRole("dialog", { name: "Undo" });
    await dialog.getByText("notes.txt").first().waitFor();
    assert.ok(existsSync(join(s.work, "LICENCE.txt")), "a preview changes nothing");
    await dialog.getByRole("button", { name: "Undo" }).click();
    await page.getByText(/1 turn undone/).waitFor();
    assert.ok(!existsSync(join(s.work, "LICENCE.txt")));
    assert.equal(readFileSync(join(s.work, "notes.txt"), "utf8"), "remember the milk\n");
  },

  "processes, context and cost": async (t) => {
    const { s } = await licensed(t);
    const page = await visit(t, s, "/s/licence?tab=processes");
    const frame = page.frameLocator("iframe");
    await frame.getByText("21 LICENCE.txt").first().waitFor();
    await page.getByRole("link", { name: "Context", exact: true }).click();
    await page.getByRole("heading", { name: "In the context" }).waitFor();
    await page.getByText("instructions").first().waitFor();
    await axe(page, "context");
    await page.getByRole("link", { name: "Cost", exact: true }).click();
    await page.getByText("Tokens in").waitFor();
    await axe(page, "cost");
  },

  "Enter in the palette opens what fits the text that is there": async (t) => {
    const s = await ownServer(t);
    for (const id of ["first", "second"]) await s.done(await s.turn(`hello ${id}`, { sessionId: id }));
    const page = await visit(t, s, "/");
    await page.keyboard.press("Control+k");
    const field = page.getByRole("combobox", { name: "Find anything" });
    await field.fill("first");
    await page.getByRole("option", { name: /first/ }).first().waitFor();
    // It is asked once for a text.
    let asked = 0;
    page.on("request", (r) => r.url().endsWith("/v1/commands/search") && asked++);
    await field.fill("hello");
    await page.getByRole("option", { name: /hello second/ }).first().waitFor();
    await settle(page);
    assert.equal(asked, 1);
    // Before the server has said what fits.
    await field.fill("second");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/s\/second/);
  },

  "the palette finds pages, sessions, words and ids": async (t) => {
    const { s, turn } = await licensed(t);
    const page = await visit(t, s, "/");
    await page.keyboard.press("Control+k");
    await page.keyboard.type("add a lic");
    await page.getByRole("option", { name: /add a licence/ }).first().waitFor();
    await axe(page, "palette");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/s\/licence/);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find anything" }).fill(turn.turnId);
    await page.getByRole("option", { name: new RegExp(turn.turnId) }).first().waitFor();
    // Whatever was pasted leads to what it names, wherever that is, or is said to be unknown.
    const facts = await s.events("licence");
    const first = (id) => facts.find((e) => JSON.stringify(e).includes(`"${id}"`)).sequence;
    const call = facts.find((e) => e.type === "tool.started");
    const field = page.getByRole("combobox", { name: "Find anything" });
    const paste = async (id, where) => {
      await field.fill(id);
      const option = page.getByRole("option", { name: new RegExp(id) }).filter({ hasText: where }).first();
      await option.waitFor();
      return option;
    };
    for (const [name, kind] of [["threadId", "Thread"], ["turnId", "Turn"], ["runId", "Run"], ["stepId", "Step"], ["toolCallId", "Tool call"], ["eventId", "Event"]]) {
      await paste(call[name], `${kind} · licence #${first(call[name])}`);
    }
    const model = facts.find((e) => e.type === "model.requested");
    await paste(model.payload.modelRequestId, `Model request · licence #${first(model.payload.modelRequestId)}`);
    const asked = facts.find((e) => e.requestId?.startsWith("req_"));
    await paste(asked.requestId, `Request · licence #${first(asked.requestId)}`);
    await paste("licence", "Session");
    await paste(call.taskId, "Task");
    await paste(facts.find((e) => e.type === "process.started").processId, "Process");
    const { taskId } = await s.call("create_task", { sessionId: "licence", taskId: "task_own", objective: "count", worker: "external" });
    await paste(taskId, "Task");
    const { scheduleId } = await s.call("create_schedule", { cron: "0 6 * * *", task: { objective: "count" } });
    await paste(scheduleId, "Schedule");
    const { evidenceId } = await s.call("export_evidence", { sessionId: "licence" });
    await paste(evidenceId, "Evidence");
    const { replayId } = await s.call("start_replay", { sessionId: "licence" });
    await paste(replayId, "Replay");
    const { channelId } = await s.call("connect_channel", { channelId: "chan_own", transport: "websocket", peerRole: "client" });
    await paste(channelId, "Channel");
    // One that nothing has leads nowhere, and says so.
    for (const [id, says] of [[`${call.toolCallId.slice(0, -1)}${call.toolCallId.endsWith("0") ? 1 : 0}`, "nothing that you may see has this id"], ["schedule_1", "Not found"], ["replay_1", "nothing that you may see has this id"], [`${asked.requestId.slice(0, -1)}${asked.requestId.endsWith("0") ? 1 : 0}`, "the server's log"]]) {
      const option = await paste(id, says);
      assert.equal(await option.getAttribute("aria-disabled"), "true");
      await page.keyboard.press("Enter");
      assert.ok(await field.isVisible());
    }
    await axe(page, "palette with an unknown id");
    // And with Enter one is there.
    await paste(evidenceId, "Evidence");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/evidence\?id=/);
    await page.getByRole("row").filter({ hasText: evidenceId.slice(-6) }).waitFor();
    await page.keyboard.press("Control+k");
    await paste(call.toolCallId, "Tool call");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/s/licence\\?at=${first(call.toolCallId)}$`));
    await page.keyboard.press("Control+k");
    await paste(call.toolCallId, "Tool call");
    await screen(page, "palette");
    await page.keyboard.press("Escape");
    // Keys are the dialog's until it has closed and given the focus back.
    await page.waitForFunction(() => !document.querySelector("dialog[open]") && document.activeElement?.tagName !== "INPUT");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).getByText("Export evidence").waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("e")]);
    assert.match(download.suggestedFilename(), /^evidence_/);
  },
};
