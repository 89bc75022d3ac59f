// What an approval shows before it is given, which question a key answers, and the rules that a card offers.
import { assert, axe, go, noSidewaysScroll, ownServer, settle, visit } from "./kit.mjs";

const lines = Array.from({ length: 1500 }, (_, i) => `line ${i}`);
const answers = [
  { when: { contains: "long" }, tools: [{ name: "write_file", arguments: { path: "long.txt", content: `${lines.join("\n")}\n${"x".repeat(4100)}LAST-OF-THE-FILE\n` } }] },
  { when: { contains: "child" }, tools: [{ name: "spawn_agent", arguments: { role: "worker", input: `${"y ".repeat(24_000)}LAST-OF-THE-INPUT` } }] },
  { when: { contains: "edit" }, tools: [{ name: "edit_file", arguments: { path: "x.sql", old: "-- the first\n-- the second\n", new: "++ the third\n" } }] },
  { when: { contains: "remove" }, tools: [{ name: "shell", arguments: { command: "rm -rf notes" } }] },
  { when: { contains: "push by force" }, tools: [{ name: "shell", arguments: { command: "git push --force" } }] },
  { when: { contains: "push by force" }, text: "Done." },
  { when: { contains: "push" }, tools: [{ name: "shell", arguments: { command: "git push origin main" } }] },
  { when: { contains: "push" }, text: "Done." },
  { when: { contains: "touch" }, tools: [{ name: "shell", arguments: { command: "touch made-by-shell" } }] },
  { when: { contains: "write" }, tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "# Notes\n" } }] },
  { text: "Done." },
];

const pending = async (s) => (await s.call("list_actions", { status: "pending" })).total;
const resolved = (s, turn) => s.awaitEvent(turn.sessionId, (e) => e.turnId === turn.turnId && e.type === "action.resolved");
/** taken waits until a key answers the card: when a person can have seen it. */
const taken = (card, key) => card.locator(`[aria-keyshortcuts=${key}]`).waitFor();
const cardOf = (page, actionId) => page.locator(`article[data-action="${actionId}"]`);
/** counted counts the commands of a name that the page sends, from now on. */
async function counted(page, command) {
  await page.evaluate((name) => {
    const send = window.fetch;
    window.sent = 0;
    window.fetch = (to, ...rest) => ((window.sent += String(to).endsWith(`/v1/commands/${name}`) ? 1 : 0), send(to, ...rest));
  }, command);
  return () => page.evaluate(() => window.sent);
}

