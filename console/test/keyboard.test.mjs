// What a person does who has keys only.
import { assert, go, ownServer, settle, typeToken, visit } from "./kit.mjs";

const answers = [
  { when: { contains: "many" }, tools: Array.from({ length: 20 }, () => ({ name: "list_files", arguments: { path: "." } })) },
  { when: { contains: "write" }, tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "# Notes\n" } }] },
  { text: "Done." },
];
/** tabTo goes on to the control that has a name, as Tab leads there. */
async function tabTo(page, name) {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => document.activeElement.ariaLabel ?? document.activeElement.textContent.trim());
    if (at === name) return;
  }
  assert.fail(`Tab doesn't lead to ${name}`);
}

export default {
  "a pack is exported, verified and downloaded with keys alone": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("hello", { sessionId: "proven" }));
    const page = await visit(t, s, "/", { login: false });
    await typeToken(page, s);
    await page.keyboard.press("g");
    await page.keyboard.press("e");
    await page.getByRole("heading", { name: "Evidence" }).waitFor();
    await tabTo(page, "Session");
    await page.keyboard.type("proven");
    await page.keyboard.press("Enter");
    const row = page.getByRole("row", { name: /proven/ });
    await row.waitFor();
    await tabTo(page, "Verify");
    await page.keyboard.press("Enter");
    await page.getByText(/Unchanged: /).waitFor();
    await tabTo(page, "Download");
    const file = page.waitForEvent("download");
    await page.keyboard.press("Enter");
    assert.match((await file).suggestedFilename(), /^evidence_.*\.json/);
  },

  "a dialog that asks for something takes it at once": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("hello", { sessionId: "one" }));
    const page = await visit(t, s, "/sessions?status=failed");
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.waitFor();
    await page.keyboard.type("say hello");
    await page.waitForFunction(() => document.querySelector("dialog[open] textarea")?.value === "say hello");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    await page.getByRole("button", { name: "Save view…" }).focus();
    await page.keyboard.press("Enter");
    await page.keyboard.type("Mine");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Mine" }).waitFor();
  },

  "a page's table takes its keys before it has the focus, and the list of keys says so": async (t) => {
    const s = await ownServer(t, { answers });
    for (const n of [1, 2]) await s.call("create_task", { taskId: `task_${n}`, objective: `go on ${n}`, worker: "external" });
    for (const id of ["one", "two"]) await s.done(await s.turn(`hello ${id}`, { sessionId: id }));
    const page = await visit(t, s, "/tasks");
    const listed = page.getByRole("dialog", { name: "Keys" }).getByText("Next row");
    await page.keyboard.press("?");
    await listed.waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("complementary", { name: "Task" }).getByText("go on 1").first().waitFor();
    // Also after a click on the way there: the link has the focus then.
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Sessions" }).click();
    await settle(page, "/sessions");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("1 chosen").waitFor();
    await page.keyboard.press("v");
    await page.getByRole("dialog", { name: "Sessions, row 1" }).waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    await page.keyboard.press("k");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/s\/two$/);
    // What has the focus keeps its own keys: Enter on a button presses it.
    await go(page, "/sessions");
    await page.keyboard.press("j");
    await page.getByRole("button", { name: "New session" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog", { name: "New session" }).waitFor();
    // A page without a table has no such keys, nor lists them.
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    await go(page, "/");
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    assert.equal(await listed.count(), 0);
  },

  "who closes what was opened beside a list goes on in the list": async (t) => {
    const s = await ownServer(t, { answers });
    for (const n of [1, 2]) await s.call("create_task", { taskId: `task_${n}`, objective: `go on ${n}`, worker: "external" });
    const page = await visit(t, s, "/tasks");
    await page.getByRole("table", { name: "Tasks" }).focus();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    const panel = page.getByRole("complementary", { name: "Task" });
    await panel.getByText("go on 1").first().waitFor();
    await page.waitForFunction(() => document.activeElement.getAttribute("aria-label") === "Task");
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.activeElement.getAttribute("aria-label") === "Tasks");
    await page.keyboard.press("k");
    await page.keyboard.press("Enter");
    await panel.getByText("go on 2").first().waitFor();
  },

  "what is wider than its place is read with the arrow keys, and a node is chosen with Space": async (t) => {
    const s = await ownServer(t, { answers });
    await s.done(await s.turn("many", { sessionId: "wide", options: { permissionMode: "auto" } }));
    const page = await visit(t, s, "/s/wide");
    const graph = page.getByRole("region", { name: "Graph of the turn" });
    await graph.locator(".node").nth(20).waitFor();
    assert.ok(await graph.evaluate((x) => x.scrollWidth > x.clientWidth), "the graph fits: nothing is tested");
    const view = await graph.elementHandle();
    const scrolled = (want) => page.waitForFunction(([x, w]) => x.scrollLeft > 0 === w, [view, want]);
    await graph.focus();
    await page.keyboard.press("ArrowRight");
    await scrolled(true);
    await page.keyboard.press("ArrowLeft");
    await scrolled(false);
    assert.equal(new URL(page.url()).search, "");
    // Elsewhere they move the cursor.
    await page.getByRole("table", { name: "Facts" }).focus();
    await page.keyboard.press("ArrowLeft");
    await page.waitForURL((url) => url.searchParams.has("at"));
    await go(page, "/s/wide");
    const node = page.locator("section[aria-label=Graph] .node").last();
    const sequence = await node.getAttribute("data-sequence");
    await node.focus();
    await page.keyboard.press("Space");
    await page.locator(`.session[data-shown="${sequence}"]`).waitFor();
  },
};
