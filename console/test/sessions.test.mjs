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
    await page.getByRole("button", { name: "Tags…" }).click();
    await page.getByRole("dialog").getByLabel("Tag", { exact: true }).fill("birds");
    await page.getByRole("dialog").getByRole("button", { name: "Tag", exact: true }).click();
    await eventually(() => s.call("list_sessions", { tags: ["birds"] }), (r) => r.total === 2);
    await page.getByRole("link", { name: "birds" }).nth(1).waitFor();
    for (const id of ["one", "two"]) await page.getByRole("row", { name: new RegExp(`${id} heron`) }).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Archive", exact: true }).click();
    await page.getByText("Archived: 2").waitFor();
    await rows.nth(1).waitFor({ state: "detached" });
    await page.getByRole("row", { name: /three heron/ }).waitFor();
  },

  "a search in contents says that there is more, and why it found nothing": async (t) => {
    const s = await ownServer(t, { answers: Array.from({ length: 30 }, () => ({ text: "A heron stands in the river." })) });
    for (let i = 0; i < 12; i++) await s.done(await s.turn(`heron ${i}`, { sessionId: "one" }));
    const page = await visit(t, s, "/sessions?q=heron");
    await page.getByText("The best 20; there are more.").waitFor();
    assert.equal(await page.locator(".hit").count(), 20);
    const refuse = { code: "unavailable", status: 503, detail: "the index is being made", requestId: "req_search" };
    await page.route("**/v1/{rpc,commands/search}", async (route) => {
      const asked = route.request().postDataJSON();
      if (!Array.isArray(asked)) return route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify(refuse) });
      const res = await route.fetch();
      const searches = new Set(asked.filter((c) => c.method === "search").map((c) => c.id));
      return route.fulfill({ response: res, json: (await res.json()).map((a) => (searches.has(a.id) ? { jsonrpc: "2.0", id: a.id, error: { code: -32000, message: refuse.detail, data: refuse } } : a)) });
    });
    await page.getByRole("searchbox").fill("river");
    await page.getByRole("alert").getByText("the index is being made").waitFor();
    await page.getByRole("alert").getByText("req_search").waitFor();
    await page.unrouteAll({ behavior: "wait" });
  },

  "all are chosen at once, and tags and pins are taken away again": async (t) => {
    const s = await ownServer(t, { answers });
    for (const id of ["one", "two", "three"]) await s.done(await s.turn(`${id} heron`, { sessionId: id }));
    await s.call("update_session", { sessionId: "one", tags: ["birds", "river"], pinned: true });
    await s.call("update_session", { sessionId: "two", tags: ["birds"] });
    const page = await visit(t, s, "/sessions");
    const several = page.getByRole("region", { name: "Several" });
    const tags = async () => Object.fromEntries((await s.call("list_sessions")).sessions.map((x) => [x.sessionId, x.tags ?? []]));
    const all = page.getByRole("button", { name: "Choose all 3" });
    await all.click();
    await several.getByText("3 chosen").waitFor();
    await several.getByRole("button", { name: "Tags…" }).click();
    const removing = page.getByRole("dialog").getByRole("group", { name: "Remove a tag" });
    await removing.getByRole("button", { name: "river" }).waitFor();
    await axe(page, "tags of several sessions");
    await removing.getByRole("button", { name: "birds" }).click();
    await page.getByText("Removed birds: 2").waitFor();
    assert.deepEqual(await tags(), { one: ["river"], two: [], three: [] });
    // Of pinned ones and others both is offered, and each changes what has to change.
    await all.click();
    await several.getByRole("button", { name: "Pin", exact: true }).waitFor();
    await several.getByRole("button", { name: "Unpin" }).click();
    await page.getByText("Unpinned: 1").waitFor();
    assert.equal((await s.call("list_sessions", { pinned: true })).total, 0);
    await all.click();
    await several.getByRole("button", { name: "Unpin" }).waitFor({ state: "detached" });
    await several.getByRole("button", { name: "Pin", exact: true }).click();
    await page.getByText("Pinned: 3", { exact: true }).waitFor();
    assert.equal((await s.call("list_sessions", { pinned: true })).total, 3);
  },

  "of several, what fails says why, with its code, its request and what to do": async (t) => {
    const s = await ownServer(t, { answers });
    for (const id of ["one", "two"]) await s.done(await s.turn(`${id} heron`, { sessionId: id }));
    const page = await visit(t, s, "/sessions");
    const several = page.getByRole("region", { name: "Several" });
    await page.getByRole("button", { name: "Choose all 2" }).click();
    // One is gone, and the page hears nothing of it.
    for (const path of ["**/v1/commands/list_sessions", "**/v1/rpc"]) await page.route(path, (route) => route.abort());
    await s.call("delete_session", { sessionId: "two" });
    const failed = page.getByRole("region", { name: "Not done" });
    const explained = async () => {
      await failed.getByText("1 of 2 could not be done").waitFor();
      await failed.getByText("not_found", { exact: true }).waitFor();
      await failed.getByText(/It may have been deleted/).waitFor();
      await failed.getByText(/^Request /).waitFor();
      await failed.getByRole("link", { name: "two" }).waitFor();
    };
    await several.getByRole("button", { name: "Pin", exact: true }).click();
    await explained();
    await page.getByText("Pinned: 1, not done: 1").waitFor();
    // What failed stays chosen, so that it can be tried again.
    await several.getByText("1 chosen").waitFor();
    await failed.getByRole("button", { name: "Dismiss" }).click();
    await failed.waitFor({ state: "detached" });
    await page.getByRole("row", { name: /one heron/ }).getByRole("checkbox").check();
    await several.getByRole("button", { name: "Archive", exact: true }).click();
    await explained();
    await page.getByText("Archived: 1, not done: 1").waitFor();
    assert.equal((await s.call("list_sessions", { archived: true })).total, 1);
    await page.unrouteAll();
  },
};
