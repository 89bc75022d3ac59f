// Reads a session's facts as CloudEvents and checks them with the library's strict
// validation.
//
//	node cloudevents.mjs MODULES AGENTD FOLDER URL TOKEN
import assert from "node:assert/strict";
import { join } from "node:path";
import { createRequire } from "node:module";

const [modules, , , url, token] = process.argv.slice(2);
const { CloudEvent, HTTP } = createRequire(join(modules, "x.js"))("cloudevents");
const headers = { authorization: "Bearer " + token };
const command = async (name, params) => {
  const res = await fetch(`${url}/v1/commands/${name}`, {
    method: "POST", body: JSON.stringify(params), headers: { ...headers, "content-type": "application/json" },
  });
  assert.equal(res.status, 200, await res.clone().text());
  return res.json();
};

const { sessionId } = await command("submit_turn", { input: "hello" });
let facts;
do {
  await new Promise((r) => setTimeout(r, 50));
  facts = (await (await fetch(`${url}/v1/sessions/${sessionId}/events?limit=1000`, { headers })).json()).events;
} while (!facts.some((e) => e.type === "turn.completed"));

// All pages, as the Link header says.
const got = [];
let next = `${url}/v1/sessions/${sessionId}/events?limit=5`;
while (next) {
  const res = await fetch(next, { headers: { ...headers, accept: "application/cloudevents-batch+json" } });
  assert.equal(res.status, 200);
  const type = res.headers.get("content-type");
  assert.equal(type, "application/cloudevents-batch+json");
  const body = await res.text();
  for (const e of HTTP.toEvent({ headers: { "content-type": type }, body })) {
    assert.equal(e.validate(), true);
    assert.equal(new CloudEvent(e.toJSON(), true).specversion, "1.0");
    got.push(e);
  }
  const link = /<([^>]+)>; rel="next"/.exec(res.headers.get("link") ?? "");
  next = link && new URL(link[1], next).href;
}
const count = Math.min(facts.length, got.length);
assert.ok(count >= 10, `${count} facts`);
for (let i = 0; i < count; i++) {
  const [fact, e] = [facts[i], got[i]];
  assert.equal(e.id, fact.eventId);
  assert.equal(e.source, "/runtimes/" + fact.runtimeId);
  assert.ok(e.type.endsWith("." + fact.type), e.type);
  assert.equal(e.sequence, String(fact.sequence));
  assert.equal(new Date(e.time).getTime(), new Date(fact.timestamp).getTime());
  assert.deepEqual(e.data, fact);
}
console.log(`${got.length} facts are CloudEvents`);
