// The graph of a turn, and the one cursor that it shares with the story, the facts and the time line.
import { assert, eventually, ownServer, visit } from "./kit.mjs";

const auto = { options: { permissionMode: "auto" } };
const answers = [
  { when: { contains: "write" }, tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "remember the milk\n" } }] },
  { when: { contains: "write" }, text: "Done." },
  { when: { contains: "run one" }, tools: [{ name: "shell", arguments: { command: "echo the first" } }, { name: "shell", arguments: { command: "echo the second" } }, { name: "shell", arguments: { command: "echo the third" } }] },
  { when: { contains: "run one" }, text: "Ran." },
  { when: { contains: "crowd" }, tools: Array.from({ length: 210 }, () => ({ name: "list_files", arguments: { path: "." } })) },
  { when: { contains: "crowd" }, text: "Listed." },
  ...Array.from({ length: 6 }, (_, n) => ({ when: { contains: "throng" }, tools: Array.from({ length: 210 }, (_, i) => ({ name: "write_file", arguments: { path: `${n}-${i}.txt`, content: "one" } })) })),
  { when: { contains: "throng" }, text: "Listed." },
];

export default {
  "a fact, a node of the graph and the time line move one cursor": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("write it", { sessionId: "cursor", ...auto }));
    await s.done(await s.turn("run one", { sessionId: "cursor", ...auto }));
    const facts = await s.events("cursor");
    const page = await visit(t, s, "/s/cursor");
    const graph = page.locator("section[aria-label=Graph]");
    const slider = page.getByRole("slider", { name: "Fact" });
    /** at waits until all panes show the session as it was after a fact. */
    const at = async (n) => {
      await page.locator(`.session[data-shown="${n}"]`).waitFor();
      await page.locator(`.fact.current[data-sequence="${n}"]`).waitFor();
      assert.equal(await slider.inputValue(), String(n));
      assert.equal(new URL(page.url()).searchParams.get("at"), String(n));
      const calls = facts.filter((e) => e.type === "tool.started" && e.sequence <= n).map((e) => e.toolCallId);
      await eventually(() => page.locator(".story [data-call]").evaluateAll((l) => l.map((x) => x.dataset.call)), (shown) => shown.join() === calls.join());
      // The graph is that of the turn which had begun by then, without what came later.
      const turn = facts.findLast((e) => e.type === "turn.submitted" && e.sequence <= n);
      await graph.locator(`.node[data-id="${turn.turnId}"]`).waitFor();
      await eventually(() => graph.locator(".node").evaluateAll((l) => Math.max(...l.map((x) => Number(x.dataset.sequence)))), (last) => last <= n);
    };
    const decided = facts.find((e) => e.type === "permission.evaluated");
    const earlier = facts.find((e) => e.type === "tool.result");
    await slider.fill(String(earlier.sequence));
    await at(earlier.sequence);
    await graph.locator(`.node[data-sequence="${decided.sequence}"]`).click();
    await at(decided.sequence);
    const row = page.locator(`.fact[data-sequence="${decided.sequence - 2}"]`);
    await row.click();
    await at(decided.sequence - 2);
    const late = facts.find((e) => e.type === "process.completed");
    await slider.fill(String(late.sequence));
    await at(late.sequence);
  },

  "a process that was ended, failed or got lost is drawn as such": async (t) => {
    const s = await ownServer(t, { answers: [{ when: { contains: "sleep" }, tools: [{ name: "shell", arguments: { command: "sleep 3600" } }] }] });
    const turn = await s.turn("sleep", { sessionId: "ends", ...auto });
    const { processId } = await s.awaitEvent("ends", (e) => e.type === "process.started");
    await s.call("interrupt_turn", { sessionId: "ends" });
    await s.awaitEvent("ends", (e) => e.type === "process.terminated");
    await s.done(turn).catch(() => {});
    const page = await visit(t, s, "/s/ends");
    const node = page.locator(`section[aria-label=Graph] .node[data-id="${processId}"]`);
    await node.getByText(/^terminated/).waitFor();
    // As it would be if it had ended in another way.
    for (const [payload, says, look] of [[{ errorCategory: "spawn" }, /^failed · spawn/, "bad"], [{ errorCategory: "lost" }, /^lost · lost/, "odd"]]) {
      await page.route("**/events?*", async (route) => {
        const res = await route.fetch();
        const body = await res.json();
        await route.fulfill({ response: res, json: { ...body, events: body.events.map((e) => (e.type === "process.terminated" ? { ...e, type: "process.failed", payload } : e)) } });
      });
      await page.reload();
      await node.getByText(says).waitFor();
      assert.ok((await node.getAttribute("class")).includes(look));
      await page.unrouteAll({ behavior: "wait" });
    }
  },

  "each edge of the graph is an id that both have, as explain joins them": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("write it", { sessionId: "edges" });
    const { actionId } = await s.asked(turn);
    await s.call("respond_action", { actionId, decision: "allow" });
    await s.done(turn);
    const facts = await s.events("edges");
    const page = await visit(t, s, "/s/edges");
    const graph = page.locator("section[aria-label=Graph]");
    await graph.locator(`.node[data-id="${actionId}"]`).waitFor();
    await graph.locator('.node[data-id$="/files"]').waitFor();
    // No text leaves its box, whatever the fonts.
    assert.deepEqual(await graph.locator(".node").evaluateAll((all) => all.filter((n) => [...n.querySelectorAll("*")].some((x) => x.getBoundingClientRect().right > n.querySelector("rect").getBoundingClientRect().right + 0.5)).map((n) => n.textContent)), []);
    const edges = await graph.locator("path.edge").evaluateAll((l) => l.map((x) => ({ ...x.dataset })));
    const nodes = await graph.locator(".node").evaluateAll((l) => l.map((x) => x.dataset.id));
    assert.ok(edges.length >= nodes.length - 1, `${edges.length} edges between ${nodes.length} nodes`);
    /** about are the facts of a node: those that have its id. */
    const about = (id) => facts.filter((e) => JSON.stringify(e).includes(`"${id.replace(/\/files$/, "")}"`));
    for (const { from, to, by } of edges) {
      const shared = about(to).find((e) => e[by])?.[by];
      assert.ok(shared, `no fact of ${to} has a ${by}`);
      const both = [from, to].map((id) => about(id).filter((e) => JSON.stringify(e).includes(`"${shared}"`)).map((e) => e.sequence));
      assert.ok(both.every((l) => l.length > 0), `${shared} joins ${from} and ${to}, but isn't in both`);
      if (by !== "toolCallId") continue;
      const told = new Set((await s.call("explain", { sessionId: "edges", toolCallId: shared })).facts.map((f) => f.sequence));
      for (const l of both) assert.ok(l.some((n) => told.has(n)), `explain knows nothing of ${from} or ${to}: ${l}`);
    }
  },

  "a graph of too much says what it leaves out": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("crowd", { sessionId: "crowd", ...auto }));
    const page = await visit(t, s, "/s/crowd");
    const graph = page.locator("section[aria-label=Graph]");
    const told = graph.getByRole("status");
    await told.getByText(/Too much to draw: the first 400 of \d+ nodes/).waitFor();
    assert.equal(await graph.locator(".node").count(), 400);
  },

  "a graph of more facts than are read says up to which it goes": async (t) => {
    const s = await ownServer(t, { answers });
    const turn = await s.turn("throng", { sessionId: "throng", ...auto });
    await s.done(turn);
    const drawn = (await s.events("throng")).filter((e) => e.turnId === turn.turnId && /^(turn|tool|permission|action|subagent)\.|^model\.(requested|completed|failed)$|^process\.(started|completed)$/.test(e.type));
    assert.ok(drawn.length > 4000, `${drawn.length} facts`);
    const page = await visit(t, s, "/s/throng");
    const graph = page.locator("section[aria-label=Graph]");
    await graph.getByRole("status").getByText(`facts up to #${drawn[3999].sequence} only. The Facts pane has all.`).waitFor();
    // At a fact before that nothing of the facts is left out.
    await page.getByRole("slider", { name: "Fact" }).fill(String(drawn[500].sequence));
    await graph.getByText(/facts up to/).waitFor({ state: "detached" });
  },
};
