// The list of all sessions: filters in the address, views, search in contents, tags, several at a time.
import { assert, axe, eventually, ownServer, screen, settle, visit } from "./kit.mjs";

const answers = [{ when: { contains: "heron" }, text: "A heron stands in the river." }, { text: "Done." }, { text: "Done." }];

export default {
  "a view is its address: filters and name": async (t) => {
    const s = await ownServer(t, { answers });
    for (const id of ["one", "two"]) await s.done(await s.turn(`look at ${id}`, { sessionId: id }));
    await s.call("update_session", { sessionId: "one", tags: ["birds"] });
    const page = await visit(t, s, "/sessions?tag=birds");
    await page.getByRole("row", { name: /look at one/ }).waitFor();
    assert.equal(await page.getByRole("row", { name: /look at two/ }).count(), 0);
    await page.getByRole("button", { name: "Save view…" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("My birds");
    await axe(page, "save a view");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "My birds" }).waitFor();
    const link = page.url();
    assert.deepEqual([new URL(link).searchParams.get("tag"), new URL(link).searchParams.get("view")], ["birds", "My birds"]);
    assert.equal(await page.title(), "My birds · agentd");
    assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
    // Someone else opens the link and sees the same view.
    const other = await visit(t, s, link.slice(`${s.url}/ui`.length));
    await other.getByRole("heading", { name: "My birds" }).waitFor();
    await other.getByRole("row", { name: /look at one/ }).waitFor();
    assert.equal(await other.getByRole("row", { name: /look at two/ }).count(), 0);
    await other.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "All" }).click();
    await other.getByRole("row", { name: /look at two/ }).waitFor();
  },

  "contents are searched, and several sessions are tagged and archived at once": async (t) => {
    const s = await ownServer(t, { answers });
    for (const id of ["one", "two", "three"]) await s.done(await s.turn(`${id} heron`, { sessionId: id }));
    const page = await visit(t, s, "/sessions");
    await page.keyboard.press("s");
    await page.keyboard.type("river");
    await page.getByRole("heading", { name: "In contents" }).waitFor();
    await page.locator(".hit mark", { hasText: "river" }).first().waitFor();
    await page.getByRole("searchbox").fill("");
    await settle(page);
    const rows = page.getByRole("row", { name: /heron/ });
    await rows.nth(2).waitFor();
    await screen(page, "sessions");
    for (const id of ["one", "two"]) await page.getByRole("row", { name: new RegExp(`${id} heron`) }).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Tag…" }).click();
    await page.getByRole("dialog").getByLabel("Tag").fill("birds");
    await page.getByRole("dialog").getByRole("button", { name: "Tag" }).click();
    await eventually(() => s.call("list_sessions", { tags: ["birds"] }), (r) => r.total === 2);
    await page.getByRole("link", { name: "birds" }).nth(1).waitFor();
    for (const id of ["one", "two"]) await page.getByRole("row", { name: new RegExp(`${id} heron`) }).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    await page.getByText("Archived: 2").waitFor();
    await rows.nth(1).waitFor({ state: "detached" });
    await page.getByRole("row", { name: /three heron/ }).waitFor();
  },
};