export default {
  "a long text is cut into portions that have all of it": async () => {
    if (!process.features.typescript) throw Object.assign(new Error(), { skip: "this Node.js reads no TypeScript" });
    const { cutDiff, cutText, readPortion } = await import("../src/lib/portions.ts");
    // A removed "-- x" looks like the head of a file, and a line may be longer than a portion.
    for (const removed of [["-- x", "++ y", "", "diff --git a/x b/x"], Array.from({ length: 2000 }, (_, i) => `${i}`), ["😀".repeat(50_000), "z".repeat(130_000), "-- end"]]) {
      const diff = `--- p\n+++ p\n@@ -1,${removed.length} +1,1 @@${removed.map((l) => `\n-${l}`).join("")}\n+-- new`;
      const { files, portions } = cutDiff(diff);
      assert.deepEqual(files, [{ name: "p", added: 1, removed: removed.length }]);
      const whole = [];
      for (const p of portions) {
        const drawn = readPortion(diff, p).flatMap((g) => g.lines);
        assert.ok(drawn.length <= 600 && p.to - p.from <= 60_001);
        for (const l of drawn) l.continues ? (whole.at(-1).text += l.text) : whole.push({ ...l });
      }
      assert.deepEqual(whole.filter((l) => l.kind === "del").map((l) => l.text), removed);
      assert.deepEqual(whole.filter((l) => l.kind === "add").map((l) => l.text), ["-- new"]);
      const text = removed.join("\n");
      assert.equal(cutText(text, 999).map((end, i, ends) => text.slice(ends[i - 1] ?? 0, end)).join(""), text);
    }
  },

  "all of a long diff can be read, and what was not shown is told before it is allowed": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("long one", { sessionId: "long" });
    const { actionId } = await s.asked(turn);
    for (const viewport of [{ width: 390, height: 844 }, { width: 1280, height: 800 }]) {
      const page = await visit(t, s, `/inbox?id=${actionId}`, { viewport });
      const card = cardOf(page, actionId);
      await card.getByText("line 0", { exact: true }).waitFor();
      const hidden = card.getByRole("status").filter({ hasText: /[1-9][\d,]* characters of the arguments are not shown yet\./ });
      await hidden.waitFor();
      await noSidewaysScroll(page, "the first part");
      await axe(page, "a part of a long diff");
      // One press doesn't allow what wasn't shown.
      await card.getByRole("button", { name: "Allow once" }).click();
      await card.getByRole("alert").getByText(/characters of the arguments are not shown yet/).waitFor();
      assert.equal(await pending(s), 1);
      await card.getByRole("button", { name: "No", exact: true }).click();
      await card.getByRole("button", { name: "Last part" }).click();
      await card.getByText("LAST-OF-THE-FILE").waitFor();
      await noSidewaysScroll(page, "the last part");
      assert.ok((await card.locator(".lines > div").count()) <= 600, "what is drawn is bounded");
      await hidden.waitFor(); // the part between
      await card.getByRole("button", { name: "Part before" }).click();
      await card.getByText("All of it was shown.").waitFor();
      assert.equal(await hidden.count(), 0);
      if (viewport.width < 1000) continue;
      await card.getByRole("button", { name: "Allow once" }).click();
      assert.equal((await resolved(s, turn)).payload.decision, "allow");
    }
  },

  "the last bytes of long JSON can be read": async (t) => {
    const s = await ownServer(t, { answers });
    const { actionId } = await s.asked(await s.turn("child please", { sessionId: "json" }));
    const page = await visit(t, s, "/inbox", { viewport: { width: 390, height: 844 } });
    const card = cardOf(page, actionId);
    await card.getByText(/characters of the arguments are not shown yet/).waitFor();
    const json = card.locator("pre.code");
    assert.equal(await json.getByText("LAST-OF-THE-INPUT").count(), 0);
    await card.getByRole("button", { name: "Next part" }).click();
    await card.getByRole("button", { name: "Next part" }).click();
    await json.getByText("LAST-OF-THE-INPUT").waitFor();
    await card.getByText("All of it was shown.").waitFor();
    await noSidewaysScroll(page, "long JSON");
    assert.equal(await card.getByText(/are not shown yet/).count(), 0);
  },

  "ten megabytes can be read to their end, one part at a time": async (t) => {
    const huge = [{ tools: [{ name: "write_file", arguments: { path: "huge.txt", content: `${"z".repeat(10 << 20)}\nLAST-OF-THE-FILE` } }] }];
    const s = await ownServer(t, { answers: huge });
    const { actionId } = await s.asked(await s.turn("write it", { sessionId: "huge" }));
    const page = await visit(t, s, "/inbox");
    const card = cardOf(page, actionId);
    await card.getByRole("button", { name: "Last part" }).click();
    await card.getByText("LAST-OF-THE-FILE").waitFor();
    const drawn = await card.evaluate((x) => ({ elements: x.querySelectorAll("*").length, characters: x.textContent.length }));
    assert.ok(drawn.elements < 1000 && drawn.characters < 100_000, JSON.stringify(drawn));
    await card.getByText(/characters of the arguments are not shown yet/).waitFor();
  },

  "arguments that can't be read are not allowed with one press": async (t) => {
    const s = await ownServer(t, { answers });
    const { actionId } = await s.asked(await s.turn("long one", { sessionId: "unread" }));
    const page = await visit(t, s, "/sessions");
    await page.route("**/v1/outputs/**", (route) => route.abort());
    await go(page, `/inbox?id=${actionId}`);
    const card = cardOf(page, actionId);
    await card.getByText("The arguments are not shown yet.").waitFor();
    await page.keyboard.press("a");
    await card.getByRole("button", { name: "Yes, allow" }).waitFor();
    assert.equal(await pending(s), 1);
  },

  "a removed line that looks like the head of a file is a removed line": async (t) => {
    const s = await ownServer(t, { answers });
    await s.asked(await s.turn("edit it", { sessionId: "edit" }));
    const page = await visit(t, s, "/inbox");
    const card = page.getByRole("article", { name: /Permission/ });
    await card.getByText("-- the second").waitFor();
    assert.deepEqual(await card.locator(".lines .del .text").allInnerTexts(), ["-- the first", "-- the second"]);
    assert.deepEqual(await card.locator(".lines .add .text").allInnerTexts(), ["++ the third"]);
    assert.equal(await card.locator(".file").count(), 1);
  },

  "a question that is answered elsewhere stays, and no key answers the next one instead": async (t) => {
    const s = await ownServer(t, { answers });
    const first = await s.asked(await s.turn("touch one", { sessionId: "one" }));
    const second = await s.asked(await s.turn("touch two", { sessionId: "two" }));
    const page = await visit(t, s, "/inbox");
    await taken(cardOf(page, first.actionId), "a");
    s.cli("deny", first.actionId);
    await cardOf(page, first.actionId).getByText(/deny by/).waitFor();
    await page.locator(".list li").nth(1).waitFor({ state: "detached" });
    const sent = await counted(page, "respond_action");
    for (const key of ["a", "s", "d", "y"]) await page.keyboard.press(key);
    assert.equal(await sent(), 0);
    assert.equal(await pending(s), 1);
    await page.getByRole("button", { name: "Next question" }).click();
    await taken(cardOf(page, second.actionId), "a");
  },

  "a key that is held down acts once": async (t) => {
    const s = await ownServer(t, { answers });
    const first = await s.turn("touch one", { sessionId: "one" });
    const one = await s.asked(first);
    const two = await s.asked(await s.turn("touch two", { sessionId: "two" }));
    const page = await visit(t, s, "/inbox");
    await taken(cardOf(page, one.actionId), "a");
    const sent = await counted(page, "respond_action");
    await page.keyboard.down("a");
    await resolved(s, first);
    await cardOf(page, one.actionId).getByText(/allow by admin/).waitFor();
    await page.getByRole("button", { name: "Next question" }).click();
    await taken(cardOf(page, two.actionId), "a");
    for (let i = 0; i < 3; i++) await page.keyboard.down("a");
    assert.equal(await sent(), 1, "a held key answers one question");
    await page.keyboard.up("a");
    assert.equal(await pending(s), 1);
    // Nor does a held key fork more than once.
    await s.done(first);
    await go(page, "/s/one");
    await page.keyboard.down("f");
    await page.waitForURL((url) => url.pathname.startsWith("/ui/s/") && !url.pathname.endsWith("/one"));
    await settle(page);
    await page.locator(".session h1").waitFor();
    const forks = await counted(page, "fork_thread");
    for (let i = 0; i < 3; i++) await page.keyboard.down("f");
    assert.equal(await forks(), 0, "a held key forks once");
    await page.keyboard.up("f");
    assert.equal((await s.call("list_sessions")).total, 3);
    // What moves does so for as long as the key is held.
    await go(page, "/s/one");
    await page.locator(".session[data-shown=live]").waitFor();
    await page.keyboard.down("ArrowLeft");
    await page.keyboard.down("ArrowLeft");
    await page.keyboard.up("ArrowLeft");
    const last = (await s.events("one")).length;
    await page.waitForURL((url) => Number(url.searchParams.get("at")) === last - 2);
  },

  "a key is not taken in the moment after a question came by itself": async (t) => {
    const s = await ownServer(t, { answers });
    const page = await visit(t, s, "/inbox");
    await page.getByText("Nothing waits for you").waitFor();
    // The moment lasts until the test ends it.
    await page.evaluate(() => {
      const later = window.setTimeout;
      window.setTimeout = (run, ms, ...rest) => (ms === 700 ? ((window.pass = run), 0) : later(run, ms, ...rest));
    });
    const sent = await counted(page, "respond_action");
    const turn = await s.turn("touch it", { sessionId: "sudden" });
    const { actionId } = await s.asked(turn);
    const card = cardOf(page, actionId);
    await card.getByRole("button", { name: "Allow once" }).waitFor();
    await page.waitForFunction(() => window.pass);
    for (const key of ["a", "s", "d", "y"]) await page.keyboard.press(key);
    assert.equal(await sent(), 0);
    assert.equal(await card.locator("[aria-keyshortcuts]").count(), 0);
    await page.evaluate(() => window.pass());
    await taken(card, "a");
    await page.keyboard.press("a");
    assert.equal((await resolved(s, turn)).payload.decision, "allow");
  },

  "no rule is offered for what destroys; another is the server's, tested where it would be kept": async (t) => {
    const s = await ownServer(t, { answers });
    const harm = await s.asked(await s.turn("remove notes", { sessionId: "harm" }));
    const elsewhere = await s.asked(await s.turn("touch it", { sessionId: "elsewhere" }));
    const asked = await s.asked(await s.turn("touch it", { sessionId: "kept" }));
    const page = await visit(t, s, `/inbox?id=${harm.actionId}`);
    const open = async (id) => {
      await go(page, `/inbox?id=${id}`);
      await cardOf(page, id).getByText("Why, sandbox and rule").click();
      await cardOf(page, id).locator(".chain li").first().waitFor();
      return cardOf(page, id);
    };
    let card = await open(harm.actionId);
    await card.getByRole("link", { name: "Policy of the session" }).waitFor();
    assert.equal(await card.getByRole("button", { name: /Keep it|Always/ }).count(), 0);
    assert.equal(await card.getByText("A rule instead of the question").count(), 0);
    card = await open(asked.actionId);
    const [rule] = asked.payload.keepRules;
    const { rules: host } = await s.call("get_policy");
    const inSession = await s.call("test_policy", { sessionId: "kept", rules: [...host, rule], limit: 0 });
    const everywhere = await s.call("test_policy", { rules: [...host, rule], limit: 0 });
    assert.deepEqual([inSession.changedCount, inSession.total], [1, 1]);
    assert.ok(everywhere.total > inSession.total, "the scope makes a difference");
    await card.getByText(`With this rule ${inSession.changedCount} of the last ${inSession.total} decisions of this session change.`).waitFor();
    // The sandbox that the call would run in.
    const { sandbox } = await s.call("get_execution_environment", { sessionId: "kept" });
    await card.getByText(`${sandbox.mode}, network ${sandbox.network}`).waitFor();
    await card.getByText((sandbox.writeRoots ?? []).join(", ") || "nothing").first().waitFor();
    await card.getByText(Object.entries(sandbox.enforcement).map(([k, v]) => `${k}: ${v}`).join(" · ")).waitFor();
    // One press writes no rule.
    const own = async (sessionId) => (await s.call("get_policy", { sessionId })).rules.filter((r) => r.source === "session").map((r) => [r.decision, r.tool, r.match]);
    await card.getByRole("button", { name: "Keep it for this session" }).click();
    await card.getByRole("alert").getByText(`${rule.decision} ${rule.tool} ${rule.match}`).waitFor();
    assert.deepEqual(await own("kept"), []);
    await axe(page, "a rule to keep for the session");
    for (const times of [1, 2]) {
      if (times === 2) await card.getByRole("button", { name: "Keep it for this session" }).click();
      await card.getByRole("button", { name: "Yes, keep" }).click();
      await page.getByText("The rule holds for this session from now on").nth(times - 1).waitFor();
    }
    assert.deepEqual(await own("kept"), [[rule.decision, rule.tool, rule.match]]);
    assert.deepEqual(await own("elsewhere"), []);
    assert.ok(elsewhere.actionId);
  },

  "a rule that was proposed for a harmless call says that for the session it allows what destroys": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("push it", { sessionId: "narrow" });
    const asked = await s.asked(turn);
    assert.ok(!asked.payload.destructive, "the call is harmless");
    const page = await visit(t, s, `/inbox?id=${asked.actionId}`);
    const card = cardOf(page, asked.actionId);
    await card.getByText("Why, sandbox and rule").click();
    await card.getByText("For the session it also allows calls that destroy something").waitFor();
    await axe(page, "a rule that allows what destroys");
    await card.getByRole("button", { name: "Keep it for this session" }).click();
    await card.getByRole("alert").getByText(/also for calls that destroy something or can't be told what they run/).waitFor();
    await card.getByRole("button", { name: "Yes, keep" }).click();
    await page.getByText("The rule holds for this session from now on").waitFor();
    await s.call("respond_action", { actionId: asked.actionId, decision: "deny" });
    await s.done(turn);
    // What was said is so: and the same rule, kept for the project, asks.
    const decision = async (sessionId) => (await s.awaitEvent(sessionId, (e) => e.type === "permission.evaluated" && e.payload.destructive)).payload.decision;
    await s.done(await s.turn("push by force", { sessionId: "narrow" }));
    assert.equal(await decision("narrow"), "allow");
    const other = await s.turn("push it", { sessionId: "other" });
    await s.call("respond_action", { actionId: (await s.asked(other)).actionId, decision: "allow", scope: "project" });
    await s.done(other);
    await s.asked(await s.turn("push by force", { sessionId: "other" }));
    assert.equal(await decision("other"), "ask");
  },

  "keys move, choose, deny and allow for the session": async (t) => {
    const s = await ownServer(t, { answers });
    const turns = {};
    const ids = {};
    for (const name of ["one", "two", "three"]) {
      turns[name] = await s.turn(`touch ${name}`, { sessionId: name });
      ids[name] = (await s.asked(turns[name])).actionId;
    }
    const page = await visit(t, s, "/inbox");
    const on = (name) => page.locator(`.list li.current a[href$="${ids[name]}"]`).waitFor();
    await on("one");
    for (const [key, name] of [["j", "two"], ["j", "three"], ["j", "three"], ["k", "two"]]) {
      await page.keyboard.press(key);
      await on(name);
    }
    await page.keyboard.press("x");
    await page.getByRole("checkbox", { name: `Choose ${ids.two}` }).and(page.locator(":checked")).waitFor();
    await page.getByText("1 chosen").waitFor();
    await page.keyboard.press("x");
    await page.getByText("1 chosen").waitFor({ state: "detached" });
    await page.keyboard.press("d");
    assert.equal((await resolved(s, turns.two)).payload.decision, "deny");
    await cardOf(page, ids.two).getByText(/deny by/).waitFor();
    await page.keyboard.press("j");
    await on("one");
    await page.keyboard.press("s");
    const fact = await resolved(s, turns.one);
    assert.equal(fact.payload.decision, "allow");
    const permission = await s.awaitEvent("one", (e) => e.type === "permission.resolved");
    assert.equal(permission.payload.scope, "session");
    // For the session: the same call isn't asked about again.
    await s.done(turns.one);
    assert.equal((await s.done(await s.turn("touch one", { sessionId: "one" }))).type, "turn.completed");
    assert.equal(await pending(s), 1);
  },

  "several are allowed at once; what destroys needs a second step; what fails says why": async (t) => {
    const s = await ownServer(t, { answers });
    const turns = {};
    const ids = {};
    const ask = async (name, what) => {
      turns[name] = await s.turn(what, { sessionId: name });
      ids[name] = (await s.asked(turns[name])).actionId;
    };
    await ask("one", "touch it");
    await ask("two", "write it");
    const page = await visit(t, s, "/inbox");
    const dialog = page.getByRole("dialog");
    const choose = async (...names) => {
      for (const name of names) await page.getByRole("checkbox", { name: `Choose ${ids[name]}` }).check();
    };
    await choose("one", "two");
    await page.getByRole("button", { name: "Allow all once" }).click();
    // Their arguments can be read there.
    await dialog.getByText("2 of 2 are shown in a line").waitFor();
    await dialog.locator("summary", { hasText: "write_file" }).click();
    await dialog.getByText("# Notes", { exact: true }).waitFor();
    await dialog.getByText("1 of 2 are shown in a line").waitFor();
    await axe(page, "several to allow");
    await dialog.getByRole("button", { name: "Allow 2" }).click();
    for (const name of ["one", "two"]) assert.equal((await resolved(s, turns[name])).payload.decision, "allow");
    await page.getByText("2 answered").waitFor();
    // One that destroys among them: a second step.
    await ask("three", "touch it");
    await ask("four", "remove notes");
    await choose("three", "four");
    await page.getByRole("button", { name: "Allow all once" }).click();
    await dialog.getByRole("button", { name: "Allow 2" }).click();
    await dialog.getByText("1 of them can destroy something.").waitFor();
    assert.equal(await pending(s), 2);
    // One is answered elsewhere, and the page hears nothing of it: that one fails, with its reason, and the other is done.
    for (const path of ["**/v1/commands/list_actions", "**/v1/rpc"]) await page.route(path, (route) => route.abort());
    s.cli("deny", ids.three);
    await dialog.getByRole("button", { name: "Yes, allow 2" }).click();
    assert.equal((await resolved(s, turns.four)).payload.decision, "allow");
    const failed = page.getByRole("region", { name: "Not done" });
    await failed.getByText("1 of 2 could not be done").waitFor();
    await failed.getByText("conflict", { exact: true }).waitFor();
    await failed.getByText(/It has changed meanwhile/).waitFor();
    await failed.getByText(/^Request /).waitFor();
    await failed.getByRole("link", { name: ids.three }).waitFor();
    await page.unrouteAll();
  },
};
