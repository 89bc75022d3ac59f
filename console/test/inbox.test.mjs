import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { assert, axe, eventually, go, noSidewaysScroll, ownServer, screen, typeToken, visit } from "./kit.mjs";

const form = { type: "object", required: ["colour", "count"], properties: { colour: { type: "string", enum: ["red", "green"] }, count: { type: "integer", minimum: 1, maximum: 9 }, name: { type: "string", pattern: "^[a-z]+$" } } };
const answers = [
  { when: { contains: "write" }, text: "I write it down.", tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "# Notes\n\nremember the milk\n" } }] },
  { when: { contains: "write" }, text: "Done." },
  { when: { contains: "form" }, ask: { prompt: "Which colour, and how many?", schema: form } },
  { when: { contains: "form" }, text: "Thank you." },
  { when: { contains: "remove" }, tools: [{ name: "shell", arguments: { command: "rm -rf notes" } }] },
  { when: { contains: "remove" }, text: "Gone." },
  { when: { contains: "list" }, tools: [{ name: "shell", arguments: { command: "touch made-by-shell" } }] },
  { when: { contains: "list" }, text: "Listed." },
  { when: { contains: "plan" }, tools: [{ name: "present_plan", arguments: { plan: "# Two steps\n\n1. write **NOTES.md**\n2. say so\n" } }] },
  { when: { contains: "plan" }, text: "I go on." },
  { when: { contains: "plan" }, text: "Another plan." },
  { when: { contains: "large" }, tools: [{ name: "write_file", arguments: { path: "large.txt", content: `${Array.from({ length: 3000 }, (_, i) => `line ${i} of a large file`).join("\n")}\n` } }] },
  { when: { contains: "large" }, text: "Written." },
  { when: { contains: "sign" }, tools: [{ name: "mcp__web__sign_in" }] },
  { when: { contains: "sign" }, tools: [{ name: "mcp__web__ask" }] },
  { when: { contains: "sign" }, text: "Signed in." },
];

/** guarded is an MCP server that answers nobody without a token. */
async function guarded(t, token) {
  const answers = {
    initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "guarded", version: "1" } },
    "tools/list": { tools: [{ name: "ask", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text: "forty-two" }] },
  };
  const http = createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => {
      if (req.headers.authorization !== `Bearer ${token}`) return res.writeHead(401).end();
      const m = req.method === "POST" && body ? JSON.parse(body) : {};
      if (m.id === undefined) return res.writeHead(req.method === "POST" ? 202 : 405).end();
      res.setHeader("Content-Type", "application/json").end(JSON.stringify({ jsonrpc: "2.0", id: m.id, result: answers[m.method] ?? {} }));
    });
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  t.ends.push(() => (http.closeAllConnections(), new Promise((resolve) => http.close(resolve))));
  return `http://127.0.0.1:${http.address().port}`;
}

/** taken waits until a key answers the card: when a person can have seen it. */
const taken = (card, key) => card.locator(`[aria-keyshortcuts=${key}]`).waitFor();

/** settled waits until a session has no open question. */
const settled = (s, turn) => s.awaitEvent(turn.sessionId, (e) => e.turnId === turn.turnId && e.type === "action.resolved");

