import { assert, axe, overTLS, ownServer, server, visit } from "./kit.mjs";

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
};
