// Drives agentd's Agent2Agent server with the client of the official JavaScript SDK.
//
//	node a2a.mjs MODULES AGENTD URL TOKEN BINDING SCENE [ARGUMENT...]
//
// BINDING is JSONRPC or HTTP+JSON. What a scene finds goes to standard output as
// JSON; what doesn't hold ends it with an error.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, , url, token, binding, scene, ...more] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(modules, path)));
const sdk = await load("@a2a-js/sdk/dist/index.js");
const { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory, DefaultAgentCardResolver } = await load("@a2a-js/sdk/dist/client/index.js");
const { TaskState, Role } = sdk;

// The card is public; everything else needs the token.
const seen = new Set();
const fetchImpl = (to, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${token}`);
  seen.add(new URL(to.url ?? to).pathname.split("/").slice(0, 3).join("/"));
  return fetch(to, { ...init, headers });
};

const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
    preferredTransports: [binding],
    cardResolver: new DefaultAgentCardResolver(),
  }),
);
const client = await factory.createFromUrl(url);

const message = (text, to = {}) => ({
  messageId: randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, metadata: undefined, extensions: [], referenceTaskIds: [],
  parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" }],
  ...to,
});
const request = (text, { to, ...configuration } = {}) => ({
  tenant: "", message: message(text, to), metadata: undefined,
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately: false, ...configuration },
});

// Results are bare or in an envelope, by the kind of call.
const taskOf = (result) => result.task ?? (result.payload?.$case === "task" ? result.payload.value : result);
const state = (task) => TaskState[task.status.state];
const textOf = (artifact) => artifact.parts.map((p) => p.content?.value ?? "").join("");

async function collect(stream, each = () => {}) {
  const events = [];
  for await (const e of stream) {
    events.push(e.payload);
    await each(e.payload, events);
  }
  return events;
}
const names = (events) => events.map((e) => (e.$case === "task" || e.$case === "statusUpdate" ? `${e.$case} ${TaskState[e.value.status.state].replace("TASK_STATE_", "")}` : e.$case));

// A peer's view of an artifact, put together from updates.
function assemble(events) {
  const parts = {};
  for (const e of events.filter((e) => e.$case === "artifactUpdate").map((e) => e.value)) {
    parts[e.artifact.artifactId] = (e.append ? parts[e.artifact.artifactId] : "") + textOf(e.artifact);
  }
  return Object.values(parts);
}

const scenes = {
  async all() {
    const sent = taskOf(await client.sendMessage(request("hello")));
    assert.equal(state(sent), "TASK_STATE_COMPLETED");
    assert.equal(textOf(sent.artifacts[0]), "Hello, peer.");
    const got = await client.getTask({ tenant: "", id: sent.id, historyLength: 1 });
    assert.equal(got.history.length, 1);
    assert.deepEqual(got.artifacts, sent.artifacts);

    const streamed = await collect(client.sendMessageStream(request("in pieces")));
    assert.deepEqual(names(streamed).slice(0, 2), ["task SUBMITTED", "statusUpdate WORKING"]);
    assert.equal(names(streamed).at(-1), "statusUpdate COMPLETED");
    assert.deepEqual(assemble(streamed), ["one two three four five six"]);
    assert.ok(streamed.filter((e) => e.$case === "artifactUpdate").length > 2, "the answer came in one piece");

    const asking = taskOf(await client.sendMessage(request("which colour")));
    assert.equal(state(asking), "TASK_STATE_INPUT_REQUIRED");
    assert.equal(asking.status.message.parts[0].content.value, "Which colour?");
    const follower = client.resubscribeTask({ tenant: "", id: asking.id });
    const first = (await follower.next()).value.payload;
    assert.equal(names([first])[0], "task INPUT_REQUIRED");
    const answered = taskOf(await client.sendMessage(request("red", { to: { taskId: asking.id, contextId: asking.contextId } })));
    assert.equal(state(answered), "TASK_STATE_COMPLETED");
    const rest = names(await collect(follower));
    assert.equal(rest[0], "statusUpdate WORKING");
    assert.equal(rest.at(-1), "statusUpdate COMPLETED");

    const slow = taskOf(await client.sendMessage(request("slow", { returnImmediately: true })));
    const cancelled = await client.cancelTask({ tenant: "", id: slow.id, metadata: undefined });
    assert.equal(state(cancelled), "TASK_STATE_CANCELED");
    const refused = await client.cancelTask({ tenant: "", id: slow.id, metadata: undefined }).then(() => null, (e) => e);
    assert.match(`${refused?.name} ${refused?.message}`, /cancel|ended/i);
    const missing = await client.getTask({ tenant: "", id: randomUUID() }).then(() => null, (e) => e);
    assert.match(`${missing?.name} ${missing?.message}`, /no task|not.?found/i);

    const card = await client.getAgentCard({});
    assert.ok(card.skills.length > 1, "the extended card lists no tools");
    return { streamed: names(streamed).length, paths: [...seen].sort() };
  },

  // A receiver that is down at first gets everything later, in order.
  async push() {
    const got = [];
    let refuse = 2;
    let over;
    const done = new Promise((resolve) => (over = resolve));
    const receiver = createServer(async (req, res) => {
      let body = "";
      for await (const piece of req) body += piece;
      if (refuse-- > 0) return res.writeHead(503).end();
      got.push({ authorization: req.headers.authorization, body: JSON.parse(body) });
      res.writeHead(204).end();
      const status = got.at(-1).body.statusUpdate?.status ?? got.at(-1).body.task?.status;
      if (status?.state === "TASK_STATE_COMPLETED") over();
    });
    await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    const authentication = { scheme: "Bearer", credentials: "for-the-receiver" };
    const config = { tenant: "", id: "hook", taskId: "", url: `http://127.0.0.1:${receiver.address().port}/hook`, token: "", authentication };
    const task = taskOf(await client.sendMessage(request("which colour", { taskPushNotificationConfig: config })));
    const listed = await client.listTaskPushNotificationConfig({ tenant: "", taskId: task.id, pageSize: 0, pageToken: "" });
    assert.equal(listed.configs.length, 1);
    await client.sendMessage(request("red", { to: { taskId: task.id } }));
    await done;
    receiver.close();
    assert.ok(got.every((n) => n.authorization === "Bearer for-the-receiver"));
    assert.ok(got[0].body.task, "the first is not the task");
    await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "hook" });
    return { told: got.length };
  },

  async begin() {
    const task = taskOf(await client.sendMessage(request("which colour")));
    assert.equal(state(task), "TASK_STATE_INPUT_REQUIRED");
    return { id: task.id, contextId: task.contextId };
  },

  async goOn(id, contextId) {
    const task = await client.getTask({ tenant: "", id });
    assert.equal(state(task), "TASK_STATE_INPUT_REQUIRED");
    assert.equal(task.contextId, contextId);
    const done = taskOf(await client.sendMessage(request("red", { to: { taskId: id } })));
    assert.equal(state(done), "TASK_STATE_COMPLETED");
    return { state: state(done) };
  },

  // The behaviours of the fixtures, by the prefix of the message id.
  async fixtures() {
    const found = {};
    for (const name of more) {
      const r = request("go");
      r.message.messageId = `${name}-${randomUUID()}`;
      const events = await collect(client.sendMessageStream(r));
      const last = events.filter((e) => e.$case === "artifactUpdate").at(-1)?.value.artifact.parts[0];
      found[name] = { events: names(events), artifact: last && { kind: last.content.$case, filename: last.filename, mediaType: last.mediaType }, text: assemble(events)[0] };
    }
    return found;
  },
};

process.stdout.write(JSON.stringify(await scenes[scene](...more)));
