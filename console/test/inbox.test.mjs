import { assert, axe, noSidewaysScroll, ownServer, screen, visit } from "./kit.mjs";

const form = { type: "object", required: ["colour", "count"], properties: { colour: { type: "string", enum: ["red", "green"] }, count: { type: "integer", minimum: 1, maximum: 9 } } };
const answers = [
  { when: { contains: "write" }, text: "I write it down.", tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "# Notes\n\nremember the milk\n" } }] },
  { when: { contains: "write" }, text: "Done." },
  { when: { contains: "form" }, ask: { prompt: "Which colour, and how many?", schema: form } },
  { when: { contains: "form" }, text: "Thank you." },
  { when: { contains: "remove" }, tools: [{ name: "shell", arguments: { command: "rm -rf notes" } }] },
  { when: { contains: "remove" }, text: "Gone." },
  { when: { contains: "list" }, tools: [{ name: "shell", arguments: { command: "touch made-by-shell" } }] },
  { when: { contains: "list" }, text: "Listed." },
];

/** settled waits until a session has no open question. */
const settled = (s, turn) => s.awaitEvent(turn.sessionId, (e) => e.turnId === turn.turnId && e.type === "action.resolved");

export default {
  "keys alone approve, with a second key for what destroys": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("remove notes", { sessionId: "notes" });
    await s.asked(turn);
    const page = await visit(t, s, "/", { login: false });
    await page.locator("input[name=token]:focus").waitFor();
    await page.keyboard.type(s.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Fleet" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("i");
    const card = page.getByRole("article", { name: /Permission/ });
    await card.getByText("rm -rf notes").first().waitFor();
    await card.getByText("Undo restores files of the workspace.").waitFor();
    await screen(page, "inbox");
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
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1);
    await card.getByLabel("count *").fill("3");
    await card.getByRole("button", { name: "Submit" }).click();
    const fact = await settled(s, turn);
    assert.deepEqual(fact.payload.payload, { colour: "green", count: 3 });
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
    await page.getByText(/With this rule \d+ of the last \d+ decisions change/).waitFor();
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
    await page.getByText("Nothing waits for you").or(page.getByText(/deny by/)).first().waitFor();
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
    const yes = page.getByRole("button", { name: "Yes, allow" });
    if (await yes.isVisible()) await yes.click();
    assert.equal((await settled(s, turn)).payload.decision, "allow");
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
    await page.getByText("Nothing waits for you").or(page.getByText("Your role may look at this")).first().waitFor();
    assert.equal(await page.getByRole("button", { name: /Allow|Deny|Submit|New session/ }).count(), 0);
    const forged = await page.evaluate(async (id) => (await fetch("/v1/commands/respond_action", { method: "POST", headers: { "X-Agentd-Console": "1", "Content-Type": "application/json" }, body: JSON.stringify({ actionId: id, decision: "allow" }) })).status, actionId);
    assert.ok(forged === 403 || forged === 404, String(forged));
    // An account never sees another's session by address, search or list.
    const stranger = await visit(t, s, "/s/watched", { token: other });
    await stranger.getByText("not_found").waitFor();
    await stranger.goto(`${s.url}/ui/sessions?q=notes`);
    await stranger.getByText("No session fits").waitFor();
    assert.equal((await s.call("list_actions", { status: "pending" })).total, 1);
  },
};
