// What the tests in the browser share: servers of their own, logged in pages, and commands.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { setPriority } from "node:os";
import { join } from "node:path";
import AxeBuilder from "@axe-core/playwright";
import { chromium } from "playwright-core";

export { assert };

const { AGENTD_PROGRAM: program, AGENTD_BROWSER: executablePath, AGENTD_FOLDER: folder, AGENTD_CERT: cert, AGENTD_CERT_KEY: key, AGENTD_CERT_TRUST: trust } = process.env;
/** overTLS are the options of a server that speaks TLS, with a certificate that the browser, Node.js and the program trust. */
export const overTLS = { config: { tls: { cert, key } }, env: { SSL_CERT_FILE: cert } };
const flags = [`--ignore-certificate-errors-spki-list=${trust}`, "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP agentd.test 127.0.0.1"];
/** How long something may take before a test gives up: an end for what never comes, and no measure of a busy machine. */
const patience = Number(process.env.AGENTD_TEST_PATIENCE ?? 180_000);
/**
 * quiet says that nothing else runs on the machine, so that a page can be held to how long its tasks take. The server and the
 * tests then yield to the browser: in real life they are elsewhere.
 */
export const quiet = !!process.env.AGENTD_TEST_QUIET;
const yielding = quiet ? ["nice", "-n", "19"] : [];
const running = new Set();
let theBrowser;

export async function openBrowser() {
  theBrowser = await chromium.launch({ executablePath, headless: true, args: flags, timeout: patience });
  if (quiet) setPriority(19);
  return theBrowser;
}

export async function closeAll() {
  await theBrowser?.close();
  for (const s of [...running]) await s.stop();
}

/** The answers of the model that most tests use; tests add theirs in their own script. */
export const answers = [
  { when: { contains: "stream" }, text: Array.from({ length: 40 }, (_, i) => `word${i}`).join(" "), delay: "15ms", chunks: 40, usage: { inputTokens: 100, outputTokens: 40 } },
  { when: { contains: "write" }, text: "I write it down.", tools: [{ name: "write_file", arguments: { path: "NOTES.md", content: "# Notes\n\nremember the milk\n" } }], usage: { inputTokens: 60, outputTokens: 20 } },
  { when: { contains: "write" }, text: "Done: **NOTES.md** is there.", usage: { inputTokens: 90, outputTokens: 12 } },
  { when: { contains: "form" }, ask: { prompt: "Which colour, and how many?", schema: { type: "object", required: ["colour", "count"], properties: { colour: { type: "string", enum: ["red", "green"] }, count: { type: "integer", minimum: 1, maximum: 9 } } } } },
  { when: { contains: "form" }, text: "Thank you." },
  { when: { contains: "stall" }, text: "too late", stall: "1h" },
];

/** A server with a folder, a workspace and a script of its own. */
class Server {
  constructor(options) {
    this.options = options;
    this.dir = mkdtempSync(join(folder, "server-"));
    this.work = join(this.dir, "work");
    mkdirSync(this.work);
    writeFileSync(join(this.dir, "script.yaml"), JSON.stringify({ answers: options.answers ?? answers }));
    const config = {
      data: join(this.dir, "data"),
      workspace: { root: this.work },
      providers: [{ id: "demo", kind: "script", script: join(this.dir, "script.yaml"), models: [{ id: "demo", capabilities: ["tools", "streaming"], contextWindow: 128000, price: { inputPerMTok: 3, outputPerMTok: 15 } }] }],
      routing: { default: "demo/demo" },
      ...options.config,
    };
    this.data = config.data;
    writeFileSync(join(this.dir, "config.yaml"), JSON.stringify(config));
  }

