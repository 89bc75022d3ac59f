// Drives "agentd acp" with the client of the official TypeScript SDK, and holds
// every message of both sides against the schema that the SDK ships.
//
//	node acp.mjs MODULES AGENTD FOLDER SCENE [ARGUMENT...]
//
// FOLDER has the configuration and the workspace. The arguments are agentd's.
import assert from "node:assert/strict";
import { spawn, execFile } from "node:child_process";
import { readFileSync, writeFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Readable, Writable, Transform } from "node:stream";
import { promisify } from "node:util";

const [modules, agentd, folder, scene, ...more] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(modules, path)));
const acp = await load("@agentclientprotocol/sdk/dist/v1/stable/acp.js");
const { default: Ajv } = await load("ajv/dist/2020.js");
const work = join(folder, "work");
const run = promisify(execFile);

// --- the schema ---------------------------------------------------------------

const schema = JSON.parse(readFileSync(join(modules, "@agentclientprotocol/sdk/schema/v1/schema.json"), "utf8"));
const ajv = new Ajv({ strict: false, allErrors: false, validateFormats: false });
ajv.addSchema(schema, "acp");
const byMethod = {};
for (const [name, def] of Object.entries(schema.$defs)) {
  if (!def["x-method"]) continue;
  const entry = (byMethod[def["x-method"]] ??= { side: def["x-side"] });
  if (name.endsWith("Response")) entry.response = ajv.getSchema(`acp#/$defs/${name}`);
  else entry.params = ajv.getSchema(`acp#/$defs/${name}`);
}
const whole = ajv.getSchema("acp");
const error = ajv.getSchema("acp#/$defs/Error");
let checked = 0;
const problems = [];

// Check holds the messages of one connection against the schema. An answer is
// held against the answer of the method that it belongs to.
class Check {
  open = { client: new Map(), agent: new Map() };
  message(from, m) {
    const to = from === "client" ? "agent" : "client";
    const fail = (what, errors) => problems.push(`${from}: ${what}: ${JSON.stringify(m)}: ${JSON.stringify(errors)}`);
    checked++;
    if (!whole(m)) return fail("no message of the schema", whole.errors);
    if (m.method !== undefined) {
      const known = byMethod[m.method];
      if (!known) {
        if (!m.method.startsWith("x/")) fail("unknown method");
      } else if (known.side !== "protocol" && known.side !== to) fail("wrong side");
      else if (!known.params(m.params ?? {})) fail("parameters", known.params.errors);
      if (m.id !== undefined) this.open[from].set(JSON.stringify(m.id), m.method);
      return;
    }
    const method = this.open[to].get(JSON.stringify(m.id));
    this.open[to].delete(JSON.stringify(m.id));
    if (m.error) {
      if (!error(m.error)) fail("error", error.errors);
    } else if (!method) fail("an answer to nothing");
    else if (!byMethod[method].response(m.result)) fail("result of " + method, byMethod[method].response.errors);
  }
}

// lines passes text on and looks at each line of it.
function lines(look) {
  let rest = "";
  return new Transform({
    transform(part, _, done) {
      rest += part;
      const whole = rest.split("\n");
      rest = whole.pop();
      for (const line of whole) if (line.trim()) look(line);
      done(null, part);
    },
  });
}

// --- a client -----------------------------------------------------------------

