// Drives agentd's OpenAI-compatible endpoint with the official client.
//
//	node openai.mjs MODULES AGENTD FOLDER URL TOKEN OBSERVER
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const [modules, agentd, folder, url, token, observer] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(join(modules, "openai/index.mjs")));
const client = new OpenAI({ baseURL: url + "/v1", apiKey: token });
const run = promisify(execFile);
const command = async (name, params) => {
  const res = await fetch(`${url}/v1/commands/${name}`, {
    method: "POST", body: JSON.stringify(params), headers: { authorization: "Bearer " + token, "content-type": "application/json" },
  });
  const body = await res.json();
  assert.equal(res.status, 200, JSON.stringify(body));
  return body;
};
const user = (content) => [{ role: "user", content }];
const fails = (promise, status, code, words = /./) => assert.rejects(promise, (e) => {
  assert.equal(e.status, status, `${e.status} ${e.message}`);
  assert.equal(e.code, code, `${e.code} ${e.message}`);
  assert.match(e.message, words);
  return true;
});

// --- models -------------------------------------------------------------------
{
  const list = await client.models.list();
  assert.deepEqual(list.data.map((m) => m.id), ["agentd", "script/main", "script/other"]);
  assert.equal((await client.models.retrieve("script/other")).owned_by, "script");
  await fails(client.models.retrieve("gpt-none"), 404, "model_not_found");
}

// --- chat ---------------------------------------------------------------------
{
  const { data, response } = await client.chat.completions.create({ model: "agentd", messages: user("hello") }).withResponse();
  assert.equal(data.object, "chat.completion");
  assert.equal(data.choices[0].message.content, "You said: hello");
  assert.equal(data.choices[0].finish_reason, "stop");
  assert.ok(data.usage.prompt_tokens > 0 && data.usage.total_tokens === data.usage.prompt_tokens + data.usage.completion_tokens);
  assert.match(response.headers.get("x-agentd-session"), /^sess_/);

  // Tools run inside agentd, and what is said before them is part of the answer.
  const looked = await client.chat.completions.create({ model: "script/main", messages: user("look") });
  assert.equal(looked.choices[0].message.content, "I look.\n\nI looked.");
  const chunks = [];
  for await (const c of await client.chat.completions.create({ model: "script/main", messages: user("look"), stream: true, stream_options: { include_usage: true } })) chunks.push(c);
  assert.equal(chunks.flatMap((c) => c.choices.map((x) => x.delta.content ?? "")).join(""), "I look.\n\nI looked.");
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.deepEqual(chunks.flatMap((c) => c.choices.map((x) => x.finish_reason)).filter(Boolean), ["stop"]);
  assert.ok(chunks.at(-1).usage.completion_tokens > 0 && chunks.at(-1).choices.length === 0);
  const helper = await client.chat.completions.stream({ model: "agentd", messages: user("hello") }).finalChatCompletion();
  assert.equal(helper.choices[0].message.content, "You said: hello");

  assert.equal((await client.chat.completions.create({ model: "agentd", messages: user("cut short") })).choices[0].finish_reason, "length");
  assert.equal((await client.chat.completions.create({ model: "agentd", messages: user("refuse this") })).choices[0].finish_reason, "content_filter");
  const shaped = await client.chat.completions.create({
    model: "agentd", messages: user("a number"),
    response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } } },
  });
  assert.deepEqual(JSON.parse(shaped.choices[0].message.content), { n: 7 });
}

