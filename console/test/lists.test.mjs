// The lists of all pages: the newest first, how many of how many, and the way to the rest.
import { assert, go, ownServer, settle, visit } from "./kit.mjs";

const many = 205; // more than a page

/** readOn opens a list, and checks that it begins with the newest and can be read to its end. */
async function readOn(page, path, label, [newest, oldest], total = many) {
  await go(page, path);
  const table = page.getByRole("table", { name: label, exact: true });
  await page.getByText(`The newest 200 of ${total}`).waitFor();
  await table.locator('[data-row="0"]').getByText(newest).first().waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText(`${total} of ${total}`, { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
  assert.equal(await table.getAttribute("aria-rowcount"), String(total + 1));
  await table.focus();
  await page.keyboard.press("End");
  await table.locator(`[data-row="${total - 1}"]`).getByText(oldest).first().waitFor();
}

/** numbers are those of ids in the other order than their times, as ids that people choose may be. */
const numbers = Array.from({ length: many }, (_, i) => 999 - i);

export default {
  "tasks and jobs begin with the newest and are read on": async (t) => {
    const s = await ownServer(t);
    for (const n of numbers) {
      await s.call("create_task", { taskId: `task_${n}`, objective: `task ${n}`, worker: "external" });
      await s.call("create_job", { jobId: `job_${n}`, instruction: `job ${n}`, start: false, items: [{ itemId: "one", input: "x" }] });
    }
    const page = await visit(t, s, "/tasks");
    for (const [path, label, word] of [["/tasks", "Tasks", "task"], ["/jobs", "Jobs", "job"]]) {
      const { total } = await s.call(`list_${word}s`, { limit: 1 });
      await readOn(page, path, label, [`${word} ${numbers.at(-1)}`, `${word} ${numbers[0]}`], total);
    }
  },

  "sessions, questions and exports begin with the newest and are read on": async (t) => {
    const s = await ownServer(t, { answers: [{ when: { contains: "ask" }, ask: { prompt: "Which one?", schema: { type: "object", properties: { one: { type: "string" } } } } }] });
    for (const n of numbers) await s.asked(await s.turn("ask", { sessionId: `session_${n}` }));
    for (const n of numbers) await s.call("update_session", { sessionId: `session_${n}`, title: `title ${n}` });
    const exported = [];
    for (let i = 0; i < many; i++) exported.push((await s.call("export_evidence", { sessionId: "session_999" })).evidenceId);
    const page = await visit(t, s, "/jobs");
    await readOn(page, "/evidence", "Exports", [exported.at(-1).slice(-6), exported[0].slice(-6)]);
    for (const sort of ["updated", "created"]) await readOn(page, `/sessions?sort=${sort}`, "Sessions", ["title 795", "title 999"]);
    // In another order they are no newest ones, and all that are shown can be chosen.
    await go(page, "/sessions?sort=title");
    await page.getByText(`The first 200 of ${many}`).waitFor();
    await page.locator('[data-row="0"]').getByText("title 795").waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("button", { name: `Choose all ${many}` }).click();
    await page.getByText(`${many} chosen`).waitFor();
    // What waits longest is asked first; of what was answered the newest stands first.
    await go(page, "/inbox");
    const questions = page.getByRole("list", { name: "Questions" }).locator("li a");
    await questions.first().getByText("session_999").waitFor();
    for (const n of [100, 200]) {
      await page.getByText(`The first ${n} of ${many}`).waitFor();
      assert.equal(await questions.count(), n);
      await page.getByRole("button", { name: "Show more" }).click();
    }
    await questions.last().getByText("session_795").waitFor();
    for (const n of [999, 998]) {
      const { actions } = await s.call("list_actions", { sessionId: `session_${n}` });
      await s.call("respond_action", { actionId: actions[0].actionId, decision: "cancel" });
    }
    await go(page, "/inbox?view=resolved");
    await settle(page);
    await questions.first().getByText("session_998").waitFor();
    await questions.nth(1).getByText("session_999").waitFor();
  },

  "tasks of peers begin with the newest and are read on": async (t) => {
    const s = await ownServer(t);
    const ids = [];
    for (let i = 0; i < many; i++) {
      const res = await fetch(`${s.url}/a2a/rpc`, {
        method: "POST", headers: { Authorization: `Bearer ${s.token}`, "Content-Type": "application/json", "A2A-Version": "1.0" },
        body: JSON.stringify({ jsonrpc: "2.0", id: i, method: "SendMessage", params: { message: { messageId: `m${i}`, role: "ROLE_USER", parts: [{ text: `hello ${i}` }] } } }),
      });
      const answer = await res.json();
      assert.ok(answer.result?.task, JSON.stringify(answer));
      ids.push(answer.result.task.id);
    }
    const page = await visit(t, s, "/jobs");
    await readOn(page, "/peers?view=a2a", "Tasks of peers", [ids.at(-1), ids[0]]);
  },

  "all trials are figured, however many, and the newest stand first": async (t) => {
    const s = await ownServer(t);
    for (const n of numbers) {
      const trial = await s.call("start_benchmark_trial", { benchmark: { datasetId: "many", datasetVersion: "1", taskId: `fix-${n}`, configurationId: "baseline", role: "baseline" }, input: "fix it" });
      await s.awaitEvent(trial.sessionId, (e) => ["benchmark.trial.completed", "benchmark.trial.failed"].includes(e.type));
      // Those that a first page wouldn't have are worth something else.
      await s.call("record_benchmark_reward", { trialId: trial.trialId, reward: { value: n > 994 ? 1 : 0 }, verifier: { name: "unit-tests", version: "1", status: "completed" } });
    }
    const page = await visit(t, s, "/bench");
    const figures = page.locator("section[aria-label=Configurations]");
    await figures.getByText(`${many} of ${many} trials have a reward`).waitFor();
    await figures.getByText(`${(5 / many).toFixed(3)} ±`).waitFor();
    await page.getByText(`${many} of ${many}`, { exact: true }).waitFor();
    const table = page.getByRole("table", { name: "Trials" });
    assert.equal(await table.getAttribute("aria-rowcount"), String(many + 1));
    await table.locator('[data-row="0"]').getByText("fix-795").waitFor();
    await table.focus();
    await page.keyboard.press("End");
    await table.locator(`[data-row="${many - 1}"]`).getByText("fix-999").waitFor();
  },
};
