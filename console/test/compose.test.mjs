// The composer: what is sent twice is done once, and what happens with a message while a turn runs.
import { assert, ownServer, visit } from "./kit.mjs";

const answers = [{ when: { contains: "stall" }, text: "never", stall: "1h" }, ...Array.from({ length: 8 }, () => ({ text: "Done." }))];

const ofType = async (s, sessionId, type) => (await s.events(sessionId)).filter((e) => e.type === type);
const said = (e) => e.payload.preview ?? JSON.stringify(e.payload.input);

/** stalled is a session whose turn runs until it is stopped, on its page. */
async function stalled(t) {
  const s = await ownServer(t, { answers });
  const turn = await s.turn("stall", { sessionId: "stall" });
  await s.awaitEvent("stall", (e) => e.type === "model.requested");
  const page = await visit(t, s, "/s/stall");
  const what = page.getByLabel("What happens with the message");
  await what.waitFor();
  const send = async (text, policy) => {
    await what.selectOption(policy);
    await page.getByLabel("Message to the agent").fill(text);
    await page.getByRole("button", { name: "Send", exact: true }).click();
  };
  return { s, turn, page, send };
}

/** loseReply lets the next command of a name reach the server, and its reply not the page. */
const loseReply = (page, command) =>
  page.route(`**/v1/commands/${command}`, async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });

export default {
  "a message whose reply got lost is sent again and is one turn": async (t) => {
    const s = await ownServer(t, { answers });
    await s.call("create_session", { sessionId: "lost" });
    const page = await visit(t, s, "/s/lost");
    const field = page.getByLabel("Message to the agent");
    const send = page.getByRole("button", { name: "Send", exact: true });
    const unknown = page.getByText("It may have arrived: there was no reply.");
    await loseReply(page, "submit_turn");
    await field.fill("once only");
    await send.click();
    await unknown.waitFor();
    // It did arrive, and ended, so that the page knows of another state than when it was sent.
    await s.awaitEvent("lost", (e) => e.type === "turn.completed");
    await send.click();
    await unknown.waitFor({ state: "detached" });
    await page.waitForFunction(() => document.querySelector("#composer").value === "");
    assert.equal((await ofType(s, "lost", "turn.submitted")).length, 1);
    // Another text is another message, also after a lost reply; so is the same one that was answered.
    await loseReply(page, "submit_turn");
    await field.fill("the second");
    await send.click();
    await unknown.waitFor();
    await field.fill("the third");
    await unknown.waitFor({ state: "detached" });
    await send.click();
    await page.waitForFunction(() => document.querySelector("#composer").value === "");
    await field.fill("once only");
    await send.click();
    await page.waitForFunction(() => document.querySelector("#composer").value === "");
    assert.deepEqual((await ofType(s, "lost", "turn.submitted")).map(said), ["once only", "the second", "the third", "once only"]);
  },

  "a new session whose reply got lost is one session": async (t) => {
    const s = await ownServer(t, { answers });
    const page = await visit(t, s, "/sessions");
    await page.getByRole("button", { name: "New session" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("What shall be done?").fill("begin");
    await loseReply(page, "submit_turn");
    await dialog.getByRole("button", { name: "Start" }).click();
    await page.getByText("The server can't be reached").first().waitFor();
    await dialog.getByRole("button", { name: "Start" }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/ui/s/"));
    assert.equal((await s.call("list_sessions")).total, 1);
  },

  "a message steers the running turn": async (t) => {
    const { s, turn, send } = await stalled(t);
    await send("look at the tests first", "steer");
    const fact = await s.awaitEvent("stall", (e) => e.type === "turn.steered");
    assert.equal(fact.turnId, turn.turnId);
    assert.match(said(fact), /look at the tests first/);
    assert.equal((await ofType(s, "stall", "turn.submitted")).length, 1, "it is no turn of its own");
    await s.call("interrupt_turn", { sessionId: "stall" });
  },

  "a message takes the place of the running turn": async (t) => {
    const { s, turn, send } = await stalled(t);
    await send("do this instead", "interrupt");
    const end = await s.done(turn);
    assert.deepEqual([end.type, end.payload.failureCategory], ["turn.failed", "interrupted"]);
    const next = await s.awaitEvent("stall", (e) => e.type === "turn.completed");
    assert.notEqual(next.turnId, turn.turnId);
    const submitted = (await ofType(s, "stall", "turn.submitted")).at(-1);
    assert.equal(submitted.turnId, next.turnId);
    assert.match(said(submitted), /do this instead/);
  },

  "a turn that waits is put to the front": async (t) => {
    const { s, turn, page, send } = await stalled(t);
    const queue = page.getByRole("list", { name: "Queue" });
    for (const text of ["the first", "the second"]) {
      await send(text, "queue");
      await queue.getByText(text).waitFor();
    }
    await queue.getByRole("button", { name: "To the front" }).click();
    const fact = await s.awaitEvent("stall", (e) => e.type === "queue.changed" && e.payload.reason === "promoted");
    await queue.locator("li").first().getByText("the second").waitFor();
    const [first] = fact.payload.queue;
    await s.call("interrupt_turn", { sessionId: "stall" });
    await s.done(turn);
    const ended = await s.awaitEvent("stall", (e) => e.type === "turn.completed");
    assert.equal(ended.turnId, first.turnId);
    assert.match(said((await ofType(s, "stall", "turn.submitted")).find((e) => e.turnId === first.turnId)), /the second/);
  },
};