// --- conversations --------------------------------------------------------------
{
  // Without a name the history is the input.
  const fresh = await client.chat.completions.create({ model: "agentd", messages: [
    { role: "system", content: "Be short." }, ...user("one"), { role: "assistant", content: "two" }, ...user([{ type: "text", text: "three" }]),
  ] });
  assert.equal(fresh.choices[0].message.content, "You said: Instructions for this conversation:\nBe short.\n\nThe conversation so far:\nuser: one\n\nassistant: two\n\nThe next message:\nthree");
  // With a name it is a session, and only what is new is said there.
  const named = { model: "agentd", metadata: { session_id: "sess_mine" } };
  await client.chat.completions.create({ ...named, messages: user("one") });
  const next = await client.chat.completions.create({ ...named, messages: [...user("one"), { role: "assistant", content: "You said: one" }, ...user("three")] });
  assert.equal(next.choices[0].message.content, "You said: three");
  const session = await command("get_session", { sessionId: "sess_mine", limit: 0 });
  assert.equal(session.threads[0].turnCount, 2);
  const headed = await client.chat.completions.create({ model: "agentd", messages: user("four") }, { headers: { "X-Agentd-Session": "sess_mine" } });
  assert.match(headed.id, /^chatcmpl-sess_mine\.turn_/);

  // previous_response_id goes on, or branches off.
  const first = await client.responses.create({ model: "agentd", input: "first" });
  const second = await client.responses.create({ model: "agentd", input: "second", previous_response_id: first.id });
  assert.equal(second.conversation.id, first.conversation.id);
  const branch = await client.responses.create({ model: "agentd", input: "other", previous_response_id: first.id });
  assert.notEqual(branch.conversation.id, first.conversation.id);
  assert.equal(branch.output_text, "You said: other");
  const third = await client.responses.create({ model: "agentd", input: "third", conversation: first.conversation.id });
  assert.equal(third.conversation.id, first.conversation.id);
  assert.equal((await command("get_session", { sessionId: first.conversation.id, limit: 0 })).threads[0].turnCount, 3);
  await fails(client.responses.create({ model: "agentd", input: "x", previous_response_id: "resp_none" }), 404, "not_found");
  await fails(client.responses.create({ model: "agentd", input: "x", conversation: "sess_none" }), 404, "not_found");
}