export default {
  "keys alone approve, with a second key for what destroys": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("remove notes", { sessionId: "notes" });
    await s.asked(turn);
    const page = await visit(t, s, "/", { login: false });
    await typeToken(page, s);
    await page.keyboard.press("g");
    await page.keyboard.press("i");
    const card = page.getByRole("article", { name: /Permission/ });
    await card.getByText("rm -rf notes").first().waitFor();
    // Impact and advice are the words of the decision.
    const evaluated = (await s.events("notes")).find((e) => e.type === "permission.evaluated");
    assert.ok(evaluated.payload.impact && evaluated.payload.rollbackAdvice);
    await card.getByText(evaluated.payload.impact).waitFor();
    await card.getByText(evaluated.payload.rollbackAdvice).waitFor();
    await screen(page, "inbox");
    await taken(card, "a");
    await page.keyboard.press("a");
    await card.getByText("This can destroy something.").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1, "one key must not allow what destroys");
    await page.keyboard.press("y");
    const fact = await settled(s, turn);
    assert.equal(fact.payload.decision, "allow");
    await s.done(turn);
    await card.getByText(/allow by admin/).waitFor();
  },

  "a form shows what its schema demands, and its answer arrives": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("form please", { sessionId: "form" });
    await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article");
    await card.getByRole("button", { name: "Submit" }).click();
    await card.getByText("is needed").first().waitFor();
    await card.getByLabel("colour *").selectOption("green");
    await card.getByLabel("count *").fill("12");
    await card.getByRole("button", { name: "Submit" }).click();
    await card.getByText("must be at most 9").waitFor();
    await card.getByLabel("count *").fill("3");
    await card.getByLabel("name").fill("Ann");
    await card.getByRole("button", { name: "Submit" }).click();
    await card.getByText("must fit ^[a-z]+$").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1);
    await card.getByLabel("name").fill("ann");
    await card.getByRole("button", { name: "Submit" }).click();
    const fact = await settled(s, turn);
    assert.deepEqual(fact.payload.payload, { colour: "green", count: 3, name: "ann" });
  },

  "what only the server can check is told beside the field": async (t) => {
    // Names that are parts of others, with dots, and fields that are edited as a whole.
    const schema = { type: "object", required: ["steps"], properties: { steps: { type: "integer", title: "Steps", multipleOf: 5 }, "a.b": { type: "string", format: "date" }, a: { type: "object", properties: { when: { type: "string", format: "date" } } }, list: { type: "array", items: { type: "integer" } } } };
    const s = await ownServer(t, { answers: [{ when: { contains: "ask" }, ask: { prompt: "How many?", schema } }, { when: { contains: "ask" }, text: "Thank you." }] });
    const turn = await s.turn("ask me", { sessionId: "checked" });
    await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article");
    const field = (name) => card.locator(".field", { has: page.getByLabel(name, { exact: true }) });
    await card.getByLabel("Steps *").fill("7");
    await card.getByLabel("a.b", { exact: true }).fill("tomorrow");
    await card.getByLabel("when", { exact: true }).fill("never");
    await card.getByLabel("list", { exact: true }).fill('[1, "two"]');
    await card.getByRole("button", { name: "Submit" }).click();
    await field("Steps *").getByText("expected a multiple of 5, given 7").waitFor();
    await field("a.b").getByText('expected a text in the format date, given the string "tomorrow"').waitFor();
    await field("when").getByText('expected a text in the format date, given the string "never"').waitFor();
    await field("list").getByText('[1]: expected integer, given the string "two"').waitFor();
    assert.equal(await card.getByLabel("Steps *").getAttribute("aria-invalid"), "true");
    await card.getByRole("alert").getByText("payload.steps").first().waitFor();
    assert.equal(await card.getByText("invalid_input").count(), 0);
    await axe(page, "a form with the server's words");
    await card.getByLabel("Steps *").fill("10");
    await card.getByLabel("a.b", { exact: true }).fill("2026-01-31");
    await card.getByLabel("when", { exact: true }).fill("2026-01-31");
    await card.getByLabel("list", { exact: true }).fill("[1, 2]");
    await card.getByRole("button", { name: "Submit" }).click();
    assert.deepEqual((await settled(s, turn)).payload.payload, { steps: 10, "a.b": "2026-01-31", a: { when: "2026-01-31" }, list: [1, 2] });
  },

  "a plan is read, sent back with a comment, and approved in a mode": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("plan it", { sessionId: "planned", options: { permissionMode: "plan" } });
    await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article", { name: /Plan/ });
    await card.getByText("Two steps").waitFor();
    await card.locator("strong", { hasText: "NOTES.md" }).waitFor();
    await axe(page, "a plan");
    await screen(page, "inbox-plan");
    await card.getByLabel("Reason").fill("a test, too");
    await card.getByRole("button", { name: "Send back" }).click();
    const back = await settled(s, turn);
    assert.deepEqual([back.payload.decision, back.payload.reason], ["deny", "a test, too"]);
    await s.done(turn);
    const again = await s.turn("plan it", { sessionId: "planned2", options: { permissionMode: "plan" } });
    await s.asked(again);
    await page.goto(`${s.url}/ui/inbox`);
    await card.getByLabel("Carried out in mode").selectOption("auto");
    await page.keyboard.press("Escape");
    await taken(card, "a");
    await page.keyboard.press("a");
    const fact = await settled(s, again);
    assert.deepEqual([fact.payload.decision, fact.payload.payload], ["allow", { permissionMode: "auto" }]);
    const changed = await s.awaitEvent("planned2", (e) => e.type === "policy.changed");
    assert.equal(changed.payload.approvalActionId, fact.actionId);
  },

  "a credential is given as one of its references": async (t) => {
    const token = "sesame".repeat(4);
    const web = await guarded(t, token);
    const ref = `file:${join(process.env.AGENTD_FOLDER, "web-token")}`;
    writeFileSync(ref.slice("file:".length), token);
    const s = await ownServer(t, { answers, config: { mcp: [{ id: "web", url: web, credentials: [ref] }], permissions: { mode: "bypass" } } });
    await eventually(() => s.call("get_tool_inventory"), (r) => r.tools.some((x) => x.toolName === "mcp__web__sign_in"));
    const turn = await s.turn("sign in", { sessionId: "signed" });
    await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article", { name: /Credential/ });
    await card.getByText("Which credential is to be used").waitFor();
    await card.getByRole("button", { name: "Submit" }).click();
    await card.getByText("is needed").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1);
    await screen(page, "inbox-credential");
    await card.getByLabel("Reference of the credential").selectOption(ref);
    await card.getByRole("button", { name: "Submit" }).click();
    assert.equal((await settled(s, turn)).payload.decision, "submit");
    await s.done(turn);
    const said = (await s.events("signed")).filter((e) => e.type === "tool.result").map((e) => e.payload.preview).join(" ");
    assert.match(said, /forty-two/);
    // Neither the page nor the facts ever had the secret.
    assert.ok(!(await page.content()).includes(token) && !JSON.stringify(await s.events("signed")).includes(token));
  },

  "an answer for the project shows its rule before it is written": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("list it", { sessionId: "kept" });
    const asked = await s.asked(turn);
    const rule = asked.payload.keepRules[0];
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article", { name: /Permission/ });
    await card.getByRole("button", { name: "Always in this project" }).waitFor();
    await taken(card, "p");
    await page.keyboard.press("p");
    const shown = card.getByRole("alert");
    await shown.getByText(`${rule.decision} ${rule.tool} ${rule.match}`).waitFor();
    await shown.getByText(asked.payload.keepFor).waitFor();
    await axe(page, "a rule to keep");
    await screen(page, "inbox-project");
    assert.equal((await s.call("list_project_rules")).rules.length, 0, "one key must not write a rule");
    await page.keyboard.press("y");
    await s.done(turn);
    const { rules } = await s.call("list_project_rules");
    assert.deepEqual(rules.map((r) => [r.workspace, r.rule.decision, r.rule.tool, r.rule.match]), [[asked.payload.keepFor, rule.decision, rule.tool, rule.match]]);
    // The next call of its kind isn't asked about, in another session either; and the rule can be taken back.
    const next = await s.done(await s.turn("list it", { sessionId: "kept2" }));
    assert.equal(next.type, "turn.completed");
    await page.goto(`${s.url}/ui/policy`);
    await page.getByRole("table", { name: "Rules kept for projects" }).getByRole("button", { name: "Forget" }).click();
    await page.getByRole("table", { name: "Rules kept for projects" }).waitFor({ state: "detached" });
    assert.equal((await s.call("list_project_rules")).rules.length, 0);
  },

  "arguments that are too large for the record are shown whole": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("large one", { sessionId: "large" });
    const asked = await s.asked(turn);
    assert.ok(asked.payload.inputRef && !asked.payload.safeArgs);
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article", { name: /Permission/ });
    await card.getByText("line 0 of a large file").waitFor();
    await card.getByRole("button", { name: "Deny" }).click();
    await settled(s, turn);
  },

  "a question that was answered elsewhere settles, and a late click explains": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("remove notes", { sessionId: "elsewhere" });
    const { actionId } = await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    const late = await visit(t, s, "/inbox");
    const card = page.getByRole("article");
    await card.getByRole("button", { name: "Deny" }).waitFor();
    await late.getByRole("button", { name: "Deny" }).waitFor();
    // The late tab hears of nothing: its reads and its line stand still while it clicks.
    for (const path of ["**/v1/commands/list_actions", "**/v1/rpc"]) await late.route(path, (route) => route.abort());
    s.cli("deny", actionId);
    await card.getByText(/deny by/).waitFor();
    assert.equal(await card.getByRole("button", { name: "Allow once" }).count(), 0);
    await late.getByRole("button", { name: "Allow once" }).click();
    await late.getByRole("button", { name: "Yes, allow" }).click();
    await late.getByText("It has changed meanwhile").first().waitFor();
    await late.unrouteAll();
  },

  "the why panel lists the sequences of explain, and a rule is tested without a change": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("write notes", { sessionId: "why" });
    const { actionId } = await s.asked(turn);
    const page = await visit(t, s, "/inbox");
    await page.getByText("Why, sandbox and rule").click();
    await page.locator(".chain li").first().waitFor();
    const shown = await page.locator(".chain a[data-sequence]").evaluateAll((all) => all.map((a) => Number(a.dataset.sequence)));
    const explained = await s.call("explain", { sessionId: "why", actionId });
    assert.deepEqual(shown, explained.facts.map((f) => f.sequence));
    const before = (await s.events("why")).length;
    await page.getByText(/With this rule \d+ of the last \d+ decisions of this session change/).waitFor();
    assert.equal((await s.events("why")).length, before);
  },

  "several are answered at once": async (t) => {
    const s = await ownServer(t, { answers });
    for (const id of ["one", "two", "three"]) await s.asked(await s.turn("write notes", { sessionId: id }));
    const page = await visit(t, s, "/inbox");
    const boxes = page.locator(".list input[type=checkbox]");
    await boxes.nth(2).waitFor();
    for (const box of await boxes.all()) await box.check();
    await page.getByRole("button", { name: "Deny all" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Deny 3" }).click();
    await page.getByText("3 answered").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 0);
  },

  "a phone shows all arguments and approves": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("list it", { sessionId: "phone" });
    await s.asked(turn);
    const page = await visit(t, s, "/inbox", { viewport: { width: 390, height: 844 } });
    await page.getByText("touch made-by-shell").first().waitFor();
    await noSidewaysScroll(page);
    await axe(page, "inbox on a phone");
    await page.getByRole("button", { name: "Allow once" }).click();
    assert.equal((await settled(s, turn)).payload.decision, "allow");
  },

  "a key is named where it works, and how it is named before that can be read": async (t) => {
    const s = await ownServer(t, { answers });
    await s.asked(await s.turn("remove it", { sessionId: "armed" }));
    const page = await visit(t, s, "/s/armed");
    const card = page.locator("article.action");
    await card.getByRole("button", { name: "Allow once" }).click();
    await card.getByRole("button", { name: "Yes, allow" }).waitFor();
    assert.equal(await card.locator("kbd").count(), 0, "the story has no such keys");
    await go(page, "/inbox");
    await card.locator("kbd:not(.soon)", { hasText: "a" }).waitFor();
    await page.keyboard.press("a");
    await card.locator(".armed kbd", { hasText: "y" }).waitFor();
    // A card that came by itself has its keys after a moment, here never.
    const early = await visit(t, s, "/inbox");
    await early.addInitScript(() => {
      const later = window.setTimeout;
      window.setTimeout = (run, ms, ...rest) => later(run, ms === 700 ? 3_600_000 : ms, ...rest);
    });
    await early.reload();
    await early.locator("kbd.soon").first().waitFor();
    await axe(early, "keys that come soon");
  },

  "an observer sees no way to change anything, on any page": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("write notes", { sessionId: "done", options: { permissionMode: "bypass" } }));
    await s.asked(await s.turn("write notes", { sessionId: "asks" }));
    await s.call("create_task", { taskId: "task_seen", objective: "look", worker: "external", start: true });
    await s.call("create_schedule", { title: "hourly", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    await s.call("create_job", { jobId: "job_seen", instruction: "look", start: false, items: [{ itemId: "a", input: "x" }] });
    await s.call("connect_channel", { channelId: "chan_seen", transport: "websocket", peerRole: "client" });
    await s.call("export_evidence", { sessionId: "done" });
    const { token } = await s.call("create_token", { name: "watcher", role: "observer" });
    const paths = ["/", "/inbox", "/sessions", "/s/done", "/s/asks", "/s/done?tab=files", "/s/done?tab=processes", "/s/done?tab=context", "/s/done?tab=cost", "/tasks?id=task_seen", "/jobs?id=job_seen", "/schedules", "/replay/done", "/compare?a=done&b=asks", "/bench", "/evidence", "/policy", "/peers", "/peers?view=tools", "/usage", "/admin", "/admin?view=store"];
    const changes = /^(New|Interrupt|Fork|Export|Cancel|Retry|Start|Pause|Resume|Run now|Keep|Revoke|Undo|Compact|End it|Disconnect|Send|Allow|Always|Approve|Deny|Submit|Forget|Tag|Pin|Unpin|Archive|Replay|Change|Remove|Choose)/;
    const controls = async (page) => {
      const found = {};
      for (const path of paths) {
        await go(page, path);
        // Nodes of a graph are buttons, too, and have no such text.
        const texts = await page.locator("main").getByRole("button").allInnerTexts();
        if (await page.locator("main textarea").count()) texts.push("Send");
        found[path] = texts.filter((x) => changes.test((x ?? "").trim()));
      }
      return found;
    };
    const none = Object.fromEntries(paths.map((p) => [p, []]));
    assert.deepEqual(await controls(await visit(t, s, "/", { token })), none);
    // Who may do everything is offered it where it belongs.
    const all = await controls(await visit(t, s, "/"));
    for (const path of ["/inbox", "/sessions", "/s/done", "/s/done?tab=files", "/tasks?id=task_seen", "/schedules", "/replay/done", "/evidence", "/policy", "/peers", "/admin"]) assert.ok(all[path].length > 0, path);
  },

  "an observer sees no controls, and a forged command is refused": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("write notes", { sessionId: "watched" });
    const { actionId } = await s.asked(turn);
    const { token } = await s.call("create_token", { name: "watcher", role: "observer" });
    const all = await visit(t, s, "/inbox");
    await all.getByRole("button", { name: "Deny" }).waitFor();
    const { token: other } = await s.call("create_token", { name: "other", role: "client", account: "other" });
    const page = await visit(t, s, "/inbox", { token });
    await page.getByText("Your role may look at this").waitFor();
    // Nor a form, in the inbox and in place.
    const asked = await s.asked(await s.turn("form please", { sessionId: "forms" }));
    for (const path of [`/inbox?id=${asked.actionId}`, "/s/forms"]) {
      await go(page, path);
      await page.locator("article.action").getByText("Your role may look at this").waitFor();
      assert.equal(await page.locator("article.action :is(input, select, textarea)").count(), 0, path);
    }
    await s.call("respond_action", { actionId: asked.actionId, decision: "cancel" });
    await go(page, "/inbox");
    assert.equal(await page.getByRole("button", { name: /Allow|Deny|Submit|New session/ }).count(), 0);
    const forged = await page.evaluate(async (id) => (await fetch("/v1/commands/respond_action", { method: "POST", headers: { "X-Agentd-Console": "1", "Content-Type": "application/json" }, body: JSON.stringify({ actionId: id, decision: "allow" }) })).status, actionId);
    assert.ok(forged === 403 || forged === 404, String(forged));
    // An account never sees another's session by address, search or list.
    const stranger = await visit(t, s, "/s/watched", { token: other });
    await stranger.getByText("not_found").first().waitFor();
    // Nor by a stream, neither that of the session nor the feed of all.
    const told = await stranger.evaluate(() => new Promise((resolve) => {
      const w = new WebSocket(`${location.origin.replace("http", "ws")}/v1/ws`);
      const heard = [];
      w.onopen = () => {
        w.send(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "subscribe", params: { sessionId: "watched", after: 0 } }));
        w.send(JSON.stringify({ jsonrpc: "2.0", id: 2, method: "list_sessions", params: {} }));
      };
      w.onmessage = (e) => {
        const m = JSON.parse(e.data);
        heard.push(m.method ?? `${m.id}: ${m.error?.data?.code ?? m.result.total}`);
        if (m.id === 2) resolve(heard);
      };
    }));
    assert.deepEqual(told.sort(), ["1: not_found", "2: 0"]);
    await stranger.goto(`${s.url}/ui/sessions?q=notes`);
    await stranger.getByText("No session fits").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1);
  },
};