  async start() {
    const listen = this.url ? new URL(this.url).host : "127.0.0.1:0";
    const serve = [...yielding, program, "serve", "--json", "--config", "config.yaml", "--listen", listen];
    this.process = spawn(serve[0], serve.slice(1), { cwd: this.dir, stdio: ["ignore", "pipe", "pipe"], env: this.env() });
    this.log = "";
    this.process.stderr.on("data", (d) => (this.log += d));
    this.gone = new Promise((resolve) => this.process.once("exit", resolve));
    const line = await new Promise((resolve, reject) => {
      let text = "";
      this.process.stdout.on("data", (d) => {
        text += d;
        if (text.includes("\n")) resolve(text.split("\n")[0]);
      });
      this.gone.then(() => reject(new Error(`agentd serve ended:\n${this.log}`)));
    });
    this.url = JSON.parse(line).url;
    this.token = readFileSync(join(this.data, "token"), "utf8").trim();
    running.add(this);
    return this;
  }

  env() {
    return { ...process.env, ...this.options.env };
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.gone;
  }

  async stop() {
    running.delete(this);
    this.process.kill("SIGTERM");
    await this.gone;
  }

  /** call carries out a command as the admin, or with another token. */
  async call(command, params = {}, token = this.token) {
    const res = await fetch(`${this.url}/v1/commands/${command}`, { method: "POST", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, body: JSON.stringify(params) });
    const body = await res.json();
    if (!res.ok) throw Object.assign(new Error(`${command}: ${res.status} ${body.detail}`), { status: res.status, problem: body });
    return body;
  }

  /** cli runs agentd with arguments in the server's folder and returns what it prints. */
  cli(...args) {
    const r = spawnSync(program, [...args, "--config", "config.yaml"], { cwd: this.dir, encoding: "utf8", env: this.env() });
    if (r.status !== 0) throw new Error(`agentd ${args.join(" ")}: exit ${r.status}\n${r.stdout}${r.stderr}`);
    return r.stdout;
  }

  /** events returns all facts of a session. */
  async events(sessionId) {
    const all = [];
    for (let after = 0; ; ) {
      const res = await fetch(`${this.url}/v1/sessions/${sessionId}/events?after=${after}&limit=1000`, { headers: { Authorization: `Bearer ${this.token}` } });
      const page = await res.json();
      all.push(...page.events);
      if (page.events.length === 0 || page.nextAfter >= page.lastSequence) return all;
      after = page.nextAfter;
    }
  }

  /** awaitEvent waits for a fact that fits. */
  async awaitEvent(sessionId, fits) {
    const stop = new AbortController();
    const res = await fetch(`${this.url}/v1/sessions/${sessionId}/events`, { headers: { Authorization: `Bearer ${this.token}`, Accept: "text/event-stream" }, signal: stop.signal });
    let text = "";
    for await (const part of res.body.pipeThrough(new TextDecoderStream())) {
      text += part;
      const frames = text.split("\n\n");
      text = frames.pop();
      for (const frame of frames) {
        const data = /^data: (.*)$/m.exec(frame)?.[1];
        const e = data && JSON.parse(data);
        if (e?.type && fits(e)) {
          stop.abort();
          return e;
        }
      }
    }
    throw new Error(`the fact did not come in ${sessionId}`);
  }

  /** turn submits a turn and returns its ids; done waits for its end. */
  async turn(input, params = {}) {
    return this.call("submit_turn", { create: true, input, ...params });
  }

  async done(turn) {
    return this.awaitEvent(turn.sessionId, (e) => e.turnId === turn.turnId && ["turn.completed", "turn.failed", "turn.cancelled"].includes(e.type));
  }

  /** asked waits until a turn asks something. */
  async asked(turn) {
    return this.awaitEvent(turn.sessionId, (e) => e.turnId === turn.turnId && e.type === "action.required");
  }
}

let shared;

/** server is the one that most tests share. */
export async function server() {
  shared ??= await new Server({}).start();
  return shared;
}

/** ownServer is one for a test alone. It ends with the test. */
export async function ownServer(t, options = {}) {
  const s = await new Server(options).start();
  t.ends.push((failed) => {
    if (failed) t.log += `\n${s.log.slice(-3000)}`;
    return s.stop();
  });
  return s;
}

