// Drives agentd's AG-UI endpoint with the official client, which checks the order
// of events itself; each is also held against the schemas of the protocol.
//
//	node agui.mjs MODULES AGENTD FOLDER URL TOKEN OBSERVER
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, , folder, url, token, observer] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(modules, path)));
const { HttpAgent } = await load("@ag-ui/client/dist/index.mjs");
const { EventSchemas } = await load("@ag-ui/core/dist/schemas.mjs");
const command = async (name, params) => {
  const res = await fetch(`${url}/v1/commands/${name}`, {
    method: "POST", body: JSON.stringify(params), headers: { authorization: "Bearer " + token, "content-type": "application/json" },
  });
  const body = await res.json();
  assert.equal(res.status, 200, JSON.stringify(body));
  return body;
};

// agent returns a client with its own thread that notes all events.
function agent(threadId, as = token) {
  const it = new HttpAgent({ url: url + "/agui", headers: { authorization: "Bearer " + as }, threadId });
  it.seen = [];
  it.subscribe({ onEvent: ({ event }) => {
    EventSchemas.parse(event);
    it.seen.push(event);
  } });
  it.say = (text, more = {}) => {
    it.seen.length = 0;
    if (text) it.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    return it.runAgent(more);
  };
  it.types = () => it.seen.map((e) => e.type).filter((t, i, all) => t !== all[i - 1]);
  it.of = (type) => it.seen.filter((e) => e.type === type);
  return it;
}
const last = (it) => it.messages.at(-1);

// --- a run --------------------------------------------------------------------
{
  const it = agent("thread-run");
  it.setState({ mine: 1 });
  await it.say("look");
  assert.deepEqual(it.types(), [
    "RUN_STARTED", "STATE_SNAPSHOT", "STEP_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END", "REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
    "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED", "STEP_STARTED",
    "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_FINISHED",
  ]);
  assert.deepEqual(it.messages.map((m) => m.role), ["user", "reasoning", "assistant", "tool", "assistant"]);
  assert.equal(it.messages[2].toolCalls[0].function.name, "list_files");
  assert.equal(last(it).content, "I looked.");
  assert.equal(it.state.mine, 1);
  assert.equal(it.state.agentd.sessionId, "thread-run");
  const end = it.of("RUN_FINISHED")[0];
  assert.equal(end.outcome.type, "success");
  assert.deepEqual([end.usage[0].provider, end.usage[0].model], ["script", "main"]);
  assert.ok(end.usage[0].inputTokens > 0);
  assert.equal(it.of("RUN_STARTED")[0].protocolVersion, "1.0");
  // The conversation goes on in the same session.
  await it.say("hello");
  assert.equal(last(it).content, "You said: hello");
  assert.equal((await command("get_session", { sessionId: "thread-run", limit: 0 })).threads[0].turnCount, 2);
  // The same run again is no second turn.
  const again = await fetch(url + "/agui", { method: "POST", headers: { authorization: "Bearer " + token, "content-type": "application/json" },
    body: JSON.stringify({ threadId: "thread-run", runId: "run-twice", messages: [{ id: "1", role: "user", content: "once" }] }) });
  const text = await again.text();
  const repeat = await fetch(url + "/agui", { method: "POST", headers: { authorization: "Bearer " + token, "content-type": "application/json" },
    body: JSON.stringify({ threadId: "thread-run", runId: "run-twice", messages: [{ id: "1", role: "user", content: "once" }] }) });
  // The answer may come in one piece or in several.
  const said = (events) => [...events.matchAll(/"delta":"([^"]*)"/g)].map((m) => m[1]).join("");
  assert.equal(said(text), "You said: once");
  assert.equal(said(await repeat.text()), said(text));
  assert.equal((await command("get_session", { sessionId: "thread-run", limit: 0 })).threads[0].turnCount, 3);

  // A page that was loaded anew gets the messages.
  const fresh = agent("thread-run");
  await fresh.say("");
  assert.deepEqual(fresh.messages.slice(0, 7).map((m) => m.role), ["user", "reasoning", "assistant", "tool", "assistant", "user", "assistant"]);
  assert.equal(fresh.of("RUN_FINISHED")[0].outcome.type, "success");

  // A client with a past that the session doesn't have.
  const moved = agent("thread-moved");
  moved.setMessages([{ id: "1", role: "system", content: "Be short." }, { id: "2", role: "user", content: "one" }, { id: "3", role: "assistant", content: "two" }]);
  await moved.say("three", { context: [{ description: "page", value: "home" }] });
  assert.equal(last(moved).content, "You said: Instructions for this conversation:\nBe short.\n\nWhat the application tells:\npage: home\n\nThe conversation so far:\nuser: one\n\nassistant: two\n\nthree");
}

// --- a plan ---------------------------------------------------------------------
{
  const it = agent("thread-plan");
  await it.say("make a plan");
  const plan = it.messages.find((m) => m.role === "activity");
  assert.deepEqual([plan.activityType, plan.content.items[0].step], ["PLAN", "look"]);
  assert.equal(it.state.agentd.plan[0].status, "in_progress");
}

