import { createServer } from "node:http";
import { assert, go, ownServer, server, settle, visit } from "./kit.mjs";

/** unseenIn returns what a page shows with characters that a reader doesn't see: in its text, and in what stands for text. */
const unseenIn = (page) => page.evaluate(() => {
  const unseen = /[\u200b\u00ad\u2060\ufeff\u{e0041}\u202e\u2028\u3164\u061c]/u;
  const out = unseen.test(document.title) ? [`the title: ${document.title}`] : [];
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode(); ) {
    const n = walk.currentNode;
    if (unseen.test(n.nodeValue) && n.parentElement.tagName !== "TEXTAREA") out.push(`${n.parentElement.tagName}.${n.parentElement.className}: ${n.nodeValue.trim().slice(0, 60)}`);
  }
  for (const e of document.body.querySelectorAll("[title], [aria-label], [placeholder]")) {
    for (const name of ["title", "aria-label", "placeholder"]) if (unseen.test(e.getAttribute(name) ?? "")) out.push(`${e.tagName} ${name}: ${e.getAttribute(name).slice(0, 60)}`);
  }
  return out;
});

export default {
  "a page of another origin can't write with the cookie": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "mine" }));
    const page = await visit(t, s, "/", { errors: ["CORS"] });
    const before = (await s.events("mine")).length;
    const evil = createServer((_, res) => res.setHeader("Content-Type", "text/html").end("<title>evil</title>"));
    await new Promise((resolve) => evil.listen(0, "127.0.0.1", resolve));
    t.ends.push(() => new Promise((resolve) => evil.close(resolve)));
    // Another port of the same host is the same site: the cookie goes along, and the server must refuse.
    const tab = await page.context().newPage();
    await tab.goto(`http://127.0.0.1:${evil.address().port}/`);
    const statuses = [];
    tab.on("response", (r) => r.url().startsWith(s.url) && statuses.push(r.status()));
    for (const mode of ["no-cors", "cors"]) {
      await tab.evaluate(async ([url, m]) => fetch(url, { method: "POST", mode: m, credentials: "include", headers: { "Content-Type": "text/plain" }, body: JSON.stringify({ sessionId: "mine", input: "evil" }) }).catch(() => {}), [`${s.url}/v1/commands/submit_turn`, mode]);
    }
    assert.ok(statuses.length > 0 && statuses.every((x) => x === 403), `statuses ${statuses}`);
    // Nor can it open a WebSocket with it.
    const opened = await tab.evaluate((url) => new Promise((resolve) => { const w = new WebSocket(url); w.onopen = () => resolve(true); w.onerror = () => resolve(false); }), `${s.url.replace("http", "ws")}/v1/ws`);
    assert.equal(opened, false);
    assert.equal((await s.events("mine")).length, before);
    await tab.close();
  },

  "the cookie alone is not enough to write": async (t) => {
    const s = await ownServer(t);
    const login = await fetch(`${s.url}/ui/login`, { method: "POST", headers: { "Content-Type": "application/x-www-form-urlencoded" }, body: new URLSearchParams({ token: s.token }) });
    assert.equal(login.status, 200);
    const flags = login.headers.get("set-cookie");
    assert.match(flags, /HttpOnly/);
    assert.match(flags, /SameSite=Strict/);
    const cookie = flags.split(";")[0];
    const post = (headers) => fetch(`${s.url}/v1/commands/create_session`, { method: "POST", headers: { Cookie: cookie, "Content-Type": "application/json", ...headers }, body: "{}" }).then((r) => r.status);
    assert.equal(await post({}), 403);
    assert.equal(await post({ "X-Agentd-Console": "1" }), 403);
    assert.equal(await post({ "Sec-Fetch-Site": "same-origin" }), 403);
    assert.equal(await post({ "Sec-Fetch-Site": "same-site", "X-Agentd-Console": "1" }), 403);
    assert.equal(await post({ "Sec-Fetch-Site": "same-origin", "X-Agentd-Console": "1" }), 200);
    assert.equal((await s.call("list_sessions")).total, 1);
    const read = (headers) => fetch(`${s.url}/v1/status`, { headers: { Cookie: cookie, ...headers } }).then((r) => r.status);
    assert.equal(await read({}), 200);
    assert.equal(await read({ "Sec-Fetch-Site": "cross-site" }), 403);
    // A changed cookie is nobody's.
    assert.equal((await fetch(`${s.url}/v1/status`, { headers: { Cookie: cookie.slice(0, -4) + "AAAA" } })).status, 401);
  },

  "a revoked token asks to log in, also in open pages": async (t) => {
    const s = await ownServer(t);
    const { token } = await s.call("create_token", { name: "short", role: "client" });
    const page = await visit(t, s, "/sessions", { token });
    await s.call("revoke_token", { tokenId: "short" });
    await page.getByText("You were logged out").waitFor();
    await page.getByLabel("Token").waitFor();
  },

  "a link logs in once": async (t) => {
    const s = await ownServer(t);
    const link = s.cli("console", "--no-browser").trim();
    assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/ui\/login#\w+$/);
    const page = await visit(t, s, "/", { login: false });
    await page.goto(link);
    await page.getByRole("heading", { name: "Fleet" }).waitFor();
    assert.ok(!page.url().includes("#"));
    const again = await visit(t, s, "/", { login: false });
    await again.goto(link);
    await again.getByText("the link was used already").waitFor();
  },

  "what can't be seen is written out, wherever it is shown": async (t) => {
    const hidden = "a\u200bb\u00adc\u2060d\ufeffe\u{e0041}f\u202eg\u2028h\u3164i\u061cj";
    const kept = "👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3 می\u200cخواهم क्\u200dष שלום 葛\u{e0100}";
    const s = await ownServer(t, { answers: [
      { when: { contains: "hide" }, text: `${hidden} ${kept}`, tools: [{ name: "shell", arguments: { command: `echo '${hidden}'` } }, { name: "write_file", arguments: { path: "n\u200bote.md", content: `${hidden}\n` } }] },
      { when: { contains: "hide" }, ask: { prompt: `Which ${hidden}?`, schema: { type: "object", title: hidden, properties: { one: { type: "string", title: hidden, description: hidden, enum: [hidden] } } } } },
      { when: { contains: "hide" }, text: "Done." },
    ] });
    const turn = await s.turn(`hide ${hidden}`, { sessionId: "hidden", options: { permissionMode: "bypass" } });
    const { actionId } = await s.asked(turn);
    await s.call("update_session", { sessionId: "hidden", title: `hide ${hidden}`, tags: [`t\u200bag`] });
    await s.call("create_task", { title: hidden, objective: hidden, worker: "external", start: true });
    await s.call("create_schedule", { title: hidden, everyMs: 3_600_000, task: { objective: hidden, worker: "external" } });
    const page = await visit(t, s, "/s/hidden");
    await page.getByText("a⟨200b⟩b⟨00ad⟩c⟨2060⟩d⟨feff⟩e⟨e0041⟩f⟨202e⟩g⟨2028⟩h⟨3164⟩i⟨061c⟩j").first().waitFor();
    // What makes up a letter or an emoji stays.
    await page.locator(".said", { hasText: kept }).first().waitFor();
    for (const call of await page.locator(".tool .line").all()) await call.click();
    const left = () => unseenIn(page);
    await settle(page);
    assert.deepEqual(await left(), [], "the session");
    for (const path of ["/", `/inbox?id=${actionId}`, "/sessions", "/sessions?q=hide", "/s/hidden?tab=files", "/s/hidden?tab=processes", "/s/hidden?tab=context", "/s/hidden?tab=cost", "/tasks", "/tasks?view=graph", "/schedules", "/usage?by=session", "/compare?a=hidden&b=hidden"]) {
      await go(page, path);
      assert.deepEqual(await left(), [], path);
    }
    await page.keyboard.press("Control+k");
    await page.keyboard.type("hide");
    await page.getByRole("option", { name: /hide a⟨200b⟩b/ }).first().waitFor();
    assert.deepEqual(await left(), [], "the palette");
    await s.call("respond_action", { actionId, decision: "cancel" });
  },

  "hostile content stays text and doesn't freeze the page": async (t) => {
    const huge = "x".repeat(200_000);
    const nasty = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1> [a](javascript:window.pwned=1) \u001b[31mred\u001b[0m \u202egnp.exe\u202c";
    const s = await ownServer(t, { answers: [
      { when: { contains: "nasty" }, text: nasty, tools: [{ name: "shell", arguments: { command: "head -c 10000000 /dev/zero | tr '\\0' 'y'; printf '<script>window.pwned=1</script>'" } }] },
      { when: { contains: "nasty" }, text: huge },
    ] });
    const turn = await s.turn("nasty <b>bold</b> <script>window.pwned=1</script>", { sessionId: "nasty", options: { permissionMode: "bypass" } });
    await s.done(turn);
    const page = await visit(t, s, "/s/nasty");
    await page.getByText("<script>window.pwned=1</script>").first().waitFor();
    await page.getByText("␛[31mred").first().waitFor();
    await page.getByText("⟨202e⟩").first().waitFor();
    await page.locator(".tool .line").first().click();
    await page.getByRole("button", { name: /Show the output/ }).click();
    await page.getByText(/The first 256\.0 KiB of/).waitFor();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator("main script, main img[src=x], main a[href^=javascript]").count(), 0);
    // The page still answers at once.
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    // Opened by itself an output is a download that runs nothing.
    const events = await s.events("nasty");
    const ref = events.find((e) => e.type === "tool.result").payload.outputRef;
    const res = await page.request.get(`${s.url}/v1/outputs/${encodeURIComponent(ref)}`, { headers: { Range: "bytes=0-10" } });
    assert.equal(res.headers()["content-disposition"], "attachment");
    assert.match(res.headers()["content-security-policy"], /sandbox/);
  },

  "a command of megabytes is drawn in parts, in a call of the story": async (t) => {
    const command = `echo ${"<b>no</b> ".repeat(400_000)}`;
    const s = await ownServer(t, { answers: [{ when: { contains: "megabytes" }, tools: [{ name: "shell", arguments: { command } }] }, { text: "Done." }] });
    await s.done(await s.turn("megabytes", { sessionId: "mega", options: { permissionMode: "never" } }));
    const page = await visit(t, s, "/s/mega");
    const call = page.locator(".tool");
    await call.locator(".line").click();
    const parts = call.getByRole("group", { name: "Parts of a long text" });
    await parts.getByText(/^Part 1 of \d+\./).waitFor();
    const drawn = () => call.evaluate((x) => x.textContent.length);
    assert.ok((await drawn()) < 80_000, `${await drawn()} characters`);
    assert.equal(await call.locator("pre b").count(), 0);
    assert.ok((await call.locator("pre").first().textContent()).startsWith(command.slice(0, 1000)));
    await parts.getByRole("button", { name: "Last part" }).click();
    await parts.getByText("All of it was shown.").or(parts.getByText(/characters are not shown yet/)).waitFor();
    assert.ok((await drawn()) < 80_000, `${await drawn()} characters`);
    await call.getByRole("link", { name: "Download the arguments" }).waitFor();
  },

  "an address with hostile contents shows them as text, on every page": async (t) => {
    const s = await ownServer(t);
    await s.done(await s.turn("hello", { sessionId: "mine" }));
    const text = "a\u202eb\u200b<img src=x onerror=window.pwned=1>\u2028";
    const hostile = encodeURIComponent(text);
    const page = await visit(t, s, "/", { errors: ["404", "400"] });
    const bad = {};
    const each = ["id", "q", "tag", "account", "status", "view", "types", "session", "tab", "turn", "process", "at", "by", "range", "a", "b", "run", "sort"].map((name) => String(new URLSearchParams({ [name]: text })));
    for (const path of ["/", "/inbox", "/sessions", "/s/mine", `/s/${hostile}`, "/s/mine?tab=files", "/s/mine?tab=processes", "/tasks", "/jobs", "/schedules", "/usage", "/compare", "/replay/mine", `/replay/${hostile}`, "/bench", "/evidence", "/policy", "/peers", "/admin", `/nowhere/${hostile}`]) {
      // Each by itself, because one may keep a page from reading another; with the usual ones beside it.
      for (const query of path.includes("?") ? each.filter((x) => /^(turn|process)=/.test(x)) : ["", ...each]) {
        const address = query ? `${path}${path.includes("?") ? "&" : "?"}${query}` : path;
        await go(page, address);
        const found = await unseenIn(page);
        if (found.length > 0) bad[decodeURIComponent(address)] = found;
        if ((await page.locator("main img, main script").count()) > 0) bad[address] = ["an element"];
      }
    }
    // What every object has is none of the page's names either.
    for (const path of ["/usage?range=constructor", "/usage?figure=toString", "/usage?by=constructor"]) {
      await go(page, path);
      const [alerts, pressed] = [await page.locator("main").getByRole("alert").allInnerTexts(), await page.locator("main [aria-pressed=true]").allInnerTexts()];
      if (alerts.length > 0 || pressed.length !== 3) bad[path] = [...alerts, ...pressed];
    }
    assert.deepEqual(bad, {});
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  },

  "hostile names of tools, peers, tokens, trials and files stay text": async (t) => {
    const name = "a\u202eb\u200b<img src=x onerror=window.pwned=1>";
    const s = await ownServer(t, { answers: [
      { when: { contains: "names" }, tools: [{ name: `no\u202esuch`, arguments: { path: name } }, { name: "constructor", arguments: {} }, { name: "write_file", arguments: { path: `${name}/x\u200b.md`, content: "one\n" } }, { name: "shell", arguments: { command: `echo '${name}' >&2; exit 3` } }, { name: "update_plan", arguments: { items: [{ step: name, status: "in_progress" }] } }, { name: "spawn_agent", arguments: { role: name, input: name } }] },
      { when: { contains: "fails" }, error: { category: "invalid_request", message: `no ${name}` } },
      { text: "Done." },
    ] });
    await s.done(await s.turn("names", { sessionId: "named", options: { permissionMode: "bypass" } }));
    await s.done(await s.turn("fails", { sessionId: "named" }));
    await s.call("update_session", { sessionId: "named", title: name, tags: [name] });
    await s.call("create_token", { name, role: "client" });
    const trial = await s.call("start_benchmark_trial", { benchmark: { datasetId: name, datasetVersion: name, taskId: name, configurationId: name, role: "baseline" }, input: name });
    await s.call("start_benchmark_trial", { benchmark: { datasetId: "d", datasetVersion: "1", taskId: "t", configurationId: `${name}2`, role: "candidate" }, input: name });
    await s.call("create_job", { title: name, instruction: name, items: [{ itemId: "one", input: name }] });
    await s.call("connect_channel", { channelId: "chan_1", transport: "websocket", peerRole: "client", accountRef: name });
    await s.call("set_policy", { rules: [{ decision: "ask", tool: name, match: name, reason: name }] });
    await s.call("set_policy", { sessionId: "named", rules: [{ decision: "ask", tool: "read_file", match: name, reason: name }] });
    await s.call("create_schedule", { title: name, everyMs: 3_600_000, task: { objective: name, worker: "external" } });
    const { taskId } = await s.call("create_task", { title: name, objective: name, worker: "external", start: true });
    await s.call("fail_task", { taskId, error: { message: name } });
    const page = await visit(t, s, "/s/named");
    const bad = {};
    const look = async (what) => {
      const found = await unseenIn(page);
      if (found.length > 0) bad[what] = found;
      if ((await page.locator("main img, main script").count()) > 0) bad[what] = ["an element"];
    };
    await page.locator(".tool .line", { hasText: "constructor" }).waitFor();
    for (const line of await page.locator(".tool .line").all()) await line.click();
    await settle(page);
    await look("the story");
    for (const path of ["/", "/?failed=1", "/inbox", "/sessions", `/sessions?${new URLSearchParams({ tag: name })}`, "/s/named?tab=files", "/s/named?tab=processes", "/s/named?tab=context", "/s/named?tab=cost", "/tasks", `/tasks?id=${taskId}`, "/tasks?view=graph", "/jobs", "/schedules", "/usage?by=session", "/usage?by=account", "/usage?by=tool", "/compare?a=named&b=named", "/replay/named", "/bench", `/compare?a=${trial.trialId}&b=${trial.trialId}`, "/evidence", "/policy", "/policy?session=named", "/peers", "/peers?view=tools", "/admin", "/admin?view=accounts", "/admin?view=quotas"]) {
      await go(page, path);
      await look(path);
    }
    assert.deepEqual(bad, {});
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  },
};
