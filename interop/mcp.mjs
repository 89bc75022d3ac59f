// Drives agentd's MCP server with the protocol's official TypeScript client.
//
//	node mcp.mjs MODULES AGENTD http URL TOKEN
//	node mcp.mjs MODULES AGENTD stdio FOLDER
//
// FOLDER has the configuration.
import assert from "node:assert/strict";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, agentd, how, where, token] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol/sdk/dist/esm", path)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
const types = await load("types.js");

const transport = (secret = token) =>
  how === "http"
    ? new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${secret}` } } })
    : new StdioClientTransport({ command: agentd, args: ["mcp", "--config", join(where, "config.yaml")], cwd: where, env: process.env, stderr: "inherit" });

// connect returns a client that answers what it is asked, and what it was asked.
async function connect(answer) {
  const client = new Client({ name: "interop", version: "1" }, { capabilities: answer ? { elicitation: {} } : {} });
  const questions = [];
  if (answer) {
    client.setRequestHandler(types.ElicitRequestSchema, async (request) => {
      questions.push(request.params);
      return answer;
    });
  }
  await client.connect(transport());
  return { client, questions };
}

const text = (result) => result.content.map((c) => c.text).join("");

// --- tools ----------------------------------------------------------------------

const { client } = await connect();
assert.equal(client.getServerVersion().name, "agentd");
const { tools } = await client.listTools();
for (const name of ["run_turn", "wait_turn", "submit_turn", "list_sessions", "respond_action"]) {
  assert.ok(tools.some((t) => t.name === name), `${name} is not listed`);
}
assert.ok(!tools.some((t) => t.name === "test_sampling"), "fixtures are listed");
assert.equal(tools.find((t) => t.name === "list_sessions").annotations.readOnlyHint, true);
assert.equal(tools.find((t) => t.name === "rollback_thread").annotations.destructiveHint, true);

// The client holds structured content against the tool's schema by itself.
const created = await client.callTool({ name: "create_session", arguments: { title: "interop" } });
const { sessionId } = created.structuredContent;
const missing = await client.callTool({ name: "get_session", arguments: { sessionId: "sess_none" } });
assert.equal(missing.isError, true);
assert.equal(missing.structuredContent.code, "not_found");
const wrong = await client.callTool({ name: "get_session", arguments: { sessionId, colour: "red" } });
assert.equal(wrong.structuredContent.code, "invalid_params");
assert.match(text(wrong), /colour/);
await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), /-32602|unknown tool/i);

// --- a turn ---------------------------------------------------------------------

const steps = [];
const turn = await client.callTool({ name: "run_turn", arguments: { sessionId, input: "take your time" } }, undefined, {
  onprogress: (p) => steps.push(p.progress),
});
assert.equal(text(turn), "It took a while.");
assert.equal(turn.structuredContent.status, "completed");
// The client drops what it reads together with the answer.
assert.ok(steps.length >= 1 && steps.every((n, i) => i === 0 || n > steps[i - 1]), `progress ${steps}`);

// A client that can't be asked is told, answers, and waits again.
const waiting = await client.callTool({ name: "run_turn", arguments: { sessionId, input: "write it" } });
assert.equal(waiting.structuredContent.status, "action_required");
const [action] = waiting.structuredContent.actions;
await client.callTool({ name: "respond_action", arguments: { actionId: action.actionId, decision: "allow" } });
const done = await client.callTool({ name: "wait_turn", arguments: { sessionId, turnId: waiting.structuredContent.turnId } });
assert.equal(text(done), "It is written.");

// One that can be asked is asked. Without a server only one at a time has the data.
await client.close();
const person = await connect({ action: "accept", content: { decision: "deny" } });
const denied = await person.client.callTool({ name: "run_turn", arguments: { sessionId, input: "write it" } });
assert.equal(person.questions.length, 1);
assert.match(person.questions[0].message, /write_file/);
assert.equal(denied.structuredContent.status, "completed");

// A call that is cancelled stops its turn.
const stop = new AbortController();
const slow = person.client.callTool({ name: "run_turn", arguments: { sessionId, input: "wait long", turnId: "turn_slow_" + how + Date.now() } }, undefined, {
  signal: stop.signal,
  onprogress: () => stop.abort(),
});
await assert.rejects(slow, /abort/i);
const actions = await person.client.callTool({ name: "list_actions", arguments: { sessionId, status: "pending" } });
assert.deepEqual(actions.structuredContent.actions, []);
for (;;) {
  const read = await person.client.callTool({ name: "get_session", arguments: { sessionId, limit: 0 } });
  const last = read.structuredContent.threads[0].turns.at(-1);
  if (last.status === "cancelled") break;
  assert.ok(["accepted", "running", "queued"].includes(last.status), `the turn is ${last.status}`);
  await new Promise((r) => setTimeout(r, 20));
}

// --- resources ------------------------------------------------------------------

const seen = [];
for (let cursor; ; ) {
  const page = await person.client.listResources({ cursor });
  seen.push(...page.resources.map((r) => r.uri));
  if (!(cursor = page.nextCursor)) break;
}
assert.ok(seen.includes(`agentd://sessions/${sessionId}`));
const { resourceTemplates } = await person.client.listResourceTemplates();
assert.equal(resourceTemplates.length, 3);
const { contents } = await person.client.readResource({ uri: `agentd://sessions/${sessionId}/events?after=0&limit=5` });
const page = JSON.parse(contents[0].text);
assert.deepEqual(page.events.map((e) => e.sequence), [1, 2, 3, 4, 5]);
await assert.rejects(person.client.readResource({ uri: "agentd://sessions/sess_none" }), (e) => e.code === -32002);

if (how === "http") {
  const stranger = new Client({ name: "stranger", version: "1" });
  await assert.rejects(stranger.connect(transport("wrong")), (e) => e.code === 401 || /401|unauth/i.test(String(e)));
}
await person.client.close();
console.log(`${how}: ${tools.length} tools, all of it holds`);