// start runs an agent and connects a client. on.permission and on.form answer its
// questions.
async function start(on = {}, capabilities = {}, args = more) {
  const child = spawn(agentd, ["acp", "--config", join(folder, "config.yaml"), ...args], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve) => child.on("exit", resolve));
  const check = new Check();
  const input = lines((line) => check.message("client", JSON.parse(line)));
  input.pipe(child.stdin);
  child.stdin.on("error", () => {}); // it may be gone first
  const output = lines((line) => check.message("agent", JSON.parse(line)));
  child.stdout.pipe(output);
  const it = { child, exited, updates: [], asked: [], forms: [], waiting: [] };
  const app = acp
    .client({ name: "test" })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      it.updates.push(params);
      it.waiting = it.waiting.filter((w) => !w(params));
    })
    .onRequest(acp.methods.client.session.requestPermission, (ctx) => {
      it.asked.push(ctx.params);
      return on.permission(ctx);
    })
    .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => {
      if (!existsSync(params.path)) throw acp.RequestError.resourceNotFound(params.path);
      return { content: readFileSync(params.path, "utf8") };
    })
    .onRequest(acp.methods.client.elicitation.create, (ctx) => {
      it.forms.push(ctx.params);
      return on.form(ctx);
    });
  it.connection = app.connect(acp.ndJsonStream(Writable.toWeb(input), Readable.toWeb(output)));
  it.agent = it.connection.agent;
  it.ask = (method, params) => it.agent.request(method, params);
  it.until = (fits) => new Promise((resolve) => {
    if (it.updates.some(fits)) return resolve();
    it.waiting.push((u) => fits(u) && (resolve(), true));
  });
  it.prompt = (sessionId, text) => it.ask(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  it.stop = async () => {
    child.stdin.end();
    assert.equal(await exited, 0, "the agent ends with its input");
  };
  it.first = await it.ask(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION, clientInfo: { name: "test", version: "1" }, clientCapabilities: capabilities,
  });
  return it;
}

const select = (optionId) => () => ({ outcome: { outcome: "selected", optionId } });
const kind = (name) => (u) => u.update.sessionUpdate === name;
const said = (it, name = "agent_message_chunk") => it.updates.filter(kind(name)).map((u) => u.update.content.text).join("");
const open = async (it) => (await it.ask(acp.methods.agent.session.new, { cwd: work, mcpServers: [] })).sessionId;
const fails = (promise, code, words) => assert.rejects(promise, (e) => {
  assert.equal(e.code, code, `${e.code} ${e.message} ${JSON.stringify(e.data)}`);
  assert.match(e.message, words);
  return true;
});

// --- scenes -------------------------------------------------------------------

