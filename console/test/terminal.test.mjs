// The screens of processes: live, typed into, cut off, and with what nobody would want to see.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, eventually, ownServer, visit } from "./kit.mjs";

const shell = (command, more = {}) => ({ name: "shell", arguments: { command, ...more } });
const hostile = String.raw`printf '\033]0;owned\007\033]52;c;b3duZWQ=\007\033[2Jbegin <script>document.title="owned"</script> \342\200\256abc \377\376 \033[31mred\033[0m end\n'`;
const answers = [
  { when: { contains: "wait" }, tools: [shell("echo one; until [ -e go ]; do sleep 0.05; done; echo two", { background: true })] },
  { when: { contains: "talk" }, tools: [shell(String.raw`printf 'ready\n\033[6n\033[c\033[>c\n'; while read -r line; do echo "got $line"; echo "size $(stty size)"; done`, { background: true, tty: true })] },
  { when: { contains: "hostile" }, tools: [shell(hostile)] },
  { when: { contains: "much" }, tools: [shell("yes 'a line of much' | head -c 10000000", { background: true })] },
];
const auto = { options: { permissionMode: "bypass" } };

/** started is a session with a process, once it was started. */
async function started(s, what, sessionId) {
  await s.done(await s.turn(what, { sessionId, ...auto }));
  return s.awaitEvent(sessionId, (e) => e.type === "process.started");
}

export default {
  "output comes while a process runs, and goes on after a restart of the server": async (t) => {
    const s = await ownServer(t, { answers });
    await started(s, "wait", "live");
    const page = await visit(t, s, "/s/live?tab=processes");
    const screen = page.frameLocator("iframe").locator(".xterm-rows");
    await screen.getByText("one").waitFor();
    await page.locator('iframe[data-state="live"]').waitFor();
    writeFileSync(join(s.work, "go"), "");
    await screen.getByText("two").waitFor();
    await page.locator('iframe[data-state="completed"]').waitFor();

    // A process that runs when the server is killed ends with it; what it printed is there once.
    const other = await ownServer(t, { answers });
    await started(other, "wait", "cut");
    const cut = await visit(t, other, "/s/cut?tab=processes");
    const after = cut.frameLocator("iframe").locator(".xterm-rows");
    await after.getByText("one").waitFor();
    await other.kill();
    await cut.getByRole("alert").getByText("offline").first().waitFor();
    await other.start();
    const end = await other.awaitEvent("cut", (e) => /^process\.(completed|failed|terminated)$/.test(e.type));
    await cut.locator(`iframe[data-state="${end.type.slice("process.".length)}"]`).waitFor();
    assert.equal((await after.innerText()).match(/one/g).length, 1);
    assert.equal(await cut.getByRole("alert").count(), 0);
  },

  "a process that is ended elsewhere is listed as ended": async (t) => {
    const s = await ownServer(t, { answers });
    await started(s, "talk", "ended");
    const page = await visit(t, s, "/s/ended?tab=processes");
    const status = page.getByRole("list", { name: "Processes" }).locator(".status");
    await status.getByText("running").waitFor();
    const { processes } = await s.call("list_processes", { sessionId: "ended" });
    await s.call("terminate_process", { processId: processes[0].processId });
    await status.getByText("terminated").waitFor();
  },

  "what is typed reaches the process, and keys leave the terminal": async (t) => {
    const s = await ownServer(t, { answers });
    await started(s, "talk", "typed");
    const page = await visit(t, s, "/jobs");
    const sent = [];
    const sizes = [];
    page.on("request", (r) => {
      if (r.url().endsWith("/write_process_stdin")) sent.push(r.postDataJSON().data);
    });
    page.on("requestfinished", (r) => r.url().endsWith("/resize_process") && sizes.push(r.postDataJSON()));
    await page.goto(`${s.url}/ui/s/typed?tab=processes`);
    const frame = page.frameLocator("iframe");
    const screen = frame.locator(".xterm-rows");
    await screen.getByText("ready").waitFor();
    await eventually(() => sizes.length, (n) => n > 0);
    await frame.locator("textarea").focus();
    await page.keyboard.type("hello\n");
    await screen.getByText("got hello").waitFor();
    // Nothing but what was typed: the terminal doesn't answer what the process asks it.
    assert.equal(sent.join(""), "hello\r");
    // The process has the size that is shown, also after it changed.
    const shown = () => `size ${sizes.at(-1)?.rows} ${sizes.at(-1)?.cols}`;
    await screen.getByText(shown()).waitFor();
    const before = shown();
    await page.setViewportSize({ width: 1000, height: 700 });
    await eventually(shown, (now) => now !== before);
    await frame.locator("textarea").focus();
    await page.keyboard.type("again\n");
    await screen.getByText("got again").waitFor();
    await screen.getByText(shown()).waitFor();
    // Ctrl-K is the process's while it is typed into; Ctrl+F6 gives the keys back to the page.
    await page.keyboard.press("Control+k");
    await eventually(() => sent.join(""), (all) => all.endsWith("\x0b"));
    assert.equal(await page.getByRole("combobox", { name: "Find anything" }).count(), 0);
    await page.keyboard.press("Control+F6");
    await page.locator(".pick[aria-current]:focus").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find anything" }).waitFor();
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog[open]"));
    await page.getByRole("button", { name: "End it" }).click();
    await page.locator('iframe[data-state="terminated"]').waitFor();
    // One that takes nothing any more leaves the keys to the page.
    await page.getByRole("button", { name: "End it" }).waitFor({ state: "detached" });
    await frame.locator("textarea").focus();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find anything" }).waitFor();
  },

  "hostile bytes and ten megabytes stay in the terminal": async (t) => {
    const s = await ownServer(t, { answers });
    await started(s, "hostile", "hostile");
    const page = await visit(t, s, "/s/hostile?tab=processes");
    const screen = page.frameLocator("iframe").locator(".xterm-rows");
    await screen.getByText('<script>document.title="owned"</script>').waitFor();
    await screen.getByText("red").first().waitFor();
    assert.match(await page.title(), /agentd/);
    assert.equal(await page.frameLocator("iframe").locator("script").count(), 1, "the terminal's own");

    await s.done(await s.turn("much", { sessionId: "hostile", ...auto }));
    const { processId } = (await s.events("hostile")).findLast((e) => e.type === "process.started");
    await s.awaitEvent("hostile", (e) => e.type === "process.completed" && e.processId === processId);
    await page.getByRole("list", { name: "Processes" }).getByText("a line of much").first().click();
    await screen.getByText("a line of much").first().waitFor();
    await page.locator('iframe[data-state="completed"]').waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Find anything" }).waitFor();
    await page.keyboard.press("Escape");
  },
};