// --- interrupts -------------------------------------------------------------------
{
  const it = agent("thread-ask");
  await it.say("write once");
  const end = it.of("RUN_FINISHED")[0];
  assert.equal(end.outcome.type, "interrupt");
  const [ask] = end.outcome.interrupts;
  assert.deepEqual([ask.reason, ask.metadata.toolName, ask.metadata.arguments.path], ["tool_permission", "write_file", "once.txt"]);
  assert.equal(ask.toolCallId, it.of("TOOL_CALL_START")[0].toolCallId);
  assert.deepEqual(ask.responseSchema.required, ["approved"]);
  assert.equal(it.pendingInterrupts.length, 1);
  assert.ok(!existsSync(join(folder, "work", "once.txt")));

  // Something else in between is refused, and so is an answer to nothing.
  const other = agent("thread-ask");
  await assert.rejects(other.say("hello"), /409/);
  await assert.rejects(other.say("", { resume: [{ interruptId: "action_none", status: "resolved", payload: true }] }), /409/);
  // A page that was loaded anew is asked again.
  const fresh = agent("thread-ask");
  await fresh.say("");
  assert.equal(fresh.of("RUN_FINISHED")[0].outcome.interrupts[0].id, ask.id);

  await it.say("", { resume: [{ interruptId: ask.id, status: "resolved", payload: { approved: true } }] });
  assert.equal(it.of("RUN_FINISHED")[0].outcome.type, "success");
  assert.equal(it.of("TOOL_CALL_RESULT").length, 1);
  assert.equal(last(it).content, "Written.");
  assert.ok(existsSync(join(folder, "work", "once.txt")));

  for (const answer of [{ status: "resolved", payload: { approved: false } }, { status: "resolved", payload: "yes" }, { status: "cancelled" }]) {
    await it.say("write twice");
    const [again] = it.of("RUN_FINISHED")[0].outcome.interrupts;
    await it.say("", { resume: [{ interruptId: again.id, ...answer }] });
    assert.ok(!existsSync(join(folder, "work", "twice.txt")), JSON.stringify(answer));
    assert.notEqual(it.of("RUN_FINISHED")[0].outcome.type, "interrupt");
  }

  await it.say("which colour");
  const [question] = it.of("RUN_FINISHED")[0].outcome.interrupts;
  assert.deepEqual([question.reason, question.message, question.responseSchema.enum], ["structured_input", "Which colour?", ["red", "blue"]]);
  await it.say("", { resume: [{ interruptId: question.id, status: "resolved", payload: "blue" }] });
  assert.equal(last(it).content, "You chose.");
}

// --- subagents ------------------------------------------------------------------
{
  const it = agent("thread-child");
  await it.say("delegate", { forwardedProps: { permissionMode: "bypass" } });
  const started = it.of("SUBAGENT_STARTED");
  assert.equal(started.length, 1);
  const child = started[0].subagentRunId;
  assert.equal(it.of("SUBAGENT_FINISHED")[0].subagentRunId, child);
  assert.equal(it.of("TEXT_MESSAGE_CONTENT").filter((e) => e.subagentRunId === child).map((e) => e.delta).join(""), "You said: count to three");
  assert.equal(last(it).content, "Delegated.");
}

// --- errors ---------------------------------------------------------------------
{
  const it = agent("thread-break");
  await it.say("break").catch(() => {});
  const [error] = it.of("RUN_ERROR");
  assert.deepEqual([error.code, /the key is wrong/.test(error.message)], ["model_failed", true]);
  await assert.rejects(agent("thread-x", "wrong").say("hello"), /401/);
  await assert.rejects(agent("thread-x", observer).say("hello"), /403/);
  await assert.rejects(agent("no/such/id").say("hello"), /400/);
  await assert.rejects(agent("thread-x").say("hello", { tools: [{ name: "mine", description: "d", parameters: {} }] }), /400/);
  await assert.rejects(agent("thread-none").say(""), /400/);
  await assert.rejects(agent("thread-x").say("hello", { forwardedProps: { model: "none/none" } }), /400/);
  const raw = await fetch(url + "/agui", { method: "POST", body: "nonsense", headers: { authorization: "Bearer " + token } });
  assert.deepEqual([raw.status, (await raw.json()).code], [400, "invalid_params"]);
}

// --- a client that goes away ------------------------------------------------------
for (const [threadId, onDisconnect] of [["thread-gone", undefined], ["thread-stays", "continue"]]) {
  const it = agent(threadId);
  it.subscribe({ onTextMessageContentEvent: () => it.abortRun() });
  await it.say("stall", { forwardedProps: { onDisconnect } }).catch(() => {});
  let turn;
  if (onDisconnect) {
    [turn] = (await command("get_session", { sessionId: threadId, limit: 0 })).threads[0].turns;
    assert.equal(turn.status, "running");
    await command("interrupt_turn", { sessionId: threadId });
  }
  do {
    [turn] = (await command("get_session", { sessionId: threadId, limit: 0 })).threads[0].turns;
  } while (turn.status === "running");
  assert.deepEqual([turn.status, turn.failureCategory], ["cancelled", "interrupted"]);
}
console.log("ok");
process.exit(0);