/** visit opens a page in a browser of its own. It fails the test on errors of scripts and on violations of the page's policy. */
export async function visit(t, s, path = "/", { token = s.token, viewport = { width: 1280, height: 800 }, theme = "light", login = true, errors = [], foreign = [] } = {}) {
  const context = await t.browser.newContext({ viewport, colorScheme: theme, reducedMotion: "reduce" });
  context.setDefaultTimeout(patience);
  // Notices go away by themselves after a few seconds, on a busy machine before a test has looked: here they stay.
  await context.addInitScript(() => {
    const later = window.setTimeout;
    window.setTimeout = (run, ms, ...rest) => later(run, ms === 4000 || ms === 12_000 ? 3_600_000 : ms, ...rest);
  });
  const page = await context.newPage();
  const bad = [];
  const expected = (text) => errors.some((e) => text.includes(e));
  page.on("pageerror", (e) => bad.push(`error: ${e.stack ?? e}`));
  page.on("console", (m) => {
    const text = m.text();
    // A lost connection is told to the console by the browser itself.
    if (m.type() === "error" && !/WebSocket connection|net::ERR_|status of 4\d\d|status of 5\d\d/.test(text) && !expected(text)) bad.push(`console: ${text}`);
  });
  page.on("request", (r) => {
    if (![s.url, ...foreign].some((u) => r.url().startsWith(u)) && !/^(blob|data):/.test(r.url())) bad.push(`foreign request: ${r.url()}`);
  });
  t.ends.push(async (failed) => {
    if (failed) {
      const path = join(folder, `failed-${Date.now()}.png`);
      await page.screenshot({ path }).catch(() => {});
      t.log += `\nscreen: ${path}\nat ${page.url()}\n${(await page.locator("body").innerText().catch(() => "")).slice(0, 1500)}`;
    }
    await context.close();
    if (bad.length > 0) throw new Error(bad.join("\n"));
  });
  if (login) {
    const res = await context.request.post(`${s.url}/ui/login`, { data: { token } });
    assert.equal(res.status(), 200);
  }
  await page.goto(`${s.url}/ui${path}`);
  if (login) await settle(page);
  return page;
}

