import { assert, axe, overTLS, ownServer, server, settle, visit } from "./kit.mjs";

export default {
  "a token logs in, and the cookie is out of reach": async (t) => {
    const s = await server();
    const page = await visit(t, s, "/", { login: false });
    await page.getByLabel("Token").fill("agentd_wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("the token is not known, has expired or was revoked").waitFor();
    await axe(page, "login");
    await page.getByLabel("Token").fill(s.token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Fleet" }).waitFor();
    const cookie = (await page.context().cookies()).find((c) => c.name.startsWith("agentd_session"));
    assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.secure], [true, "Strict", false]);
    assert.ok(!cookie.value.includes(s.token));
    assert.deepEqual(await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length, location.search]), ["", 0, 0, ""]);
  },

  "over TLS the cookie is sent over nothing else, and the page is live": async (t) => {
    const s = await ownServer(t, overTLS);
    assert.match(s.url, /^https:/);
    const page = await visit(t, s, "/", { login: false });
    await page.getByLabel("Token").fill(s.token);
    await page.keyboard.press("Enter");
    await page.getByText("No session yet").waitFor();
    const [cookie] = await page.context().cookies();
    assert.deepEqual([cookie.name.startsWith("agentd_session"), cookie.httpOnly, cookie.sameSite, cookie.secure], [true, true, "Strict", true]);
    const turn = JSON.parse(s.cli("submit", "--json", "stream please"));
    await page.locator(`[data-session="${turn.sessionId}"]`).click();
    await page.locator(".said").last().getByText(/word39/).waitFor();
  },

  "a login at the company's provider leads back to the page, and a failed one says what to do": async (t) => {
    const issuer = process.env.AGENTD_ISSUER;
    const grants = [{ group: "team-a", role: "client", account: "team_a" }];
    const s = await ownServer(t, { config: { oidc: { issuer, audience: "agentd", grants, console: { clientId: "console", name: "Example" } } } });
    // By this name the server is of another site than the provider, as it would be.
    const url = s.url.replace("127.0.0.1", "localhost");
    const page = await visit(t, { url }, "/sessions?q=milk", { login: false, foreign: [issuer] });
    const logIn = async (person) => {
      await page.getByRole("link", { name: "Log in with Example" }).click();
      await page.getByRole("link", { name: person }).click();
    };
    await page.getByRole("link", { name: "Log in with Example" }).waitFor();
    await axe(page, "login with a provider");
    await logIn("ada");
    await settle(page, "/sessions?q=milk");
    await page.getByText("client · team_a").waitFor();
    const cookies = await page.context().cookies();
    assert.deepEqual(cookies.map((c) => [c.name.startsWith("agentd_session"), c.httpOnly, c.sameSite]), [[true, true, "Strict"]]);
    assert.deepEqual(await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length]), ["", 0, 0]);
    await page.reload(); // the strict cookie goes with it
    await settle(page, "/sessions?q=milk");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByText("Your login at Example goes on").waitFor();
    assert.equal(await page.getByRole("link", { name: "log out there, too" }).getAttribute("href"), "/ui/oidc/logout");
    assert.deepEqual(await page.context().cookies(), []);
    await logIn("nobody");
    await page.getByText("The login was cancelled, or Example refused it.").waitFor();
    await axe(page, "a login that failed");
    await logIn("mel");
    await page.getByText("no role here is for you or one of your groups").waitFor();
    assert.deepEqual(await page.context().cookies(), []);
    await page.goto(`${url}/ui/oidc/callback?code=x&state=y`);
    await page.getByText("This login was finished already, or was begun in another browser.").waitFor();
    await logIn("ada");
    await page.getByRole("heading", { name: "Fleet" }).waitFor();
  },

  "who logs in next sees nothing of who was there before, in no tab": async (t) => {
    const s = await ownServer(t);
    const { token } = await s.call("create_token", { name: "ben", role: "client", account: "team_b" });
    await s.call("create_session", { sessionId: "operators" });
    await s.call("create_session", { sessionId: "teams" }, token);
    const page = await visit(t, s, "/admin");
    await page.getByRole("cell", { name: "ben" }).waitFor();
    const tab = await page.context().newPage();
    await tab.goto(`${s.url}/ui/`);
    await tab.locator("[data-session=operators]").waitFor();
    await tab.locator("[data-session=teams]").waitFor();
    await tab.locator(".line.live").waitFor();
    const logIn = async (by) => {
      for (const p of [page, tab]) await p.getByLabel("Token").waitFor();
      await page.getByLabel("Token").fill(by);
      await page.keyboard.press("Enter");
    };
    await page.getByRole("button", { name: "Log out" }).click();
    await logIn(token);
    for (const p of [page, tab]) await p.getByText("client · team_b").waitFor();
    // What the one before has read is not drawn again, not even under the refusal.
    await page.getByRole("alert").getByText("forbidden").waitFor();
    await settle(page);
    assert.equal(await page.getByRole("table", { name: "Tokens" }).count(), 0);
    await tab.locator("[data-session=teams]").waitFor();
    await tab.locator(".line.live").waitFor();
    await s.call("create_session", { sessionId: "teams_next" }, token);
    await tab.locator("[data-session=teams_next]").waitFor();
    assert.equal(await tab.locator("[data-session=operators]").count(), 0);
    // And back: the line is not that of the team any more, which hears nothing of the operator's.
    await tab.getByRole("button", { name: "Log out" }).click();
    await logIn(s.token);
    await tab.locator("[data-session=operators]").waitFor();
    await page.getByRole("cell", { name: "ben" }).waitFor();
    await tab.locator(".line.live").waitFor();
    await s.call("create_session", { sessionId: "operators_next" });
    await tab.locator("[data-session=operators_next]").waitFor();
  },

  "a login that takes another's place is that of all tabs": async (t) => {
    const s = await ownServer(t);
    const { token } = await s.call("create_token", { name: "ben", role: "client", account: "team_b" });
    await s.call("create_session", { sessionId: "operators" });
    const tab = await visit(t, s, "/");
    await tab.locator("[data-session=operators]").waitFor();
    await tab.locator(".line.live").waitFor();
    // As when a link to log in is opened, or the provider leads back: the page is new, and there was no logout.
    const res = await tab.context().request.post(`${s.url}/ui/login`, { data: { token } });
    assert.equal(res.status(), 200);
    const page = await tab.context().newPage();
    await page.goto(`${s.url}/ui/`);
    for (const p of [page, tab]) {
      await p.getByText("client · team_b").waitFor();
      await p.getByText("No session yet").waitFor();
      assert.equal(await p.locator("[data-session=operators]").count(), 0);
    }
    await tab.locator(".line.live").waitFor();
    await s.call("create_session", { sessionId: "teams" }, token);
    await tab.locator("[data-session=teams]").waitFor();
  },

  "the first open while the server doesn't answer says so, and goes on by itself": async (t) => {
    const s = await ownServer(t);
    const page = await visit(t, s, "/", { login: false });
    await page.getByLabel("Token").fill(s.token);
    await page.keyboard.press("Enter");
    await page.getByText("No session yet").waitFor();
    await page.route("**/v1/status", (route) => route.abort());
    await page.reload();
    const box = page.getByRole("alert");
    await box.getByText("offline").waitFor();
    await box.getByText("is “agentd serve” running?").waitFor();
    await axe(page, "the first open without a server");
    await page.unroute("**/v1/status");
    await page.getByText("No session yet").waitFor();
  },
};
