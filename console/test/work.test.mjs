// Tasks, jobs and schedules.
import { assert, eventually, go, ownServer, screen, server, visit } from "./kit.mjs";

export default {
  "a task is found, opened and cancelled": async (t) => {
    const s = await server();
    const parent = await s.call("create_task", { taskId: "task_parent", objective: "the whole", worker: "external", start: true });
    await s.call("create_task", { taskId: "task_child", objective: "a part of it", parentTaskId: parent.taskId, worker: "external", start: true });
    const page = await visit(t, s, "/tasks?q=part");
    await page.getByRole("cell", { name: "a part of it" }).click();
    const panel = page.getByRole("complementary", { name: "Task" });
    await panel.getByText("task_child").first().waitFor();
    assert.match(page.url(), /id=task_child/);
    await panel.getByRole("button", { name: "Cancel" }).click();
    await s.awaitEvent((await s.call("get_task", { taskId: "task_child" })).sessionId, (e) => e.taskId === "task_child" && e.type === "task.cancelled");
    await panel.getByText("cancelled").first().waitFor();
    await page.keyboard.press("Escape");
    await panel.waitFor({ state: "detached" });
    await page.goto(`${s.url}/ui/tasks?view=graph`);
    await page.getByRole("button", { name: /a part of it/ }).waitFor();
    await page.locator("svg path.parent").first().waitFor({ state: "attached" });
    await screen(page, "tasks");
  },
  "an observer sees tasks and no way to change them": async (t) => {
    const s = await server();
    await s.call("create_task", { taskId: "task_seen", objective: "look but don't touch", worker: "external", start: true });
    const { token } = await s.call("create_token", { name: "watcher", role: "observer" });
    const page = await visit(t, s, "/tasks?id=task_seen", { token });
    const panel = page.getByRole("complementary", { name: "Task" });
    await panel.getByText("look but don't touch").first().waitFor();
    assert.equal(await panel.getByRole("button", { name: "Cancel" }).count(), 0);
  },
  "a failed item of a job is tried again": async (t) => {
    const s = await ownServer(t, { answers: [{ when: { contains: "bad" }, error: { category: "invalid_request", message: "no such thing" } }, { when: { contains: "good" }, text: "fine" }] });
    const { jobId } = await s.call("create_job", { jobId: "job_page", instruction: "look at it", items: [{ itemId: "one", input: "good" }, { itemId: "two", input: "bad" }] });
    const { sessionId } = await s.call("get_job", { jobId });
    await s.awaitEvent(sessionId, (e) => e.type === "job.failed");
    const page = await visit(t, s, `/jobs?id=${jobId}`);
    const panel = page.getByRole("complementary", { name: "Job" });
    await panel.getByText("1 completed, 1 failed").waitFor();
    await panel.getByRole("button", { name: "Retry" }).click();
    // The model says the same again, for each thread from the beginning of its script.
    await s.awaitEvent(sessionId, (e) => e.type === "job.item.failed" && e.payload.attemptCount === 2);
    await panel.getByRole("row", { name: /two.*failed.*2/ }).waitFor();
    await panel.getByText("no such thing").first().waitFor();
    await screen(page, "jobs");
  },
  "all items of a job are shown, however many": async (t) => {
    const s = await server();
    const { jobId } = await s.call("create_job", { jobId: "job_long", instruction: "look at it", start: false, items: Array.from({ length: 1200 }, (_, i) => ({ itemId: `item-${i}`, input: "x" })) });
    const page = await visit(t, s, `/jobs?id=${jobId}`);
    const items = page.getByRole("table", { name: "Items" });
    await items.waitFor();
    assert.equal(await items.getAttribute("aria-rowcount"), "1201");
    await items.focus();
    await page.keyboard.press("End");
    await items.getByText("item-1199").waitFor();
  },
  "a schedule runs now and is paused": async (t) => {
    const s = await server();
    const { scheduleId } = await s.call("create_schedule", { title: "every hour", everyMs: 3_600_000, task: { objective: "hello", worker: "external" } });
    const page = await visit(t, s, "/schedules");
    const row = page.getByRole("row", { name: /every hour/ });
    await row.getByRole("button", { name: "Run now" }).click();
    const { sessionId } = (await s.call("list_schedules")).schedules.find((x) => x.scheduleId === scheduleId);
    const fired = await s.awaitEvent(sessionId, (e) => e.type === "schedule.fired");
    assert.ok(fired.payload.taskId);
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByRole("button", { name: "Resume" }).waitFor();
    await screen(page, "schedules");
  },
  "a task that failed is tried again, one that runs is paused, and what depends on it is drawn": async (t) => {
    const s = await ownServer(t);
    await s.call("create_task", { taskId: "task_first", objective: "the first", worker: "external", start: true });
    const { sessionId } = await s.call("get_task", { taskId: "task_first" });
    await s.call("create_task", { taskId: "task_second", objective: "the second", worker: "external", dependsOn: ["task_first"] });
    const page = await visit(t, s, "/tasks?id=task_first");
    const panel = page.getByRole("complementary", { name: "Task" });
    await panel.getByRole("button", { name: "Pause" }).click();
    await s.awaitEvent(sessionId, (e) => e.taskId === "task_first" && e.type === "task.paused");
    await panel.getByRole("button", { name: "Resume" }).click();
    await s.awaitEvent(sessionId, (e) => e.taskId === "task_first" && e.type === "task.resumed");
    await panel.getByRole("button", { name: "Cancel" }).click();
    await panel.getByRole("button", { name: "Retry" }).click();
    const attempts = async () => (await s.call("get_task", { taskId: "task_first" })).attempts ?? [];
    const made = await eventually(attempts, (a) => a.length > 1);
    for (const a of made) await panel.getByText(`${a.attemptCount}.`, { exact: true }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Graph" }).click();
    await page.locator("svg path.dependency").waitFor({ state: "attached" });
    await go(page, "/tasks?id=task_second");
    await panel.getByRole("link", { name: "task_first" }).waitFor();
  },
  "a schedule shows its next run, and the runs that were missed": async (t) => {
    const s = await ownServer(t);
    const { scheduleId } = await s.call("create_schedule", { title: "often", everyMs: 1000, missed: "skip", task: { objective: "hello", worker: "external" } });
    const read = async () => (await s.call("list_schedules")).schedules.find((x) => x.scheduleId === scheduleId);
    const due = Date.parse((await eventually(read, (x) => x.nextAt)).nextAt);
    await s.kill();
    // Runs fall due while no server is there.
    await eventually(() => Date.now(), (now) => now > due + 2000);
    await s.start();
    await eventually(read, (x) => x.missedCount > 0);
    await s.call("pause_schedule", { scheduleId });
    const page = await visit(t, s, "/schedules");
    const row = page.getByRole("table", { name: "Schedules" }).getByRole("row", { name: /often/ });
    const paused = await read();
    const cells = await row.getByRole("cell").allInnerTexts();
    assert.deepEqual([cells[2], cells[3], cells[5], cells[6]], ["paused", "—", String(paused.missedCount), String(paused.fired)]);
    await row.getByRole("button", { name: "Resume" }).click();
    await row.getByRole("button", { name: "Pause" }).waitFor();
    await row.locator("time").first().waitFor();
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByRole("button", { name: "Resume" }).waitFor();
  },
};
