// Policy, evidence, replay, comparison, usage, peers and administration.
import { readFileSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { assert, axe, eventually, go, noSidewaysScroll, ownServer, screen, server, settle, visit } from "./kit.mjs";

const verdict = (page) => page.getByRole("status", { name: "Verification" });

/** written is a session in which a file was written, with the approval given. */
async function written(s, sessionId) {
  const turn = await s.turn("write it", { sessionId });
  const { actionId } = await s.asked(turn);
  await s.call("respond_action", { actionId, decision: "allow" });
  await s.done(turn);
  return turn;
}

export default {
  "a rule is tested against the past while one types, and writes nothing until it is kept": async (t) => {
    const s = await server();
    await written(s, "policypast");
    const before = (await s.call("get_policy")).rules.length;
    const page = await visit(t, s, "/policy");
    // Nothing was typed: nothing is tested, and there is nothing to keep.
    await page.getByText("Name a tool, or choose a mode").waitFor();
    assert.equal(await page.getByRole("button", { name: "Keep" }).isDisabled(), true);
    await page.getByLabel("Decision").selectOption("deny");
    await page.getByLabel("Tool", { exact: true }).fill("write_file");
    await page.getByLabel("Match").fill("NOTES.md");
    await page.getByRole("table", { name: "Decisions that would be different" }).waitFor();
    const { changedCount } = await s.call("test_policy", { mode: "default", rules: [{ decision: "deny", tool: "write_file", match: "NOTES.md" }] });
    await page.getByText(new RegExp(`^${changedCount} of the last`)).waitFor();
    await screen(page, "policy");
    assert.equal((await s.call("get_policy")).rules.length, before);
    await page.getByLabel("Match").fill("never/**");
    // What it says of the past moves the button: a click that comes before may miss it.
    await page.getByText(/^0 of the last/).waitFor();
    await page.getByRole("button", { name: "Keep" }).click();
    await page.getByRole("cell", { name: "never/**" }).waitFor();
    assert.ok((await s.call("get_policy")).rules.some((r) => r.match === "never/**" && r.decision === "deny"));
  },
  "rules that were kept are changed and removed by those who may; the configuration's stay": async (t) => {
    const s = await ownServer(t, { config: { permissions: { rules: [{ decision: "deny", tool: "shell", match: "git push *", reason: "pushes are manual" }] } } });
    await s.call("set_policy", { rules: [{ decision: "deny", tool: "write_file", match: "never/**" }, { decision: "ask", tool: "shell", match: "make *" }] });
    const { token } = await s.call("create_token", { name: "someone", role: "client", account: "team" });
    const turn = await s.call("submit_turn", { create: true, sessionId: "theirs", input: "write it" }, token);
    await s.asked(turn);
    await s.call("set_policy", { sessionId: "theirs", rules: [{ decision: "allow", tool: "shell", match: "ls *" }, { decision: "deny", tool: "shell", match: "curl *" }] }, token);
    const rules = async (params = {}) => (await s.call("get_policy", params)).rules.map((r) => [r.decision, r.tool, r.match]);
    const configured = ["deny", "shell", "git push *"];
    const page = await visit(t, s, "/policy");
    const table = page.getByRole("table", { name: "Rules", exact: true });
    const row = (match) => table.getByRole("row").filter({ hasText: match });
    await row("git push *").waitFor();
    assert.equal(await row("git push *").getByRole("button").count(), 0, "the configuration's rules stay");
    // A second step removes one, and leaves the others.
    await row("never/**").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("dialog").getByText("deny write_file never/**").waitFor();
    await axe(page, "remove a rule");
    assert.equal((await rules()).length, 3);
    // What was added elsewhere meanwhile stays.
    await s.call("set_policy", { rules: [{ decision: "deny", tool: "write_file", match: "never/**" }, { decision: "ask", tool: "shell", match: "make *" }, { decision: "deny", tool: "shell", match: "wget *" }] });
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await row("never/**").waitFor({ state: "detached" });
    assert.deepEqual(await rules(), [configured, ["ask", "shell", "make *"], ["deny", "shell", "wget *"]]);
    await row("make *").getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Match").fill("make clean");
    await page.getByRole("button", { name: "Keep the change" }).click();
    await row("make clean").waitFor();
    assert.deepEqual(await rules(), [configured, ["deny", "shell", "wget *"], ["ask", "shell", "make clean"]]);
    // A client may not write the host's policy, and may write that of a session of its own, which a card leads to.
    const own = await visit(t, s, "/policy", { token });
    await own.getByText("The host's policy is an admin's to change.").waitFor();
    assert.equal(await own.getByRole("button", { name: /Keep|Remove|Change/ }).count(), 0);
    await go(own, "/inbox");
    await own.getByText("Why, sandbox and rule").click();
    await own.getByRole("link", { name: "Policy of the session" }).click();
    await settle(own, "/policy?session=theirs");
    const theirs = own.getByRole("table", { name: "Rules", exact: true }).getByRole("row");
    await theirs.filter({ hasText: "curl *" }).getByRole("button", { name: "Change" }).waitFor();
    for (const match of ["git push *", "wget *"]) assert.equal(await theirs.filter({ hasText: match }).getByRole("button").count(), 0, match);
    await theirs.filter({ hasText: "curl *" }).getByRole("button", { name: "Remove" }).click();
    await own.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await theirs.filter({ hasText: "curl *" }).waitFor({ state: "detached" });
    await own.getByLabel("Tool", { exact: true }).fill("read_file");
    await own.getByRole("button", { name: "Keep for this session" }).click();
    await theirs.filter({ hasText: "read_file" }).waitFor();
    const session = (await s.call("get_policy", { sessionId: "theirs" })).rules.filter((r) => r.source === "session").map((r) => [r.decision, r.tool, r.match]);
    assert.deepEqual(session, [["allow", "shell", "ls *"], ["ask", "read_file", undefined]]);
    assert.equal((await rules()).length, 3);
    await go(own, "/s/theirs");
    await own.locator("header.top").getByRole("link", { name: "policy" }).click();
    await settle(own, "/policy?session=theirs");
    // Another session is chosen by its id.
    await page.getByLabel("Of the session").fill("theirs");
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await settle(page, "/policy?session=theirs");
    await row("ls *").waitFor();
  },
  "a pack is exported, verified here and by the program, and one changed byte is found by both": async (t) => {
    const s = await server();
    await written(s, "proven");
    await s.done(await s.turn("half a character is drawn as \ufffd", { sessionId: "proven" }));
    const page = await visit(t, s, "/evidence");
    await page.getByLabel("Session").fill("proven");
    await page.getByRole("button", { name: "Export", exact: true }).click();
    const row = page.getByRole("row", { name: /proven/ }).first();
    await row.getByRole("button", { name: "Verify" }).click();
    await verdict(page).getByText(/Unchanged: /).waitFor();
    await screen(page, "evidence");
    const saving = page.waitForEvent("download");
    await row.getByRole("button", { name: "Download" }).click();
    const file = join(s.dir, "pack.json");
    await (await saving).saveAs(file);
    const program = (...args) => spawnSync(process.env.AGENTD_PROGRAM, args, { cwd: s.dir, encoding: "utf8", env: s.env() });
    assert.equal(program("evidence", "verify", file).status, 0);
    const whole = readFileSync(file, "utf8");
    for (const [what, change] of [
      ["a letter of a fact", (x) => x.replace("remember the milk", "remember the mild")],
      ["a figure", (x) => x.replace('"inputTokens":60', '"inputTokens":61')],
      ["the head of the chain", (x) => x.replace(/("headHash":")(.)/, (_, a, b) => a + (b === "0" ? "1" : "0"))],
      ["the signature", (x) => x.replace(/("signature":")(.)/, (_, a, b) => a + (b === "A" ? "B" : "A"))],
      ["a fact that is gone", (x) => x.split('{"data":').filter((_, i) => i !== 2).join('{"data":')],
      ["a section that was added", (x) => x.replace('"format":', '"extra":1,\n"format":')],
      ["a comma that is a colon", (x) => x.replace('","', '":"')],
      ["a colon that is a blank", (x) => x.replace('"format":', '"format" ')],
      ["a comma that is a blank", (x) => x.replace('","', '" "')],
      ["a comma too many", (x) => x.replace(/\}\s*$/, ",}")],
      ["a mark before the beginning", (x) => `\ufeff${x}`],
    ]) {
      const changed = change(whole);
      assert.notEqual(changed, whole, what);
      const bad = join(s.dir, "changed.json");
      writeFileSync(bad, changed);
      assert.notEqual(program("evidence", "verify", bad).status, 0, `the program: ${what}`);
      await page.getByLabel("File to verify").setInputFiles(bad);
      await verdict(page).getByText(/Not as it was exported: /).waitFor();
      await page.getByLabel("File to verify").setInputFiles(file);
      await verdict(page).getByText(/Unchanged: /).waitFor();
    }
    // A byte that is no character is not taken for the character that stands for such.
    const broken = Buffer.from(whole);
    const half = broken.indexOf("\ufffd");
    assert.ok(half > 0);
    await page.getByLabel("File to verify").setInputFiles({ name: "broken.json", mimeType: "application/json", buffer: Buffer.concat([broken.subarray(0, half), Buffer.from([0xff]), broken.subarray(half + 3)]) });
    await verdict(page).getByText(/Not as it was exported: broken.json/).waitFor();
    // A bundle is another thing, and not said to be broken.
    const bundle = join(s.dir, "bundle.zip");
    s.cli("export", "evidence", "proven", "--out", bundle);
    await page.getByLabel("File to verify").setInputFiles(bundle);
    await verdict(page).getByText("Not verified: bundle.zip").waitFor();
    await verdict(page).getByText("agentd evidence verify bundle.zip").waitFor();
    for (const kind of ["replay", "review"]) {
      await page.getByLabel("Kind of export").selectOption(kind);
      await page.getByRole("button", { name: "Export", exact: true }).click();
      await page.getByRole("row", { name: new RegExp(kind) }).first().getByRole("button", { name: "Verify" }).click();
      await verdict(page).getByText(new RegExp(`^${kind}`)).waitFor();
    }
  },
  "a what-if changes no session and names the difference that the program names": async (t) => {
    const s = await server();
    await written(s, "whatif");
    const facts = (await s.events("whatif")).length;
    const page = await visit(t, s, "/replay/whatif");
    await page.getByRole("button", { name: "Replay as it was" }).click();
    await page.getByText("Every decision is the same.").waitFor();
    await page.getByLabel("Mode", { exact: true }).selectOption("plan");
    await page.getByRole("button", { name: "Replay with this" }).click();
    await page.getByText(/The first is at fact/).waitFor();
    const shown = Number(await page.getByRole("region", { name: "Result" }).or(page.locator("section[aria-label=Result]")).locator("p a").first().innerText());
    assert.equal((await s.events("whatif")).length, facts);
    const file = join(s.dir, "case.json");
    s.cli("export", "replay", "whatif", "--out", file);
    const cli = spawnSync(process.env.AGENTD_PROGRAM, ["replay", file, "--with", "mode=plan", "--json"], { cwd: s.dir, encoding: "utf8", env: s.env() });
    assert.equal(JSON.parse(cli.stdout).cases[0].difference.sequence, shown);
    await screen(page, "replay");
    // Side by side with the session it is the same divergence.
    await page.getByRole("link", { name: "Compare side by side" }).click();
    await page.getByText(`The first difference is fact ${shown}:`).waitFor();
    await page.getByRole("table", { name: "Decisions" }).getByRole("link", { name: String(shown), exact: true }).first().waitFor();
  },
  "two sessions are compared up to the first step that differs": async (t) => {
    const s = await server();
    await s.done(await s.turn("the same", { sessionId: "left" }));
    await s.done(await s.turn("the same", { sessionId: "right" }));
    const page = await visit(t, s, "/compare?a=left&b=right");
    await page.getByText(/steps are the same/).waitFor();
    await s.done(await s.turn("something else", { sessionId: "right" }));
    await page.reload();
    await page.getByText(/The first difference is step/).waitFor();
    await screen(page, "compare");
  },
  "two turns are compared, and a step that only one has leaves the others in line": async (t) => {
    const call = (path) => ({ name: "read_file", arguments: { path } });
    const s = await ownServer(t, { answers: [
      { when: { contains: "short" }, tools: [call("a.txt"), call("c.txt")] },
      { when: { contains: "short" }, text: "Read." },
      { when: { contains: "longer" }, tools: [call("a.txt"), call("b.txt"), call("c.txt")] },
      { when: { contains: "longer" }, text: "Read." },
    ] });
    for (const name of ["a", "b", "c"]) writeFileSync(join(s.work, `${name}.txt`), `${name}\n`);
    const one = await s.turn("short", { sessionId: "turns" });
    await s.done(one);
    const two = await s.turn("longer", { sessionId: "turns" });
    await s.done(two);
    const page = await visit(t, s, `/compare?a=${one.turnId}&b=${two.turnId}`);
    await page.getByText("The first difference is step 1:").waitFor();
    const steps = page.getByRole("table", { name: "Steps" });
    const row = steps.getByRole("row", { name: /nothing/ }).filter({ hasText: "b.txt" });
    await row.first().waitFor();
    assert.equal(await steps.getByRole("row", { name: /nothing/ }).filter({ hasText: "c.txt" }).count(), 0, "what follows the step that one side lacks is in line");
    const cells = await steps.getByRole("row").filter({ hasText: "tool.started" }).filter({ hasText: "c.txt" }).allInnerTexts();
    assert.equal(cells.length, 1, cells.join(" | "));
  },
  "trials are counted with their interval, and two configurations are compared": async (t) => {
    const s = await ownServer(t);
    for (const [role, worth] of [["baseline", [0.2, 0.3, 0.25]], ["candidate", [0.8, 0.9, 0.85]]]) {
      for (const [i, value] of worth.entries()) {
        const { trialId, sessionId } = await s.call("start_benchmark_trial", { benchmark: { datasetId: "small", datasetVersion: "1", taskId: `fix-${i}`, configurationId: role, role }, input: "fix it" });
        await s.awaitEvent(sessionId, (e) => ["benchmark.trial.completed", "benchmark.trial.failed"].includes(e.type));
        await s.call("record_benchmark_reward", { trialId, reward: { value }, verifier: { name: "unit-tests", version: "1", status: "completed" } });
      }
    }
    const page = await visit(t, s, "/bench");
    const groups = page.locator("section[aria-label=Configurations]");
    await groups.getByText("0.250 ± 0.124").waitFor();
    await groups.getByText("0.850 ± 0.124").waitFor();
    await page.getByLabel("Baseline").selectOption("baseline");
    await page.getByLabel("Candidate").selectOption("candidate");
    await page.getByRole("button", { name: "Compare" }).click();
    const result = page.getByRole("status", { name: "Comparison" });
    await result.getByText(/^\+0\.6000 \(95 % interval/).waitFor();
    await screen(page, "bench");
    // The address has it: it is there after a reload, and not made again.
    await page.reload();
    await result.getByText(/^\+0\.6000 \(95 % interval/).waitFor();
    assert.deepEqual(await page.locator("main select").evaluateAll((all) => all.map((x) => x.value).filter((x) => /baseline|candidate/.test(x))), ["baseline", "candidate"]);
    assert.equal(await page.getByLabel("Earlier comparison").count(), 0);
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("status", { name: "Earlier comparison" }).waitFor();
    // Another one isn't shown as this one.
    await page.getByLabel("Baseline").selectOption("candidate");
    await result.first().waitFor({ state: "detached" });
  },
  "usage is counted, by time and by model": async (t) => {
    const s = await server();
    await s.done(await s.turn("count me", { sessionId: "counted" }));
    const page = await visit(t, s, "/usage");
    await page.getByRole("table", { name: "Usage by model" }).getByText("demo").first().waitFor();
    // Over time each model has a colour of its own.
    await page.getByRole("heading", { name: "Cost by day and model" }).waitFor();
    await page.getByRole("list", { name: "Colours" }).getByText("demo/demo").waitFor();
    // The axis is time: spans in which nothing was used are there, too, and the last one is now.
    const spans = async () => page.locator("main .scroll table tbody th").allInnerTexts();
    const days = await spans();
    assert.ok(days.length === 8 && days.at(-1) === new Date().toLocaleDateString("en-CA", { timeZone: "UTC", month: "short", day: "numeric" }), String(days));
    const bars = await page.locator("main svg rect[class^=series] title").allTextContents();
    assert.ok(bars.length >= 8 && bars.filter((b) => b.startsWith(`${days[0]},`)).every((b) => b.endsWith("$0")), String(bars));
    for (const [range, many] of [["24 hours", 25], ["A year", 12]]) {
      await page.getByRole("button", { name: range }).click();
      await page.waitForFunction((n) => document.querySelectorAll("main .scroll table tbody th").length - n in { 0: 1, 1: 1 }, many);
    }
    await page.getByRole("button", { name: "7 days" }).click();
    await page.getByRole("button", { name: "By session" }).click();
    await page.getByRole("link", { name: "counted" }).waitFor();
    await screen(page, "usage");
  },
  "a token is made, shown once and revoked": async (t) => {
    const s = await server();
    const page = await visit(t, s, "/admin");
    await page.getByRole("button", { name: "New token" }).click();
    await page.getByLabel("Name").fill("from-the-page");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const token = (await page.locator("dialog pre").innerText()).trim();
    await s.call("list_sessions", {}, token);
    await page.getByRole("button", { name: "Done" }).click();
    const row = page.getByRole("row", { name: /from-the-page/ });
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.locator("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.getByText("revoked").waitFor();
    await screen(page, "admin");
    await assert.rejects(s.call("list_sessions", {}, token), { status: 401 });
    for (const view of ["accounts", "quotas", "nodes", "retention", "configuration"]) {
      await page.goto(`${s.url}/ui/admin?view=${view}`);
      await settle(page);
      assert.equal(await page.locator("main .problem").count(), 0, view);
    }
  },
  "an admin changes a limit and takes it back": async (t) => {
    const s = await ownServer(t);
    const { token } = await s.call("create_token", { name: "someone", role: "client", account: "team" });
    await s.call("create_session", {}, token); // what an account uses is listed from its first session on
    const page = await visit(t, s, "/admin?view=quotas");
    const limits = async () => Object.fromEntries((await s.call("get_quotas", { account: "team" })).quotas.map((x) => [x.quota, x.limit]));
    const before = await limits();
    const dialog = page.getByRole("dialog");
    const change = page.getByRole("button", { name: "Change sessions of team" });
    const row = page.getByRole("row", { name: /team sessions/ });
    await change.click();
    await dialog.getByLabel("At most").fill("7");
    await axe(page, "a limit");
    await dialog.getByRole("button", { name: "Set" }).click();
    await row.getByText("7", { exact: true }).waitFor();
    assert.deepEqual(await limits(), { ...before, sessions: 7 });
    await change.click();
    await dialog.getByRole("button", { name: "All as configured" }).click();
    await row.getByText("7", { exact: true }).waitFor({ state: "detached" });
    assert.deepEqual(await limits(), before);
  },
  "an admin counts old sessions, then has their events removed": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "old" }));
    const page = await visit(t, s, "/admin?view=retention");
    await page.getByRole("button", { name: "Remove old events…" }).click();
    const dialog = page.getByRole("dialog");
    const remove = dialog.getByRole("button", { name: "Remove", exact: true });
    const days = dialog.getByLabel(/older than/);
    await days.fill("3000");
    await dialog.getByRole("button", { name: "Count" }).click();
    await dialog.getByText("0 sessions are old enough.").waitFor();
    assert.ok(await remove.isDisabled());
    await days.fill("0.000000012"); // a millisecond
    await axe(page, "old events");
    await dialog.getByRole("button", { name: "Count" }).click();
    await dialog.getByText("1 sessions are old enough.").waitFor();
    assert.ok(!(await s.call("get_retention")).run, "counting removes nothing");
    // Another time is another count.
    await days.fill("5");
    assert.ok(await remove.isDisabled());
    await days.fill("0.000000012");
    await remove.click();
    await eventually(() => s.call("get_retention"), (r) => r.run?.status === "completed" && r.run.sessions === 1);
    await page.getByText(/of 1 sessions/).waitFor();
  },
  "a list of more than one page is shown whole": async (t) => {
    const s = await ownServer(t);
    for (let i = 0; i < 104; i++) await s.call("create_token", { name: `token-${i}`, account: `account-${i}` });
    const page = await visit(t, s, "/admin");
    const { total } = await s.call("list_tokens", { limit: 1 });
    assert.ok(total >= 104);
    assert.equal(await page.getByRole("table", { name: "Tokens" }).getAttribute("aria-rowcount"), String(total + 1));
    await go(page, "/admin?view=accounts");
    const accounts = (await s.call("list_accounts", { limit: 1 })).total;
    assert.ok(accounts >= 104);
    assert.equal(await page.getByRole("table", { name: "Accounts" }).getAttribute("aria-rowcount"), String(accounts + 1));
  },
  "channels and tools are listed": async (t) => {
    const s = await server();
    await s.call("connect_channel", { channelId: "chan_page", transport: "websocket", peerRole: "client" });
    const page = await visit(t, s, "/peers");
    await page.getByRole("cell", { name: "chan_page" }).waitFor();
    await page.getByRole("link", { name: /Tools/ }).click();
    await page.getByRole("cell", { name: "read_file" }).waitFor();
    await page.getByText("No MCP servers").waitFor();
  },
  "an A2A peer that can't be reached is shown with its fault": async (t) => {
    const s = await ownServer(t, { config: { peers: [{ id: "far", protocol: "a2a", cardURL: "http://127.0.0.1:1/" }] } });
    const page = await visit(t, s, "/peers?view=a2a");
    const table = page.getByRole("table", { name: "A2A peers" });
    await table.getByRole("row", { name: /far unknown 0 none/ }).waitFor();
    const { taskId } = await s.call("create_task", { taskId: "task_far", objective: "translate it", peer: "far", start: true });
    const { sessionId } = await s.call("get_task", { taskId });
    const waits = await s.awaitEvent(sessionId, (e) => e.taskId === taskId && e.type === "task.waiting");
    assert.equal(waits.payload.nativeStatus, "peer_unreachable");
    await table.getByRole("row", { name: /far unavailable 1/ }).getByText(waits.payload.statusReason).waitFor();
    await s.call("cancel_task", { taskId });
  },
  "an MCP server that can't be reached is shown with its fault": async (t) => {
    const s = await ownServer(t, { config: { mcp: [{ id: "gone", command: [join(t.folder, "no-such-program")] }] } });
    const page = await visit(t, s, "/peers?view=tools");
    const table = page.getByRole("table", { name: "MCP servers" });
    await table.getByRole("row", { name: /gone.*unavailable/ }).waitFor();
    await screen(page, "peers");
  },
  "an MCP server that works is shown with its tools": async (t) => {
    const script = join(t.folder, "mcp.mjs");
    writeFileSync(script, `
      import { createInterface } from "node:readline";
      const tools = [{ name: "tide", description: "When the next high tide is.", inputSchema: { type: "object" } }];
      const answers = { initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "sea", version: "1" } }), "tools/list": () => ({ tools }), ping: () => ({}) };
      for await (const line of createInterface({ input: process.stdin })) {
        const m = JSON.parse(line);
        if (m.id === undefined) continue;
        const answer = answers[m.method];
        console.log(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...(answer ? { result: answer(m.params ?? {}) } : { error: { code: -32601, message: "no such method" } }) }));
      }
    `);
    const s = await ownServer(t, { config: { mcp: [{ id: "sea", command: [process.execPath, script] }] } });
    const tools = async () => (await s.call("get_tool_inventory")).tools.filter((x) => x.runtimeOwner === "mcp_server" && x.policy !== "unavailable");
    const [tide] = await eventually(tools, (x) => x.length > 0);
    const page = await visit(t, s, "/peers?view=tools");
    const row = page.getByRole("table", { name: "MCP servers" }).getByRole("row", { name: /^sea/ });
    const cells = await row.getByRole("cell").allInnerTexts();
    assert.deepEqual([cells[0], cells[2], cells[3]], ["sea", "1", "none"]);
    assert.match(cells[1], /ready|connected|running/);
    await page.getByRole("table", { name: "Tools" }).getByRole("row", { name: new RegExp(tide.toolName) }).waitFor();
  },
  "a row whose text doesn't fit is read whole, with keys, pointer and finger": async (t) => {
    const s = await ownServer(t, { config: { mcp: [{ id: "gone", command: [join(t.folder, "no-such-program")] }] } });
    const page = await visit(t, s, "/peers?view=tools", { viewport: { width: 900, height: 700 } });
    const table = page.getByRole("table", { name: "MCP servers" });
    const cell = table.getByRole("row", { name: /gone.*unavailable/ }).getByRole("cell").last();
    // It is tried again meanwhile, and how it begins may change.
    const fault = /^handshake: .*no such file or directory/;
    assert.match(await cell.innerText(), fault);
    assert.ok(await cell.evaluate((c) => c.scrollWidth > c.clientWidth));
    await cell.hover();
    assert.match(await cell.getAttribute("title"), fault);
    const whole = page.getByRole("dialog", { name: "MCP servers, row 1" });
    const read = async () => {
      const value = whole.getByText(fault);
      await value.waitFor();
      assert.ok(await value.evaluate((d) => d.scrollWidth <= d.clientWidth && getComputedStyle(d).textOverflow !== "ellipsis"));
    };
    await table.focus();
    await page.keyboard.press("j");
    for (const key of ["v", "Enter"]) {
      await page.keyboard.press(key);
      await read();
      if (key === "v") await axe(page, "a row, whole");
      await page.keyboard.press("Escape");
      await whole.waitFor({ state: "hidden" });
      // The keys go on where they were.
      await table.evaluate((x) => x === document.activeElement || Promise.reject(new Error(document.activeElement.outerHTML)));
    }
    // The second of two keys is not the table's.
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
  },
  "a phone shows what each row is, and the rest of it at a touch": async (t) => {
    const s = await ownServer(t, { config: { mcp: [{ id: "gone", command: [join(t.folder, "no-such-program")] }], peers: [{ id: "translator", protocol: "a2a", cardURL: "http://127.0.0.1:1/" }] } });
    await s.done(await s.turn("hello", { sessionId: "phoned" }));
    await s.call("create_task", { taskId: "task_phone", objective: "look at it closely", worker: "external", start: true });
    await s.call("create_job", { jobId: "job_phone", instruction: "look at it closely", start: false, items: [{ itemId: "one", input: "x" }] });
    const { scheduleId } = await s.call("create_schedule", { title: "every hour", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    await s.call("create_token", { name: "watcher of the night", role: "observer" });
    await s.call("export_evidence", { sessionId: "phoned" });
    await s.call("set_policy", { rules: [{ decision: "deny", tool: "shell", match: "rm *", reason: "never" }] });
    const page = await visit(t, s, "/schedules", { viewport: { width: 390, height: 844 } });
    for (const path of ["/schedules", "/sessions", "/tasks", "/jobs", "/evidence", "/policy", "/peers?view=tools", "/peers?view=a2a", "/usage", "/admin", "/admin?view=accounts", "/admin?view=quotas", "/admin?view=configuration"]) {
      await go(page, path);
      await noSidewaysScroll(page, path);
      const tables = await page.locator(".table").evaluateAll((all) => all.map((x) => ({
        name: x.getAttribute("aria-label"),
        aside: x.scrollWidth - x.clientWidth,
        narrow: [...x.querySelectorAll("[role=columnheader].clip")].filter((h) => h.offsetParent && h.textContent.trim() && h.offsetWidth < 40).map((h) => h.textContent),
      })));
      assert.ok(tables.length > 0, path);
      for (const x of tables) assert.deepEqual([x.aside, x.narrow], [0, []], `${path} ${x.name}`);
    }
    // What isn't drawn is in the row, with what can be done there.
    await go(page, "/peers?view=tools");
    await page.getByRole("table", { name: "MCP servers" }).getByText("gone").click();
    const whole = page.getByRole("dialog");
    await whole.getByText(/^handshake: .*no such file or directory/).waitFor();
    await noSidewaysScroll(page, "a row, whole");
    await axe(page, "a row, whole, on a phone");
    await page.getByRole("button", { name: "Close" }).click();
    const tools = (await s.call("get_tool_inventory")).tools;
    await page.getByRole("table", { name: "Tools" }).getByText(tools[0].toolName, { exact: true }).click();
    await page.getByRole("dialog", { name: "Tools, row 1" }).getByText(tools[0].description.split("\n")[0]).waitFor();
    await page.keyboard.press("Escape");
    await go(page, "/schedules");
    await page.getByRole("cell", { name: "every hour" }).click();
    await whole.getByRole("button", { name: "Pause" }).click();
    await whole.waitFor({ state: "hidden" });
    await page.getByRole("row", { name: /every hour paused/ }).waitFor();
    assert.equal((await s.call("list_schedules")).schedules.find((x) => x.scheduleId === scheduleId).status, "paused");
  },
  "usage by tool, account and workspace is what the API counts": async (t) => {
    const s = await ownServer(t, { answers: [{ when: { contains: "look" }, tools: [{ name: "list_files", arguments: { path: "." } }], usage: { inputTokens: 1000, outputTokens: 100 } }, { when: { contains: "look" }, text: "Seen.", usage: { inputTokens: 2000, outputTokens: 200 } }] });
    const { token } = await s.call("create_token", { name: "ben", role: "client", account: "team_b" });
    await s.done(await s.turn("look", { sessionId: "ours" }));
    const { sessionId, turnId } = await s.call("submit_turn", { create: true, input: "look" }, token);
    await s.done({ sessionId, turnId });
    const page = await visit(t, s, "/usage");
    for (const by of ["tool", "account", "workspace"]) {
      const { rows } = await s.call("usage", { groupBy: [by] });
      await page.getByRole("button", { name: `By ${by}` }).click();
      await settle(page, `/usage?by=${by}`);
      const table = page.getByRole("table", { name: `Usage by ${by}` });
      assert.equal(await table.getAttribute("aria-rowcount"), String(rows.length + 1), by);
      const shown = (await table.locator(".all .line").allInnerTexts()).map((x) => x.split("\n").filter(Boolean));
      for (const r of rows) {
        const line = shown.find((x) => x[0] === (r[by] || "none"));
        assert.ok(line, `${by} ${r[by]}: ${JSON.stringify(shown)}`);
        assert.deepEqual([line[1], line[2], line[4]], [r.turns, r.inputTokens + r.outputTokens, r.toolCalls].map((n) => n.toLocaleString("en")), by);
      }
    }
  },
  "the views of the administration show what their commands list": async (t) => {
    const s = await ownServer(t);
    await s.call("create_token", { name: "ben", role: "client", account: "team_b" });
    const page = await visit(t, s, "/admin");
    for (const [view, label, command, rows, first] of [
      ["tokens", "Tokens", "list_tokens", "tokens", (x) => x.name],
      ["accounts", "Accounts", "list_accounts", "accounts", (x) => x.account || "the operator"],
      ["quotas", "Quotas", "get_quotas", "quotas", (x) => x.account || "the operator"],
      ["configuration", "Configuration", "get_configuration", "settings", (x) => x.name],
    ]) {
      await go(page, `/admin?view=${view}`);
      const table = page.getByRole("table", { name: label });
      const all = (await s.call(command))[rows];
      assert.equal(await table.getAttribute("aria-rowcount"), String(all.length + 1), view);
      const shown = await table.locator(".all .line [role=cell]:first-child").allInnerTexts();
      const want = new Set(all.map(first));
      assert.ok(shown.length > 0 && shown.every((x) => want.has(x)), `${view}: ${shown}`);
    }
  },
  "a replay under a rule or with another model says what the API says": async (t) => {
    const s = await ownServer(t);
    await written(s, "ruled");
    const page = await visit(t, s, "/replay/ruled");
    const result = page.locator("section[aria-label=Result]");
    /** replayed waits for the replay that the page started, and for the page to show it. */
    const replayed = async (before) => {
      await page.waitForURL((url) => url.searchParams.get("run") && url.searchParams.get("run") !== before);
      const replayId = new URL(page.url()).searchParams.get("run");
      const r = await eventually(() => s.call("get_replay", { replayId }), (x) => x.status !== "running");
      assert.ok(r.differenceCount > 0, JSON.stringify(r));
      await result.getByText(`${r.differenceCount} ${r.differenceCount === 1 ? "decision is" : "decisions are"} different`).waitFor();
      await result.getByRole("link", { name: String(r.differences[0].sequence), exact: true }).first().waitFor();
      await result.getByText(r.differences[0].says).first().waitFor();
      return [replayId, r];
    };
    // A rule needs no match: then it is of all calls of the tool.
    await page.getByLabel("Tool", { exact: true }).fill("write_file");
    await page.getByRole("button", { name: "Replay with this" }).click();
    const [first, ruled] = await replayed("");
    assert.match(JSON.stringify(ruled.differences), /deny|denied/);
    await page.getByLabel("Tool", { exact: true }).fill("");
    await page.getByLabel("Models", { exact: true }).fill("demo/other");
    await page.getByRole("button", { name: "Replay with this" }).click();
    await replayed(first);
  },
  "trials are compared with what each cost and took": async (t) => {
    const s = await ownServer(t, { answers: [{ when: { contains: "cheap" }, text: "a", usage: { inputTokens: 1000, outputTokens: 100 } }, { when: { contains: "dear" }, text: "b", usage: { inputTokens: 90_000, outputTokens: 900 } }] });
    const trials = [];
    for (const input of ["cheap", "dear"]) {
      const trial = await s.call("start_benchmark_trial", { benchmark: { datasetId: "small", datasetVersion: "1", taskId: "fix", configurationId: input, role: "baseline" }, input });
      await s.awaitEvent(trial.sessionId, (e) => ["benchmark.trial.completed", "benchmark.trial.failed"].includes(e.type));
      trials.push(trial);
    }
    const [a, b] = await Promise.all(trials.map(async (x) => (await s.call("list_turns", { sessionId: x.sessionId })).turns[0]));
    assert.ok(b.costUSD > a.costUSD && a.costUSD > 0);
    const page = await visit(t, s, `/compare?a=${trials[0].trialId}&b=${trials[1].trialId}`);
    const row = (name) => page.locator("table.sums tr", { hasText: name }).locator("td");
    const dollars = (n) => (n < 0.01 ? `$${n.toFixed(4)}` : `$${n.toFixed(2)}`);
    assert.deepEqual(await row("Cost").allInnerTexts(), [dollars(a.costUSD), dollars(b.costUSD), `+${dollars(b.costUSD - a.costUSD)}`]);
    const [took, tookToo] = [a.durationMs, b.durationMs];
    assert.match((await row("Time").allInnerTexts())[2], tookToo === took ? /^same$/ : tookToo > took ? /^\+/ : /^−/);
  },
};