/** typeToken logs in with keys alone, at a page that was visited without a login. */
export async function typeToken(page, { token }) {
  await page.locator("input[name=token]:focus").waitFor();
  await page.keyboard.type(token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Fleet" }).waitFor();
}

/** settle waits until the page of an address is shown with all that it asked for; of the address that it is at, if none is named. */
export async function settle(page, path) {
  await page.waitForFunction((p) => {
    const at = document.querySelector("main[data-settled]")?.dataset.settled;
    return at !== undefined && at === (p ?? (location.pathname.slice("/ui".length) || "/") + location.search);
  }, path);
}

/** go opens another page of the console, as a link does, and waits for it. */
export async function go(page, path) {
  await page.evaluate((to) => {
    history.pushState(null, "", `/ui${to}`);
    dispatchEvent(new PopStateEvent("popstate"));
  }, path);
  await settle(page, path);
}

/** eventually asks again until the answer is good. It fails with the test, not with a clock of its own. */
export async function eventually(ask, good) {
  for (let i = 0; ; i++) {
    const answer = await ask();
    if (good(answer)) return answer;
    if (i === 1000) assert.fail(`still ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 50 + i));
  }
}

/** axe finds what people with assistive technology can't use: nothing. */
export async function axe(page, what) {
  // A page without frames is looked at where it is: what frames need, a page of its own for the results, takes as long again.
  const alone = page.frames().length === 1;
  const axeSource = alone && (await page.evaluate(() => "axe" in window)) ? ";" : undefined;
  const builder = new AxeBuilder({ page, axeSource }).setLegacyMode(alone).options({ resultTypes: ["violations"] });
  const { violations } = await builder.withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 200)} (${n.failureSummary?.replace(/\s+/g, " ").slice(0, 300)})`).slice(0, 3).join(" | ")}`), [], what);
}

/** noSidewaysScroll: a phone shows the page without scrolling to the side. */
export async function noSidewaysScroll(page, what = "") {
  const wide = await page.evaluate(() => ({ page: document.documentElement.scrollWidth, view: innerWidth, main: document.querySelector("main").scrollWidth - document.querySelector("main").clientWidth }));
  assert.ok(wide.page <= wide.view && wide.main <= 0, `sideways: ${what} ${JSON.stringify(wide)}`);
}

/** screen takes a picture for docs, if asked to. */
export async function screen(page, name, size = { width: 1000, height: 620 }) {
  if (!process.env.AGENTD_TEST_SCREENS) return;
  const usual = page.viewportSize();
  await page.setViewportSize(size);
  await page.waitForTimeout(300); // panes are laid out for their new size, a graph in a worker
  // The folders of a test are nobody's: a picture shows one that a reader may have.
  const shown = await page.evaluateHandle((mine) => {
    const path = new RegExp(`${mine.replace(/[^\w/]/g, "\\$&")}(/server-\\w+)?(/work)?`, "g");
    const changed = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let n = walk.nextNode(); n; n = walk.nextNode()) {
      if (!n.nodeValue.includes(mine)) continue;
      changed.push([n, n.nodeValue]);
      n.nodeValue = n.nodeValue.replace(path, "/srv/project");
    }
    return changed;
  }, folder);
  await page.screenshot({ path: new URL(`../../docs/console/${name}.png`, import.meta.url).pathname });
  await shown.evaluate((changed) => changed.forEach(([n, text]) => (n.nodeValue = text)));
  await page.setViewportSize(usual);
}

/** A server behind such a line is known by another port. */
export const anyPort = { allowedHosts: ["127.0.0.1"] };

/**
 * through is a line to a server that counts every byte to the browser, over HTTP and WebSocket, and that can be cut, fall
 * silent without being cut, and say something to the browser that the server didn't, also right after something that it did.
 */
export async function through(t, s) {
  const to = new URL(s.url);
  const open = new Set();
  const line = { down: 0, cut: false, silent: false };
  const awaited = new Set();
  let socket;
  const gate = createServer((near) => {
    if (line.cut) return near.destroy();
    if (line.silent) return void open.add(near.on("error", () => {}).on("close", () => open.delete(near)));
    near.on("data", (d) => d.includes("GET /v1/ws") && (socket = near));
    const far = connect(Number(to.port), to.hostname);
    for (const [a, b] of [[near, far], [far, near]]) {
      open.add(a);
      a.on("error", () => b.destroy()).on("close", () => (open.delete(a), b.destroy()));
      a.pipe(b);
    }
    far.on("data", (d) => {
      line.down += d.length;
      for (const w of awaited) if (d.includes(w.text)) awaited.delete(w), w.resolve();
    });
  });
  await new Promise((resolve) => gate.listen(0, "127.0.0.1", resolve));
  line.url = `http://127.0.0.1:${gate.address().port}`;
  line.stop = () => {
    line.cut = true;
    for (const x of open) x.destroy();
  };
  line.silence = () => {
    line.silent = true;
    for (const x of open) x.unpipe().pause();
  };
  line.resume = () => {
    // Nothing is known of what went into the silence.
    if (line.silent) for (const x of open) x.destroy();
    line.cut = line.silent = false;
  };
  /** passed ends when something of the server with this text has been sent on. */
  line.passed = (text) => new Promise((resolve) => awaited.add({ text, resolve }));
  /** say sends a message of a server over the newest WebSocket. */
  line.say = (message) => {
    const text = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    const head = Buffer.from([0x81, 126, text.length >> 8, text.length & 255]);
    socket.write(Buffer.concat([head, text]));
  };
  t.ends.push(() => (line.stop(), new Promise((resolve) => gate.close(resolve))));
  return line;
}
