import { assert, axe, server, visit } from "./kit.mjs";

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
    assert.equal(cookie.httpOnly, true);
    assert.equal(cookie.sameSite, "Strict");
    assert.ok(!cookie.value.includes(s.token));
    assert.deepEqual(await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length, location.search]), ["", 0, 0, ""]);
  },
};