const scenes = {
  // A session with approvals, a plan, thoughts, edits and a command.
  async tour() {
    const it = await start({ permission: select("allow_once") }, { fs: { readTextFile: true }, session: { notices: {}, compaction: {} } });
    assert.equal(it.first.protocolVersion, 1);
    assert.equal(it.first.agentCapabilities.loadSession, true);
    assert.deepEqual(it.first.authMethods, []);
    const made = await it.ask(acp.methods.agent.session.new, {
      cwd: work, mcpServers: [{ name: "mine", command: "/bin/true", args: [], env: [] }],
    });
    assert.equal(made.modes.currentModeId, "default");
    assert.deepEqual(made.modes.availableModes.map((m) => m.id).sort(), ["auto", "bypass", "default", "never", "on_failure", "on_request", "plan", "untrusted"]);
    assert.equal(made._meta["agentd/ignoredMcpServers"], "mine");
    writeFileSync(join(work, "old.txt"), "before\n");
    const answer = await it.prompt(made.sessionId, "tour");
    assert.equal(answer.stopReason, "end_turn");
    assert.equal(said(it), "I will look.All done.");
    assert.equal(said(it, "agent_thought_chunk"), "Think first.");
    assert.equal(said(it, "user_message_chunk"), "", "the client knows what it sent");
    assert.deepEqual(it.updates.find(kind("plan")).update.entries, [
      { content: "look", priority: "medium", status: "completed" }, { content: "write", priority: "medium", status: "in_progress" },
    ]);
    assert.deepEqual(it.updates.find(kind("available_commands_update")).update.availableCommands.map((c) => c.name), ["compact", "diff", "undo", "resume"]);
    const used = it.updates.filter(kind("usage_update")).at(-1).update;
    assert.ok(used.used > 0 && used.size === 100000, JSON.stringify(used));
    assert.ok(used.cost.amount > 0 && used.cost.currency === "USD", JSON.stringify(used));

    assert.deepEqual(it.asked.map((a) => a.toolCall.kind), ["edit", "edit", "edit", "execute"]);
    const [fresh, replaced, edit, shell] = it.asked.map((a) => a.toolCall);
    assert.deepEqual(it.asked[0].options.map((o) => o.kind), ["allow_once", "allow_always", "allow_always", "reject_once"]);
    assert.deepEqual(fresh.locations, [{ path: join(work, "new.txt") }]);
    assert.deepEqual(replaced.content[0], { type: "diff", path: join(work, "old.txt"), oldText: "before\n", newText: "after\n" });
    assert.deepEqual(edit.content[0], { type: "diff", path: join(work, "old.txt"), oldText: "after", newText: "edited" });
    assert.match(shell.title, /cat old.txt/);
    const last = (id) => it.updates.filter((u) => u.update.toolCallId === id).at(-1).update;
    assert.deepEqual(last(fresh.toolCallId).content, [{ type: "diff", path: join(work, "new.txt"), oldText: null, newText: "hello\n" }]);
    assert.deepEqual(last(replaced.toolCallId).content, [{ type: "diff", path: join(work, "old.txt"), oldText: "before\n", newText: "after\n" }]);
    for (const call of [fresh, replaced, edit, shell]) assert.equal(last(call.toolCallId).status, "completed");
    assert.equal(last(shell.toolCallId).rawOutput.exitCode, 0);
    assert.match(last(shell.toolCallId).content[0].content.text, /edited/);
    const steps = it.updates.filter((u) => u.update.toolCallId === fresh.toolCallId).map((u) => [u.update.sessionUpdate, u.update.status]);
    assert.deepEqual(steps, [["tool_call", "pending"], ["tool_call_update", "in_progress"], ["tool_call_update", "completed"]]);
    assert.equal(readFileSync(join(work, "old.txt"), "utf8"), "edited\n");

    // The same again from the facts, in another process.
    const seen = it.updates.filter((u) => !["available_commands_update", "usage_update"].includes(u.update.sessionUpdate));
    await it.stop();
    const again = await start();
    const list = await again.ask(acp.methods.agent.session.list, { cwd: work });
    assert.deepEqual(list.sessions.map((s) => [s.sessionId, s.cwd]), [[made.sessionId, work]]);
    assert.deepEqual((await again.ask(acp.methods.agent.session.list, { cwd: "/nowhere" })).sessions, []);
    await again.ask(acp.methods.agent.session.load, { sessionId: made.sessionId, cwd: work, mcpServers: [] });
    assert.equal(said(again, "user_message_chunk"), "tour");
    assert.equal(said(again), "I will look.All done.");
    const replayed = again.updates.filter((u) => !["available_commands_update", "usage_update", "user_message_chunk"].includes(u.update.sessionUpdate));
    assert.deepEqual(replayed.map((u) => [u.update.sessionUpdate, u.update.toolCallId, u.update.status]), seen.map((u) => [u.update.sessionUpdate, u.update.toolCallId, u.update.status]));
    await fails(again.ask(acp.methods.agent.session.load, { sessionId: made.sessionId, cwd: "/", mcpServers: [] }), -32602, /session's folder is/);

    // Commands of the conversation.
    again.updates.length = 0;
    await again.prompt(made.sessionId, "/diff");
    assert.match(said(again), /\+edited/);
    await again.prompt(made.sessionId, "/undo");
    assert.equal(readFileSync(join(work, "old.txt"), "utf8"), "before\n");
    assert.ok(!existsSync(join(work, "new.txt")));
    again.updates.length = 0;
    await again.ask(acp.methods.agent.session.load, { sessionId: made.sessionId, cwd: work, mcpServers: [] });
    assert.equal(said(again), "", "what was taken back is not told again");
    await again.stop();
  },

  // A rejection, and an approval that lasts.
  async reject() {
    const answers = ["reject_once", "allow_always"];
    const it = await start({ permission: () => select(answers.shift())() });
    const sessionId = await open(it);
    await it.prompt(sessionId, "write once");
    assert.ok(!existsSync(join(work, "once.txt")));
    assert.equal(it.updates.filter((u) => u.update.toolCallId).at(-1).update.status, "failed");
    await it.prompt(sessionId, "write once");
    assert.ok(existsSync(join(work, "once.txt")));
    await it.prompt(sessionId, "write once");
    assert.equal(it.asked.length, 2, "allowed for the session");
    await it.stop();
  },

  // A prompt that is cancelled while the model is silent, one while a question is
  // open, and one by $/cancel_request.
  async cancel() {
    let release;
    const it = await start({ permission: (ctx) => new Promise((resolve) => {
      release = resolve;
      ctx.signal.addEventListener("abort", () => resolve({ outcome: { outcome: "cancelled" } }));
    }) });
    const sessionId = await open(it);
    let prompt = it.prompt(sessionId, "stall");
    await it.until((u) => /^Wait/.test(u.update.content?.text ?? ""));
    await fails(it.prompt(sessionId, "second"), -32600, /another prompt/);
    await it.agent.notify(acp.methods.agent.session.cancel, { sessionId });
    assert.equal((await prompt).stopReason, "cancelled");

    prompt = it.prompt(sessionId, "write once");
    await it.until((u) => u.update.toolCallId && u.update.status === "pending");
    while (it.asked.length === 0) await new Promise((r) => setTimeout(r, 5));
    await it.agent.notify(acp.methods.agent.session.cancel, { sessionId });
    release({ outcome: { outcome: "cancelled" } });
    assert.equal((await prompt).stopReason, "cancelled");
    assert.ok(!existsSync(join(work, "once.txt")));

    const stop = new AbortController();
    it.updates.length = 0;
    prompt = it.agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "stall" }] }, { cancellationSignal: stop.signal });
    await it.until((u) => /^Wait/.test(u.update.content?.text ?? ""));
    stop.abort();
    assert.equal((await prompt).stopReason, "cancelled");

    // Closing a session stops what it does.
    it.updates.length = 0;
    prompt = it.prompt(sessionId, "stall");
    await it.until((u) => /^Wait/.test(u.update.content?.text ?? ""));
    await it.ask(acp.methods.agent.session.close, { sessionId });
    assert.equal((await prompt).stopReason, "cancelled");
    await fails(it.prompt(sessionId, "hello"), -32002, /not open/);
    await it.ask(acp.methods.agent.session.resume, { sessionId, cwd: work, mcpServers: [] });
    assert.equal((await it.prompt(sessionId, "hello")).stopReason, "end_turn");
    await it.stop();
  },

  // Modes, models, and how turns end otherwise.
  async config() {
    const it = await start({ permission: select("allow_once") });
    const sessionId = await open(it);
    await it.ask(acp.methods.agent.session.setMode, { sessionId, modeId: "plan" });
    await it.until((u) => u.update.currentModeId === "plan");
    await it.prompt(sessionId, "write once");
    assert.ok(!existsSync(join(work, "once.txt")) && it.asked.length === 0, "plan writes nothing and asks nobody");
    let res = await it.ask(acp.methods.agent.session.setConfigOption, { sessionId, configId: "mode", value: "auto" });
    assert.equal(res.configOptions.find((o) => o.id === "mode").currentValue, "auto");
    const models = res.configOptions.find((o) => o.id === "model");
    assert.deepEqual([models.currentValue, models.options.map((o) => o.value)], ["script/main", ["script/main", "script/other"]]);
    res = await it.ask(acp.methods.agent.session.setConfigOption, { sessionId, configId: "model", value: "script/other" });
    assert.equal(res.configOptions.find((o) => o.id === "model").currentValue, "script/other");
    await it.prompt(sessionId, "hello");
    await fails(it.ask(acp.methods.agent.session.setMode, { sessionId, modeId: "yolo" }), -32602, /unknown mode/);
    await fails(it.ask(acp.methods.agent.session.setConfigOption, { sessionId, configId: "model", value: "script/none" }), -32602, /unknown model/);
    await fails(it.ask(acp.methods.agent.session.setConfigOption, { sessionId, configId: "shape", value: "round" }), -32602, /unknown setting/);
    // The choice is in the facts.
    const loaded = await it.ask(acp.methods.agent.session.load, { sessionId, cwd: work, mcpServers: [] });
    assert.equal(loaded.modes.currentModeId, "auto");
    assert.equal(loaded.configOptions.find((o) => o.id === "model").currentValue, "script/other");

    assert.equal((await it.prompt(sessionId, "cut short")).stopReason, "max_tokens");
    assert.equal((await it.prompt(sessionId, "refuse this")).stopReason, "refusal");
    await fails(it.prompt(sessionId, "break"), -32603, /the turn failed/);
    const image = [{ type: "text", text: "see" }, { type: "image", data: "aGVsbG8=", mimeType: "image/png" },
      { type: "resource_link", name: "old.txt", uri: "file://" + join(work, "old.txt") },
      { type: "resource", resource: { uri: "file:///elsewhere/x.md", text: "some words", mimeType: "text/markdown" } }];
    it.updates.length = 0;
    await it.ask(acp.methods.agent.session.prompt, { sessionId, prompt: image });
    assert.match(said(it), /You said: see\nThe user refers to the file old.txt.\nThe content of file:\/\/\/elsewhere\/x.md:\nsome words/);
    await fails(it.ask(acp.methods.agent.session.prompt, { sessionId, prompt: [{ type: "audio", data: "aGVsbG8=", mimeType: "audio/wav" }] }), -32602, /not supported/);
    await fails(it.ask(acp.methods.agent.session.prompt, { sessionId, prompt: [] }), -32602, /empty/);
    await it.stop();
  },

  // Questions: as forms, and as prompts where the client has no forms.
  async question() {
    const forms = await start({ form: ({ params }) => {
      assert.deepEqual(params.requestedSchema, { type: "object", properties: { value: { type: "string", enum: ["red", "blue"] } }, required: ["value"] });
      return { action: "accept", content: { value: "blue" } };
    } }, { elicitation: { form: {} } });
    let sessionId = await open(forms);
    assert.equal((await forms.prompt(sessionId, "which colour")).stopReason, "end_turn");
    assert.equal(forms.forms[0].message, "Which colour?");
    assert.match(said(forms), /You chose\.$/);
    await forms.stop();

    const plain = await start();
    sessionId = await open(plain);
    assert.equal((await plain.prompt(sessionId, "which colour")).stopReason, "end_turn");
    assert.match(said(plain), /Which colour\?\s+One of: red, blue/);
    await fails(plain.prompt(sessionId, "green"), -32602, /./);
    assert.equal((await plain.prompt(sessionId, "red")).stopReason, "end_turn");
    assert.match(said(plain), /You chose\.$/);
    await plain.stop();
  },

  // What goes wrong.
  async wrong() {
    const it = await start();
    await fails(it.ask("x/unknown", {}), -32601, /no method/);
    await fails(it.ask(acp.methods.agent.session.delete, { sessionId: "sess_1" }), -32601, /no method/);
    await fails(it.ask(acp.methods.agent.authenticate, { methodId: "none" }), -32602, /authentication is/);
    await fails(it.prompt("sess_none", "hello"), -32002, /not open/);
    await fails(it.ask(acp.methods.agent.session.load, { sessionId: "sess_none", cwd: work, mcpServers: [] }), -32002, /./);
    await fails(it.ask(acp.methods.agent.session.load, { sessionId: "../x", cwd: work, mcpServers: [] }), -32002, /no session/);
    await fails(it.ask(acp.methods.agent.session.new, { cwd: "relative", mcpServers: [] }), -32602, /absolute/);
    await fails(it.ask(acp.methods.agent.session.new, { cwd: work, mcpServers: [], additionalDirectories: ["/tmp"] }), -32602, /one folder/);
    const sessionId = await open(it);
    assert.equal((await it.prompt(sessionId, "hello")).stopReason, "end_turn");
    await it.stop();
  },

  // With a server: the client goes away in the middle of a prompt, the turn goes on,
  // and an action that was answered elsewhere is withdrawn.
  async server() {
    let withdrawn;
    const gone = new Promise((resolve) => (withdrawn = resolve));
    const it = await start({ permission: (ctx) => new Promise((resolve, reject) => {
      ctx.signal.addEventListener("abort", () => { withdrawn(); reject(acp.RequestError.requestCancelled()); });
    }) });
    const sessionId = await open(it);
    const prompt = it.prompt(sessionId, "write once");
    while (it.asked.length === 0) await new Promise((r) => setTimeout(r, 5));
    const { stdout } = await run(agentd, ["actions", "--json", "--config", join(folder, "config.yaml")], { cwd: folder });
    const [action] = JSON.parse(stdout).actions;
    await run(agentd, ["approve", action.actionId, "--config", join(folder, "config.yaml")], { cwd: folder });
    assert.equal((await prompt).stopReason, "end_turn");
    await gone;
    assert.ok(existsSync(join(work, "once.txt")));

    // Somebody else's turn is shown too.
    await run(agentd, ["run", "--session", sessionId, "--config", join(folder, "config.yaml"), "hello from elsewhere"], { cwd: folder });
    await it.until((u) => u.update.sessionUpdate === "user_message_chunk" && u.update.content.text === "hello from elsewhere");
    await it.until((u) => /You said/.test(u.update.content?.text ?? ""));

    // The client dies while a question is open.
    const lost = it.prompt(sessionId, "write twice").catch((e) => e);
    while (it.asked.length < 2) await new Promise((r) => setTimeout(r, 5));
    it.child.kill("SIGKILL");
    await it.exited;
    assert.ok((await lost) instanceof Error);
    const back = await start({ permission: select("allow_once") });
    const written = back.until((u) => u.update.status === "completed");
    await back.ask(acp.methods.agent.session.resume, { sessionId, cwd: work, mcpServers: [] });
    await written;
    assert.equal(back.asked.length, 1, "what was asked stays asked");
    assert.ok(existsSync(join(work, "twice.txt")));
    await back.stop();
  },

  // Without a server: the agent ends while a question is open, and the next one that
  // loads the session asks it again and goes on.
  async handover() {
    const it = await start({ permission: () => new Promise(() => {}) });
    const sessionId = await open(it);
    it.prompt(sessionId, "write once").catch(() => {});
    while (it.asked.length === 0) await new Promise((r) => setTimeout(r, 5));
    await it.stop();
    const back = await start({ permission: select("allow_once") });
    const done = back.until((u) => u.update.content?.text === "Written.");
    await back.ask(acp.methods.agent.session.load, { sessionId, cwd: work, mcpServers: [] });
    await done;
    assert.ok(existsSync(join(work, "once.txt")));
    assert.equal((await back.prompt(sessionId, "hello")).stopReason, "end_turn");
    await back.stop();
  },
};

// The checker must be able to find something.
new Check().message("agent", { jsonrpc: "2.0", method: "session/update", params: { sessionId: "s", update: { sessionUpdate: "plan" } } });
new Check().message("agent", { jsonrpc: "2.0", id: 1, result: {} });
assert.equal(problems.splice(0).length, 2, "messages that are wrong");

await scenes[scene]();
assert.deepEqual(problems, [], "messages against the schema");
assert.ok(checked > 5, "messages were checked");
console.log(JSON.stringify({ scene, checked }));
process.exit(0);