// --- responses ------------------------------------------------------------------
{
  const whole = await client.responses.create({ model: "script/main", input: user("look"), instructions: "Be short.", metadata: { mine: "1" } });
  assert.equal(whole.status, "completed");
  assert.deepEqual(whole.output.map((o) => o.type), ["reasoning", "message", "message"]);
  assert.equal(whole.output_text, "I look.I looked.");
  assert.ok(whole.usage.output_tokens > 0);
  const again = await client.responses.retrieve(whole.id);
  assert.deepEqual([again.status, again.output, again.usage, again.metadata.mine, again.model], ["completed", whole.output, whole.usage, "1", "script/main"]);

  const types = [];
  let sequence = -1, text = "", done;
  for await (const e of await client.responses.create({ model: "script/main", input: "look", stream: true })) {
    assert.equal(e.sequence_number, ++sequence);
    if (types.at(-1) !== e.type) types.push(e.type);
    if (e.type === "response.output_text.delta") text += e.delta;
    if (e.type === "response.completed") done = e.response;
  }
  assert.equal(text, "I look.I looked.");
  assert.deepEqual(done.output.map((o) => o.type), ["reasoning", "message", "message"]);
  assert.deepEqual(types.slice(0, 5), ["response.created", "response.in_progress", "response.output_item.added", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta"]);
  assert.equal(types.at(-1), "response.completed");
  const final = await client.responses.stream({ model: "agentd", input: "hello" }).finalResponse();
  assert.equal(final.output_text, "You said: hello");
  const shaped = await client.responses.stream({ model: "agentd", input: "a number",
    text: { format: { type: "json_schema", name: "n", schema: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } } } }).finalResponse();
  assert.equal(shaped.output_text, '{"n":7}');

  // In the background, and cancelled.
  const slow = await client.responses.create({ model: "agentd", input: "stall", background: true });
  assert.equal(slow.status, "queued");
  assert.equal((await client.responses.retrieve(slow.id)).status, "in_progress");
  assert.equal((await client.responses.cancel(slow.id)).status, "cancelled");
  await fails(client.responses.cancel(slow.id), 409, "conflict");
}

// --- what is refused --------------------------------------------------------------
{
  const tools = [{ type: "function", function: { name: "mine", parameters: {} } }];
  await fails(client.chat.completions.create({ model: "agentd", messages: user("x"), tools }), 400, "invalid_params", /inside agentd/);
  await fails(client.responses.create({ model: "agentd", input: "x", tools: [{ type: "web_search" }] }), 400, "invalid_params", /inside agentd/);
  await fails(client.chat.completions.create({ model: "agentd", messages: user("x"), n: 2 }), 400, "invalid_params");
  await fails(client.chat.completions.create({ model: "none/none", messages: user("x") }), 404, "model_not_found");
  await fails(client.chat.completions.create({ model: "agentd", messages: [] }), 400, "invalid_params");
  await fails(client.chat.completions.create({ model: "agentd", messages: [{ role: "wizard", content: "x" }] }), 400, "invalid_params", /wizard/);
  await fails(client.chat.completions.create({ model: "agentd", messages: user([{ type: "input_audio", input_audio: {} }]) }), 400, "invalid_params");
  await fails(client.chat.completions.create({ model: "agentd", messages: user("x") }, { headers: { "X-Agentd-Mode": "yolo" } }), 400, "invalid_params");
  await fails(client.chat.completions.create({ model: "agentd", messages: user("break") }), 502, "model_failed", /the key is wrong/);
  await assert.rejects(async () => {
    for await (const c of await client.chat.completions.create({ model: "agentd", messages: user("break"), stream: true })) void c;
  }, (e) => e.code === "model_failed");
  const stranger = new OpenAI({ baseURL: url + "/v1", apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.chat.completions.create({ model: "agentd", messages: user("x") }), (e) => e.status === 401);
  const watcher = new OpenAI({ baseURL: url + "/v1", apiKey: observer, maxRetries: 0 });
  await fails(watcher.chat.completions.create({ model: "agentd", messages: user("x") }), 403, "forbidden", /role/);
  assert.equal((await watcher.models.list()).data.length, 3);
  const raw = await fetch(url + "/v1/chat/completions", { method: "POST", body: "nonsense", headers: { authorization: "Bearer " + token } });
  assert.deepEqual([raw.status, (await raw.json()).error.type], [400, "invalid_request_error"]);
  const got = await fetch(url + "/v1/chat/completions", { headers: { authorization: "Bearer " + token } });
  assert.equal(got.status, 405);
}

// --- an approval ------------------------------------------------------------------
{
  // Somebody answers in time.
  const asked = client.responses.create({ model: "agentd", input: "write once", metadata: { session_id: "sess_asks" } });
  let action;
  while (!action) {
    const { actions } = JSON.parse((await run(agentd, ["actions", "--json", "--config", join(folder, "config.yaml")], { cwd: folder })).stdout);
    [action] = actions;
  }
  await command("respond_action", { actionId: action.actionId, decision: "allow" });
  assert.equal((await asked).output_text, "Written.");
  assert.ok(existsSync(join(folder, "work", "once.txt")));
  // In a mode that doesn't ask nobody has to.
  await client.responses.create({ model: "agentd", input: "write twice" }, { headers: { "X-Agentd-Mode": "never" } });
  assert.ok(existsSync(join(folder, "work", "twice.txt")));
}

// --- a client that goes away ----------------------------------------------------------
{
  const stop = new AbortController();
  const stream = await client.chat.completions.create({ model: "agentd", messages: user("stall"), stream: true, metadata: { session_id: "sess_gone" } }, { signal: stop.signal });
  for await (const c of stream) {
    if (/^Wait/.test(c.choices[0]?.delta.content ?? "")) {
      stop.abort();
      break;
    }
  }
  let turn;
  do {
    [turn] = (await command("get_session", { sessionId: "sess_gone", limit: 0 })).threads[0].turns;
  } while (turn.status === "running");
  assert.deepEqual([turn.status, turn.failureCategory], ["cancelled", "interrupted"]);
}
console.log("ok");
process.exit(0);
