// The line to the server: what ends without being cut is noticed, and what is shown is true again afterwards.
import { anyPort, assert, ownServer, through, visit } from "./kit.mjs";

/** ended is what a server says that can't go on with a subscription. A message has to be longer than 125 bytes. */
const ended = (id, code) => ({ method: "subscription.ended", params: { subscriptionId: id, problem: { type: "about:blank", title: "Unavailable", status: 503, code, detail: "the database can't be reached now, or takes no writes; try again", requestId: "req_ended" } }, subscriptionId: id });

/** followed opens a session, which is subscribed to after the feed of all. */
async function followed(t) {
  const s = await ownServer(t, { config: anyPort });
  await s.done(await s.turn("hello", { sessionId: "here" }));
  const line = await through(t, s);
  const page = await visit(t, { ...s, url: line.url }, "/");
  const subscribed = line.passed('"subscription_2"');
  await page.locator("[data-session=here]").click();
  await subscribed;
  await page.locator(".line.live").waitFor();
  await page.waitForFunction(() => window.agentd?.last > 0);
  return { s, line, page };
}

export default {
  "a session whose stream the server ended is followed again, with nothing missed": async (t) => {
    const { s, line, page } = await followed(t);
    await page.evaluate(() => (window.same = true));
    line.say(ended("subscription_2", "unavailable"));
    const problem = page.getByRole("alert").getByText("the database can't be reached now");
    await problem.waitFor();
    await s.done(await s.turn("hello", { sessionId: "here" }));
    await problem.waitFor({ state: "detached" });
    const last = (await s.call("get_session", { sessionId: "here", limit: 1 })).sequence;
    await page.locator(`[data-last="${last}"]`).waitFor();
    assert.deepEqual(await page.evaluate(() => [window.same, window.agentd.odd, window.agentd.gaps]), [true, [], 0]);
    // What doesn't pass is said, and stays said.
    line.say(ended("subscription_3", "forbidden"));
    await problem.waitFor();
    await page.getByRole("alert").getByText("req_ended").waitFor();
    await s.done(await s.turn("hello", { sessionId: "here" }));
    assert.equal(await page.evaluate(() => window.agentd.last), last);
  },
  "a feed that the server ended goes on, and what it left out is read again": async (t) => {
    const { s, line, page } = await followed(t);
    await page.evaluate(() => (window.same = true));
    await page.getByRole("link", { name: "Fleet" }).click();
    const renewed = line.passed('"subscription_3"');
    line.say(ended("subscription_1", "unavailable"));
    await s.done(await s.turn("hello", { sessionId: "later" }));
    await page.locator("[data-session=later]").waitFor();
    await renewed; // the row may come of the page's first read
    // A gap says that there is something to read, not what.
    const asked = page.waitForRequest((r) => r.url().includes("list_sessions") || (r.postData() ?? "").includes("list_sessions"));
    line.say({ method: "gap", params: { sessionId: "here", firstSequence: 1, lastSequence: 2, reason: "removed by retention, as when a cursor is old" }, subscriptionId: "subscription_3" });
    await asked;
    assert.equal(await page.evaluate(() => window.same), true);
  },
  "a network that is gone without a word is noticed": async (t) => {
    const { s, line, page } = await followed(t);
    line.silence();
    await s.done(await s.turn("hello", { sessionId: "here" }));
    await page.getByText(/Offline for/).waitFor();
    await page.locator(".session.old").waitFor();
    line.resume();
    const last = (await s.call("get_session", { sessionId: "here", limit: 1 })).sequence;
    await page.locator(`[data-last="${last}"]`).waitFor();
    await page.locator(".session:not(.old)").waitFor();
    assert.deepEqual(await page.evaluate(() => [window.agentd.odd, window.agentd.gaps]), [[], 0]);
  },
};
